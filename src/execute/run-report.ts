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
    stages: StageReport[];
}
