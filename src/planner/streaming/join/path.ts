// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreJoinAlgorithm, OutOfCorePathName } from "../../../model/algorithms.js";
import { formatMs } from "../../../model/sizes.js";
import type { OutOfCorePath } from "../../../plan/out-of-core-stage.js";
import { attempt, NotOnDevice } from "../../device-support.js";
import { phasesMs, type OutOfCorePhases } from "./predict.js";

/** What counts for the way that rows take between the GPU and host memory. */
export interface PathFacts {
    /** Kernels use memory of the host through its own page tables: Grace, POWER9. undefined: no GPU was opened yet. */
    readonly isCoherent?: boolean | undefined;
    /** Speeds are those of this GPU. */
    readonly isMeasured?: boolean | undefined;
    /** By the user; such a join takes its own way or none. */
    readonly asked?: OutOfCoreJoinAlgorithm | undefined;
}

/** Plans of both paths; each throws NotOnDevice where there is none. */
export type PathDrafts<T> = Readonly<Record<OutOfCorePathName, () => T>>;

interface Drafted {
    readonly predicted: OutOfCorePhases;
}

const pcie = "PCIe: copy engines bring chunks in and packed rows out, fewer bytes than kernels would move";
/** The way of each join, and the join that the planner means by a way. */
const pathOf: Readonly<Record<OutOfCoreJoinAlgorithm, OutOfCorePathName>> = {
    staged: "staged",
    triton: "coherent",
    "triton-uncached": "coherent",
    "stream-probe": "staged",
    "npj-far": "staged",
    "cpu-partitioned": "staged"
};
export const pathAlgorithms = { staged: "staged", coherent: "triton" } as const;

const pageTables = "kernels of this GPU use the host's page tables";

/**
 * Which way rows of a join out of core should take, if it can take both. Over PCIe kernels reach host memory about as
 * fast as copy engines do (51 and 55 GB/s on an H200), but rows that are partitioned in GPU memory can be packed before
 * they leave, and those of partitions that stay there never leave: 16 bytes and what is spilled, packed, where kernels
 * that partition far memory move 3 times 16. On coherent machines the link is no longer what limits the join, and
 * kernels need no pinned memory: workers copy rows once, into chunks of plain memory, which kernels read where they
 * lie.
 */
export function wantedPath({ isCoherent, asked }: PathFacts): OutOfCorePathName {
    if (asked !== undefined) return pathOf[asked];
    return isCoherent === true ? "coherent" : "staged";
}

const msOf = ({ predicted }: Drafted): number => phasesMs(predicted);

/** The faster of both on a coherent machine; where its speeds are not known, those of a PCIe machine tell nothing. */
function coherentMachine<T extends Drafted>(drafts: PathDrafts<T>, byKernels: T, isMeasured: boolean) {
    const kernels = { wanted: "coherent", runs: "coherent" } as const;
    if (!isMeasured) return { draft: byKernels, path: { ...kernels, reason: pageTables } };
    const byCopies = attempt(drafts.staged);
    if (byCopies instanceof NotOnDevice) {
        return { draft: byKernels, path: { ...kernels, reason: `${pageTables}; by copy engines ${byCopies.reason}` } };
    }
    const times = `predicted ${formatMs(msOf(byKernels))} by kernels, ${formatMs(msOf(byCopies))} by copy engines`;
    if (msOf(byKernels) <= msOf(byCopies)) return { draft: byKernels, path: { ...kernels, reason: times } };
    return { draft: byCopies, path: { wanted: "staged", runs: "staged", reason: times } as const };
}

/**
 * The plan of a join by the way that its rows take, and why it is that one. Throws NotOnDevice where there is none, and
 * where a join that was asked for cannot take its own way, whatever other one there is.
 */
export function choosePath<T extends Drafted>(
    facts: PathFacts,
    drafts: PathDrafts<T>
): { draft: T; path: OutOfCorePath } {
    const wanted = wantedPath(facts);
    const { asked } = facts;
    if (asked !== undefined) {
        return { draft: drafts[wanted](), path: { wanted, runs: wanted, reason: `that of "${asked}"` } };
    }
    if (wanted === "staged") return { draft: drafts.staged(), path: { wanted, runs: "staged", reason: pcie } };
    const draft = attempt(drafts.coherent);
    if (draft instanceof NotOnDevice) {
        const reason = `${pageTables}, but this join cannot take it: ${draft.reason}`;
        return { draft: drafts.staged(), path: { wanted, runs: "staged", reason } };
    }
    return coherentMachine(drafts, draft, facts.isMeasured === true);
}
