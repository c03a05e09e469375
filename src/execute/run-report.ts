// SPDX-License-Identifier: Apache-2.0

/** What one stage of a query did. */
export interface StageReport {
    name: string;
    algorithm: string;
    predictedMs: number;
    actualMs: number;
    rowsIn: number;
    rowsOut: number;
    spilledBytes: number;
}

/** What a query did: the figures of its last run. */
export interface RunReport {
    elapsedMs: number;
    predictedMs: number;
    rowsIn: number;
    rowsOut: number;
    bytesIn: number;
    bytesOut: number;
    spilledBytes: number;
    /** Read back from spill files. */
    unspilledBytes: number;
    /** Budget that was granted, and the most that the engine held while the query ran. */
    budgetBytes: number;
    peakBytes: number;
    threads: number;
    /** Where the stages ran. */
    device: "cpu" | "gpu";
    /** Why not on a GPU; null where they did, and where nobody asked for one. */
    deviceReason: string | null;
    /** Input that was copied to GPU memory, and result rows that were copied back. */
    uploadedBytes: number;
    downloadedBytes: number;
    /** Pieces in which the rows of the last join left the GPU, as they did not fit its memory; 0 where they did. */
    devicePieces: number;
    /** Most GPU memory that was in use while the query computed there. */
    devicePeakBytes: number;
    stages: StageReport[];
}
