// SPDX-License-Identifier: Apache-2.0

/** A state of a running query, given to `onProgress` about ten times a second and once at the end. */
export interface Progress {
    /** Name of the running stage, as in the plan: "partition build", "join", "group" ... */
    phase: string;
    /** Rows the stage has consumed so far; at the end, rows of all inputs. */
    rows: number;
    /** Bytes the stage has read so far. */
    bytes: number;
    /** Bytes written to spill files by the query so far. */
    spilledBytes: number;
    /** Result rows so far. */
    rowsOut: number;
    /** Rows the stage will consume, when known. */
    totalRows?: number;
    /** Share of the whole query that is done, 0 .. 1, by predicted time. */
    fraction: number;
    /** Milliseconds left at the present speed; null while unknown. */
    etaMs: number | null;
    elapsedMs: number;
    done: boolean;
}
