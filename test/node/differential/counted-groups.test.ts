// SPDX-License-Identifier: Apache-2.0
// Distinct values of many rows are counted as groups of equal ones: the numbers of a reference, whatever the type, of
// tables, of streams, behind joins and with every budget.
import {
    DataType,
    Dictionary,
    Float64,
    Int32,
    Int64,
    Table,
    tableFromArrays,
    Utf8,
    vectorFromArray
} from "apache-arrow";
import { openRuntime, type Input, type Relation, type RunReport, type Runtime, type RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { keyTypes, randomType } from "../../support/domains.js";
import { suiteModes } from "../../support/engine.js";
import { forSeeds, type Random } from "../../support/random.js";
import {
    buildTable,
    distributions,
    drawIndices,
    keyColumn,
    keySource,
    randomShape,
    withNulls
} from "../../support/relations.js";
import { referenceGroupBy } from "../../support/reference.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

const modes: Record<string, RuntimeOptions> = {
    ...Object.fromEntries(
        Object.entries(suiteModes).filter(([name, { debug }]) => debug?.scheme === undefined && !name.includes("GPU"))
    ),
    hash: { debug: { algorithm: "hash", workers: 4, morselRows: 50 } },
    partitioned: { debug: { algorithm: "partitioned", workers: 4, morselRows: 50 } },
    "partitioned and spilled": {
        ...knobs({ algorithm: "partitioned", forceSpill: true, pageBytes: 1024, radixBits: 5, workers: 2 })
    }
};

function distinctIn(table: Table): string {
    const [group] = referenceGroupBy(cellTable(table), [], [{ alias: "n", kind: "countDistinct", column: "v" }]);
    return String(group!.aggregates[0]);
}

function randomTable(random: Random, type: DataType, rows: number): Table {
    const source = keySource(random, [type, type], random.pick([1, 2, 30, 500, 2000]));
    const indices = drawIndices(random, rows, source.domain.length, random.pick(distributions));
    const nulls = random.pick([0, 0, 0.1, 0.4, 1]);
    const values = keyColumn("v", source, 0, indices, (all) => withNulls(random, all, nulls));
    const keys = Array.from({ length: rows }, () => (random.chance(0.05) ? null : random.below(40)));
    return buildTable([values, { name: "k", type: new Int32(), values: keys }], randomShape(random, rows));
}

type Rows = { k: Int32; v: DataType };

function streamOf(runtime: Runtime, table: Table): Relation<Rows> {
    return runtime.fromBatches(table.schema, async function* () {
        yield* table.batches;
    });
}

const isCounted = (query: { report(): RunReport | undefined }): boolean =>
    query.report()!.stages.some(({ name }) => name === "count distinct values");

/** Rows that are expected to be many, of a stream, or of a join by what it is told; and the same as a table. */
async function inputOf(random: Random, runtime: Runtime, table: Table): Promise<{ input: Input<Rows>; rows: Table }> {
    const stream = streamOf(runtime, table);
    const way = random.below(3);
    if (way === 0) return { input: stream, rows: table };
    const relation = random.chance(0.3) ? stream : (runtime.fromTable(table) as Relation<Rows>);
    const keys = Array.from({ length: random.pick([0, 1, 60]) }, (_, i) => i);
    const other = runtime.fromTable(tableFromArrays({ k: Int32Array.from(keys) }));
    const hints = { resultRows: 100_000 };
    const input =
        way === 1
            ? relation.join(other, { on: "k", select: ["k", "v"], hints })
            : other.join(relation, { on: "k", type: "left", hints });
    return { input, rows: await input.toTable() };
}

async function checkDistinct(random: Random, runtime: Runtime): Promise<void> {
    const types = keyTypes[random.pick(Object.keys(keyTypes))]!();
    const type = random.chance(0.8) ? random.pick(types) : randomType(random, 0);
    const table = randomTable(random, type, random.pick([0, 1, 5, 100, 1000, 3000]));
    const { input, rows } = await inputOf(random, runtime, table);
    const query = input.groupBy({ keys: [], aggregates: { n: { countDistinct: "v" }, m: { countDistinct: "v" } } });
    const { cells } = cellTable(await query.toTable());
    const expected = distinctIn(rows);
    expect(cells, `${String(type)}, ${table.numRows} rows`).toEqual([[expected], [expected]]);
    expect(isCounted(query), String(type)).toBe(!DataType.isNull(type));
    expect(await query.count()).toBe(1);
}

describe.each(Object.entries(modes))("distinct values: %s", (name, options) => {
    test("are as many as in the reference", async () => {
        await forSeeds(130_000 + 1000 * Object.keys(modes).indexOf(name), 16, async (random) => {
            using sandbox = new Sandbox();
            const memory = { host: "256MiB", ...options.memory, spillDirectory: sandbox.spill };
            const runtime = await openRuntime({ threads: 2, ...options, memory });
            await checkDistinct(random, runtime).finally(() => runtime.close());
            await sandbox.expectClean();
        });
    });
});

/** Two zeros are one value, and so are two NaNs. */
function double(i: number): number {
    return { 0: 0, 1: -0, 2: NaN, 3: -NaN }[i] ?? i / 3;
}

/** 40,000 rows of so many values, of which some are NULL. */
function manyRows(values: number, type: DataType, valueOf: (i: number) => unknown): { table: Table; expected: number } {
    const valueOfRow = (i: number): unknown => (i % 97 === 5 ? null : valueOf((i * 7919) % values));
    const all = Array.from({ length: 40_000 }, (_, i) => valueOfRow(i));
    const expected = new Set(all.filter((value) => value !== null)).size;
    return { table: new Table({ v: vectorFromArray(all, type) }), expected };
}

describe.each([
    ["few numbers", manyRows(7, new Int64(), BigInt)],
    ["numbers that come once", manyRows(40_000, new Int64(), BigInt)],
    ["doubles, of which some are NaN and -0", manyRows(20_000, new Float64(), double)],
    ["short texts", manyRows(30_000, new Utf8(), (i) => `value ${i}`)],
    ["texts of 300 bytes", manyRows(5000, new Utf8(), (i) => `${i}`.padStart(300, "-"))],
    ["texts of a dictionary", manyRows(900, new Dictionary(new Utf8(), new Int32()), (i) => `value ${i}`)]
])("%s are counted", (_, { table, expected }) => {
    test.each([1, 1.25, 1.5, 2, 3, 4, 8, 32, 256])("in %s MiB", async (mebibytes) => {
        using sandbox = new Sandbox();
        const memory = { host: mebibytes * 2 ** 20, spillDirectory: sandbox.spill };
        const runtime = await openRuntime({ threads: 3, device: "cpu", memory });
        try {
            for (const input of [runtime.fromTable(table) as Relation<Rows>, streamOf(runtime, table)]) {
                const query = input.groupBy({ keys: [], aggregates: { n: { countDistinct: "v" } } });
                expect((await query.toTable()).getChild("n")!.toJSON()).toEqual([BigInt(expected)]);
            }
        } finally {
            await runtime.close();
        }
        await sandbox.expectClean();
    });
});
