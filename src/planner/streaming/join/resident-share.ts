// SPDX-License-Identifier: Apache-2.0
import type { Knobs } from "../../../model/debug-knobs.js";
import type { OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";

/**
 * All partitions when their pages suffice, however the rows are spread. Else 3 % are left for partitions that are
 * larger than expected: one that has begun in GPU memory and must leave it costs more than one that never came.
 */
export function chooseResident(
    { buildRows, debug }: { readonly buildRows: number; readonly debug: Pick<Knobs, "residentShare"> },
    sizes: OutOfCoreSizes
): number {
    const partitions = 2 ** sizes.radixBits;
    if (debug.residentShare !== undefined) return Math.round(partitions * debug.residentShare);
    const partitionPages = buildRows / partitions / sizes.pageRows + 0.5;
    if (partitionPages * partitions + partitions / 16 <= sizes.pages) return partitions;
    return Math.min(partitions, Math.floor((sizes.pages * 0.97) / partitionPages));
}

/** Share of the partitions that stay in GPU memory. */
export function residentShareOf({ residentPartitions, radixBits }: OutOfCoreSizes): number {
    return Math.min(1, residentPartitions / 2 ** radixBits);
}
