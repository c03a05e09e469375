// SPDX-License-Identifier: Apache-2.0
// Group-bys of relations larger than GPU memory, against the reference: keys and values of every type, NULLs, sums that
// overflow, several batches and chunks, groups that leave GPU memory.
import { readFileSync } from "node:fs";
import {
    Bool,
    DateDay,
    Decimal,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    Table,
    tableFromIPC,
    TimestampMillisecond,
    Uint16,
    Uint32,
    Uint64,
    Uint8,
    Utf8,
    type DataType,
    type RecordBatch
} from "apache-arrow";
import { openRuntime, SpillwayError, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { GroupCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { expectedGroups, expectSameGroups, sumOverflows } from "../../support/engine.js";
import { useGpu } from "../../support/gpu.js";
import { forSeeds, runsUsualSeeds, type Random } from "../../support/random.js";
import {
    buildTable,
    distributions,
    drawIndices,
    keyColumn,
    keySource,
    oneBatch,
    randomShape,
    withNulls,
    type PlainColumn
} from "../../support/relations.js";
import { randomValue } from "../../support/domains.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

useGpu();

const memory = { host: "256MiB", device: "64MiB" };
/** How much stays in GPU memory, in chunks and partitions of which size; more workers than batches share these. */
const shapes = [
    { residentShare: 0, chunkRows: 64, radixBits: 0, workers: 3 },
    { residentShare: 0.5, chunkRows: 192, radixBits: 3, workers: 12 },
    { residentShare: 1, chunkRows: 4096, radixBits: 9, workers: 3 }
];
let gpus: Runtime[] = [];

beforeAll(async () => {
    gpus = [];
    for (const shape of shapes) {
        const debug = { outOfCore: true, ...shape };
        gpus.push(await openRuntime({ device: "gpu", threads: 2, memory, ...knobs(debug) }));
    }
});
afterAll(async () => {
    for (const runtime of gpus) await runtime.close();
});

/** With their bytes. */
const keyTypes: [DataType, number][] = [
    ...([
        [new Int8(), 1],
        [new Int16(), 2],
        [new Int32(), 4],
        [new Int64(), 8],
        [new Uint8(), 1]
    ] as const),
    ...([
        [new Uint32(), 4],
        [new Uint64(), 8],
        [new Bool(), 1],
        [new DateDay(), 4],
        [new Float32(), 4]
    ] as const),
    ...([
        [new Float64(), 8],
        [new TimestampMillisecond(), 8]
    ] as const)
].map(([type, bytes]) => [type, bytes]);
const numbers: DataType[] = [
    ...[new Int8(), new Int16(), new Int32(), new Int64(), new Uint8(), new Uint16(), new Uint32(), new Uint64()],
    ...[new Float32(), new Float64()]
];
const others: DataType[] = [new Bool(), new DateDay(), new TimestampMillisecond()];

function valuesOf(random: Random, type: DataType, rows: number): unknown[] {
    const values = Array.from({ length: rows }, () => {
        // Sums overflow now and then, and mostly do not.
        const value = randomValue(random, type);
        return typeof value === "bigint" && random.chance(0.999) ? value % 1000n : value;
    });
    return withNulls(random, values, random.pick([0, 0, 0.2, 1]));
}

function groupCase(random: Random): GroupCase {
    const rows = random.pick([0, 1, 90, 700, 3000]);
    const domain = random.pick([1, 2, 30, 500, 5000]);
    const indices = drawIndices(random, rows, domain, domain === 1 ? "uniform" : random.pick(distributions));
    const columns: PlainColumn[] = [];
    const keys: string[] = [];
    const nulls = random.chance(0.5);
    for (
        let left = random.pick([0, 7, 8, 8]);
        left > 0 && keys.length < 3 && (keys.length === 0 || random.chance(0.6));
    ) {
        const fitting = keyTypes.filter(([, bytes]) => bytes <= left);
        if (fitting.length === 0) break;
        const [type, bytes] = random.pick(fitting);
        const source = keySource(random, [type, type], keys.length === 0 ? domain : random.pick([1, 3]));
        const drawn = indices.map((index) => index % source.domain.length);
        const name = `k${keys.length}`;
        keys.push(name);
        columns.push(keyColumn(name, source, 0, drawn, (values) => withNulls(random, values, nulls ? 0.1 : 0)));
        left -= bytes;
    }
    const aggregates: { alias: string; kind: "count" | "sum" | "mean" | "min" | "max"; column: string }[] = [];
    if (keys.length === 0 || random.chance(0.5)) aggregates.push({ alias: "rows", kind: "count", column: "*" });
    for (let i = random.pick([0, 1, 2, 3, 8]); i > 0; --i) {
        const type = random.pick(random.chance(0.8) ? numbers : others);
        const kinds = numbers.includes(type)
            ? (["sum", "mean", "min", "max", "count"] as const)
            : (["min", "max"] as const);
        columns.push({ name: `v${i}`, type, values: valuesOf(random, type, rows) as PlainColumn["values"] });
        for (const kind of kinds) {
            if (random.chance(0.4)) aggregates.push({ alias: `${kind}${i}`, kind, column: `v${i}` });
        }
    }
    if (columns.length === 0) columns.push({ name: "v", type: new Int8(), values: indices.map(() => 1) });
    const words = aggregates.map(({ kind, column }) => `${kind}(${column})`).join(", ");
    return {
        table: buildTable(columns, randomShape(random, rows)),
        ...{ keys, aggregates },
        text: `group-by of ${rows} rows by [${keys.join(", ")}]: ${words}`
    };
}

async function rowsOf(random: Random, query: Query, sandbox: Sandbox): Promise<Table> {
    const way = random.below(3);
    if (way === 0) return await query.toTable();
    if (way === 1) {
        const batches: RecordBatch[] = [];
        for await (const batch of query.batches({ batchRows: random.pick([1, 7, 100]) })) batches.push(batch);
        return new Table(query.schema, batches);
    }
    const path = sandbox.path("output.arrow");
    await query.toArrowFile(path, { overwrite: true });
    return tableFromIPC(readFileSync(path));
}

function groupBy(runtime: Runtime, { keys, aggregates }: GroupCase, table: ReturnType<Runtime["fromTable"]>): Query {
    const wanted = Object.fromEntries(aggregates.map(({ alias, kind, column }) => [alias, { [kind]: column }]));
    return runtime.groupBy(table, { keys: [...keys], aggregates: wanted as Record<string, { count: string }> });
}

/** Why it was refused; undefined: it ran. */
async function checkGroups(
    random: Random,
    sandbox: Sandbox,
    groups: GroupCase,
    gpu: Runtime
): Promise<string | undefined> {
    const input = random.chance(0.5)
        ? gpu.fromTable(groups.table)
        : await gpu.fromArrowFile(sandbox.write(groups.table));
    const query = groupBy(gpu, groups, input);
    const expected = expectedGroups(groups);
    try {
        if (sumOverflows(groups, expected)) {
            await query.explain();
            await expect(query.toTable(), groups.text).rejects.toMatchObject({ code: "INTEGER_OVERFLOW" });
            return undefined;
        }
        expectSameGroups(cellTable(await rowsOf(random, query, sandbox)), expected, groups);
    } catch (error) {
        if (error instanceof SpillwayError && error.code === "UNSUPPORTED_TYPE") return error.message;
        throw error;
    }
    const report = query.report();
    expect(report?.stages[0]?.device?.outOfCoreGroupBy, groups.text).toBeDefined();
    expect(await query.count(), `count of ${groups.text}`).toBe(expected.length);
    return undefined;
}

describe("group-bys out of core", () => {
    // A test for each shape, as all three together take half a minute on two busy cores, too near to the time limit.
    test.each([...shapes.entries()])("equal the reference, shape %i: %o", async (i) => {
        let ran = 0;
        await forSeeds(74_000, 20, async (random) => {
            using sandbox = new Sandbox();
            const refused = await checkGroups(random, sandbox, groupCase(random), gpus[i]!);
            if (refused === undefined) ++ran;
            else expect(refused).toMatch(/numbers are added up|with a byte for NULLs|the key has \d+ bytes/);
        });
        if (runsUsualSeeds) expect(ran).toBeGreaterThan(10);
    });

    test("sums of 64 bits are exact, whatever their parts are", async () => {
        const rows = 900;
        const big = 2n ** 62n;
        // Parts leave 64 bits and come back: only the whole sum counts.
        const signed = Array.from({ length: rows }, (_, i) => (i < rows / 2 ? big : -big) + BigInt(i % 5));
        const unsigned = Array.from({ length: rows }, () => 2n ** 64n - 1n);
        const columns: PlainColumn[] = [
            { name: "k", type: new Int32(), values: signed.map((_, i) => i % 3) },
            { name: "s", type: new Int64(), values: signed },
            { name: "u", type: new Uint64(), values: unsigned }
        ];
        const table = buildTable(columns, oneBatch(rows));
        const of = (aggregates: GroupCase["aggregates"]): GroupCase => ({
            table,
            keys: ["k"],
            aggregates,
            text: "large"
        });
        const cases = [
            of([{ alias: "sum", kind: "sum", column: "s" }]),
            of([{ alias: "mean", kind: "mean", column: "u" }])
        ];
        for (const gpu of gpus) {
            for (const groups of cases) {
                const query = groupBy(gpu, groups, gpu.fromTable(table));
                expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
            }
            const sum = groupBy(gpu, of([{ alias: "sum", kind: "sum", column: "u" }]), gpu.fromTable(table));
            await expect(sum.toTable()).rejects.toMatchObject({
                code: "INTEGER_OVERFLOW",
                message: expect.stringContaining("the sum of column 'u'") as string
            });
        }
    });

    test("sums that a sample calls short are exact, also where values that it missed are not", async () => {
        const rows = 300_000;
        const largest = 2n ** 63n - 1n;
        // Rows of the key 0 between the sampled blocks: two of them together leave 64 bits, all four of them do not.
        const missed = new Map([3000, 3003, 3006, 3009].map((row, i) => [row, i < 2 ? largest : -largest]));
        const short = Array.from({ length: rows }, (_, i) => missed.get(i) ?? BigInt(i % 5));
        const long = short.map((value, i) => (missed.has(i) ? largest : value));
        const columns: PlainColumn[] = [
            { name: "k", type: new Int32(), values: short.map((_, i) => i % 3) },
            { name: "s", type: new Int64(), values: short },
            { name: "l", type: new Int64(), values: long }
        ];
        const table = buildTable(columns, oneBatch(rows));
        const of = (column: string, kind: "sum" | "mean" = "sum"): GroupCase => ({
            ...{ table, keys: ["k"], text: `${kind} of ${column}` },
            aggregates: [{ alias: kind, kind, column }]
        });
        using sandbox = new Sandbox();
        for (const gpu of gpus) {
            const input = gpu.fromTable(table);
            for (const groups of [of("s"), of("l", "mean")]) {
                const query = groupBy(gpu, groups, input);
                expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
                const path = sandbox.path("groups.arrow");
                await query.toArrowFile(path, { overwrite: true });
                expectSameGroups(cellTable(tableFromIPC(readFileSync(path))), expectedGroups(groups), groups);
            }
            // The column is named by the second plan alone, whose sums are exact.
            await expect(groupBy(gpu, of("l"), input).toTable()).rejects.toMatchObject({
                code: "INTEGER_OVERFLOW",
                message: expect.stringContaining("the sum of column 'l'") as string
            });
        }
    });

    test("NULLs of several keys are groups of their own", async () => {
        const values = [null, 0, 1, null, 0, null, 1, null];
        const columns: PlainColumn[] = [
            { name: "a", type: new Int16(), values },
            { name: "b", type: new Int32(), values: [...values].reverse() },
            { name: "v", type: new Float32(), values: values.map((_, i) => (i === 3 ? null : i === 4 ? NaN : i)) }
        ];
        const groups: GroupCase = {
            table: buildTable(columns, oneBatch(values.length)),
            keys: ["a", "b"],
            aggregates: (["min", "max", "count"] as const).map((kind) => ({ alias: kind, kind, column: "v" })),
            text: "NULLs"
        };
        for (const gpu of gpus) {
            const query = groupBy(gpu, groups, gpu.fromTable(groups.table));
            expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
        }
    });

    test("of no rows without keys are one group: a count of 0, and NULL for everything else", async () => {
        const empty = buildTable([{ name: "v", type: new Int32(), values: [] }], oneBatch(0));
        for (const kinds of [["sum", "mean"] as const, ["min", "max", "count"] as const]) {
            const aggregates = kinds.map((kind) => ({ alias: kind, kind, column: "v" }));
            const groups: GroupCase = { table: empty, keys: [], aggregates, text: "no rows" };
            const expected = Object.fromEntries(kinds.map((kind) => [kind, kind === "count" ? 0n : null]));
            for (const gpu of gpus) {
                const query = groupBy(gpu, groups, gpu.fromTable(empty));
                const result = await query.toTable();
                expect(result.toArray().map((row) => row.toJSON())).toEqual([expected]);
                expect(query.report()?.device).toBe("gpu");
            }
        }
    });

    test("count values of every type", async () => {
        const columns: PlainColumn[] = [
            { name: "k", type: new Int32(), values: [1, 1, 2, 2, 2] },
            { name: "text", type: new Utf8(), values: ["a", null, "b", "c", null] },
            { name: "wide", type: new Decimal(2, 30, 128), values: [1n, 2n, null, null, null] }
        ];
        const groups: GroupCase = {
            table: buildTable(columns, { batchRows: [3, 2], margin: 0, shared: false }),
            keys: ["k"],
            aggregates: ["text", "wide"].map((column) => ({ alias: column, kind: "count", column })),
            text: "counts"
        };
        for (const gpu of gpus) {
            const query = groupBy(gpu, groups, gpu.fromTable(groups.table));
            expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
            expect(query.report()?.device).toBe("gpu");
        }
    });
});
