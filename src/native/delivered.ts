// SPDX-License-Identifier: Apache-2.0

/** What result batches take beside the budget, and what an engine leaves of its own. */
export interface NativeDelivered {
    /** Delivered to this JS thread and not collected yet, dropped or not; of all runtimes. */
    aliveBytes: number;
    /** Neither reserved nor kept for the next request. */
    unusedBytes: number;
}
