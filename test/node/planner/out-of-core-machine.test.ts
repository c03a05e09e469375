// SPDX-License-Identifier: Apache-2.0
// What joins out of core take from the machine: sizes from shared memory and multiprocessors, the path from its speeds.
import { Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { loadProfile, type MachineProfile } from "../../../src/machine/profile.js";
import type { NativeDevice } from "../../../src/native/binding.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { choosePath } from "../../../src/planner/streaming/join/path.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import {
    joinedPartitionBytes,
    sortedPartitionBytes,
    sortPassBits
} from "../../../src/planner/streaming/shared-memory.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { openedGpu, queryFor } from "../../../src/runtime/opened-gpu.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

const gibibyte = 2 ** 30;
const h200 = 232_448;
const profileWith = (figures: Partial<MachineProfile>): MachineProfile => ({ ...loadProfile(), ...figures });

function queryOf(rows: number, more: Partial<PlanQuery> = {}): PlanQuery {
    const [left, right] = ["l", "r"].map((name) => inputNode({ k: new Int64(), v: new Int64() }, { rows, name }));
    return planQueryOf(join(left!, right!, { on: "k" }), { budgetBytes: 256 * gibibyte, threads: 16, ...more });
}

function stageOf(query: PlanQuery, limitBytes = 16 * gibibyte): OutOfCoreStage {
    const plan = planOutOfCore(query, planQuery(query), limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreStage;
}

describe("shared memory of a block", () => {
    test("of an H200: partitions of 16 MiB that are sorted, of 2^21 rows that are joined by tables", () => {
        expect(loadProfile().deviceBlockBytes).toBe(h200);
        // The benchmark was measured with 17,000,000 bytes, less than 1 % off.
        expect(Math.abs(sortedPartitionBytes(h200) / 17e6 - 1)).toBeLessThan(0.01);
        expect(joinedPartitionBytes(h200, 16)).toBe(2 ** 21 * 16);
        expect(joinedPartitionBytes(h200, 8)).toBe(2 ** 21 * 8);
        const bits = (rows: number, more: Partial<PlanQuery> = {}): number =>
            stageOf(queryOf(rows, more)).sizes.radixBits;
        const kernels = { coherentDevice: true } as const;
        expect([26, 28, 30].map((power) => bits(2 ** power))).toEqual([6, 8, 10]);
        expect([26, 28, 30].map((power) => bits(2 ** power, kernels))).toEqual([6, 8, 10]);
        expect([26, 28, 30].map((power) => bits(2 ** power, { ...kernels, sink: "count" }))).toEqual([5, 7, 9]);
    });

    test("that is smaller makes partitions smaller on either path, down to those of a GPU with 48 KiB", () => {
        const bits = (deviceBlockBytes: number, more: Partial<PlanQuery>): number =>
            stageOf(queryOf(2 ** 28, { ...more, profile: profileWith({ deviceBlockBytes }) })).sizes.radixBits;
        const kernels = { coherentDevice: true } as const;
        const kinds: Partial<PlanQuery>[] = [{}, kernels, { ...kernels, sink: "count" }];
        expect(kinds.map((kind) => bits(48 * 1024, kind))).toEqual([10, 10, 10]);
        // Blocks that sort take no more than 110 KiB, however much there is.
        expect(kinds.map((kind) => bits(2 * h200, kind))).toEqual([8, 8, 7]);
        expect(joinedPartitionBytes(48 * 1024, 16) / 16).toBeLessThan(2 ** 21 / 4);
    });

    test("and what is left of the hash limit the second pass", () => {
        expect([1, 4, 5, 2 ** 10, 2 ** 20].map((rows) => sortPassBits(rows, 8))).toEqual([0, 0, 1, 8, 8]);
        expect(sortPassBits(2 ** 20, 28)).toBe(4);
        expect(sortPassBits(0, 0)).toBe(0);
        const bits = (rows: number, deviceBlockBytes = h200): number => {
            const debug = { radixBits: 9 } as const;
            const profile = profileWith({ deviceBlockBytes });
            return stageOf(queryOf(rows * 2 ** 9, { coherentDevice: true, debug, profile, sink: "count" })).work
                .secondPassBits;
        };
        expect([8192, 8300, 2 ** 20, 2 ** 23].map((rows) => bits(rows))).toEqual([0, 1, 7, 8]);
        expect(bits(8192, 48 * 1024)).toBe(3);
    });
});

test("buffers are one for each multiprocessor of the GPU, and for 160 where nobody knows", () => {
    const debug = { partitioner: "hierarchical", radixBits: 10 } as const;
    const farBytes = (more: Partial<PlanQuery>): number =>
        stageOf(queryOf(2 ** 28, { coherentDevice: true, debug, sink: "count", ...more }), 4 * gibibyte).predicted
            .spilledBytes;
    const [unknown, many, few] = [{}, { multiprocessors: 160 }, { multiprocessors: 140 }].map(farBytes);
    expect(unknown).toBe(many);
    // 20 buffers for 2^10 partitions, 8 KiB each, are room for more pages, of which a fifth is likely to stay empty.
    expect(unknown! - few!).toBeGreaterThan(20 * 2 ** 10 * 8192 * 0.75);
    const asked = { debug: { ...debug, partitionBlocks: 140 } };
    expect(farBytes(asked)).toBe(few);
});

test("the partitioner that a join takes of itself is one that the GPU has", () => {
    const spilledBytes = (more: Partial<PlanQuery>, partitioner = {}): number => {
        const debug = { radixBits: 10, ...partitioner } as const;
        return stageOf(queryOf(2 ** 28, { coherentDevice: true, sink: "count", ...more, debug }), 4 * gibibyte)
            .predicted.spilledBytes;
    };
    const [bulk, hierarchical] = (["bulk", "hierarchical"] as const).map((one) =>
        spilledBytes({}, { partitioner: one })
    );
    // Buffers of the latter lie in GPU memory, too.
    expect(hierarchical).toBeGreaterThan(bulk!);
    const majors = [undefined, 8, 9, 10].map((computeMajor) =>
        spilledBytes(computeMajor === undefined ? {} : { computeMajor })
    );
    expect(majors).toEqual([bulk, hierarchical, bulk, bulk]);
});

describe("the path", () => {
    const nvlinkC2c = profileWith({
        deviceFarReadBytesPerMs: 375e6,
        deviceFarWriteBytesPerMs: 300e6,
        deviceFarBothBytesPerMs: 500e6,
        deviceMemoryFillBytesPerMs: 100e6
    });
    const slowKernels = profileWith({ deviceFarReadBytesPerMs: 25e6, deviceFarWriteBytesPerMs: 25e6 });
    const pathOf = (more: Partial<PlanQuery>) => stageOf(queryOf(2 ** 28, more), 4 * gibibyte).path;
    const times = /^predicted [\d.]+ m?s by kernels, [\d.]+ m?s by copy engines$/;

    test("of a coherent machine is the one that its speeds predict to be faster", () => {
        const machine = { coherentDevice: true, measuredDevice: true };
        const [fast, slow] = [nvlinkC2c, slowKernels].map((profile) => pathOf({ ...machine, profile }));
        expect(fast).toEqual({ wanted: "coherent", runs: "coherent", reason: expect.stringMatching(times) });
        expect(slow).toEqual({ wanted: "staged", runs: "staged", reason: expect.stringMatching(times) });
    });

    test("is that of its kind where its speeds are those of another one", () => {
        expect(pathOf({ coherentDevice: true }).reason).toBe("kernels of this GPU use the host's page tables");
        const measured = pathOf({ coherentDevice: false, measuredDevice: true, profile: nvlinkC2c });
        expect([measured.runs, measured.reason]).toEqual(["staged", expect.stringMatching(/^PCIe: /)]);
    });

    test("is the other one where one cannot be taken", () => {
        const made = (ms: number) => () => ({ predicted: { buildMs: ms, probeMs: 0, spilledMs: 0 } });
        const none = (): never => {
            throw new NotOnDevice("there is no room");
        };
        const facts = { isCoherent: true, isMeasured: true };
        const kernels = choosePath(facts, { coherent: made(2), staged: none });
        expect(kernels.draft.predicted.buildMs).toBe(2);
        expect(kernels.path.reason).toMatch(/page tables; by copy engines there is no room$/);
        const copies = choosePath(facts, { coherent: none, staged: made(3) });
        expect([copies.draft.predicted.buildMs, copies.path.wanted, copies.path.runs]).toEqual([
            3,
            "coherent",
            "staged"
        ]);
        expect(() => choosePath(facts, { coherent: none, staged: none })).toThrow(NotOnDevice);
        const [even, worse] = [2, 3].map((ms) => choosePath(facts, { coherent: made(ms), staged: made(2) }).path.runs);
        expect([even, worse]).toEqual(["coherent", "staged"]);
    });

    test("knows the GPU that is open: speeds of its name, or those that were measured here", () => {
        const query = queryOf(1000);
        const gpu = { pageableAccess: true, hostPageTables: true, multiprocessors: 132, computeCapability: "10.3" };
        const memory = { limitBytes: gibibyte, peerBytes: 3, peerReadBytesPerMs: 2, peerWriteBytesPerMs: 1 };
        const opened = (name: string) => openedGpu({ ...gpu, name } as NativeDevice, memory);
        const known = queryFor(opened("NVIDIA H200"), query, false);
        expect(known).toMatchObject({
            coherentDevice: true,
            measuredDevice: true,
            multiprocessors: 132,
            computeMajor: 10,
            peerBytes: 3
        });
        expect(queryFor(opened("another GPU"), query, false)).toMatchObject({ measuredDevice: false });
        const own = { ...query, profile: nvlinkC2c };
        expect(queryFor(opened("NVIDIA H200"), own, true)).toMatchObject({ measuredDevice: true, profile: nvlinkC2c });
        expect(queryFor(opened("NVIDIA H200"), own, false).profile).toEqual({ ...own.profile, ...loadProfile() });
    });
});
