// SPDX-License-Identifier: Apache-2.0
// Aggregates of group-bys larger than GPU memory that take several numbers or decide by a column of their own: decimals
// of 128 bits, first values and any values, of every type that chunks carry, against the reference.
import {
    Bool,
    DataType,
    DateDay,
    Decimal,
    Dictionary,
    FixedSizeList,
    List,
    Map_,
    Null,
    Struct,
    FixedSizeBinary,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Field,
    Int8,
    IntervalMonthDayNano,
    RecordBatch,
    Schema,
    Table,
    TimestampMicrosecond,
    Uint64,
    Utf8,
    makeVector,
    vectorFromArray
} from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { GroupCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { randomValue } from "../../support/domains.js";
import { expectedGroups, expectSameGroups } from "../../support/engine.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { forSeeds, type Random } from "../../support/random.js";
import {
    buildTable,
    distributions,
    drawIndices,
    oneBatch,
    randomShape,
    withNulls,
    type PlainColumn
} from "../../support/relations.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

const memory = { host: "256MiB", device: "128MiB" };
/** How much stays in GPU memory, in chunks and partitions of which size. */
const shapes = [
    { residentShare: 0, chunkRows: 64, radixBits: 0 },
    { residentShare: 0.5, chunkRows: 192, radixBits: 3 },
    { residentShare: 1, chunkRows: 4096, radixBits: 9 }
];
let gpus: Runtime[] = [];

beforeAll(async () => {
    gpus = [];
    for (const shape of shapes) {
        const debug = { outOfCore: true, workers: 3, ...shape };
        gpus.push(await openRuntime({ device: "gpu", threads: 2, memory, ...knobs(debug) }));
    }
});
afterAll(async () => {
    for (const runtime of gpus) await runtime.close();
});

type Kind = GroupCase["aggregates"][number]["kind"];

const most = 10n ** 38n;
const wide = new Decimal(2, 38, 128);
/** A dictionary of its own for each column. */
const newWords = () => new Dictionary(new Utf8(), new Int16());
const words = newWords();
/** Columns, how values of them are drawn, and what is asked of them. */
const kinds: [DataType, readonly Kind[]][] = [
    [wide, ["sum", "mean", "min", "max", "first", "any", "count", "countDistinct"]],
    [new Decimal(0, 20, 128), ["sum", "mean", "min", "max", "first", "any", "countDistinct"]],
    [new Decimal(4, 15, 128), ["sum", "mean", "min", "max", "first", "any", "countDistinct"]],
    ...[new Int8(), new Int16(), new Int64(), new Uint64(), new Float32(), new Float64()].map(
        (type): [DataType, readonly Kind[]] => [type, ["min", "first", "any", "countDistinct"]]
    ),
    ...[new Bool(), new DateDay(), new TimestampMicrosecond(), new Utf8(), words].map(
        (type): [DataType, readonly Kind[]] => [type, ["first", "any", "count", "countDistinct"]]
    ),
    [new FixedSizeBinary(16), ["first", "any", "countDistinct"]],
    [new FixedSizeBinary(4), ["first", "any", "countDistinct"]],
    [new IntervalMonthDayNano(), ["first", "any", "countDistinct"]]
];

/** Decimals with edges of what their halves and quarters hold; few enough that no sum of a case has 39 digits. */
function decimalOf(random: Random, { precision }: Decimal): bigint {
    const limit = 10n ** BigInt(Math.min(precision, 34));
    const edges = [
        0n,
        1n,
        -1n,
        2n ** 32n,
        -(2n ** 32n),
        2n ** 63n,
        -(2n ** 63n),
        2n ** 64n,
        -(2n ** 64n) - 1n,
        limit - 1n
    ];
    const fitting = edges.filter((edge) => edge < limit && edge > -limit);
    if (random.chance(0.5)) return random.pick(fitting);
    return ((random.bits64() << 64n) + random.bits64()) % limit;
}

function valueOf(random: Random, type: DataType): PlainColumn["values"][number] {
    const isWide = type instanceof Decimal && random.chance(0.8);
    return isWide ? decimalOf(random, type) : randomValue(random, type);
}

/** No NULL in any column, and the types say so. */
function withoutNulls(table: Table): Table {
    const schema = new Schema(table.schema.fields.map(({ name, type }) => new Field(name, type as DataType, false)));
    return new Table(
        schema,
        table.batches.map((batch) => new RecordBatch(schema, batch.data))
    );
}

const bytesOf = (index: number): Uint8Array => Uint8Array.from({ length: 11 }, (_, at) => (index >> at) & 255);

function aggregateCase(random: Random): GroupCase {
    const rows = random.pick([0, 1, 2, 90, 700, 3000]);
    const domain = random.pick([1, 2, 30, 500, 5000]);
    const indices = drawIndices(random, rows, domain, domain === 1 ? "uniform" : random.pick(distributions));
    const hasNulls = random.chance(0.7);
    const columns: PlainColumn[] = [];
    const keys = random.pick([
        ...[["i"], ["t"], ["i", "b"], []],
        // Workers number these, as they have more than 8 bytes or none that a word holds.
        ...[["i", "l"], ["l", "d", "i"], ["d"], ["f", "t"], ["s"], ["d", "f", "s", "t", "b"], ["w", "l"]]
    ]);
    const keyOf = (values: PlainColumn["values"][number][]) => withNulls(random, values, hasNulls ? 0.1 : 0);
    columns.push({ name: "i", type: new Int32(), values: keyOf(indices) });
    columns.push({ name: "t", type: new Utf8(), values: keyOf(indices.map((index) => `key ${index}`)) });
    columns.push({ name: "l", type: new Int64(), values: keyOf(indices.map((index) => BigInt(index) << 35n)) });
    columns.push({ name: "d", type: wide, values: keyOf(indices.map((index) => BigInt(index) << 70n)) });
    columns.push({
        name: "f",
        type: new Float64(),
        values: keyOf(indices.map((index) => [0, -0, NaN][index] ?? index))
    });
    columns.push({ name: "s", type: new FixedSizeBinary(11), values: keyOf(indices.map((index) => bytesOf(index))) });
    if (keys.includes("w")) {
        columns.push({ name: "w", type: newWords(), values: keyOf(indices.map((index) => `word ${index % 50}`)) });
    }
    columns.push({ name: "b", type: new Int8(), values: keyOf(indices.map((index) => index % 3)) });
    const aggregates: GroupCase["aggregates"][number][] = [{ alias: "rows", kind: "count", column: "*" }];
    let numbers = 0;
    while (numbers < 4 && (numbers === 0 || random.chance(0.7))) {
        const [drawn, all] = random.pick(kinds);
        const type = drawn === words ? newWords() : drawn;
        const name = `v${numbers++}`;
        const values = Array.from({ length: rows }, () => valueOf(random, type));
        const ratio = hasNulls ? random.pick([0, 0.2, 0.9, 1]) : 0;
        columns.push({ name, type, values: withNulls(random, values, ratio) });
        const wanted = random.shuffle(all).slice(0, random.pick([1, 2, 3]));
        for (const kind of wanted) aggregates.push({ alias: `${kind}_${name}`, kind, column: name });
    }
    const table = buildTable(columns, randomShape(random, rows));
    const text = aggregates.map(({ kind, column }) => `${kind}(${column})`).join(", ");
    const types = columns.map(({ type }) => String(type)).join(", ");
    return {
        table: hasNulls || rows === 0 ? table : withoutNulls(table),
        ...{ keys, aggregates },
        text: `${rows} rows, ${domain} keys, ${keys.join(", ")}: ${text} of ${types}`
    };
}

function groupBy(runtime: Runtime, { keys, aggregates }: GroupCase, table: ReturnType<Runtime["fromTable"]>): Query {
    const wanted = Object.fromEntries(aggregates.map(({ alias, kind, column }) => [alias, { [kind]: column }]));
    return runtime.groupBy(table, { keys: [...keys], aggregates: wanted as Record<string, { count: string }> });
}

async function* batchesOf(table: Table): AsyncGenerator<RecordBatch> {
    for (const batch of table.batches) yield await Promise.resolve(batch);
}

async function expectGroups(runtime: Runtime, groups: GroupCase): Promise<void> {
    const query = groupBy(runtime, groups, runtime.fromTable(groups.table));
    expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
    expect(query.report()?.stages[0]?.device?.outOfCoreGroupBy, groups.text).toBeDefined();
}

describe("aggregates out of core", () => {
    test.each([...shapes.entries()])("equal the reference, shape %i: %o", async (i) => {
        await forSeeds(91_000, 30, async (random) => {
            using sandbox = new Sandbox();
            const groups = aggregateCase(random);
            const gpu = gpus[i]!;
            // Files have one dictionary for all batches.
            const hasWords = groups.table.schema.fields.some(({ type }) => DataType.isDictionary(type));
            const way = random.pick(hasWords && groups.table.batches.length > 1 ? [0, 2] : [0, 1, 1, 2]);
            const { table } = groups;
            const input =
                way === 0
                    ? gpu.fromTable(table)
                    : way === 1
                      ? await gpu.fromArrowFile(sandbox.write(table))
                      : gpu.fromBatches(table.schema, () => batchesOf(table), { rows: table.numRows });
            const query = groupBy(gpu, groups, input);
            expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
            expect(query.report()?.stages[0]?.device?.outOfCoreGroupBy, groups.text).toBeDefined();
        });
    });

    test("sums of decimals have 38 digits and no more", async () => {
        const half = most / 2n;
        const of = (values: bigint[]): GroupCase => ({
            table: buildTable(
                [
                    { name: "k", type: new Int32(), values: values.map((_, row) => row % 2) },
                    { name: "v", type: wide, values }
                ],
                oneBatch(values.length)
            ),
            keys: ["k"],
            aggregates: [{ alias: "sum", kind: "sum", column: "v" }],
            text: "38 digits"
        });
        // Parts leave 38 digits and 128 bits and come back: only the whole sum counts.
        const fits = of([most - 1n, 1n - most, most - 1n, 1n - most, 1n - most, most - 1n]);
        const cases: [GroupCase, boolean][] = [
            [fits, true],
            [of([half, 0n, half - 1n, 0n]), true],
            [of([half, 0n, half, 0n]), false],
            [of([0n, -half, 0n, -half]), false],
            [of(Array.from({ length: 500 }, () => most - 1n)), false]
        ];
        for (const gpu of gpus) {
            for (const [groups, isFine] of cases) {
                if (isFine) {
                    await expectGroups(gpu, groups);
                } else {
                    const query = groupBy(gpu, groups, gpu.fromTable(groups.table));
                    await expect(query.toTable()).rejects.toMatchObject({
                        code: "INTEGER_OVERFLOW",
                        message: expect.stringContaining(
                            "the sum of column 'v' does not fit 38 decimal digits"
                        ) as string
                    });
                }
            }
        }
    });

    test("a decimal of more digits than its type says is none for 64 bits: auto takes the CPU engine", async () => {
        const values = [1n, 10n ** 25n, 3n, null];
        const columns: PlainColumn[] = [
            { name: "k", type: new Int32(), values: [1, 1, 2, 2] },
            { name: "v", type: new Decimal(2, 10, 128), values }
        ];
        const table = buildTable(columns, oneBatch(4));
        const groups: GroupCase = {
            ...{ table, keys: ["k"], text: "misfit" },
            aggregates: (["sum", "max"] as const).map((kind) => ({ alias: kind, kind, column: "v" }))
        };
        for (const gpu of gpus) {
            await expect(groupBy(gpu, groups, gpu.fromTable(table)).toTable()).rejects.toMatchObject({
                code: "UNSUPPORTED_TYPE",
                message: expect.stringMatching(/column 'v' has a decimal of more digits than its type says/) as string
            });
        }
        const auto = await openRuntime({
            device: "auto",
            memory,
            ...knobs({ gpu: true, outOfCore: true, chunkRows: 64 })
        });
        try {
            const query = groupBy(auto, groups, auto.fromTable(table));
            expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
            expect(query.report()).toMatchObject({
                device: "cpu",
                deviceReason: expect.stringMatching(/more digits than its type says/) as string
            });
            const counts: GroupCase = { ...groups, aggregates: [{ alias: "n", kind: "count", column: "v" }] };
            const counted = groupBy(auto, counts, auto.fromTable(table));
            expectSameGroups(cellTable(await counted.toTable()), expectedGroups(counts), counts);
            expect(counted.report()?.device).toBe("gpu");
        } finally {
            await auto.close();
        }
    });

    test("of no rows without keys are NULL", async () => {
        const columns: PlainColumn[] = [
            { name: "d", type: wide, values: [] },
            { name: "t", type: new Utf8(), values: [] }
        ];
        const table = buildTable(columns, oneBatch(0));
        for (const used of [table, withoutNulls(table)]) {
            const aggregates = (["sum", "mean", "min", "first", "any"] as const).map((kind) => ({
                ...{ alias: kind, kind, column: kind === "first" || kind === "any" ? "t" : "d" }
            }));
            const groups: GroupCase = { table: used, keys: [], aggregates, text: "no rows" };
            for (const gpu of gpus) await expectGroups(gpu, groups);
        }
    });

    test("of keys that host memory cannot number are the CPU engine's with auto", async () => {
        const rows = 500_000;
        const numbers = BigInt64Array.from({ length: rows }, (_, row) => BigInt(row) * 7919n);
        const table: Table = new Table({
            a: makeVector(numbers),
            b: makeVector(numbers),
            d: makeVector(numbers),
            e: makeVector(numbers),
            f: makeVector(numbers),
            c: makeVector(new Int8Array(rows))
        });
        const cases: GroupCase[] = [
            { table, keys: ["a", "b", "d", "e", "f"], aggregates: [], text: "keys" },
            { table, keys: ["c"], aggregates: [{ alias: "n", kind: "countDistinct", column: "a" }], text: "pairs" }
        ];
        const run = async (query: Query, { text }: GroupCase): Promise<number> =>
            text === "keys" ? await query.count() : (await query.toTable()).numRows;
        const little = { host: "20MiB", device: "128MiB" };
        for (const device of ["gpu", "auto"] as const) {
            const debug = { gpu: true, outOfCore: true, chunkRows: 4096 };
            const runtime = await openRuntime({ device, threads: 2, memory: little, ...knobs(debug) });
            try {
                for (const groups of cases) {
                    const query = groupBy(runtime, groups, runtime.fromTable(table));
                    if (device === "gpu") {
                        await expect(run(query, groups)).rejects.toMatchObject({
                            code: "BUDGET_TOO_SMALL",
                            message: expect.stringMatching(/text and keys that the GPU compares by numbers/) as string,
                            details: { tier: "host" }
                        });
                    } else {
                        expect(await run(query, groups)).toBe(groups.text === "keys" ? rows : 1);
                        expect(query.report()).toMatchObject({ device: "cpu" });
                    }
                }
            } finally {
                await runtime.close();
            }
        }
    });

    test("are explained where workers do what the GPU does not", async () => {
        const columns: PlainColumn[] = ["a", "b", "c", "d", "e"].map((name) => ({
            name,
            type: new Int64(),
            values: [1n]
        }));
        const table = buildTable(columns, oneBatch(1));
        const text = async (keys: string[], kind: Kind): Promise<string> => {
            const groups: GroupCase = { table, keys, aggregates: [{ alias: "x", kind, column: "c" }], text: "one row" };
            return String(await groupBy(gpus[0]!, groups, gpus[0]!.fromTable(table)).explain());
        };
        expect(await text(["a"], "first")).not.toMatch(/workers /);
        expect(await text(["a", "b"], "sum")).toMatch(/keys of 2 words, grouped by a hash of 64 bits/);
        expect(await text(["a", "b", "c", "d", "e"], "sum")).toMatch(
            /workers number the keys of each row together, in host memory/
        );
        expect(await text(["a"], "countDistinct")).toMatch(
            /workers look whether values of 1 column came with them before/
        );
    });

    test("name the column and its type where they are refused", async () => {
        const columns: PlainColumn[] = [
            { name: "k", type: new Int32(), values: [1] },
            { name: "six", type: new FixedSizeBinary(6), values: [new Uint8Array(6)] },
            { name: "word", type: words, values: ["a"] },
            { name: "huge", type: new Decimal(2, 60, 256), values: [1n] }
        ];
        const table = buildTable(columns, oneBatch(1));
        const [gpu] = gpus;
        const refused = async (aggregate: Record<string, string>, message: RegExp) => {
            const query = gpu!.groupBy(gpu!.fromTable(table), {
                keys: ["k"],
                aggregates: { a: aggregate as { count: string } }
            });
            await expect(query.toTable()).rejects.toMatchObject({
                code: "UNSUPPORTED_TYPE",
                message: expect.stringMatching(message) as string
            });
        };
        await refused({ first: "six" }, /`first` of column `six` \(FixedSizeBinary\[6\]\) does not run out of core/);
        await refused({ min: "six" }, /`min` of column `six` \(FixedSizeBinary\[6\]\)/);
        await refused({ sum: "huge" }, /`sum` of column `huge` \(Decimal256\(60, 2\)\)/);
    });
});

test("count of columns that cannot be in GPU memory: lists, structs, maps and NULLs alone", async () => {
    const rows = 500;
    const item = new Field("item", new Int32(), true);
    const entries = new Field("entries", new Struct([new Field("key", new Utf8(), false), item]), false);
    const columns: Record<string, [DataType, (row: number) => unknown]> = {
        list: [new List(item), (row) => [row, null].slice(row % 3)],
        pair: [new FixedSizeList(2, item), (row) => [row, row + 1]],
        struct: [new Struct([item]), (row) => ({ item: row })],
        map: [new Map_(entries), (row) => new Map([["a", row]])],
        none: [new Null(), () => null]
    };
    const cells = (make: (row: number) => unknown) =>
        Array.from({ length: rows }, (_, row) => (row % 7 === 0 ? null : make(row)));
    const given: Table = new Table({
        k: makeVector(Int32Array.from({ length: rows }, (_, row) => row % 11)),
        ...Object.fromEntries(
            Object.entries(columns).map(([name, [type, make]]) => [name, vectorFromArray(cells(make), type)])
        )
    });
    const aggregates = Object.fromEntries(Object.keys(columns).map((name) => [`n_${name}`, { count: name }]));
    const counts = Array.from({ length: 11 }, (_, key) => {
        const found = Array.from({ length: rows }, (_unused, row) => row).filter(
            (row) => row % 11 === key && row % 7 !== 0
        );
        return [key, ...["list", "pair", "struct", "map"].map(() => found.length), 0].join(" | ");
    });
    for (const gpu of gpus) {
        const streamed = gpu.fromBatches(given.schema, async function* () {
            for (const batch of given.batches) yield await Promise.resolve(batch);
        });
        for (const relation of [gpu.fromTable(given), streamed]) {
            const query: Query = relation.groupBy({ keys: ["k"], aggregates });
            expectSameRows(rowTexts(cellTable(await query.toTable())), counts, "counts");
            expect(query.report()!.stages[0]!.device).toHaveProperty("outOfCoreGroupBy");
        }
    }
});
