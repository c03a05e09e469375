// SPDX-License-Identifier: Apache-2.0
// What the planner is told of GPU memory: whole numbers for whatever shapes and sizes it asks, more for more pages; and
// how it finds the pages that a limit affords with few questions.
import { describe, expect, test } from "vitest";
import { deviceFarPartitioners } from "../../../src/model/device-constants.js";
import type { CoherentJoinOptions, DeviceMemoryModel } from "../../../src/plan/device-memory-model.js";
import type { OutOfCoreGroupShape, OutOfCoreGroupSizes } from "../../../src/plan/out-of-core-group-stage.js";
import type { OutOfCoreOutput, OutOfCoreShape, OutOfCoreSizes } from "../../../src/plan/out-of-core-stage.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { DeviceMemory, noSizes } from "../../../src/planner/streaming/device-memory.js";
import { mostPages } from "../../../src/planner/streaming/pages.js";
import { memoryModel } from "../../support/device-memory.js";
import { Random } from "../../support/random.js";

const seeds = (count: number): Random[] => Array.from({ length: count }, (_, i) => new Random(i + 1));
const times = <T>(count: number, make: () => T): T[] => Array.from({ length: count }, make);

/** All numbers in an object, and in objects in it. */
function numbersOf(told: object): number[] {
    return Object.values(told).flatMap((value: unknown) =>
        typeof value === "object" && value !== null ? numbersOf(value) : [value as number]
    );
}

function expectWhole(told: object): void {
    const numbers = numbersOf(told);
    expect(numbers.length).toBeGreaterThan(0);
    expect(numbers.filter((value) => !Number.isSafeInteger(value) || value < 0)).toEqual([]);
}

/** Sizes as plans have them, or any of them 0 as long as they are not chosen. */
function drawSizes(random: Random): Omit<OutOfCoreSizes, "filterWords" | "residentPartitions"> {
    const chosen = <T>(size: T): T | 0 => (random.chance(0.15) ? 0 : size);
    return {
        ...noSizes,
        radixBits: random.between(0, 12),
        chunkRows: chosen(random.between(1, 2 ** random.between(6, 26))),
        chunkSlots: random.between(1, 4),
        pageRows: chosen(2 ** random.between(3, 17)),
        pages: chosen(random.below(2 ** random.between(1, 22))),
        resultRows: chosen(random.between(1, 2 ** random.between(6, 26))),
        resultSlots: random.between(1, 3)
    };
}

function drawJoin(random: Random): OutOfCoreShape {
    const keyBytes = random.pick([4, 8] as const);
    const widths = (): number[] => times(random.below(4), () => random.pick([1, 2, 4, 8]));
    const [buildWidths, probeWidths] = [widths(), widths()];
    const emit = random.pick(["pairs", "buildOnce", "probeOnce"] as const);
    const ofSide = (side: "build" | "probe", count: number): OutOfCoreOutput[] =>
        Array.from({ length: count }, (_, column) => ({ side, column }));
    const outputs = [
        { side: "key", column: 0 } as const,
        ...ofSide("build", buildWidths.length),
        ...ofSide("probe", probeWidths.length),
        { side: "presence", column: 0 } as const
    ];
    return {
        ...{ keyBytes, keyColumns: 0, buildWidths, probeWidths, emit, outputs },
        anti: emit !== "pairs" && random.chance(0.5),
        keepUnmatchedBuild: emit === "pairs" && random.chance(0.5),
        keepUnmatchedProbe: emit === "pairs" && random.chance(0.5),
        result: random.pick(["count", "rows"] as const)
    };
}

function drawGroupBy(random: Random): OutOfCoreGroupShape {
    const widths = times(random.between(1, 4), () => random.pick([1, 2, 4, 8]));
    const aggregates = times(random.between(1, 3), () => ({
        kind: random.pick(["countRows", "sum", "min", "max"] as const),
        number: random.pick(["signed", "unsigned", "float"] as const),
        column: random.below(widths.length),
        decidedBy: null
    }));
    return { keyBytes: random.pick([4, 8] as const), widths, aggregates, nullGroup: random.chance(0.5) };
}

describe("the model tells whole numbers, and of more pages no less GPU memory", () => {
    test("of joins by copy engines", () => {
        for (const random of seeds(200)) {
            const shape = drawJoin(random);
            const sizes = { ...drawSizes(random), filterWords: 0, residentPartitions: 0 };
            const told = memoryModel.stagedJoinMemory({ ...shape, sizes });
            expectWhole(told);
            const more = memoryModel.stagedJoinMemory({ ...shape, sizes: { ...sizes, pages: sizes.pages + 1 } });
            expect(more.deviceBytes).toBeGreaterThan(told.deviceBytes);
            expect(more.rowBytes).toEqual(told.rowBytes);
        }
    });

    test("of group-bys", () => {
        for (const random of seeds(200)) {
            const shape = drawGroupBy(random);
            const { filterWords: _, residentPartitions: __, ...drawn } = { ...noSizes, ...drawSizes(random) };
            const mergeRows = random.below(2 ** 27);
            const sizes: OutOfCoreGroupSizes = { ...drawn, mergeRows, preAggregation: "auto" };
            const told = memoryModel.stagedGroupByMemory({ ...shape, sizes });
            expectWhole(told);
            const more = { ...sizes, pages: sizes.pages + 1 };
            const bytes = memoryModel.stagedGroupByMemory({ ...shape, sizes: more }).deviceBytes;
            expect(bytes - told.deviceBytes).toBe(sizes.pageRows * told.rowBytes);
        }
    });

    test("of joins by kernels, whatever partitions", () => {
        for (const random of seeds(200)) {
            const keyBytes = random.pick([4, 8] as const);
            const result = random.pick(["count", "rows"] as const);
            const shape: OutOfCoreShape = {
                ...{ keyBytes, keyColumns: 0, buildWidths: [keyBytes], probeWidths: [], emit: "pairs", result },
                ...{ anti: false, keepUnmatchedBuild: false, keepUnmatchedProbe: false },
                outputs: result === "rows" ? [{ side: "build", column: 0 }] : []
            };
            const pageRows = 2 ** 16 / keyBytes / 2;
            const sizes = { ...drawSizes(random), pageRows, pages: 0, filterWords: 0, residentPartitions: 0 };
            const options = {
                ...{
                    buildRows: random.below(2 ** 32),
                    probeRows: random.below(2 ** 32),
                    chunks: random.between(1, 99)
                },
                partitioner: random.pick(["auto", ...deviceFarPartitioners] as const),
                partitionBlocks: random.pick([0, 0, random.between(1, 200)]),
                secondRadixBits: random.pick([null, random.between(1, 8)]),
                limitBytes: random.between(2 ** 26, 2 ** 38),
                computeMajor: random.pick([7, 8, 9, 10]),
                multiprocessors: random.between(1, 200),
                blockBytes: random.pick([48 * 1024, 99 * 1024, 232_448])
            };
            const told = memoryModel.coherentJoinMemory({ ...shape, sizes }, options);
            expectWhole(told);
            expect(told).toMatchObject({ rowBytes: 2 * keyBytes, pageBytes: 2 ** 16 });
            expect(told.splitBits).toBeLessThanOrEqual(result === "count" ? 8 : 0);
            const { probeRows } = options;
            const wider = { ...options, probeRows: probeRows + pageRows };
            expect(memoryModel.coherentJoinMemory({ ...shape, sizes }, wider).pages).toBeGreaterThan(told.pages);
        }
    });
});

test("the model refuses sizes that no operator has", () => {
    const shape: OutOfCoreShape = {
        ...{
            keyBytes: 8,
            keyColumns: 0,
            buildWidths: [],
            probeWidths: [],
            emit: "pairs",
            result: "count",
            outputs: []
        },
        ...{ anti: false, keepUnmatchedBuild: false, keepUnmatchedProbe: false }
    };
    const options: CoherentJoinOptions = {
        ...{
            buildRows: 1,
            probeRows: 1,
            chunks: 1,
            partitioner: "auto",
            partitionBlocks: 0,
            secondRadixBits: null,
            limitBytes: 2 ** 30
        },
        ...{ computeMajor: 9, multiprocessors: 132, blockBytes: 232_448 }
    };
    const coherent = (sizes: object, more: object): unknown =>
        memoryModel.coherentJoinMemory(
            { ...shape, sizes: { ...noSizes, chunkRows: 64, ...sizes } },
            { ...options, ...more }
        );
    expect(() => coherent({}, {})).not.toThrow();
    const refused = expect.objectContaining({ code: "INVALID_ARGUMENT" });
    expect(() => coherent({ pageRows: 3 }, {})).toThrow(refused);
    expect(() => coherent({}, { buildRows: 2 ** 50 })).toThrow(refused);
    expect(() => coherent({}, { blockBytes: 1024 })).toThrow(refused);
    const kept = { ...shape, emit: "probeOnce", keepUnmatchedProbe: true } as const;
    expect(() => memoryModel.stagedJoinMemory({ ...kept, sizes: noSizes })).toThrow(refused);
});

test("the model is asked once for sizes that differ in host memory alone, whoever asks", () => {
    let asked = 0;
    const model: DeviceMemoryModel = {
        ...memoryModel,
        stagedJoinMemory: (join) => {
            ++asked;
            return memoryModel.stagedJoinMemory(join);
        }
    };
    const memory = new DeviceMemory(model);
    const shape: OutOfCoreShape = {
        ...{
            keyBytes: 8,
            keyColumns: 0,
            buildWidths: [8],
            probeWidths: [8],
            emit: "pairs",
            result: "count",
            outputs: []
        },
        ...{ anti: false, keepUnmatchedBuild: false, keepUnmatchedProbe: false }
    };
    const sizes = { ...noSizes, radixBits: 5, chunkRows: 2 ** 16, pageRows: 4096, pages: 100 };
    const first = memory.ofJoin(shape).of(sizes);
    const again = memory.ofJoin({ ...shape }).of({ ...sizes, spillBytes: 2 ** 30, residentPartitions: 3 });
    expect(again).toBe(first);
    // Bytes of rows, and these.
    expect(asked).toBe(2);
    expect(memory.ofJoin(shape).of({ ...sizes, filterWords: 2 }).deviceBytes).toBe(first.deviceBytes + 16);
    expect(memory.ofJoin({ ...shape, keyBytes: 4 }).rowBytes.build).toBe(12);
});

describe("the most pages that a limit affords", () => {
    /** Asks of a function that grows in some straight pieces; how often it was asked. */
    function askedFor(random: Random): number {
        const [least, most] = [random.between(1, 100), random.between(100, 2 ** 22)];
        const bends = times(random.below(4), () => ({ at: random.below(most), slope: random.below(10_000) }));
        const slope = random.between(1, 10_000);
        const bytesAt = (pages: number): number =>
            bends.reduce((sum, bend) => sum + bend.slope * Math.max(0, pages - bend.at), 2 ** 24 + slope * pages);
        const limit = Math.ceil(bytesAt(random.between(1, most)) * (1 + random.unit()));
        let asked = 0;
        const bytesOf = (pages: number): number => {
            ++asked;
            expect(pages).toBeGreaterThanOrEqual(least);
            expect(pages).toBeLessThanOrEqual(most);
            return bytesAt(pages);
        };
        const limits = (pages: number): boolean => {
            try {
                return mostPages(pages, pages, limit, bytesAt) === pages;
            } catch (error) {
                expect(error).toBeInstanceOf(NotOnDevice);
                return false;
            }
        };
        if (!limits(least)) {
            expect(() => mostPages(least, most, limit, bytesOf)).toThrow(NotOnDevice);
            return asked;
        }
        const found = mostPages(least, most, limit, bytesOf);
        expect(limits(found)).toBe(true);
        expect(found === most || !limits(found + 1)).toBe(true);
        return asked;
    }

    test("are found by few questions", () => {
        let all = 0;
        for (const random of seeds(1000)) {
            const asked = askedFor(random);
            expect(asked).toBeLessThan(45);
            all += asked;
        }
        expect(all / 1000).toBeLessThan(6);
    });
});
