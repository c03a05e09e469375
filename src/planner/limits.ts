// SPDX-License-Identifier: Apache-2.0
import type { SinkKind } from "../plan/plan.js";
import type { Policy } from "./policy.js";

/** What a plan may use at most; the planner goes down a ladder of these until the budget suffices. */
export interface PlanLimits {
    readonly workers: number;
    /** A streaming join keeps its build side in memory; without it, any budget does. */
    readonly streaming: boolean;
    /** Times that a pipeline reads its input, each past a part of its largest build side. */
    readonly passes: number;
    readonly radixBitsMax: number;
    readonly pageBytesMax: number;
    readonly openPagesShare: number;
    readonly morselBytes: number;
    readonly morselRowsMin: number;
    readonly batchBytes: number;
    readonly batchRowsMin: number;
    readonly queuedBatches: number;
    readonly tableBytesMin: number;
    readonly streamGroupBytes: number;
}

const ladders = new WeakMap<Policy, Map<string, readonly PlanLimits[]>>();

/** The ladder of a policy; made once, as every query goes down one, mostly no further than its first rung. */
export function limitLadder(policy: Policy, threads: number, sink: SinkKind): readonly PlanLimits[] {
    const known = ladders.get(policy) ?? new Map<string, readonly PlanLimits[]>();
    ladders.set(policy, known);
    const key = `${threads} ${sink}`;
    let ladder = known.get(key);
    if (ladder === undefined) known.set(key, (ladder = makeLadder(policy, threads, sink)));
    return ladder;
}

/**
 * From full speed down to the least memory. First buffers shrink (costs a few per cent), then pages and fan-out (more
 * co-partitions have to be joined in chunks), then workers.
 */
function makeLadder(policy: Policy, threads: number, sink: SinkKind): PlanLimits[] {
    const batchBytes = {
        count: policy.batchBytes,
        batches: policy.batchBytes,
        table: policy.tableBatchBytes,
        file: policy.fileBatchBytes
    }[sink];
    // A file takes one write at a time: 16 workers with batches of 128 KiB spend a fifth of it on taking turns.
    const leastBatches = sink === "file" ? 2 : 1;
    const first: PlanLimits = {
        workers: threads,
        streaming: true,
        passes: 1,
        radixBitsMax: policy.firstPassBitsMax,
        pageBytesMax: policy.pageBytesMax,
        openPagesShare: policy.openPagesShare,
        morselBytes: policy.morselBytes,
        morselRowsMin: policy.morselRowsMin,
        batchBytes,
        batchRowsMin: policy.batchRowsMin,
        queuedBatches: policy.queuedBatches,
        tableBytesMin: policy.tableBytesMin,
        streamGroupBytes: policy.streamGroupBytes
    };
    const ladder = [first];
    const step = (change: Partial<PlanLimits>): void => {
        ladder.push({ ...(ladder[ladder.length - 1] as PlanLimits), ...change });
    };
    step({
        pageBytesMax: policy.pageBytesMax / 4,
        batchBytes: Math.min(batchBytes, (policy.batchBytes / 2) * leastBatches)
    });
    step({
        morselBytes: policy.morselBytes / 4,
        batchBytes: (policy.batchBytes / 4) * leastBatches,
        pageBytesMax: policy.pageBytesMax / 8
    });
    step({
        openPagesShare: 0.5,
        radixBitsMax: 10,
        queuedBatches: 2,
        streamGroupBytes: policy.streamGroupBytes / 8,
        pageBytesMax: 2 * policy.pageBytesGood
    });
    // A bit less of fan-out doubles the co-partitions: fewer workers hold tables at a time, or join in chunks.
    // 16 workers, 2^8 partitions: pages of 2 KiB are best where they fit (60 ms; 2^9 with 1 KiB 102 ms), pages of 1 KiB
    // are better than 2^7 partitions (36 and 69 ms).
    step({ radixBitsMax: 9, pageBytesMax: 2 * policy.pageBytesMin });
    for (const radixBitsMax of [8, 7]) {
        step({ radixBitsMax, pageBytesMax: 2 * policy.pageBytesMin });
        step({ pageBytesMax: policy.pageBytesMin });
    }
    step({ openPagesShare: 0.8, radixBitsMax: 6, pageBytesMax: policy.pageBytesMin, batchRowsMin: 256 });
    step({ morselBytes: policy.morselBytes / 8, batchBytes: policy.batchBytes / 8 });
    step({ morselBytes: policy.morselBytes / 16, morselRowsMin: 256, batchBytes: policy.batchBytes / 16 });
    for (let workers = Math.floor(threads / 2); workers >= 1; workers = Math.floor(workers / 2)) step({ workers });
    step({
        workers: 1,
        radixBitsMax: 4,
        queuedBatches: 1,
        morselRowsMin: 64,
        batchRowsMin: 64,
        morselBytes: 8 * 1024,
        batchBytes: 16 * 1024,
        tableBytesMin: policy.tableBytesMin / 4,
        streamGroupBytes: policy.streamGroupBytes / 64
    });
    return ladder.flatMap((rung) => [rung, { ...rung, streaming: false }]);
}
