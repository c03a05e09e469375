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
interface EngineOptions {
    inputs?: string;
    runtime?: RuntimeOptions;
}
interface EngineClass {
    open(options: { threads: number; work: string } & EngineOptions): Promise<Engine>;
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
interface Contender {
    engine: string;
    inputs?: string;
}
interface Outcome extends Contender {
    medianMs: number;
    medianCpuMs: number;
    samplesMs: number[];
    cpuSamplesMs: number[];
    rows: number;
    predictedMs?: number;
    difference?: string;
}
interface Result {
    set: object;
    query: { name: string; result: string };
    outcomes: Outcome[];
    compared: boolean;
}
const {
    mergeRecords,
    recordsOf,
    resultTable,
    summaryOf: sentencesOf,
    takesPart
} = await suite<{
    mergeRecords: (before: object[], records: object[], exists: (name: string) => boolean) => object[];
    recordsOf: (results: Result[], setting: object) => { engine: string; workload: { inputs?: string } }[];
    resultTable: (results: Result[]) => string;
    summaryOf: (results: Result[]) => string;
    takesPart: (engine: Contender, all: Contender[], set: object, query: object) => boolean;
}>("suite-report.mjs");
const { readOptions } = await suite<{ readOptions: (args: string[]) => object }>("options.mjs");

const threads = 2;
const inMemory: [string, EngineOptions] = ["in memory", {}];
const ofTables: [string, EngineOptions] = ["of tables in memory", { inputs: "memory" }];
const spilled: [string, EngineOptions] = [
    "with all partitions spilled",
    { runtime: { memory: { host: "32MiB" }, debug: { forceSpill: true, pageBytes: 16384 } } }
];
const texts: [string, [string, EngineOptions][]][] = [
    ["plain", [inMemory, ofTables, spilled]],
    ["dictionary", [ofTables, spilled]]
];

describe.each(texts)("queries at scale 0.01, %s text", (text, modes) => {
    const sandbox = new Sandbox();
    const options = { work: sandbox.folder, scales: [0.01], texts: [text] };
    let duckdb: Engine;
    const engines: { mode: string; spillway: Engine }[] = [];

    beforeAll(async () => {
        duckdb = await DuckdbEngine.open({ threads, work: sandbox.folder });
        for (const [mode, more] of modes) {
            engines.push({ mode, spillway: await SpillwayEngine.open({ threads, work: sandbox.folder, ...more }) });
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
    const [files, memory] = ["files", "memory"].map((inputs) => ({
        ...{ workload: { name: "a", suite: "tpch", scale: 1, text: "plain", inputs, threads: 2 }, engine: "spillway" }
    }));
    expect(mergeRecords([files!, memory!], [files!], () => true)).toEqual([memory, files]);
});

describe("Spillway from files and from memory", () => {
    const outcome = (engine: string, inputs: string | undefined, ms: number, more: object = {}): Outcome => ({
        ...{ engine, ...(inputs === undefined ? {} : { inputs }), medianMs: ms, medianCpuMs: 2 * ms },
        ...{ samplesMs: [ms], cpuSamplesMs: [2 * ms], rows: 7, ...more }
    });
    const resultOf = (name: string, ...outcomes: Outcome[]): Result => ({
        ...{ set: { suite: "tpch", scale: 1, text: "plain" }, query: { name, result: "table" }, outcomes },
        compared: true
    });
    const duckdb = outcome("duckdb", undefined, 20);
    const results = [
        resultOf("a", outcome("spillway", "files", 40), outcome("spillway", "memory", 10), duckdb),
        resultOf("b", outcome("spillway", "files", 5, { difference: "7 rows", predictedMs: 5 }), duckdb)
    ];

    test("have records of their own, each beside the same one of DuckDB", () => {
        const records = recordsOf(results, { threads: 2, date: "today" });
        expect(records.map(({ engine, workload }) => [engine, workload.inputs])).toEqual([
            ...[
                ["spillway", "files"],
                ["spillway", "memory"],
                ["duckdb", undefined]
            ],
            ...[
                ["spillway", "files"],
                ["duckdb", undefined]
            ]
        ]);
        expect(records.slice(0, 3)).toMatchObject([{ ratio: 0.5 }, { ratio: 2, verified: true }, { verified: true }]);
        expect(records.slice(3)).toMatchObject([{ ratio: 4, verified: false }, { verified: false }]);
    });

    test("have lines and sentences of their own", () => {
        const lines = resultTable(results).split("\n");
        expect(lines.filter((line) => /^a +files +40 +20 +0.50/.test(line))).toHaveLength(1);
        expect(lines.filter((line) => /^a +memory +10 +20 +2.00/.test(line))).toHaveLength(1);
        const summary = sentencesOf(results);
        expect(summary).toMatch(
            /clock Spillway from files is 1.41 times .* of 2 queries\), and slower in 1 of them:\n +0.50 +a/
        );
        expect(summary).toMatch(/clock Spillway from memory is 2.00 times .* of 1 queries\), and slower in none/);
        expect(summary).toMatch(/Predictions of 1 of 1 queries from files/);
    });

    test("take part where they say something of their own", () => {
        const all = [{ engine: "spillway", inputs: "files" }, { engine: "spillway", inputs: "memory" }, duckdb];
        const asked = (of: Contender[], set: object, result: string) =>
            of.filter((one) => takesPart(one, of, set, { result })).map(({ engine, inputs }) => inputs ?? engine);
        expect(asked(all, {}, "table")).toEqual(["files", "memory", "duckdb"]);
        expect(asked(all, {}, "file")).toEqual(["files", "duckdb"]);
        expect(asked(all, { inMemory: true }, "count")).toEqual(["memory", "duckdb"]);
        expect(asked([all[0]!, duckdb], { inMemory: true }, "count")).toEqual(["files", "duckdb"]);
    });

    test("are both asked for unless options say otherwise", () => {
        expect(readOptions([])).toMatchObject({ inputs: ["files", "memory"], warmup: 3, samples: 5, write: true });
        expect(readOptions(["--quick"])).toMatchObject({ inputs: ["files", "memory"], warmup: 0, samples: 1 });
        expect(readOptions(["--budget-quarter"])).toMatchObject({ inputs: ["files"], engines: ["spillway"] });
        expect(readOptions(["--inputs", "memory"])).toMatchObject({ inputs: ["memory"], write: false });
        expect(() => readOptions(["--inputs", "disk"])).toThrow("Expected files or memory for --inputs");
        expect(() => readOptions(["--warmup", "-1"])).toThrow();
    });
});
