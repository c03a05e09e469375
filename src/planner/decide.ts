// SPDX-License-Identifier: Apache-2.0
import type { Decisions, PartitionSizes } from "../plan/decisions.js";
import type { InputInfo } from "../plan/logical.js";
import type { JoinStage, PartitionSet, PartitionStage, Plan, PlanStage, StreamingJoinStage } from "../plan/plan.js";
import { defaultPolicy } from "./policy.js";
import { assignPools } from "./pools.js";

/**
 * Memory for the pages of a set that is about to be filled, now that earlier sets are known: what they left over goes
 * to the later ones.
 */
function poolBytesFor(plan: Plan, set: number, resident: ReadonlyMap<number, number>): number {
    const phases = plan.stages.map(({ memory, live }) => ({
        workingBytes: memory.inputBytes + memory.tableBytes + memory.outputBytes,
        live
    }));
    const requests = plan.sets.map(({ poolBytesMin, poolBytesWanted }) => ({
        min: poolBytesMin,
        wanted: poolBytesWanted
    }));
    const bytes = plan.memory.budgetBytes - plan.memory.fixedBytes;
    return assignPools(bytes, phases, requests, resident)[set] ?? 0;
}

/** Are both stages so little work that one call does both? Rows of streams come when they come. */
function joinsAtOnce({ inputs }: Plan, build: PartitionStage, join: StreamingJoinStage): boolean {
    if (build.set !== join.build) return false;
    const [left, right] = [inputs[build.input], inputs[join.probeInput]];
    if (left?.exact !== true || right?.exact !== true) return false;
    return left.rows + right.rows <= defaultPolicy.rowsAtOnceMax;
}

function fillsAtOnce({ inputs, stages }: Plan, at: number): number {
    let rows = 0;
    let end = at;
    for (; stages[end]?.kind === "partition"; end++) {
        const input = inputs[(stages[end] as PartitionStage).input];
        rows += input?.exact === true ? input.rows : Infinity;
        if (rows > defaultPolicy.rowsAtOnceMax) break;
    }
    // Sets of other operators are filled one by one.
    return stages.slice(end).find(({ kind }) => kind !== "partition")?.kind === "pipeline" ? end - at : 0;
}

function runsHere({ device, sink, sets, stages, result }: Plan, inputs: readonly InputInfo[]): boolean {
    // Files may be slow to read and to write.
    if (device !== "cpu" || sink === "file" || !inputs.every(({ inMemory }) => inMemory)) return false;
    if (sets.some(({ spec, poolBytes, estimatedBytes }) => spec.forceSpill || poolBytes < estimatedBytes)) return false;
    const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
    const bytesOf = (input: InputInfo): number => sum(input.columnBytes) + sum(input.dictionaryBytes);
    const { rowsHereMax, bytesHereMax, resultRowsHereMax, pairsHereMax } = defaultPolicy;
    if (sum(inputs.map(({ rows }) => rows)) > rowsHereMax || sum(inputs.map(bytesOf)) > bytesHereMax) return false;
    if (Math.max(result.rows, ...stages.map(({ rowsOut }) => rowsOut)) > resultRowsHereMax) return false;
    return inputs.reduce((pairs, { rows }) => pairs * Math.max(1, rows), 1) <= pairsHereMax;
}

/**
 * Memory for tables now that the sets of the stage are known: at least what was planned, and what pages did not take.
 * `live`: pages that each set of the stage holds or may come to hold.
 */
function tableBytesFor(plan: Plan, stage: PlanStage, live: ReadonlyMap<number, number>): number {
    const { inputBytes, tableBytes, outputBytes } = stage.memory;
    const pages = stage.live.reduce((total, set) => total + (live.get(set) ?? 0), 0);
    const free = plan.memory.budgetBytes - plan.memory.fixedBytes - pages - inputBytes - outputBytes;
    return Math.max(tableBytes, Math.floor(free));
}

interface Candidate {
    partition: number;
    spilled: boolean;
    bytes: number;
}

/**
 * Order of visit: partitions that are in memory first, so that their pages are free when spilled ones are read back;
 * among equals the largest first, so that no large one is left for the end while other workers idle.
 */
function order(candidates: Candidate[]): number[] {
    candidates.sort((a, b) => Number(a.spilled) - Number(b.spilled) || b.bytes - a.bytes || a.partition - b.partition);
    return candidates.map((candidate) => candidate.partition);
}

/** Partitions of a join in the order of visit; the NULL partition (the last) is implied. */
function joinSchedule(build: PartitionSizes, probe: PartitionSizes): number[] {
    const candidates: Candidate[] = [];
    for (let partition = 0; partition < build.rows.length - 1; partition++) {
        if ((build.rows[partition] ?? 0) + (probe.rows[partition] ?? 0) === 0) continue;
        const spilled = (build.spilledBytes[partition] ?? 0) + (probe.spilledBytes[partition] ?? 0) > 0;
        candidates.push({ partition, spilled, bytes: (build.bytes[partition] ?? 0) + (probe.bytes[partition] ?? 0) });
    }
    return order(candidates);
}

/** Partitions of a group-by in the order of visit. A group-by without keys has its one group even without rows. */
function groupSchedule(set: PartitionSet, sizes: PartitionSizes): number[] {
    const candidates: Candidate[] = [];
    for (let partition = 0; partition < sizes.rows.length - 1; partition++) {
        if ((sizes.rows[partition] ?? 0) === 0 && set.spec.keys.length > 0) continue;
        const spilled = (sizes.spilledBytes[partition] ?? 0) > 0;
        candidates.push({ partition, spilled, bytes: sizes.bytes[partition] ?? 0 });
    }
    return order(candidates);
}

/**
 * Probe rows from which a partition is shared by all workers: never more than a fair share of all rows, so that one
 * heavy key does not keep a single worker busy to the end.
 */
function probeSplitRows(stage: JoinStage, probe: PartitionSizes): number {
    const fair = Math.ceil(probe.totalRows / Math.max(1, stage.spec.workers));
    return Math.max(1, Math.min(stage.spec.probeSplitRows, Math.max(fair, 64 * 1024)));
}

/** The planner's second half: decisions that need true sizes. */
export const decisions: Decisions = Object.freeze({
    poolBytesFor,
    joinsAtOnce,
    fillsAtOnce,
    runsHere,
    tableBytesFor,
    joinSchedule,
    groupSchedule,
    probeSplitRows
});
