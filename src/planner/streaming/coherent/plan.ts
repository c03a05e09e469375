// SPDX-License-Identifier: Apache-2.0
import { deviceConstants } from "../../../model/device-constants.js";
import type { OutOfCoreCoherent, OutOfCoreFilter, OutOfCoreJoinWork } from "../../../plan/out-of-core-stage.js";
import { gatherCostsOf, loadOf, sizeRequestOf, type JoinDraft, type JoinFacts } from "../join/facts.js";
import { ringBytes } from "../join/sizes.js";
import { sortPassBits } from "../shared-memory.js";
import { coherentLayout } from "./row-layout.js";
import { predictCoherent } from "./predict.js";
import { chooseCoherentSizes, type CoherentSizeRequest, type CoherentSizes } from "./sizes.js";

/** Kernels that gather, or have a second pass, get these shares of the multiprocessors. */
const gatherShare = 1 / deviceConstants.coherentGatherDivisor;
const secondPassShare = 1 / deviceConstants.coherentSecondPassDivisor;

function noFilter(asked: boolean | undefined): OutOfCoreFilter {
    const why = "kernels that partition host memory have none";
    return { bytes: 0, droppedShare: 0, reason: asked === true ? `asked for, but ${why}` : why };
}

/** `all`: of the GPU; undefined where it is not known yet. */
function multiprocessorsOf(
    { partitionBlocks, gatherBlocks }: OutOfCoreCoherent,
    all: number | undefined,
    share: number
): OutOfCoreJoinWork["multiprocessors"] {
    if (all === undefined) return null;
    const fetch = gatherBlocks === 0 ? Math.max(1, Math.floor(all * share)) : gatherBlocks;
    return {
        firstPass: partitionBlocks === 0 ? all : Math.min(all, partitionBlocks),
        fetch: Math.min(all, fetch),
        join: fetch < all ? all - fetch : all
    };
}

/** Counts are joined by tables, rows of a result by an index of sorted rows. */
function workOf(
    { memory: { shape }, multiprocessors }: CoherentSizeRequest,
    { sizes: { radixBits }, coherent, splitBits }: CoherentSizes,
    buildRows: number
): OutOfCoreJoinWork {
    const hasTables = shape.result !== "rows";
    return {
        histogram: "none",
        streams: hasTables ? ["kernels", "second pass"] : ["kernels", "gathering", "results out"],
        secondPass: hasTables ? "hashTables" : "sort",
        secondPassBits: hasTables ? splitBits : sortPassBits(buildRows / 2 ** radixBits, radixBits),
        multiprocessors: multiprocessorsOf(coherent, multiprocessors, hasTables ? secondPassShare : gatherShare)
    };
}

/** The join by kernels alone. Throws NotOnDevice with why they cannot make it. */
export function coherentDraft(facts: JoinFacts): JoinDraft {
    const { query, node, sides, estimator } = facts;
    const layout = coherentLayout(node, sides, query.sink === "count");
    // All rows come partition by partition, none in the order of its source.
    const load = loadOf(facts, { layout, costs: gatherCostsOf(facts, 1) });
    const request = { ...sizeRequestOf(facts, load), isUncached: node.algorithm === "triton-uncached" };
    const chosen = chooseCoherentSizes(request);
    const { sizes, coherent, deviceBytes, rowBytes, nearShare } = chosen;
    return {
        ...{ sizes, coherent, baseline: null, deviceBytes, layout },
        predicted: predictCoherent(load, rowBytes, nearShare),
        filter: noFilter(query.debug.filter),
        heldBytes: load.heldBytes,
        rings: ringBytes(request.memory, sizes),
        work: workOf(request, chosen, estimator.of(node[sides.build]).rows),
        way: "partitioned by kernels in GPU and host memory"
    };
}
