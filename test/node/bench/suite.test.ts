// SPDX-License-Identifier: Apache-2.0
// The query suite: every query at scale 0.01 gives the same rows as DuckDB, in memory and where everything spills; what
// the comparison notices; descriptions of queries; records.
import { join } from "node:path";
import {
    Dictionary,
    Float64,
    Int32,
    Int64,
    Table,
    Utf8,
    vectorFromArray,
    type RecordBatch,
    type Vector
} from "apache-arrow";
import type { RuntimeOptions } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface Summary {
    rows: number;
    sum: string;
}
interface Checked {
    checksum: Summary;
    rows?: string[][];
}
interface DataSet {
    suite: string;
    folder: string;
    names: string[];
}
interface Engine {
    load(set: DataSet): Promise<void>;
    check(name: string, rows?: string[][]): Promise<Checked>;
    close(): Promise<void>;
}
interface EngineClass {
    open(options: { threads: number; work: string; runtime?: RuntimeOptions }): Promise<Engine>;
}
interface Options {
    work: string;
    scales: number[];
    texts: string[];
}
const suite = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench/suite", file))) as T;
const { SpillwayEngine } = await suite<{ SpillwayEngine: EngineClass }>("spillway-engine.mjs");
const { DuckdbEngine } = await suite<{ DuckdbEngine: EngineClass }>("duckdb-engine.mjs");
const { dataSets, prepare } = await suite<{
    dataSets: (options: Options, isWanted: (name: string) => boolean) => DataSet[];
    prepare: (set: DataSet, options: Options) => Promise<DataSet>;
}>("data-sets.mjs");
const { Checksum, addArrowBatch, differenceOf } = await suite<{
    Checksum: new () => { result: () => Summary };
    addArrowBatch: (checksum: object, batch: RecordBatch) => void;
    differenceOf: (ours: Summary, theirs: Summary) => string | undefined;
}>("checksum.mjs");
const {
    groupBy,
    join: joined,
    limit,
    sqlOf,
    table
} = await suite<{
    table: (name: string) => object;
    join: (left: object, right: object, on: object | string, options?: object) => object;
    groupBy: (input: object, keys: string[], aggregates: object) => object;
    limit: (input: object, rows: number) => object;
    sqlOf: (source: object) => string;
}>("description.mjs");
const { mergeRecords } = await suite<{
    mergeRecords: (before: object[], records: object[], exists: (name: string) => boolean) => object[];
}>("suite-report.mjs");

const threads = 2;
const inMemory: [string, RuntimeOptions] = ["in memory", {}];
const spilled: [string, RuntimeOptions] = [
    "with all partitions spilled",
    { memory: { host: "32MiB" }, debug: { forceSpill: true, pageBytes: 16384 } }
];
const texts: [string, [string, RuntimeOptions][]][] = [
    ["plain", [inMemory, spilled]],
    ["dictionary", [spilled]]
];

describe.each(texts)("queries at scale 0.01, %s text", (text, modes) => {
    const sandbox = new Sandbox();
    const options = { work: sandbox.folder, scales: [0.01], texts: [text] };
    let duckdb: Engine;
    const engines: { mode: string; spillway: Engine }[] = [];

    beforeAll(async () => {
        duckdb = await DuckdbEngine.open({ threads, work: sandbox.folder });
        for (const [mode, runtime] of modes) {
            engines.push({ mode, spillway: await SpillwayEngine.open({ threads, work: sandbox.folder, runtime }) });
        }
    });
    afterAll(async () => {
        for (const { spillway } of engines) await spillway.close();
        await duckdb.close();
        sandbox[Symbol.dispose]();
    });

    const milliseconds = 300_000; // Ten seconds where nothing else runs.
    test("all results are those of DuckDB", { timeout: milliseconds }, async () => {
        const differences: string[] = [];
        let queries = 0;
        for (const planned of dataSets(options, () => true)) {
            const set = await prepare(planned, options);
            await duckdb.load(set);
            for (const { mode, spillway } of engines) {
                await spillway.load(set);
                for (const name of set.names) {
                    const { checksum, rows } = await spillway.check(name);
                    const difference = differenceOf(checksum, (await duckdb.check(name, rows)).checksum);
                    if (difference !== undefined) differences.push(`${mode}, ${name}: ${difference}`);
                    queries++;
                }
            }
        }
        expect(differences).toEqual([]);
        expect(queries).toBeGreaterThan(70 * modes.length);
    });
});

const summaryOf = (columns: Record<string, Vector>) => {
    const checksum = new Checksum();
    for (const batch of new Table(columns).batches) addArrowBatch(checksum, batch);
    return checksum.result();
};
const rows = [
    [1n, "one", 0.1],
    [-2n, "", null],
    [null, null, -3],
    [2n ** 40n, "a text of more than twelve bytes", 7.5]
];
const column = (of: unknown[][], index: number, type: Utf8 | Int64 | Int32 | Float64 | Dictionary) =>
    vectorFromArray(
        of.map((row) => row[index]),
        type
    );
const tableOf = (of: unknown[][]) => ({
    number: column(of, 0, new Int64()),
    text: column(of, 1, new Utf8()),
    double: column(of, 2, new Float64())
});

test("a checksum depends on neither the order of rows nor on how texts are stored", () => {
    const checksum = summaryOf(tableOf(rows));
    const reversed = tableOf(rows.toReversed());
    const coded = { ...tableOf(rows), text: column(rows, 1, new Dictionary(new Utf8(), new Int32())) };
    expect(differenceOf(checksum, summaryOf(reversed))).toBeUndefined();
    expect(differenceOf(checksum, summaryOf(coded))).toBeUndefined();
});

test.each([
    ["another number", 0, 0, 2n],
    ["NULL in place of a number", 1, 0, null],
    ["another text", 3, 1, "a text of more than twelve byteS"],
    ["NULL in place of an empty text", 1, 1, null],
    ["another double", 0, 2, 0.100001],
    ["NULL in place of a double", 2, 2, null]
])("a checksum notices %s", (_, row, index, value) => {
    const changed = rows.map((of, number) => of.map((old, place) => (number === row && place === index ? value : old)));
    expect(differenceOf(summaryOf(tableOf(changed)), summaryOf(tableOf(rows)))).toMatch(/other|NULLs/);
});

test("a checksum notices values that change rows, and a row that is missing", () => {
    const [first, second, ...others] = rows;
    const numbers = tableOf([[second![0], ...first!.slice(1)], [first![0], ...second!.slice(1)], ...others]);
    const doubles = tableOf([first!, second!, [null, null, 7.5], [...others[1]!.slice(0, 2), -3]]);
    const whole = summaryOf(tableOf(rows));
    expect(differenceOf(summaryOf(numbers), whole)).toMatch(/other values/);
    expect(differenceOf(summaryOf(doubles), whole)).toMatch(/other doubles/);
    expect(differenceOf(whole, summaryOf(tableOf(rows.slice(1))))).toBe("4 rows instead of 3");
});

test("a description gives SQL with the same columns", () => {
    const both = joined(table("a"), table("b"), { x: "y", u: "v" }, { type: "left", select: ["x", "w"] });
    const chain = joined(joined(table("a"), table("b"), "k"), table("c"), ["k", "l"], { type: "semi" });
    const aggregates = { n: { count: "*" }, m: { mean: "w" }, d: { countDistinct: "w" } };
    expect(sqlOf(limit(both, 10))).toBe("SELECT x, w FROM (a LEFT JOIN b ON x = y AND u = v) LIMIT 10");
    expect(sqlOf(chain)).toBe("SELECT * FROM ((a JOIN b USING (k)) SEMI JOIN c USING (k, l))");
    expect(sqlOf(groupBy(both, ["x"], aggregates))).toBe(
        "SELECT x, count(*) AS n, avg(w) AS m, count(DISTINCT w) AS d " +
            "FROM (SELECT x, w FROM (a LEFT JOIN b ON x = y AND u = v)) GROUP BY x"
    );
    expect(sqlOf(groupBy(table("a"), [], { s: { sum: "x" } }))).toBe("SELECT sum(x) AS s FROM a");
});

test("records of a run replace earlier ones of the same queries, and those of queries that are gone go", () => {
    const record = (name: string, scale: number, value: number, budget = {}) => ({
        workload: { name, suite: "tpch", scale, text: "plain", threads: 2, ...budget },
        ...{ engine: "duckdb", median_ms: value }
    });
    const limited = [1000, 2000].map((bytes) => record("a", 1, 5, { budget_bytes: bytes }));
    const before = [record("a", 1, 1), record("b", 1, 2), record("a", 10, 3), record("gone", 1, 4), limited[0]!];
    const measured = [record("a", 1, 4), limited[1]!];
    expect(mergeRecords(before, measured, (name) => name !== "gone")).toEqual([before[1], before[2], ...measured]);
});
