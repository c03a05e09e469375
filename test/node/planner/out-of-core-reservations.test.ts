// SPDX-License-Identifier: Apache-2.0
// What joins and group-bys out of core reserve, to the byte, for 2^20 rows in chunks of 2^16 and 2^4 partitions: GPU
// memory, pinned host memory, and host memory for spilled rows. A term that is forgotten shows nowhere else before a
// query fails for want of memory.
import { Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { OutOfCoreGroupShape } from "../../../src/plan/out-of-core-group-stage.js";
import type { OutOfCoreShape, OutOfCoreSizes, OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { coherentMemory, type CoherentRequest } from "../../../src/planner/streaming/coherent/memory.js";
import { noFilter } from "../../../src/planner/streaming/join/filter.js";
import {
    chooseGroupSizes,
    groupRingBytes,
    mostGroupHostBytes,
    type GroupSizeRequest
} from "../../../src/planner/streaming/group/sizes.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { chooseSizes, mostHostBytes, ringBytes, type SizeRequest } from "../../../src/planner/streaming/join/sizes.js";
import { noSizes } from "../../../src/planner/streaming/device-memory.js";
import { chooseSpill } from "../../../src/planner/streaming/spill.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { deviceMemory } from "../../support/device-memory.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

const mebibyte = 2 ** 20;
const rows = 2 ** 20;
const chunk = 2 ** 16;
const partitions = 2 ** 4;
const debug = { chunkRows: chunk, radixBits: 4, residentShare: 0.5 };
/** Blocks of rows on their way to disk. */
const disk = 8 * 4 * mebibyte;
/** A column of 8 bytes of a chunk, and the chunk's validity bits. */
const column = chunk * 8;
const validity = chunk / 8;
/** Every partition rounds its rows up to 32 and its words to 32 of 4 bytes. */
const packed = (rowBytes: number): number => (chunk + partitions * 32) * rowBytes + partitions * 32 * 4;

describe("a join", () => {
    const shape: OutOfCoreShape = {
        ...{ keyBytes: 8, keyColumns: 0, buildWidths: [8], probeWidths: [8], emit: "pairs", result: "rows" },
        ...{ anti: false, keepUnmatchedBuild: false, keepUnmatchedProbe: false },
        outputs: [
            { side: "key", column: 0 },
            { side: "build", column: 0 },
            { side: "probe", column: 0 }
        ]
    };
    const memory = deviceMemory().ofJoin(shape);
    const deviceBytes = (joined: OutOfCoreShape, sizes: OutOfCoreSizes): number =>
        deviceMemory().ofJoin(joined).of(sizes).deviceBytes;
    const request: SizeRequest = {
        ...{ memory, buildRows: rows, probeRows: rows, packedBytes: { build: 16, probe: 16 }, debug },
        ...{ limitBytes: 2 ** 28, hostBytes: 2 ** 30, sparing: false, filter: noFilter },
        ...{ linkBytesPerMs: 5e7, blockBytes: 232_448 }
    };
    // 3 chunks of two columns on the GPU and 2 of the host; 2 blocks of three result columns and 2 of the host, with
    // room for headers of packed values.
    const chunks = 5 * (2 * column + validity);
    const results = 4 * 3 * column * (1 + 1 / 64);
    // All 16 chunks of both sides, and one more of each.
    const most = 2 * (16 + 1) * packed(16);

    test("pins chunks and result blocks of the GPU and of the host", () => {
        const sizes = chooseSizes(request);
        expect(sizes).toMatchObject({ chunkRows: chunk, pageRows: 4096, pages: 272, residentPartitions: 8 });
        expect(ringBytes(memory, sizes)).toEqual({ chunks, results });
        expect(ringBytes(deviceMemory().ofJoin({ ...shape, result: "count" }), sizes)).toEqual({ chunks, results: 0 });
        // A wide side makes all chunks as large.
        const wide = { ...shape, probeWidths: [8, 8] };
        expect(ringBytes(deviceMemory().ofJoin(wide), sizes).chunks).toBe(5 * (3 * column + validity));
        expect(mostHostBytes(request)).toBe(chunks + results + most + 16 * mebibyte + disk);
    });

    test("pins sixteen chunks of 8 MiB, parts of those of the GPU, where these are larger", () => {
        const large = { ...request, buildRows: 2 ** 26, probeRows: 2 ** 26, limitBytes: 2 ** 32, hostBytes: 2 ** 33 };
        const sizes = chooseSizes({ ...large, debug: { chunkRows: 2 ** 22, radixBits: 4 } });
        expect(sizes).toMatchObject({ chunkRows: 2 ** 22, hostChunkRows: 2 ** 19, hostChunkSlots: 16 });
        // Each of up to 30 columns, validity among them, may begin 256 bytes later than the one before ends.
        const part = (2 * 2 ** 22 * 8 + 2 ** 22 / 8) / 8 + 30 * 256;
        expect(ringBytes(memory, sizes).chunks).toBe(16 * part);
        // A 16th of the host's budget, but for eight of them.
        for (const [hostBytes, slots] of [
            [11 * 2 ** 27, 11],
            [2 ** 29, 8]
        ] as const) {
            const fewer = chooseSizes({ ...large, hostBytes, debug: { chunkRows: 2 ** 22, radixBits: 4 } });
            expect(fewer).toMatchObject({ hostChunkRows: 2 ** 19, hostChunkSlots: slots });
        }
        // Of other numbers of rows no equal parts have whole blocks of packed values.
        const odd = chooseSizes({ ...large, debug: { chunkRows: 3 * 2 ** 13 * 101, radixBits: 4 } });
        expect(odd).toMatchObject({ hostChunkRows: odd.chunkRows, hostChunkSlots: 5 });
    });

    test("is planned with what its stage takes", () => {
        const inputs = ["l", "r"].map((name) => inputNode({ k: new Int64(), v: new Int64() }, { rows, name }));
        const query = planQueryOf(join(inputs[0]!, inputs[1]!, { on: "k" }), { debug });
        const plan = planOutOfCore(query, planQuery(query), request.limitBytes);
        if (plan instanceof NotOnDevice) throw plan;
        const [stage] = plan.stages as [OutOfCoreStage];
        expect(stage.layout.join).toMatchObject({ buildWidths: [8], probeWidths: [8] });
        expect(stage.memory).toEqual({
            inputBytes: chunks + stage.heldBytes,
            tableBytes: stage.sizes.spillBytes + disk,
            outputBytes: results
        });
        expect([stage.heldBytes, stage.sizes.spillBytes]).toEqual([0, most + mebibyte / 2]);
        expect(stage.deviceBytes).toBe(deviceBytes(stage.layout.join, stage.sizes));
    });

    test("has room for all rows of both sides that may leave, and a block, beside the way to disk", () => {
        const ample = { spillBytes: most + mebibyte / 2, spillBlockBytes: mebibyte / 2, diskBlocks: 8 };
        expect(chooseSizes(request)).toMatchObject(ample);
        // A quarter of what is left goes into 8 blocks, rounded down to a power of two.
        const least = chunks + results + most + mebibyte / 2 + 8 * mebibyte;
        expect(chooseSizes({ ...request, hostBytes: least })).toMatchObject(ample);
        expect(chooseSizes({ ...request, hostBytes: least - 1 })).toMatchObject({
            spillBytes: most + mebibyte / 2 - 1,
            ...{ spillBlockBytes: mebibyte / 2, diskBlocks: 8, diskBlockBytes: mebibyte }
        });
    });

    test("that spares host memory has a quarter more than the half that is expected to leave", () => {
        const expected = Math.ceil(0.5 * 2 * rows * 16 * 1.05);
        expect(chooseSizes({ ...request, sparing: true })).toMatchObject({
            spillBytes: Math.ceil(expected * 1.25) + mebibyte / 2,
            ...{ diskBlocks: 8, diskBlockBytes: 4 * mebibyte }
        });
        const dropping = { ...noFilter, droppedShare: 0.75 };
        const less = Math.ceil(0.5 * 1.25 * rows * 16 * 1.05);
        const { spillBytes } = chooseSizes({ ...request, sparing: true, filter: dropping });
        expect(spillBytes).toBe(Math.ceil(less * 1.25) + mebibyte / 2);
    });

    test("takes the GPU memory of its chunks, runs, pages, index, results and lists", () => {
        const sizes = chooseSizes(request);
        const buildRows = 272 * 4096;
        const indexed = 2 * (buildRows / partitions); // a partition, twice
        const partitioned = (chunk + partitions * 8) * 16 + partitions * 256;
        const tiles = chunk / 1024 + 2 * partitions + 1024;
        const parts = {
            slots: 3 * packed(16), // packed on their way back they are larger than as they come
            partitioned: 2 * partitioned,
            runs: 2 * packed(16),
            pages: buildRows * 16 + 272 * 4,
            sorted: (indexed + 64 * 256 * 8) * 16,
            counters: 5 * 8 * 256 * partitions,
            marks: chunk / 8 + indexed / 8,
            buckets: (buildRows / 2 + 2 * partitions) * 4 + partitions * 24,
            results: 2 * 3 * column + 2 * ((tiles * 1024) / 32 + 1) * 8,
            lists: 16 * (partitions + chunk / 4096) * 96,
            codes: 2 * partitions * 29 * 16,
            reserve: 16 * mebibyte
        };
        const all = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);
        expect(deviceBytes(shape, sizes)).toBe(all);
        // A count has no results; rows of one side without a partner are marked, and split off where keys are NULL.
        expect(deviceBytes({ ...shape, result: "count" }, sizes)).toBe(all - parts.results);
        const keyless = 2 * partitioned + chunk / 8;
        expect(deviceBytes({ ...shape, keepUnmatchedBuild: true }, sizes)).toBe(all + keyless + buildRows);
        expect(deviceBytes({ ...shape, keepUnmatchedProbe: true }, sizes)).toBe(all + keyless + 16 * chunk);
        expect(deviceBytes({ ...shape, emit: "buildOnce" }, sizes)).toBe(all + buildRows);
        expect(deviceBytes({ ...shape, emit: "probeOnce", anti: true }, sizes)).toBe(all + keyless + 16 * chunk);
        expect(deviceBytes(shape, { ...sizes, filterWords: 1024 })).toBe(all + 8192);
    });

    test("by kernels takes the larger one of its passes, and a reserve", () => {
        const asked: CoherentRequest = { ...request, limitBytes: 2 ** 30, multiprocessors: 132 };
        const sizes = { ...noSizes, radixBits: 6, chunkRows: chunk, pageRows: 4096, resultRows: chunk, resultSlots: 2 };
        // Of each side 2^8 full ones, and one of each partition of 16 chunks.
        const pages = 2 * (256 + 16 * 64);
        const counts = deviceMemory().ofJoin({ ...shape, result: "count", outputs: [] });
        const bytesOf = (more: Partial<CoherentRequest>, partitionBlocks = 0): number =>
            coherentMemory({ ...asked, ...more }, sizes, {
                partitioner: "hierarchical",
                partitionBlocks,
                secondRadixBits: null
            }).takenBytes;
        const reserve = pages * 8 + 32 * mebibyte + 2 ** 30 / 64;
        // Rows: a 32nd of the limit's 2^26 rows is joined together, in 2^9 pages, 2^20 of them staged at a time.
        const joined = 2 ** 21;
        const staged = 2 ** 20;
        const tiles = staged / 1024 + 64 + 1;
        const copies = 2 * 512 + 64 + staged / 4096 + 2 * 64;
        const index =
            (2 * joined + (joined + 64 * 256 * 8) + 3 * staged) * 16 +
            (joined + 2 * 64) * 4 +
            64 * 24 +
            pages * 8 +
            5 * 8 * 64 * 256 +
            4 * 2 * copies * 24 +
            16 * 2 * tiles * 24 +
            2 * 3 * column +
            2 * (tiles * 32 + 1) * 8;
        expect(bytesOf({})).toBe(index + reserve);
        // Counts: a 24th of the limit's rows, in whole pages, is partitioned by 2 in each of 64 partitions at a time.
        const split = Math.ceil(Math.floor(2 ** 26 / 24) / 4096) * 4096;
        const regions = 64 * 2;
        const lists = 3 * 6 * (pages + 2 * 64);
        const places = 2 * (6 * 2 * 64 + 64 + 1);
        // A third pass has six bits more, of one partition on both sides.
        const third = 12 * 2 ** (1 + 6) + 64;
        const second = 2 * 2 * (split + regions * 8) * 16 + (lists + places + 3 * regions + 64 + third) * 8;
        expect(bytesOf({ memory: counts })).toBe(second + reserve);
        // 1,000 blocks: 8 KiB for each partition and warp, 8 bytes of leftovers for each partition, and page lists.
        const directory = (pages * 6 + 64 * 4) * 8;
        expect(bytesOf({}, 1000)).toBe(1000 * ((64 + 32) * 8192 + 64 * 8) + directory + reserve);
        const counted = bytesOf({ memory: counts }, 1000);
        expect(counted).toBe(bytesOf({}, 1000) + 2 ** (1 + 6 + 1) * 8);
    });
});

describe("a group-by", () => {
    const shape: OutOfCoreGroupShape = {
        ...{ keyBytes: 8, widths: [4, 4], nullGroup: false },
        aggregates: [
            { kind: "countRows", number: "signed", column: 0, decidedBy: null },
            { kind: "sum", number: "unsigned", column: 0, decidedBy: null },
            { kind: "sum", number: "signed", column: 1, decidedBy: null }
        ]
    };
    const memory = deviceMemory().ofGroupBy(shape);
    const request: GroupSizeRequest = {
        ...{ memory, rows, groups: rows, packedBytes: 32, limitBytes: 2 ** 28, hostBytes: 2 ** 30 },
        ...{ sparing: false, debug }
    };
    const chunks = 5 * (2 * column + validity); // two halves of a value make one column
    const results = 4 * 4 * column;
    const most = (16 + 1) * packed(32);

    test("pins chunks and blocks of groups, and has room for all rows that may leave beside the way to disk", () => {
        const sizes = chooseGroupSizes(request);
        expect(sizes).toMatchObject({ chunkRows: chunk, pageRows: 2048, pages: 264, mergeRows: 2 ** 18 });
        expect(groupRingBytes(memory, sizes)).toEqual({ chunks, results });
        expect(mostGroupHostBytes(memory, rows, 2 ** 28, debug)).toBe(chunks + results + most + 16 * mebibyte + disk);
        const ample = { spillBytes: most + mebibyte / 2, spillBlockBytes: mebibyte / 2, diskBlocks: 8 };
        expect(sizes).toMatchObject(ample);
        const least = chunks + results + most + mebibyte / 2 + 8 * mebibyte;
        expect(chooseGroupSizes({ ...request, hostBytes: least })).toMatchObject(ample);
        expect(chooseGroupSizes({ ...request, hostBytes: least - 1 })).toMatchObject({
            spillBytes: most + mebibyte / 2 - 1,
            ...{ diskBlocks: 8, diskBlockBytes: mebibyte }
        });
    });

    test("takes the GPU memory of its chunks, runs, pages, tables, results and lists", () => {
        const sizes = chooseGroupSizes(request);
        const gaps = partitions * 8 * 32;
        const parts = {
            slots: 3 * packed(32),
            partitioned: 2 * (chunk * 32 + gaps),
            runs: 2 * packed(32),
            pages: 264 * 2048 * 32,
            // Rows twice, and three accumulators that are wider than their columns.
            aggregated: chunk * (2 * 32 + 3 * 8),
            // Keys that are mixed again, and a list of few groups with what it becomes.
            mixed: chunk * 8,
            list: 2 * 2 ** 16 * 32,
            merged: 5 * 2 ** 18 * 32 + gaps,
            results: 2 * 4 * column,
            lists: 16 * (partitions + 2 ** 18 / 2048) * 96,
            codes: 2 * partitions * (29 * 16 + 256),
            reserve: 32 * mebibyte
        };
        const all = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);
        expect(memory.of(sizes).deviceBytes).toBe(all);
        // A flag for the group of NULL in each result, a key and a bit beside each row.
        expect(
            deviceMemory()
                .ofGroupBy({ ...shape, nullGroup: true })
                .of(sizes).deviceBytes
        ).toBe(all + 2 * chunk + 5 * chunk);
    });
});

test("spilled rows have memory that holds the most there can be and a block, and not a byte less", () => {
    const most = 100 * mebibyte;
    const request = { expectedBytes: 0, mostBytes: most, sparing: false, hostSpillBytes: undefined };
    const block = mebibyte; // a 64th, rounded down to a power of two
    const onTheirWay = { peerBytes: 0, diskBlocks: 8, diskBlockBytes: 2 * mebibyte };
    const freeBytes = most + block + 16 * mebibyte;
    const ample = { spillBytes: most + block, spillBlockBytes: block, ...onTheirWay };
    expect(chooseSpill({ ...request, freeBytes })).toEqual(ample);
    expect(chooseSpill({ ...request, freeBytes: freeBytes - 1 })).toEqual({ ...ample, spillBytes: most + block - 1 });
});
