// SPDX-License-Identifier: Apache-2.0
// Joins larger than GPU memory by kernels that read and write host memory, against the CPU engine: keys of every kind,
// columns that travel with them and columns that are gathered, NULLs, every sink; what explain and reports say of them.
import { Bool, Float64, Int32, Int64, makeVector, Table, Utf8, vectorFromArray, type DataType } from "apache-arrow";
import { openRuntime, type Query, type Relation, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { OutOfCoreReport } from "../../../src/execute/run-report.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { cellTable } from "../../support/cells.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { Random } from "../../support/random.js";
import { knobs } from "../../support/knobs.js";
import { joinTypes } from "../../support/reference.js";
import { resultRows } from "../../support/result-rows.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

const deviceMebibytes = 96;
const memory = { host: "256MiB", device: `${deviceMebibytes}MiB` };
const algorithm = "triton";
const turns = [
    { chunkRows: 64, radixBits: 3, coPartitionJoin: "bucket-chaining" },
    { chunkRows: 4096, radixBits: 0, residentShare: 0, partitioner: "linear", partitionBlocks: 3, gatherBlocks: 2 },
    { chunkRows: 512, radixBits: 2, secondRadixBits: 5, interleave: { device: 1, far: 3 }, pages: "mapped" }
] as const;
let cpu: Runtime;
let gpus: Runtime[] = [];

beforeAll(async () => {
    cpu = await openRuntime({ device: "cpu", threads: 2, memory });
    gpus = [];
    for (const more of turns) {
        gpus.push(await openRuntime({ device: "gpu", threads: 2, memory, ...knobs({ ...more, workers: 3 }) }));
    }
});
afterAll(async () => {
    for (const runtime of [cpu, ...gpus]) await runtime.close();
});

const vectorOf = (values: readonly unknown[], type: DataType) => vectorFromArray([...values], type);

/** The same keys as numbers of 4 and 8 bytes, floats and text; columns of every way to the result. */
function table(seed: number, rows: number, domain: number, nulls: number): Table {
    const random = new Random(seed);
    const keys = Array.from({ length: rows }, () => (random.chance(nulls) ? null : random.below(domain)));
    const made = (type: DataType, make: (key: number) => unknown) =>
        vectorOf(
            keys.map((key) => (key === null ? null : make(key))),
            type
        );
    const suffix = seed % 2 === 0 ? "l" : "r";
    const values = Array.from({ length: rows }, () => random.below(1000));
    return new Table({
        narrow: made(new Int32(), (key) => key - 5),
        wide: made(new Int64(), (key) => BigInt(key) << 35n),
        float: made(new Float64(), (key) => key / 4),
        text: made(new Utf8(), (key) => `key ${key}`),
        [`long_${suffix}`]: makeVector(BigInt64Array.from(values, BigInt)),
        [`int_${suffix}`]: makeVector(Int32Array.from(values)),
        [`flag_${suffix}`]: vectorOf(
            values.map((value) => value % 3 === 0),
            new Bool()
        ),
        [`maybe_${suffix}`]: vectorOf(
            values.map((value) => (value % 5 === 0 ? null : BigInt(value))),
            new Int64()
        ),
        [`text_${suffix}`]: vectorOf(
            values.map((value) => "x".repeat(value % 40)),
            new Utf8()
        )
    });
}

const stageOf = async (query: Query): Promise<OutOfCoreStage> =>
    (await query.explain()).plan.stages[0] as OutOfCoreStage;
const told = (query: Query): OutOfCoreReport => query.report()!.stages[0]!.device!.outOfCore!;

/** Columns of the result: none but the key; one of the key's width; others. */
const selections: Record<string, string[]> = {
    keys: [],
    "one of 8 bytes each": ["long_l", "long_r"],
    "one of 4 bytes each": ["int_l", "int_r"],
    "one of another width, one that may be NULL": ["flag_l", "maybe_r"],
    several: ["long_l", "int_l", "text_r", "maybe_r", "flag_r"],
    "of one side": ["long_r"]
};
const keySets: [string[], string][] = [
    [["narrow"], "packed"],
    [["wide"], "packed"],
    [["narrow", "float"], "hashed"],
    [["text"], "packed"],
    [["narrow", "text"], "packed"],
    [["wide", "text"], "hashed"]
];
const sizes = [
    [600, 900, 400],
    [0, 300, 50],
    [300, 0, 50],
    [1, 1, 1],
    [60, 70, 1]
] as const;

describe("joins of far memory have the rows of the CPU engine", () => {
    for (const [index, [key, mode]] of keySets.entries()) {
        test(`on ${key.join(", ")}`, async () => {
            using sandbox = new Sandbox();
            for (const [at, [name, columns]] of Object.entries(selections).entries()) {
                const random = new Random(100 * index + at);
                const [l, r, domain] = at % 2 === 0 ? sizes[0] : random.pick(sizes);
                const nulls = at % 2 === 0 ? 0.1 : 0;
                const nullEquality = key[0] === "narrow" && key.length === 1 && at === 2;
                const tables = [table(2 * at, l, domain, nulls), table(2 * at + 1, r, domain, nulls)];
                const files = tables.map((given) => (random.chance(0.3) ? sandbox.write(given) : undefined));
                const hints = { buildSide: random.pick(["left", "right"] as const) };
                const select = [...key, ...columns];
                const queryOn = async (runtime: Runtime): Promise<Query> => {
                    const [left, right] = await Promise.all(
                        tables.map(async (given, side) => {
                            const file = files[side];
                            return file === undefined ? runtime.fromTable(given) : await runtime.fromArrowFile(file);
                        })
                    );
                    const named = runtime === cpu ? {} : ({ algorithm } as const);
                    return runtime.join({ left: left!, right: right!, on: key, select, hints, nullEquality, ...named });
                };
                const expected = rowTexts(cellTable(await (await queryOn(cpu)).toTable()));
                for (const gpu of gpus) {
                    const query = await queryOn(gpu);
                    const what = `${key.join(", ")}, ${name}: ${l} x ${r} rows`;
                    const stage = await stageOf(query);
                    expect(stage.path, what).toMatchObject({ runs: "coherent", reason: 'that of "triton"' });
                    expect(stage.layout.keys, what).toBe(nullEquality ? "encoded" : mode);
                    expectSameRows(await resultRows(random, query, sandbox), expected, what);
                    expect(told(query), what).toMatchObject({ path: "coherent", residentPartitions: 0 });
                    expect(query.report()?.rowsOut, what).toBe(expected.length);
                    expect(await query.count(), what).toBe(expected.length);
                    expect(gpu.memory().host.usedBytes, what).toBe(0);
                }
            }
        });
    }
});

describe("every type of join has the rows of the CPU engine", () => {
    const columnsOf = (type: string): string[] =>
        type === "semi" || type === "anti" ? ["long_l", "int_l", "text_l"] : ["long_l", "int_l", "text_r", "maybe_r"];
    for (const type of joinTypes.filter((one) => one !== "inner")) {
        test(type, async () => {
            using sandbox = new Sandbox();
            for (const [at, [key, mode]] of keySets.entries()) {
                const random = new Random(9000 + at);
                // Few keys, one, or sides of which one has no rows; NULLs that are lone rows, and none.
                const [l, r, domain] = sizes[at % sizes.length]!;
                const nulls = at % 3 === 2 ? 0 : 0.15;
                const tables = [table(2 * at, l, domain, nulls), table(2 * at + 1, r, 2 * domain, nulls)];
                for (const buildSide of ["left", "right"] as const) {
                    for (const columns of [columnsOf(type), []]) {
                        const make = (runtime: Runtime): Query => {
                            const [left, right] = tables.map((given) => runtime.fromTable(given));
                            const named = runtime === cpu ? {} : ({ algorithm } as const);
                            const more = { select: [...key, ...columns], hints: { buildSide }, ...named };
                            return runtime.join({ left: left!, right: right!, on: key, type, ...more });
                        };
                        const expected = rowTexts(cellTable(await make(cpu).toTable()));
                        for (const gpu of gpus) {
                            const query = make(gpu);
                            const what = `${key.join(", ")}, build side ${buildSide}, ${l} x ${r} rows`;
                            const stage = await stageOf(query);
                            expect(stage.path.runs, what).toBe("coherent");
                            expect(stage.layout.keys, what).toBe(mode === "hashed" ? "numbered" : mode);
                            // Rows are looked up by an index, whether they are counted or given.
                            expect(stage.work.secondPass, what).toBe("sort");
                            expectSameRows(await resultRows(random, query, sandbox), expected, what);
                            expect(query.report()?.rowsOut, what).toBe(expected.length);
                            expect(await query.count(), what).toBe(expected.length);
                        }
                    }
                }
            }
        });
    }

    test("where they are counted, also with keys of up to 16 bytes", async () => {
        for (const [at, on] of [
            ["narrow", "float"],
            ["wide", "text"],
            ["wide", "narrow", "text"]
        ].entries()) {
            const tables = [table(2, 500, 90, 0.1), table(3, 700, 120, 0.1 * at)];
            for (const type of joinTypes) {
                const countOn = async (runtime: Runtime): Promise<number> => {
                    const [left, right] = tables.map((given) => runtime.fromTable(given));
                    const named = runtime === cpu ? {} : ({ algorithm } as const);
                    const query = runtime.join({ left: left!, right: right!, on, type, ...named });
                    const rows = await query.count();
                    if (runtime !== cpu) expect(told(query).path).toBe("coherent");
                    return rows;
                };
                const expected = await countOn(cpu);
                for (const gpu of gpus) expect(await countOn(gpu), `${type} on ${on.join(", ")}`).toBe(expected);
            }
        }
    });
});

describe("operators above it", () => {
    // Each operator has a share of GPU memory.
    const roomy = { ...memory, host: "512MiB", device: "256MiB" };
    let above: Runtime[] = [];
    beforeAll(async () => {
        above = [];
        for (const more of turns) {
            above.push(await openRuntime({ device: "gpu", threads: 2, memory: roomy, ...knobs({ ...more }) }));
        }
    });
    afterAll(async () => {
        for (const runtime of above) await runtime.close();
    });

    /** Queries over the join, by the columns that travel beside its key. */
    const queries: Record<string, (joined: Query, right: Relation) => Query> = {
        "groups by its key": (joined) =>
            joined.groupBy({
                keys: ["wide"],
                aggregates: { n: { count: "*" }, l: { sum: "long_l" }, r: { sum: "long_r" }, most: { max: "long_r" } }
            }),
        "groups by a column of it": (joined) =>
            joined.groupBy({ keys: ["long_l"], aggregates: { n: { count: "*" }, r: { sum: "long_r" } } }),
        "sums without keys": (joined) =>
            joined.groupBy({
                keys: [],
                aggregates: { n: { count: "*" }, l: { sum: "long_l" }, r: { mean: "long_r" } }
            }),
        "counts alone": (joined) => joined.groupBy({ keys: [], aggregates: { n: { count: "*" } } }),
        "a join that copy engines make, and groups of it": (joined, right) =>
            joined.join(right, { on: "wide", select: ["wide", "long_l", "int_r"] }).groupBy({
                keys: ["wide"],
                aggregates: { n: { count: "*" }, l: { sum: "long_l" }, x: { sum: "int_r" } }
            })
    };
    const types = ["inner", "left", "full", "semi", "anti"] as const;

    for (const [name, make] of Object.entries(queries)) {
        test(name, async () => {
            using sandbox = new Sandbox();
            for (const [at, type] of types.entries()) {
                const once = type === "semi" || type === "anti";
                if ((once || type !== "inner") && name !== "counts alone" && name !== "groups by its key") continue;
                const random = new Random(7000 + at);
                const [l, r, domain] = sizes[at % sizes.length]!;
                const tables = [table(4 * at, l, domain, 0), table(4 * at + 1, r, domain, 0)];
                const queryOn = (runtime: Runtime): Query => {
                    const [left, right] = tables.map((given) => runtime.fromTable(given));
                    const named = runtime === cpu ? {} : ({ algorithm } as const);
                    const select = ["wide", "long_l", ...(once ? [] : ["long_r"])];
                    const joined = runtime.join({ left: left!, right: right!, on: "wide", type, select, ...named });
                    if (!once || name === "counts alone") return make(joined, right!);
                    return joined.groupBy({ keys: ["wide"], aggregates: { n: { count: "*" }, l: { sum: "long_l" } } });
                };
                const expected = rowTexts(cellTable(await queryOn(cpu).toTable()));
                for (const gpu of above) {
                    const query = queryOn(gpu);
                    const what = `${name}, ${type}: ${l} x ${r} rows`;
                    const explained = await query.explain();
                    expect(
                        explained.plan.stages.map(({ kind }) => kind),
                        what
                    ).toEqual(["deviceOutOfCoreTree"]);
                    expect(String(explained), what).toContain("of their pages are in GPU memory, by kernels alone");
                    expectSameRows(await resultRows(random, query, sandbox), expected, what);
                    expect(await query.count(), what).toBe(expected.length);
                    expect(gpu.memory().host.usedBytes, what).toBe(0);
                }
            }
        });
    }

    test("several columns are gathered where rows come out of a join above", async () => {
        using sandbox = new Sandbox();
        for (const [at, type] of joinTypes.entries()) {
            const random = new Random(7500 + at);
            const tables = [table(4, 300, 120, 0.1), table(5, 400, 150, type === "inner" ? 0.1 : 0)];
            const third = new Table({
                ...{
                    wide: vectorOf(
                        [...Array(200).keys()].map((k) => BigInt(k) << 35n),
                        new Int64()
                    )
                },
                ...{ narrow: makeVector(Int32Array.from({ length: 200 }, (_, k) => k - 5)) },
                ...{ extra: vectorOf([...Array(200).keys()].map(String), new Utf8()) }
            });
            const ofRight = type === "semi" || type === "anti" ? [] : ["int_r", "text_r", "maybe_r"];
            for (const on of ["wide", "narrow"]) {
                const select = [on, "long_l", "int_l", "maybe_l", ...ofRight];
                const make = (runtime: Runtime): Query => {
                    const [left, right, last] = [...tables, third].map((given) => runtime.fromTable(given));
                    const named = runtime === cpu ? {} : ({ algorithm } as const);
                    const joined = runtime.join({ left: left!, right: right!, on, type, select, ...named });
                    const all: string[] = [...select, "extra"];
                    return joined.join(last!, { on, type: at % 2 === 0 ? "left" : "inner", select: all });
                };
                const expected = rowTexts(cellTable(await make(cpu).toTable()));
                expect(expected.length).toBeGreaterThan(0);
                for (const gpu of above) {
                    const query = make(gpu);
                    const explained = String(await query.explain());
                    expect(explained).toContain("kernels move one value beside a key");
                    expect(explained).toContain("of their pages are in GPU memory, by kernels alone");
                    expectSameRows(await resultRows(random, query, sandbox), expected, `${type} on ${on}`);
                    expect(await query.count()).toBe(expected.length);
                }
            }
        }
    });

    test("take what does not travel beside the key from host memory", async () => {
        const tables = [table(4, 20, 15, 0), table(5, 30, 15, 0)];
        const queryOn = (runtime: Runtime, on: string, ...columns: string[]): Query => {
            const [left, right] = tables.map((given) => runtime.fromTable(given));
            const named = runtime === cpu ? {} : ({ algorithm } as const);
            const select = ["wide", "long_l", "int_l", "long_r", "int_r", "maybe_r"];
            const joined = runtime.join({ left: left!, right: right!, on, select, ...named });
            const aggregates = Object.fromEntries(columns.map((column) => [column, { sum: column }]));
            return joined.groupBy({ keys: [], aggregates });
        };
        for (const columns of [["long_l", "int_l"], ["int_r"], ["maybe_r"]]) {
            const expected = rowTexts(cellTable(await queryOn(cpu, "wide", ...columns).toTable()));
            const query = queryOn(above[0]!, "wide", ...columns);
            const { stages } = (await query.explain()).plan;
            expect(stages).toMatchObject([
                { kind: "deviceOutOfCoreJoin", joinAlgorithm: algorithm, holds: { operator: 0 } },
                { kind: "deviceOutOfCoreGroupBy" }
            ]);
            expectSameRows(rowTexts(cellTable(await query.toTable())), expected, columns.join(", "));
        }
    });

    test("but kernels do not join rows of another operator", async () => {
        const [left, right] = [table(4, 20, 15, 0), table(5, 30, 15, 0)].map((given) => above[0]!.fromTable(given));
        const joined = above[0]!.join({ left: left!, right: right!, on: "wide", type: "left", select: ["wide"] });
        const query = joined.join(right!, { on: "wide", algorithm, select: ["wide"] });
        const error: unknown = await query.toTable().catch((thrown: unknown) => thrown);
        expect(error).toMatchObject({ code: "INVALID_ARGUMENT", details: { option: "algorithm", algorithm } });
        expect(String(error)).toMatch(/needs to know how many rows `rows 0` has, which another stage gives/);
    });
});

describe("plans and reports", () => {
    const keyed = (rows: number) => ({ rows, key: { name: "k" } });

    test("columns travel with their key where they can, and are gathered where not", async () => {
        const [left, right] = [table(0, 10, 10, 0), table(1, 10, 10, 0)];
        const gatheredOf = async (key: string, columns: string[]): Promise<string[]> => {
            const on = gpus[0]!;
            const select = [key, ...columns];
            const query = on.join({ left: on.fromTable(left), right: on.fromTable(right), on: key, select, algorithm });
            return (await stageOf(query)).layout.gathered.map(({ name }) => name).sort();
        };
        expect(await gatheredOf("wide", ["long_l", "long_r"])).toEqual([]);
        expect(await gatheredOf("wide", ["int_l", "long_r"])).toEqual(["int_l"]);
        expect(await gatheredOf("narrow", ["int_l", "long_r"])).toEqual(["long_r"]);
        expect(await gatheredOf("narrow", ["int_l", "flag_l"])).toEqual(["flag_l", "int_l"]);
        expect(await gatheredOf("wide", ["maybe_l", "text_r"])).toEqual(["maybe_l", "text_r"]);
    });

    test("say what the link carried beside what it was to carry", async () => {
        const experiment = { chunkRows: 1000, radixBits: 2 };
        const runtime = await openRuntime({ device: "gpu", threads: 2, memory, experiment });
        const [left, right] = [
            await runtime.generate(keyed(5000), "memory"),
            await runtime.generate(keyed(5000), "memory")
        ];
        const query = runtime.join({ left, right, on: "k", algorithm });
        expect(await query.count()).toBe(5000);
        const { h2dBytes, spilledBytes, spilledRows, predicted, ...report } = told(query);
        const spilled = spilledRows.build + spilledRows.probe;
        expect(spilledBytes.build + spilledBytes.probe).toBe(16 * spilled);
        // Keys of 8 bytes, and what did not stay in GPU memory.
        expect(h2dBytes).toBe(2 * 5000 * 8 + 16 * spilled);
        expect(predicted.h2dBytes).toBe(2 * 5000 * 8 + predicted.spilledBytes);
        expect(report).toMatchObject({ path: "coherent", partitions: 4, droppedRows: 0, diskWrittenBytes: 0 });
        const { stages, uploadedBytes, devicePeakBytes } = query.report()!;
        expect(uploadedBytes).toBe(2 * 5000 * 8);
        expect(devicePeakBytes).toBeLessThanOrEqual(deviceMebibytes * 2 ** 20);
        expect(stages[0]?.algorithm).toContain("partitioned by kernels in GPU and host memory");
        await runtime.close();
    });

    test("perfect hashing counts what it can, and says what it cannot", async () => {
        const experiment = { chunkRows: 1000, radixBits: 2, coPartitionJoin: "perfect" } as const;
        const runtime = await openRuntime({ device: "gpu", threads: 2, memory, experiment });
        const [left, right] = [
            await runtime.generate(keyed(5000), "memory"),
            await runtime.generate(keyed(7000), "memory")
        ];
        const query = runtime.join({ left, right, on: "k", algorithm, hints: { buildSide: "left" } });
        expect(await query.count()).toBe(5000);
        expect(String(await query.explain({ result: "count" }))).toContain("arrays indexed by keys (perfect hashing)");
        // Rows are found by an index, with any keys.
        expect((await query.toTable()).numRows).toBe(5000);
        const joined = (k: Int32Array) => {
            const repeated = runtime.fromTable(new Table({ k: makeVector(k) }));
            return repeated.join(repeated, { on: "k", algorithm });
        };
        const seen = joined(Int32Array.from({ length: 9000 }, (_, row) => Math.floor(row / 2)));
        await expect(seen.count()).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            message: expect.stringMatching(/values of key `k` may come twice in the (left|right) relation/) as string
        });
        expect((await seen.toTable()).numRows).toBe(18_000);
        // What no sample shows the GPU finds out.
        const unseen = joined(Int32Array.from({ length: 100_000 }, (_, row) => row % 99_999));
        await expect(unseen.count()).rejects.toMatchObject({
            code: "UNSUPPORTED_TYPE",
            message: expect.stringMatching(/perfect hashing: a key of the build side comes twice/) as string
        });
        expect((await unseen.toTable()).numRows).toBe(100_002);
        await runtime.close();
    });

    test("an aborted join leaves the runtime usable", async () => {
        const runtime = await openRuntime({
            device: "gpu",
            threads: 2,
            memory,
            experiment: { chunkRows: 8192 }
        });
        const rows = usesRealGpu ? 2 ** 20 : 2 ** 16;
        const [left, right] = [
            await runtime.generate(keyed(rows), "memory"),
            await runtime.generate(keyed(rows), "memory")
        ];
        const query = runtime.join({ left, right, on: "k", algorithm });
        const controller = new AbortController();
        setTimeout(() => controller.abort(), 5);
        const outcome: unknown = await query.count({ signal: controller.signal }).catch((error: Error) => error.name);
        expect(["AbortError", rows]).toContain(outcome);
        for await (const batch of query.batches()) if (batch.numRows > 0) break;
        expect(await query.count()).toBe(rows);
        expect(runtime.memory().host.usedBytes).toBe(0);
        await runtime.close();
    });
});
