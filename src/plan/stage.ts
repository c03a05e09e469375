// SPDX-License-Identifier: Apache-2.0

/** Memory of a stage beside the pages of partition sets. */
export interface StageMemory {
    /** Buffers of readers and write-combining buffers. */
    readonly inputBytes: number;
    readonly tableBytes: number;
    /** Result batches under construction and waiting. */
    readonly outputBytes: number;
}

/** Rows of a stage stay in host memory, or wait on disk, as an input of later stages. */
export interface HeldRows {
    /** The join or group-by that gives them: its number among the inner operators of the query. */
    readonly operator: number;
    /** Number of that input: they come behind those of the query. */
    readonly input: number;
    /** Bytes of their batches in host memory at most. */
    readonly limitBytes: number;
    /** Bytes that are expected in a file of the spill directory; left out: more rows than the limit are an error. */
    readonly diskBytes?: number;
}

export interface StageCommon {
    readonly id: number;
    /** Shown by `explain` and progress. */
    readonly name: string;
    readonly algorithm: string;
    readonly rowsIn: number;
    readonly rowsOut: number;
    readonly memory: StageMemory;
    /** Partition sets that hold memory while the stage runs. */
    readonly live: readonly number[];
    readonly predictedMs: number;
    readonly predictedSpillBytes: number;
}
