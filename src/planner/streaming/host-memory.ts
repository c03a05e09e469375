// SPDX-License-Identifier: Apache-2.0
import { formatBytes } from "../../model/sizes.js";
import type { Plan } from "../../plan/plan.js";
import { NotOnDevice } from "../device-support.js";
import type { PlanQuery } from "../plan-search.js";

/** Limit that counts for a GPU that was not opened yet and was given none. */
export const unknownLimitBytes = 4 * 1024 ** 3;

/** Tables, copies of their rows and a result take no more than so often what the inputs take as packed rows. */
export const tablesFactor = 6;

/** A sixteenth is for readers of files, and for what estimates of the others are wrong by. */
export const hostShare = 15 / 16;

/**
 * What a plan has of host memory wherever it runs: batches of the result, those of a stream that is being read and of
 * the group that comes next, and what is held throughout.
 */
export function besideBytes(plan: Plan): number {
    const { memory, batchBytes, queuedBatches, threads, sink, inputs, streamGroupBytes } = plan;
    const streamed = inputs.some(({ where }) => where === "stream") ? 2 * streamGroupBytes : 0;
    return memory.fixedBytes + streamed + (sink === "count" ? 0 : (queuedBatches + threads) * batchBytes);
}

/** What the query may use of host memory for chunks, rows of the result and spilled rows. */
export function hostBytes(host: Plan): number {
    return host.memory.budgetBytes * hostShare - besideBytes(host);
}

/** A result that stays in host memory as a table is given no larger share of what is free there. */
const resultShareMax = 3 / 4;

/** Does the result stay in host memory? Rows that are held for other parts have memory of their own. */
export function isKept({ sink, isHeld }: Pick<PlanQuery, "sink" | "isHeld">): boolean {
    return sink === "table" && isHeld !== true;
}

/** Host memory that a query takes beside what its operators do. */
export interface HostNeeds {
    /** Columns that are gathered, and numbers of keys. */
    readonly heldBytes: number;
    readonly numberBytes: number;
    /** A result that stays in memory, and what else may turn out smaller. */
    readonly guessedBytes: number;
}

/** What these leave of host memory. */
export function freeHostBytes(host: Plan, { heldBytes, numberBytes, guessedBytes }: HostNeeds): number {
    const held = heldBytes + numberBytes;
    const free = hostBytes(host) - held;
    // A table that is larger than that is another matter: it may turn out smaller than expected.
    if (free > 0) return free - Math.min(guessedBytes, free * resultShareMax);
    const names = [
        ...(heldBytes > 0 ? ["columns that are gathered from host memory"] : []),
        ...(numberBytes > 0 ? ["numbers of keys"] : [])
    ];
    const left = formatBytes(Math.max(0, free + held));
    throw NotOnDevice.lacksHost(
        held > 0
            ? `${names.join(", and ")} need ${formatBytes(held)}, ${left} are left of the budget`
            : `batches of the result leave ${left} of the host budget for rows on their way to the GPU`
    );
}
