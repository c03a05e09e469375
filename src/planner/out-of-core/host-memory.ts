// SPDX-License-Identifier: Apache-2.0
import { formatBytes } from "../../model/sizes.js";
import type { Plan } from "../../plan/plan.js";
import { NotOnDevice } from "../device-support.js";

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

/** Of free host memory at most, for a result that stays there as a table. */
const resultShareMax = 3 / 4;

/** What columns that are gathered, and a result that stays in memory, leave of host memory. */
export function freeHostBytes(host: Plan, held: number, resultBytes: number): number {
    const free = hostBytes(host) - held;
    // A table that is larger than that is another matter: it may turn out smaller than expected.
    if (free > 0) return free - Math.min(resultBytes, free * resultShareMax);
    throw new NotOnDevice(
        `columns that are gathered from host memory need ${formatBytes(held)} of it, ` +
            `${formatBytes(Math.max(0, free + held))} are left of the budget`
    );
}
