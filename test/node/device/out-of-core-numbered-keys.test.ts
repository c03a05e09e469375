// SPDX-License-Identifier: Apache-2.0
// Joins larger than GPU memory on keys that workers number, against the CPU engine: more than 32 bytes together, text
// whose NULLs are equal, keys of streams; every type of join, empty sides, one key for all rows.
import {
    Binary,
    Decimal,
    Dictionary,
    FixedSizeBinary,
    Int32,
    Int64,
    makeVector,
    Table,
    Utf8,
    Utf8View,
    vectorFromArray,
    type DataType
} from "apache-arrow";
import { openRuntime, type Query, type Relation, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { cellTable } from "../../support/cells.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

const memory = { host: "256MiB", device: "96MiB" };
let sandbox: Sandbox;
let cpu: Runtime;
let gpu: Runtime;

beforeAll(async () => {
    sandbox = new Sandbox();
    cpu = await openRuntime({ device: "cpu", threads: 2, memory });
    const turned = knobs({ outOfCore: true, chunkRows: 128, radixBits: 3, residentShare: 0.5 });
    const spillDirectory = sandbox.spill;
    gpu = await openRuntime({ device: "gpu", threads: 2, memory: { ...memory, spillDirectory }, ...turned });
});
afterAll(async () => {
    await cpu.close();
    await gpu.close();
    sandbox[Symbol.dispose]();
});

function bytesOf(width: number, value: number): Uint8Array {
    const bytes = new Uint8Array(width).fill(7);
    bytes[width - 1] = value;
    return bytes;
}

const text = (value: number): string => (value === 0 ? "" : `text ${value} ${"x".repeat(value % 30)}`);
const word = (value: number): bigint => BigInt(value - 5) << 33n;

/** Types of either side, how many values there are, and what they are. */
const kinds: Record<string, [DataType, DataType, number, (value: number) => unknown]> = {
    text: [new Utf8(), new Utf8(), 60, text],
    views: [new Utf8(), new Utf8View(), 40, text],
    binary: [new Binary(), new Binary(), 40, (value) => bytesOf(value % 50, value)],
    dictionary: [new Dictionary(new Utf8(), new Int32()), new Dictionary(new Utf8(), new Int32()), 40, text],
    mixed: [new Dictionary(new Utf8(), new Int32()), new Utf8(), 40, text],
    decimal: [new Decimal(2, 30, 128), new Decimal(2, 30, 128), 9, (value) => Uint32Array.of(value, 0, value % 2, 0)],
    fixed: [new FixedSizeBinary(40), new FixedSizeBinary(40), 50, (value) => bytesOf(40, value)],
    ...Object.fromEntries(
        ["a", "b", "c", "d", "e"].map((name, i) => [name, [new Int64(), new Int64(), i === 0 ? 12 : 2, word]])
    )
};

interface Drawn {
    readonly rows: number;
    /** Share of NULLs in each key. */
    readonly nulls: number;
    /** Values that there are; left out: those of the kind. */
    readonly values?: number;
}

function table(random: Random, keys: readonly string[], side: 0 | 1, { rows, nulls, values }: Drawn): Table {
    const columns = keys.map((name) => {
        const [left, right, domain, make] = kinds[name]!;
        const draw = (): unknown =>
            random.chance(nulls) ? null : make(side * random.below(3) + random.below(values ?? domain));
        const type = side === 0 ? left : right;
        return [name, vectorFromArray(Array.from({ length: rows }, draw), type)] as const;
    });
    const numbers = BigInt64Array.from({ length: rows }, (_, row) => BigInt(row));
    const texts = vectorFromArray(
        Array.from({ length: rows }, (_, row) => (row % 7 === 3 ? null : `payload ${row % 50}`)),
        new Utf8()
    );
    const suffix = side === 0 ? "l" : "r";
    return new Table({
        ...Object.fromEntries(columns),
        [`row_${suffix}`]: makeVector(numbers),
        [`t_${suffix}`]: texts
    });
}

type Way = (runtime: Runtime, given: Table) => Relation;
const fromTable: Way = (runtime, given) => runtime.fromTable(given);
const fromStream: Way = (runtime, given) =>
    runtime.fromBatches(given.schema, async function* () {
        yield* await Promise.resolve(given.batches);
    });

interface Join {
    readonly keys: readonly string[];
    readonly tables: readonly [Table, Table];
    readonly type: (typeof joinTypes)[number];
    readonly nullEquality: boolean;
    readonly buildSide: "left" | "right";
    readonly ways?: readonly [Way, Way];
}

function queryOf(runtime: Runtime, { keys, tables, ways = [fromTable, fromTable], ...join }: Join): Query {
    const [left, right] = [ways[0](runtime, tables[0]), ways[1](runtime, tables[1])];
    const { type, nullEquality, buildSide } = join;
    const hints = { buildSide };
    return runtime.join({ left, right, on: [...keys], ...{ type, nullEquality, hints } });
}

const stageOf = async (query: Query): Promise<OutOfCoreStage> =>
    (await query.explain()).plan.stages[0] as OutOfCoreStage;

/** Rows and their count are the CPU engine's, and the GPU joined numbers. */
async function check(join: Join, what: string): Promise<void> {
    const expected = rowTexts(cellTable(await queryOf(cpu, join).toTable()));
    const query = queryOf(gpu, join);
    const stage = await stageOf(query);
    expect(stage.kind, what).toBe("deviceOutOfCoreJoin");
    expect(stage.layout.keys, what).toBe("numbered");
    expectSameRows(rowTexts(cellTable(await query.toTable())), expected, what);
    expect(await query.count(), what).toBe(expected.length);
}

const isOfTwoTypes = (key: string): boolean => String(kinds[key]![0]) !== String(kinds[key]![1]);

const keySets: string[][] = [
    ["text"],
    ["views"],
    ["binary"],
    ["dictionary"],
    ["mixed"],
    ["decimal", "text"],
    ["a", "b", "c", "d", "e"],
    ["fixed"],
    ["text", "a", "binary", "b", "c", "d"]
];
/** Text is compared by its number where NULLs are no keys, and those are of 4 bytes. */
const isLong = (keys: readonly string[]): boolean => keys.includes("fixed") || keys.length > 4;

describe("joins on numbered keys have the rows of the CPU engine", () => {
    test.each(keySets.map((keys, seed) => [keys.join(", "), keys, seed] as const))("on %s", async (_, keys, seed) => {
        for (const [at, type] of joinTypes.entries()) {
            if (type === "inner" || (type === "full" && keys.some((key) => isOfTwoTypes(key) || key === "dictionary")))
                continue;
            for (const nullEquality of isLong(keys) ? [true, false] : [true]) {
                const random = new Random(100 * seed + at);
                const nulls = random.pick([0.05, 0.3]);
                const tables = [
                    table(random, keys, 0, { rows: 500, nulls }),
                    table(random, keys, 1, { rows: 700, nulls })
                ] as const;
                for (const buildSide of ["left", "right"] as const) {
                    const what = `${type} join, ${buildSide} built, ${nulls} NULLs, equal: ${nullEquality}`;
                    await check({ keys, tables, type, nullEquality, buildSide }, what);
                }
            }
        }
    });

    test.each(joinTypes.filter((type) => type !== "inner"))("%s, of empty sides and of one hot key", async (type) => {
        const keys = ["fixed", "text"];
        const sizes = [
            [0, 300],
            [300, 0],
            [0, 0],
            [150, 200]
        ];
        for (const [left, right] of sizes) {
            const random = new Random(left! + right!);
            const tables = [
                table(random, keys, 0, { rows: left!, nulls: 0.1, values: 1 }),
                table(random, keys, 1, { rows: right!, nulls: 0.1, values: 1 })
            ] as const;
            const join = { keys, tables, type, nullEquality: true, buildSide: "right" } as const;
            await check(join, `${type} join of ${left} and ${right} rows`);
        }
    });

    test.each(joinTypes)("%s, of streams as either side", async (type) => {
        const sets = [["decimal", "text"], ["a", "b", "c", "d", "e"], ["text"]];
        for (const [seed, keys] of sets.entries()) {
            const random = new Random(seed);
            const tables = [
                table(random, keys, 0, { rows: 400, nulls: 0.1 }),
                table(random, keys, 1, { rows: 300, nulls: 0.1 })
            ] as const;
            for (const ways of [
                [fromStream, fromTable],
                [fromTable, fromStream],
                [fromStream, fromStream]
            ] as const) {
                const join = { keys, tables, type, nullEquality: true, buildSide: "right", ways } as const;
                await check(join, `${type} join on ${keys.join(", ")}, stream ${ways.indexOf(fromStream)}`);
            }
        }
    });
});

describe("below and above other operators such a join is a stage whose rows are held", () => {
    const random = new Random(77);
    const keys = ["fixed", "text", "a"];
    const drawn = { rows: 300, nulls: 0.1 };
    const tables = [table(random, keys, 0, drawn), table(random, keys, 1, drawn)] as const;
    const join = { keys: ["fixed", "text"], tables, nullEquality: true, buildSide: "right" } as const;
    const shapes: Record<string, (runtime: Runtime) => Query> = {
        "a group-by of a left join": (runtime) =>
            queryOf(runtime, { ...join, type: "left" }).groupBy({
                keys: ["a"],
                aggregates: { rows: { count: "*" }, sum: { sum: "row_r" } }
            }),
        "a group-by of a full join by its keys": (runtime) =>
            queryOf(runtime, { ...join, type: "full" }).groupBy({
                keys: ["text"],
                aggregates: { rows: { count: "*" }, sum: { sum: "row_r" } }
            }),
        "a join of a semi join": (runtime) =>
            queryOf(runtime, { ...join, type: "semi" }).join(runtime.fromTable(tables[1]), {
                ...{ on: "a", type: "left", select: ["row_l", "row_r"] }
            }),
        "an anti join of a join": (runtime) =>
            runtime
                .fromTable(tables[0])
                .join(runtime.fromTable(tables[1]), { on: ["a", "text"], type: "semi" })
                .join(runtime.fromTable(tables[1]), { on: ["fixed", "text", "a"], type: "anti", select: ["row_l"] })
    };
    test.each(Object.entries(shapes))("%s", async (name, shape) => {
        const query = shape(gpu);
        const { stages } = (await query.explain()).plan;
        expect(stages.length).toBe(2);
        expect(stages.some((stage) => (stage as OutOfCoreStage).layout.keys === "numbered")).toBe(true);
        expectSameRows(
            rowTexts(cellTable(await query.toTable())),
            rowTexts(cellTable(await shape(cpu).toTable())),
            name
        );
    });
});

test("a key of a stream that is too wide to travel is named", async () => {
    const random = new Random(5);
    const keys = ["fixed"];
    const drawn = { rows: 50, nulls: 0 };
    const tables = [table(random, keys, 0, drawn), table(random, keys, 1, drawn)] as const;
    const ways = [fromStream, fromTable] as const;
    const query = queryOf(gpu, { keys, tables, type: "left", nullEquality: false, buildSide: "right", ways });
    await expect(query.toTable()).rejects.toMatchObject({
        code: "UNSUPPORTED_TYPE",
        message: expect.stringContaining("column `fixed`") as string
    });
});

test("explain says that numbers are joined, and the plan has host memory for them", async () => {
    const random = new Random(1);
    const keys = ["text"];
    const drawn = { rows: 400, nulls: 0.1 };
    const tables = [table(random, keys, 0, drawn), table(random, keys, 1, drawn)] as const;
    const planOf = async (nullEquality: boolean) =>
        await queryOf(gpu, { keys, tables, type: "left", nullEquality, buildSide: "right" }).explain();
    const [numbered, packed] = [await planOf(true), await planOf(false)];
    expect(String(numbered)).toContain("numbers of the keys are joined");
    expect(String(packed)).not.toContain("numbers of the keys are joined");
    const tableBytes = ({ plan }: typeof numbered): number => plan.stages[0]!.memory.tableBytes;
    expect(tableBytes(numbered)).toBeGreaterThan(tableBytes(packed));
});
