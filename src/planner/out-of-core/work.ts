// SPDX-License-Identifier: Apache-2.0
import type {
    OutOfCoreCoherent,
    OutOfCoreJoinWork,
    OutOfCoreShape,
    OutOfCoreSizes,
    OutOfCoreWork
} from "../../plan/out-of-core-stage.js";
import { coherentRowBytes } from "./coherent-device-bytes.js";
import { joinPassBits, sortPassBits } from "./shared-memory.js";

/** Of the multiprocessors, for kernels that gather, or have a second pass: cuda/coherent_join/coherent_policy.hpp. */
const gatherShare = 1 / 4;
const secondPassShare = 1 / 2;

interface JoinFacts {
    readonly shape: OutOfCoreShape;
    readonly buildRows: number;
    readonly sizes: OutOfCoreSizes;
    readonly coherent: OutOfCoreCoherent | null;
    /** Shared memory of a block. */
    readonly blockBytes: number;
    readonly multiprocessors: number | undefined;
}

function multiprocessorsOf(
    { coherent, multiprocessors: all }: JoinFacts,
    share: number
): OutOfCoreJoinWork["multiprocessors"] {
    if (coherent === null || all === undefined) return null;
    const { partitionBlocks, gatherBlocks } = coherent;
    const fetch = gatherBlocks === 0 ? Math.max(1, Math.floor(all * share)) : gatherBlocks;
    return {
        firstPass: partitionBlocks === 0 ? all : Math.min(all, partitionBlocks),
        fetch: Math.min(all, fetch),
        join: fetch < all ? all - fetch : all
    };
}

/** Rows of the result take turns with spilled ones: they leave by the same link. */
function streamsOf(isCoherent: boolean, givesRows: boolean): string[] {
    if (!isCoherent) return ["chunks in", "kernels", givesRows ? "spilled rows and results out" : "spilled rows out"];
    return givesRows ? ["kernels", "gathering", "results out"] : ["kernels", "second pass"];
}

/** Counts on the coherent path are joined by tables, all else by an index of sorted rows. */
export function joinWork(facts: JoinFacts): OutOfCoreJoinWork {
    const { shape, buildRows, sizes, coherent, blockBytes } = facts;
    const partitionRows = buildRows / 2 ** sizes.radixBits;
    const givesRows = shape.result === "rows";
    const hasTables = coherent !== null && !givesRows;
    return {
        histogram: "none",
        streams: streamsOf(coherent !== null, givesRows),
        secondPass: hasTables ? "hashTables" : "sort",
        secondPassBits: hasTables
            ? joinPassBits(partitionRows, sizes.radixBits, blockBytes, coherentRowBytes(shape))
            : sortPassBits(partitionRows, sizes.radixBits),
        multiprocessors: multiprocessorsOf(facts, hasTables ? secondPassShare : gatherShare)
    };
}

export const groupWork: OutOfCoreWork = {
    histogram: "none",
    streams: ["chunks in", "kernels", "spilled rows out", "results out"]
};
