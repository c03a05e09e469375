// SPDX-License-Identifier: Apache-2.0
import { NotOnDevice } from "./device-support.js";
import { planOnDevice } from "./plan-device.js";
import { QueryPlanner } from "./plan-query.js";
import type { PlanQuery } from "./plan-search.js";

/** Budgets that are tried for the one that an error names: each so much larger than the one before. */
const budgetStep = 1.125;
const budgetMax = 2 ** 42;

/**
 * Host memory with which a query could have the GPU that has too little of it with `grantedBytes`: the least of some
 * that are tried; or why more of it does not help. `limitBytes`: GPU memory.
 */
export function leastHostBytes(query: PlanQuery, grantedBytes: number, limitBytes: number): number | NotOnDevice {
    let refused = NotOnDevice.lacksHost("no host memory is enough for it");
    for (let bytes = grantedBytes * budgetStep; bytes <= budgetMax; bytes *= budgetStep) {
        const budgetBytes = Math.ceil(query.budgetBytes + bytes - grantedBytes);
        const more = { ...query, budgetBytes };
        const made = planOnDevice(more, new QueryPlanner(more).plan(Math.ceil(bytes), false), limitBytes);
        if (!(made instanceof NotOnDevice)) return Math.ceil(bytes);
        refused = made;
        if (!made.lacksHost) break;
    }
    return refused;
}
