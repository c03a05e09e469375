// SPDX-License-Identifier: Apache-2.0
import type { InputInfo } from "./logical.js";
import type { JoinStage, PartitionSet, PartitionStage, Plan, PlanStage, StreamingJoinStage } from "./plan.js";

/** True sizes after a partition pass; the same facts as NativePartitionSizes. The last entry is the NULL partition. */
export interface PartitionSizes {
    readonly rows: Float64Array;
    readonly bytes: Float64Array;
    readonly spilledBytes: Float64Array;
    readonly rowBytes: number;
    readonly totalRows: number;
    /** Memory of the set's pages that nobody else can have, up to its pool. */
    readonly heldBytes: number;
}

/** What a plan leaves open until true sizes are known. The planner decides, the execution asks it stage by stage. */
export interface Decisions {
    /** Memory for the pages of a set that is about to be filled; `resident`: pages of finished sets. */
    poolBytesFor(plan: Plan, set: number, resident: ReadonlyMap<number, number>): number;
    /** Are the stage that makes the build side and the join that follows so little work that one call does both? */
    joinsAtOnce(plan: Plan, build: PartitionStage, join: StreamingJoinStage): boolean;
    /** How many stages from `at` on fill build sides of a pipeline, and are so little work that one call does all. */
    fillsAtOnce(plan: Plan, at: number): number;
    /** Are all stages so little work that the event loop's thread does it in less time than it takes to hand over? */
    runsHere(plan: Plan, inputs: readonly InputInfo[]): boolean;
    /** Memory for the tables of a stage; `live`: pages that each of its sets holds or may come to hold. */
    tableBytesFor(plan: Plan, stage: PlanStage, live: ReadonlyMap<number, number>): number;
    /** Partitions of a join in the order of visit; the NULL partition is implied. */
    joinSchedule(build: PartitionSizes, probe: PartitionSizes): number[];
    /** Partitions of a group-by in the order of visit. */
    groupSchedule(set: PartitionSet, sizes: PartitionSizes): number[];
    /** Probe rows from which a partition is shared by all workers. */
    probeSplitRows(stage: JoinStage, probe: PartitionSizes): number;
}
