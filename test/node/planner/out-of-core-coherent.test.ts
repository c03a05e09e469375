// SPDX-License-Identifier: Apache-2.0
// Joins by kernels that read and write host memory: rows, sizes and predictions, from the shapes of relations alone.
import { Bool, Decimal, Int32, Int64, Utf8, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { Knobs } from "../../../src/model/debug-knobs.js";
import { loadProfile } from "../../../src/machine/profile.js";
import type { Binding, EngineHandle, NativeDevice } from "../../../src/native/binding.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { coherentMemory } from "../../../src/planner/streaming/coherent/memory.js";
import { farMs } from "../../../src/planner/streaming/coherent/predict.js";
import { turnsOf } from "../../../src/planner/streaming/coherent/turns.js";
import { besideBytes } from "../../../src/planner/streaming/host-memory.js";
import { outOfCoreHostBytes, planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery, QueryPlanner, type PlanQuery } from "../../../src/planner/plan-query.js";
import { QueryDevice } from "../../../src/runtime/query-device.js";
import { deviceMemory } from "../../support/device-memory.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

const gibibyte = 2 ** 30;
const pageBytes = 2 ** 16;
const columns = { k: new Int64(), v: new Int64() };
const algorithm = "triton";
const partitioners = ["standard", "linear", "shared", "hierarchical", "bulk"] as const;

interface Relations {
    rows?: readonly [number, number];
    types?: Record<string, DataType>;
    options?: object;
    nullable?: boolean;
    inMemory?: boolean;
}

function queryOf(relations: Relations = {}, more: Partial<PlanQuery> = {}): PlanQuery {
    const { rows = [2 ** 28, 2 ** 28], types = columns, options = {}, nullable = false, inMemory = false } = relations;
    const [left, right] = rows.map((count, i) =>
        inputNode(types, { rows: count, name: ["l", "r"][i]!, nullable, inMemory, textBytes: 20 })
    );
    const root = join(left!, right!, { on: "k", algorithm, ...options });
    return planQueryOf(root, { budgetBytes: 256 * gibibyte, threads: 16, ...more });
}

function stageOf(query: PlanQuery, limitBytes = 4 * gibibyte): OutOfCoreStage {
    const plan = planOutOfCore(query, planQuery(query), limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreStage;
}

describe("rows are a key and nothing, or one value of its width", () => {
    const layoutOf = (relations: Relations, more: Partial<PlanQuery> = {}) => stageOf(queryOf(relations, more)).layout;
    const reasons = (relations: Relations): string[] => {
        const { gathered, rowNumbers } = layoutOf(relations);
        expect(rowNumbers.build).toBeGreaterThanOrEqual(0);
        expect(rowNumbers.probe).toBeGreaterThanOrEqual(0);
        return [...new Set(gathered.map(({ name, reason }) => `${name}: ${reason}`))];
    };

    test("one column beside its key is carried", () => {
        const layout = layoutOf({});
        expect(layout.join).toMatchObject({ keyBytes: 8, buildWidths: [8], probeWidths: [8], result: "rows" });
        expect(layout.gathered).toEqual([]);
        const narrow = layoutOf({ types: { k: new Int32(), v: new Int32() } });
        expect(narrow.join).toMatchObject({ keyBytes: 4, buildWidths: [4], probeWidths: [4] });
    });

    test("keys that are read off the GPU's and columns that nobody wants take no place", () => {
        const keys = layoutOf({ types: { k: new Int64() } });
        expect(keys.join).toMatchObject({ buildWidths: [], probeWidths: [], result: "rows" });
        const counted = layoutOf({ types: { ...columns, t: new Utf8(), w: new Int32() } }, { sink: "count" });
        expect(counted.join).toMatchObject({ buildWidths: [], probeWidths: [], result: "count", outputs: [] });
        expect(counted.gathered).toEqual([]);
    });

    test("other columns are gathered by numbers as wide as the key", () => {
        const two = { ...columns, w: new Int64() };
        const why = "one of 2 columns, and one value is partitioned with its key";
        expect(reasons({ types: two })).toEqual([`v: ${why}`, `w: ${why}`]);
        expect(layoutOf({ types: two }).join).toMatchObject({ buildWidths: [8], probeWidths: [8] });
        expect(reasons({ types: { k: new Int64(), v: new Int32() } })).toEqual([
            "v: 4 bytes wide, and rows of 8 and 8 bytes are partitioned"
        ]);
        expect(reasons({ types: { k: new Int32(), v: new Bool() } })[0]).toMatch(/^v: 1 bytes wide, .* 4 and 4 bytes/);
        expect(reasons({ types: { k: new Int64(), t: new Utf8() } })).toEqual(["t: text"]);
        expect(reasons({ nullable: true })).toEqual(["v: may be NULL, and rows are partitioned without bits for that"]);
        const mixed = reasons({ types: { k: new Int32(), d: new Decimal(2, 30, 128), t: new Utf8() } });
        expect(mixed).toEqual([expect.stringMatching(/^d: one of 2 columns/), "t: text"]);
        const narrow = layoutOf({ types: { k: new Int32(), t: new Utf8() } });
        expect(narrow.join).toMatchObject({ keyBytes: 4, buildWidths: [4], probeWidths: [4] });
    });

    test("of hashed keys numbers are all that travels", () => {
        const hashed: [Record<string, DataType>, string | string[]][] = [
            [{ k: new Int64(), l: new Int64(), v: new Int64() }, ["k", "l"]],
            [{ k: new Utf8(), l: new Int64(), v: new Int64() }, ["k", "l"]],
            [{ k: new Decimal(2, 30, 128), v: new Int64() }, "k"]
        ];
        for (const [types, on] of hashed) {
            const relations = { types, options: { on } };
            const numbers = { keyBytes: 8, buildWidths: [8], probeWidths: [8], result: "rows" };
            expect(layoutOf(relations)).toMatchObject({ keys: "hashed", join: numbers });
        }
    });

    test("where nobody wants rows keys of two words are compared as they are, by an index", () => {
        const types = { k: new Int64(), l: new Utf8(), m: new Int32() };
        const of = (on: string[], type: string): PlanQuery =>
            queryOf({ types, options: { on, type } }, { sink: "count", debug: { coPartitionJoin: "perfect" } });
        for (const type of ["inner", "left", "full", "semi", "anti"]) {
            const { layout, work, coherent } = stageOf(of(["k", "l", "m"], type));
            expect(layout).toMatchObject({ keys: "packed", gathered: [] });
            expect(layout.join).toMatchObject({ keyBytes: 8, keyColumns: 1, buildWidths: [8], probeWidths: [8] });
            expect([layout.join.result, work.secondPass, coherent!.perfectHash]).toEqual(["count", "sort", false]);
        }
        const three = { ...types, n: new Int64() };
        const wide = queryOf({ types: three, options: { on: ["k", "n", "m"] } }, { sink: "count" });
        expect(stageOf(wide).layout).toMatchObject({ keys: "hashed", join: { result: "rows" } });
        const left = queryOf({ types: three, options: { on: ["k", "n", "m"], type: "left" } }, { sink: "count" });
        const counted = { result: "count", keyBytes: 4, keyColumns: 0, buildWidths: [], probeWidths: [] };
        expect(stageOf(left).layout).toMatchObject({ keys: "numbered", join: counted });
    });

    test("of text a number of 4 bytes is the key, and the text is gathered", () => {
        const types = { k: new Utf8(), v: new Int32() };
        const { keys, join: made, gathered } = layoutOf({ types });
        expect([keys, made.keyBytes, made.buildWidths, made.probeWidths]).toEqual(["packed", 4, [4], [4]]);
        expect(gathered.map(({ side, name }) => `${side} ${name}`)).toEqual(["probe k", "probe v"]);
        const counted = layoutOf({ types }, { sink: "count" });
        expect(counted.join).toMatchObject({ buildWidths: [], probeWidths: [], result: "count" });
    });

    test("NULLs that equal each other are part of the key", () => {
        const { keys, join: made } = layoutOf({
            types: { k: new Int32() },
            nullable: true,
            options: { nullEquality: true }
        });
        expect([keys, made.keyBytes]).toEqual(["encoded", 8]);
        expect(made.buildWidths.every((width) => width === 8)).toBe(true);
    });
});

describe("sizes", () => {
    test("stay below every limit", () => {
        for (let limit = 128 * 2 ** 20; limit <= 2 ** 37; limit = Math.floor(limit * 1.7)) {
            for (const rows of [0, 1, 1000, 10 ** 6, 2 ** 30]) {
                for (const sink of ["count", "batches", "table"] as const) {
                    const query = queryOf({ rows: [rows, rows] }, { sink });
                    const stage = stageOf(query, limit);
                    const { sizes, memory, deviceBytes, path } = stage;
                    expect(path).toMatchObject({ runs: "coherent", reason: 'that of "triton"' });
                    expect(deviceBytes).toBeLessThanOrEqual(limit);
                    expect(stage.coherent?.deviceBytes).toBe(limit);
                    const near = Math.floor((deviceBytes - otherBytes(stage, rows, limit)) / pageBytes);
                    expect(near).toBeLessThanOrEqual(sizes.pages);
                    expect(sizes.spillBytes).toBeGreaterThanOrEqual((sizes.pages - near) * pageBytes);
                    const taken = memory.inputBytes + memory.tableBytes + memory.outputBytes;
                    expect(taken).toBeLessThan(query.budgetBytes * 0.95);
                }
            }
        }
    });

    function otherBytes({ sizes, layout }: OutOfCoreStage, rows: number, limitBytes: number): number {
        const blockBytes = loadProfile().deviceBlockBytes;
        const memory = deviceMemory().ofJoin(layout.join);
        const request = { memory, buildRows: rows, probeRows: rows, limitBytes, blockBytes };
        const passes = { partitioner: "bulk", partitionBlocks: 0, secondRadixBits: null } as const;
        return coherentMemory(request, sizes, passes).takenBytes;
    }

    test("of 2^30 rows of 16 bytes: chunks of 2^24 rows, second passes of counts take larger partitions", () => {
        const of = (sink: "count" | "batches", limit: number) => {
            const { sizes } = stageOf(queryOf({ rows: [2 ** 30, 2 ** 30] }, { sink }), limit);
            expect(sizes).toMatchObject({ chunkRows: 2 ** 24, chunkSlots: 1, pageRows: 4096, residentPartitions: 0 });
            expect(sizes).toMatchObject({ diskBlocks: 0, diskBlockBytes: 0, filterWords: 0, spillBlockBytes: 2 ** 16 });
            return sizes.radixBits;
        };
        expect([of("count", 4 * gibibyte), of("batches", 4 * gibibyte)]).toEqual([9, 10]);
        expect(of("count", gibibyte / 8)).toBe(11);
    });

    test("have pages for whatever keys there are: a partly filled one per partition and chunk", () => {
        const debug = { radixBits: 3, chunkRows: 1000 };
        const sizesOf = (left: number, right: number) => stageOf(queryOf({ rows: [left, right] }, { debug })).sizes;
        expect(sizesOf(0, 0).pages).toBe(1);
        expect(sizesOf(5, 1000).pages).toBe(5 + 8);
        expect(sizesOf(5, 1001).pages).toBe(5 + 16);
        const made = sizesOf(8192, 10_000);
        expect(made).toMatchObject({ radixBits: 3, chunkRows: 1000, resultRows: 1000, pages: 2 + 80 + 2 + 80 });
    });

    test("of more pages than kernels number are for copy engines", () => {
        const tiny = { coherentDevice: true, debug: { radixBits: 10, chunkRows: 1024 } };
        const { path } = stageOf(queryOf({ rows: [2 ** 26, 2 ** 26], options: { algorithm: "auto" } }, tiny));
        expect(path.runs).toBe("staged");
        expect(path.reason).toMatch(/it takes [\d,]+ pages, 67,108,862 at most/);
    });

    test.each([2 ** 48, 2 ** 52])("of %i rows, which the model cannot count, are for copy engines", (rows) => {
        for (const chunkRows of [undefined, 1024]) {
            const machine = { sink: "count", budgetBytes: 2 ** 60, coherentDevice: true } as const;
            const query = queryOf({ rows: [1000, rows], options: { algorithm: "auto" } }, machine);
            const debug = { ...(chunkRows === undefined ? {} : { chunkRows }) };
            const { path } = stageOf({ ...query, debug });
            expect([path.runs, path.reason]).toEqual(["staged", expect.stringMatching(/it takes [\d,]+ pages/)]);
            expect(outOfCoreHostBytes({ ...query, debug }, gibibyte)).toBeGreaterThan(0);
        }
    });

    test("put pages where an experiment wants them, and more than fit GPU memory nowhere", () => {
        const sizesWith = (debug: Knobs, name = "triton", limit = 8 * gibibyte) => {
            const stage = stageOf(queryOf({ options: { algorithm: name } }, { debug }), limit);
            const pageOf = stage.sizes.pages * pageBytes;
            return { ...stage, farShare: stage.predicted.spilledBytes / (2 ** 29 * 16), pageOf };
        };
        const one = sizesWith({ interleave: { device: 1, far: 3 } });
        expect(one.coherent).toMatchObject({ interleave: { device: 1, far: 3 }, secondRadixBits: null });
        expect(one.farShare).toBeCloseTo(3 / 4, 3);
        expect(one.sizes.spillBytes).toBeGreaterThanOrEqual((one.pageOf * 3) / 4);
        const all = sizesWith({});
        expect(all.coherent?.interleave).toBeNull();
        expect(all.farShare).toBeLessThan(one.farShare);
        const none = sizesWith({}, "triton-uncached");
        expect(none.farShare).toBe(1);
        expect(none.coherent?.interleave).toEqual({ device: 0, far: 1 });
        expect(none.sizes.spillBytes).toBeGreaterThanOrEqual(none.pageOf);
        expect(none.deviceBytes).toBeLessThan(gibibyte);
        expect(() => sizesWith({ interleave: { device: 1, far: 0 } })).toThrow(/it takes [\d.]+ GiB of GPU memory/);
    });

    test("have the bits of the second pass that were asked for, as far as it has them", () => {
        const bits = (secondRadixBits?: number) => {
            const debug = secondRadixBits === undefined ? {} : { secondRadixBits };
            const { work, coherent } = stageOf(queryOf({}, { debug, sink: "count" }));
            return [work.secondPassBits, coherent?.secondRadixBits];
        };
        expect([undefined, 0, 3, 14].map(bits)).toEqual([
            [8, null],
            [1, 1],
            [3, 3],
            [8, 8]
        ]);
    });

    test("of few rows are small", () => {
        const { sizes, memory } = stageOf(queryOf({ rows: [1000, 20_000] }));
        expect(sizes.chunkRows).toBe(2 ** 15);
        expect(memory.inputBytes + memory.tableBytes + memory.outputBytes).toBeLessThan(2 ** 24);
    });

    test("chunks take a quarter of the host memory at most", () => {
        const { sizes, memory } = stageOf(queryOf({}, { budgetBytes: 2.5 * gibibyte }), 16 * gibibyte);
        expect(sizes.chunkRows).toBeLessThan(2 ** 24);
        expect(memory.inputBytes + memory.outputBytes).toBeLessThan(gibibyte);
    });

    test("buffers of a partitioner take the room of pages", () => {
        const nearWith = (partitioner: (typeof partitioners)[number]): number => {
            const debug = { partitioner, radixBits: 10 };
            const { predicted } = stageOf(queryOf({}, { debug }), 4 * gibibyte);
            return 1 - predicted.spilledBytes / (2 ** 29 * 16);
        };
        const shares = partitioners.map(nearWith);
        expect(shares[3]).toBeLessThan(Math.min(...shares.filter((_, i) => i !== 3)) - 0.03);
    });

    test("a table as result leaves host memory to it", () => {
        const [batches, table] = (["batches", "table"] as const).map((sink) => stageOf(queryOf({}, { sink })).sizes);
        expect(batches!.spillBytes).toBe(batches!.pages * pageBytes);
        expect(table!.spillBytes).toBeLessThan(batches!.spillBytes);
    });

    test("of pages in GPU memory are what is asked for", () => {
        const shares = [0, 0.25, 1].map((residentShare) => {
            const {
                predicted,
                deviceBytes,
                coherent: made
            } = stageOf(queryOf({}, { debug: { residentShare } }), 32 * gibibyte);
            expect(made?.deviceBytes).toBe(deviceBytes);
            return predicted.spilledBytes / (2 ** 29 * 16);
        });
        expect(shares[0]).toBe(1);
        expect(shares[1]).toBeCloseTo(0.75, 4);
        expect(shares[2]).toBe(0);
    });
});

describe("predictions", () => {
    const rows = 2 ** 28;

    test("far rows go out once and come in once, whatever side they are of", () => {
        const all = stageOf(queryOf({}, { sink: "count" }), 64 * gibibyte).predicted;
        expect(all).toMatchObject({ h2dBytes: 2 * rows * 8, d2hBytes: 0, spilledBytes: 0, diskBytes: 0 });
        // What a join in GPU memory alone takes there: near pages read, a second pass written and read.
        const memoryBytes = 2 * rows * 16 * 3;
        expect(all.spilledMs).toBeCloseTo(memoryBytes / loadProfile().deviceMemoryBytesPerMs);
        const some = stageOf(queryOf({}, { sink: "count" }), 2 * gibibyte).predicted;
        expect(some.spilledBytes).toBeGreaterThan(2 * rows * 16 * 0.7);
        expect(some.spilledBytes).toBeLessThan(2 * rows * 16);
        expect(some.h2dBytes).toBe(2 * rows * 8 + some.spilledBytes);
        expect(some.d2hBytes).toBe(some.spilledBytes);
        expect(Math.min(some.buildMs, some.probeMs, some.spilledMs)).toBeGreaterThan(0);
        const delivered = stageOf(queryOf({}), 64 * gibibyte).predicted;
        expect(delivered).toMatchObject({ h2dBytes: 2 * rows * 16, d2hBytes: rows * 24 });
    });

    test("take the rates of kernels over the link, in each direction alone and in both", () => {
        const speeds = { deviceFarReadBytesPerMs: 50, deviceFarWriteBytesPerMs: 40, deviceFarBothBytesPerMs: 64 };
        expect(farMs(1000, 0, speeds)).toBeCloseTo(20);
        expect(farMs(0, 1000, speeds)).toBeCloseTo(25);
        expect(farMs(1000, 1000, speeds)).toBeCloseTo(2000 / 64);
        // Half of what is written is read meanwhile: of what that adds with as many bytes each way, half.
        expect(farMs(500, 1000, speeds)).toBeCloseTo(25 + (2000 / 64 - 25) / 2);
        expect(farMs(1000, 500, speeds)).toBeCloseTo(20 + (2000 / 64 - 20) / 2);
        // Directions that do not know of each other.
        expect(farMs(1000, 500, { ...speeds, deviceFarBothBytesPerMs: 1000 })).toBeCloseTo(20);

        const query = queryOf({}, { sink: "count" });
        const slow = { ...query.profile, deviceFarReadBytesPerMs: query.profile.deviceFarReadBytesPerMs / 3 };
        const [usual, slower] = [query.profile, slow].map((profile) => stageOf({ ...query, profile }).predicted);
        expect(slower!.spilledMs).toBeCloseTo(3 * usual!.spilledMs);
        const copies = { ...query.profile, deviceCopyInBytesPerMs: 1, deviceCopyBothBytesPerMs: 1 };
        expect(stageOf({ ...query, profile: copies }).predicted).toEqual(usual);
    });

    test("gathering is part of the join", () => {
        const types = { ...columns, t: new Utf8() };
        const { predicted } = stageOf(queryOf({ types, inMemory: true }), 64 * gibibyte);
        expect(predicted.gatherMs).toBeGreaterThan(0);
        expect(predicted.spilledMs).toBeGreaterThanOrEqual(predicted.gatherMs);
    });
});

test("tables of bucket chaining have 2,048 buckets", () => {
    const query = (debug: Knobs) => queryOf({}, { sink: "count", debug });
    const [usual, chained] = [{}, { coPartitionJoin: "bucket-chaining" } as const].map((debug) => query(debug));
    expect([usual!, chained!].map((one) => stageOf(one).coherent!.tableBuckets)).toEqual([null, 2048]);
    expect(stageOf(chained!).sizes).toEqual(stageOf(usual!).sizes);
    const plan = planOutOfCore(chained!, planQuery(chained!), 4 * gibibyte);
    if (plan instanceof NotOnDevice) throw plan;
    expect(planText(plan)).toContain("parts of each, joined by hash tables of 2,048 buckets in shared memory");
});

test("mapped pages take a stripe of host memory more, and explain says that they are", () => {
    const query = (debug: Knobs) => queryOf({}, { sink: "table", debug });
    const [listed, mapped] = [{}, { pages: "mapped" } as const].map((debug) => stageOf(query(debug)));
    expect([listed!.coherent!.mapped, mapped!.coherent!.mapped]).toEqual([false, true]);
    expect(mapped!.sizes.spillBytes - listed!.sizes.spillBytes).toBe(2 ** 24);
    const plan = planOutOfCore(query({ pages: "mapped" }), planQuery(query({})), 4 * gibibyte);
    if (plan instanceof NotOnDevice) throw plan;
    expect(planText(plan)).toMatch(/in [\d,]+ mapped pages of GPU and host memory in turns/);
});

describe("pages take turns", () => {
    const turnsAt = (limitBytes: number, more: Partial<PlanQuery> = {}) => {
        const stage = stageOf(queryOf({}, { sink: "count", ...more }), limitBytes);
        return { turns: stage.work.turns!, asked: stage.coherent!.interleave, stage };
    };

    test("as many of GPU memory as fit, which the GPU counts when it takes them", () => {
        for (const gibibytes of [1, 2, 3, 4, 6, 64]) {
            const { turns, asked, stage } = turnsAt(gibibytes * gibibyte);
            expect([turns.reason, asked]).toEqual(["capacity", null]);
            const near = 1 - stage.predicted.spilledBytes / (2 * 2 ** 28 * 16);
            const share = turns.device / (turns.device + turns.far);
            expect(share).toBeLessThanOrEqual(near + 1e-9);
            expect(share).toBeGreaterThan(near * 0.9);
        }
        expect(turnsAt(64 * gibibyte).turns).toMatchObject({ device: 1, far: 0 });
    });

    test("in proportions of few pages, never more near ones than the share", () => {
        expect([0, 1, 1 / 2, 1 / 4, 3 / 8].map((share) => turnsOf(share))).toEqual([
            ...[
                { device: 0, far: 1 },
                { device: 1, far: 0 },
                { device: 1, far: 1 },
                { device: 1, far: 3 }
            ],
            { device: 3, far: 5 }
        ]);
        expect(turnsOf(0.001)).toEqual({ device: 1, far: 999 });
        for (let share = 0.01; share < 1; share += 0.0137) {
            const { device, far } = turnsOf(share);
            expect(device / (device + far)).toBeLessThanOrEqual(share);
            expect(share - device / (device + far)).toBeLessThan(share < 0.02 ? 0.002 : 0.016);
        }
    });

    test("fewer of GPU memory than fit where the link is nearly as fast", () => {
        const profile = {
            ...loadProfile(),
            ...{ deviceFarReadBytesPerMs: 400e6, deviceFarWriteBytesPerMs: 400e6, deviceFarBothBytesPerMs: 800e6 },
            ...{ deviceMemoryBytesPerMs: 500e6, deviceMemoryFillBytesPerMs: 1e9 }
        };
        const { turns, asked, stage } = turnsAt(64 * gibibyte, { profile });
        expect(turns.reason).toBe("bandwidth");
        expect(turns.far).toBeGreaterThan(0);
        expect(asked).toEqual({ device: turns.device, far: turns.far });
        const all = turnsAt(64 * gibibyte, { profile, debug: { interleave: { device: 1, far: 0 } } }).stage;
        expect(stage.predictedMs).toBeLessThan(all.predictedMs);
        // GPU memory that is too small for that decides alone.
        expect(turnsAt(gibibyte, { profile }).turns.reason).toBe("capacity");
    });

    test("as they were asked to, or not at all", () => {
        const interleave = { device: 3, far: 9 };
        expect(turnsAt(8 * gibibyte, { debug: { interleave } }).turns).toMatchObject({
            ...interleave,
            reason: "asked"
        });
        const shared = turnsAt(8 * gibibyte, { debug: { residentShare: 0.25 } });
        expect(shared.turns).toMatchObject({ device: 1, far: 3, reason: "asked" });
        const options = { algorithm: "triton-uncached" };
        const uncached = stageOf(queryOf({ options }, { sink: "count" }));
        expect(uncached.work.turns).toMatchObject({ device: 0, far: 1, reason: "asked" });
    });
});

describe("host memory", () => {
    test("is asked for all pages and columns that are gathered", () => {
        const relations = { types: { ...columns, t: new Utf8() }, rows: [2 ** 26, 2 ** 26] as const };
        const staged = outOfCoreHostBytes(queryOf({ ...relations, options: { algorithm: "staged" } }), gibibyte);
        const wanted = outOfCoreHostBytes(queryOf(relations), gibibyte);
        expect(wanted).toBeGreaterThan(staged);
        expect(wanted).toBeGreaterThan(2 ** 27 * (16 + 8 + 24));
    });

    test("is asked for pages before the GPU is opened, if that will be one of a coherent machine", () => {
        const query = queryOf({ options: { algorithm: "auto" } });
        const planner = new QueryPlanner(query);
        const beside = besideBytes(planner.plan(query.budgetBytes, false));
        const wantedOn = (gpu: Partial<NativeDevice>): number => {
            const binding = { devices: () => [{ reason: "too old" }, { reason: null, pageableAccess: true, ...gpu }] };
            const options = { device: "gpu", memoryBytes: 4 * gibibyte } as const;
            const device = new QueryDevice(binding as unknown as Binding, {} as EngineHandle, options, 2 ** 36);
            return device.wantedBytes(planner);
        };
        expect(wantedOn({ hostPageTables: true })).toBe(outOfCoreHostBytes(queryOf(), 4 * gibibyte) + beside);
        expect(wantedOn({ hostPageTables: false })).toBe(outOfCoreHostBytes(query, 4 * gibibyte) + beside);
        expect(wantedOn({ hostPageTables: true })).toBeGreaterThan(wantedOn({ hostPageTables: false }));
    });

    test("is asked for the pages of chunks of any size", () => {
        const debug = { outOfCore: true, chunkRows: 64, radixBits: 6 };
        const wanted = outOfCoreHostBytes(queryOf({ rows: [3000, 3000] }, { debug }), gibibyte);
        expect(wanted).toBeGreaterThan(2 * 3000 * pageBytes);
    });

    test("for columns of files is held", () => {
        const types = { ...columns, w: new Int64() };
        expect(stageOf(queryOf({ types })).heldBytes).toBe((2 * 2 ** 28 * 16 * 9) / 8);
        expect(stageOf(queryOf({ types, inMemory: true })).heldBytes).toBe(0);
    });
});
