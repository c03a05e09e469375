// SPDX-License-Identifier: Apache-2.0
import type { OutOfCorePathName } from "../../model/debug-knobs.js";
import type { OutOfCorePath } from "../../plan/out-of-core-stage.js";

/** What counts for the way that rows take between the GPU and host memory. */
export interface PathFacts {
    /** Kernels use memory of the host through its own page tables: Grace, POWER9. undefined: no GPU was opened yet. */
    readonly isCoherent?: boolean | undefined;
    /** The knob. */
    readonly asked?: OutOfCorePathName | undefined;
}

/**
 * Which way rows of a join out of core should take. Over PCIe kernels reach host memory about as fast as copy engines
 * do (51 and 55 GB/s on an H200), but rows that are partitioned in GPU memory can be packed before they leave, and
 * those of partitions that stay there never leave: 16 bytes and what is spilled, packed, where kernels that partition
 * far memory move 3 times 16. On coherent machines the link is no longer what limits the join, and kernels need neither
 * pinned memory nor copies.
 */
export function wantedPath({ isCoherent, asked }: PathFacts): OutOfCorePathName {
    return asked ?? (isCoherent === true ? "coherent" : "staged");
}

/** The way that they take; `obstacle`: why the coherent one is not to be had for this join. */
export function choosePath(facts: PathFacts, obstacle?: string): OutOfCorePath {
    const wanted = wantedPath(facts);
    const asked = facts.asked !== undefined;
    if (wanted === "staged") {
        const reason = "PCIe: copy engines bring chunks in and packed rows out, fewer bytes than kernels would move";
        return { wanted, runs: "staged", reason: asked ? "asked for" : reason };
    }
    const why = asked ? "asked for" : "kernels of this GPU use the host's page tables";
    if (obstacle === undefined) return { wanted, runs: "coherent", reason: why };
    const refused = asked ? "the coherent path was asked for" : why;
    return { wanted, runs: "staged", reason: `${refused}, but for this join it is not to be had: ${obstacle}` };
}
