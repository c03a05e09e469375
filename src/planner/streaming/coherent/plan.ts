// SPDX-License-Identifier: Apache-2.0
import { deviceConstants } from "../../../model/device-constants.js";
import type { Interleave } from "../../../model/experiment.js";
import type {
    OutOfCoreCoherent,
    OutOfCoreFilter,
    OutOfCoreJoinWork,
    OutOfCoreTurns
} from "../../../plan/out-of-core-stage.js";
import { requirePerfectKeys } from "../../perfect-keys.js";
import { defaultPolicy } from "../../policy.js";
import { gatherCostsOf, loadOf, sizeRequestOf, type JoinDraft, type JoinFacts } from "../join/facts.js";
import { phasesMs, type JoinLoad } from "../join/predict.js";
import { ringBytes } from "../join/sizes.js";
import { sortPassBits } from "../shared-memory.js";
import { coherentLayout } from "./row-layout.js";
import { predictCoherent } from "./predict.js";
import {
    chooseCoherentSizes,
    isJoinedByTables,
    isPerfectlyHashed,
    type CoherentSizeRequest,
    type CoherentSizes
} from "./sizes.js";
import { bestNearShare, turnsOf } from "./turns.js";

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

function workOf(
    { memory: { shape }, multiprocessors }: CoherentSizeRequest,
    { sizes: { radixBits }, coherent, splitBits }: CoherentSizes,
    buildRows: number
): Omit<OutOfCoreJoinWork, "turns"> {
    const hasTables = isJoinedByTables(shape);
    return {
        histogram: "none",
        streams: hasTables
            ? ["kernels", "second pass"]
            : ["kernels", "gathering", ...(shape.result === "rows" ? ["results out"] : [])],
        secondPass: hasTables ? "hashTables" : "sort",
        secondPassBits: hasTables ? splitBits : sortPassBits(buildRows / 2 ** radixBits, radixBits),
        multiprocessors: multiprocessorsOf(coherent, multiprocessors, hasTables ? secondPassShare : gatherShare)
    };
}

/** How many pages lie where. */
function pagesOf({ sizes: { pages }, shares }: CoherentSizes): OutOfCoreTurns["pages"] {
    const [device, peer] = [Math.round(pages * shares.near), Math.round(pages * shares.peer)];
    return { device, peer, host: pages - device - peer };
}

/** Where pages lie: as was asked for, as many of GPU memory as fit, or fewer where their speeds say that. */
function withTurns(request: CoherentSizeRequest, load: JoinLoad): { chosen: CoherentSizes; turns: OutOfCoreTurns } {
    const chosen = chooseCoherentSizes(request);
    const { interleave, residentShare } = request.debug;
    const isAsked = interleave !== undefined || residentShare !== undefined || request.isUncached === true;
    const told = (turns: Interleave, from: CoherentSizes, reason: OutOfCoreTurns["reason"]) => ({
        chosen: from,
        turns: { ...turns, pages: pagesOf(from), reason }
    });
    const most = chosen.shares.near;
    if (isAsked) return told(interleave ?? turnsOf(most), chosen, "asked");
    const share = bestNearShare(most, (near) => {
        const peer = Math.min(chosen.peerMost, 1 - near);
        return phasesMs(predictCoherent(load, chosen.rowBytes, { near, peer }));
    });
    const turns = turnsOf(share);
    if (share === most) return told(turns, chosen, "capacity");
    return told(
        turns,
        chooseCoherentSizes({ ...request, debug: { ...request.debug, interleave: turns } }),
        "bandwidth"
    );
}

/** The join by kernels alone. Throws NotOnDevice with why they cannot make it. */
export function coherentDraft(facts: JoinFacts): JoinDraft {
    const { query, node, sides, estimator } = facts;
    const layout = coherentLayout(node, sides, query.sink === "count");
    if (isPerfectlyHashed(layout.join, query.debug)) {
        requirePerfectKeys(node, sides.build, estimator, query.policy ?? defaultPolicy);
    }
    // All rows come partition by partition, none in the order of its source.
    const load = loadOf(facts, { layout, costs: gatherCostsOf(facts, 1) });
    const request = { ...sizeRequestOf(facts, load), isUncached: node.algorithm === "triton-uncached" };
    const { chosen, turns } = withTurns(request, load);
    const { sizes, coherent, deviceBytes, rowBytes, shares } = chosen;
    return {
        ...{ sizes, coherent, baseline: null, deviceBytes, layout },
        predicted: predictCoherent(load, rowBytes, shares),
        filter: noFilter(query.debug.filter),
        heldBytes: load.heldBytes,
        rings: ringBytes(request.memory, sizes),
        packed: { build: false, probe: false },
        work: { ...workOf(request, chosen, estimator.of(node[sides.build]).rows), turns },
        way: `partitioned by kernels in GPU${shares.peer > 0 ? ", a peer's" : ""} and host memory`
    };
}
