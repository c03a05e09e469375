// SPDX-License-Identifier: Apache-2.0
import type { Plan } from "../../plan/plan.js";

/** Limit that counts for a GPU that was not opened yet and was given none. */
export const unknownLimitBytes = 4 * 1024 ** 3;

/** Tables, copies of their rows and a result take no more than so often what the inputs take as packed rows. */
export const tablesFactor = 6;

/** A sixteenth is for readers of files, and for what estimates of the others are wrong by. */
export const hostShare = 15 / 16;

/** What the query may use of host memory for chunks, rows of the result and spilled rows. */
export function hostBytes({ memory, batchBytes, queuedBatches, threads, sink }: Plan): number {
    const batches = sink === "count" ? 0 : (queuedBatches + threads) * batchBytes;
    return memory.budgetBytes * hostShare - memory.fixedBytes - batches;
}
