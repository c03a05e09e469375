// SPDX-License-Identifier: Apache-2.0
import type { BaselineJoinAlgorithm } from "../../../model/algorithms.js";
import type { JoinNode } from "../../../plan/logical.js";
import type {
    OutOfCoreBaseline,
    OutOfCoreFilter,
    OutOfCoreJoinWork,
    OutOfCoreSizes
} from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import type { JoinSides } from "../../join-sides.js";
import { requireKnownRows } from "../coherent/row-layout.js";
import { noFilter } from "../join/filter.js";
import { layoutOf, loadOf, sizeRequestOf, type JoinDraft, type JoinFacts } from "../join/facts.js";
import { baselineLimits } from "../join/row-layout.js";
import { ringBytes } from "../join/sizes.js";
import { sortPassBits } from "../shared-memory.js";
import { predictBaseline } from "./predict.js";
import { chooseBaselineSizes } from "./sizes.js";

const ways: Readonly<Record<BaselineJoinAlgorithm, string>> = {
    "stream-probe": "probe rows stream past the build side in GPU memory",
    "npj-far": "probe rows stream past a hash table in GPU and host memory",
    "cpu-partitioned": "partitioned by the CPU in host memory"
};

const noneHere: OutOfCoreFilter = { bytes: 0, droppedShare: 0, reason: "no rows are spilled" };

function workOf(
    { algorithm, streamProbe }: OutOfCoreBaseline,
    { radixBits }: OutOfCoreSizes,
    buildRows: number
): OutOfCoreJoinWork {
    const isPartitioned = algorithm === "cpu-partitioned";
    return {
        histogram: isPartitioned ? "cpu" : streamProbe === "partitioned" ? "gpu" : "none",
        streams: [isPartitioned ? "partitions in" : "chunks in", "kernels", "results out"],
        secondPass: isPartitioned ? "sort" : "none",
        secondPassBits: isPartitioned ? sortPassBits(buildRows / 2 ** radixBits, radixBits) : 0,
        multiprocessors: null,
        turns: null
    };
}

/** Throws NotOnDevice for joins whose result is more than pairs of rows. */
function requirePairs({ type }: JoinNode, sides: JoinSides): void {
    const { emit, anti, keepUnmatchedBuild, keepUnmatchedProbe } = sides;
    if (emit === "pairs" && !anti && !keepUnmatchedBuild && !keepUnmatchedProbe) return;
    throw new NotOnDevice(`it makes inner joins, and this is one of type "${type}"`);
}

/** A join that others are compared with. Throws NotOnDevice with why it cannot be. */
export function baselineDraft(facts: JoinFacts, algorithm: BaselineJoinAlgorithm): JoinDraft {
    const { query, node, sides, estimator } = facts;
    requirePairs(node, sides);
    requireKnownRows(node);
    // What they compare is a key of a word, or a hash of more.
    const costed = layoutOf(facts, baselineLimits);
    const load = loadOf(facts, costed);
    const { memory } = load;
    const request = {
        ...sizeRequestOf(facts, load),
        packedBytes: memory.rowBytes,
        filter: noFilter,
        linkBytesPerMs: query.profile.deviceCopyInBytesPerMs
    };
    const chosen = chooseBaselineSizes(algorithm, request);
    const { sizes, baseline, told } = chosen;
    return {
        ...{ layout: costed.layout, sizes, coherent: null, baseline, deviceBytes: told.deviceBytes },
        predicted: predictBaseline(load, chosen),
        filter: noneHere,
        heldBytes: load.heldBytes,
        rings: ringBytes(memory, sizes),
        packed: { build: false, probe: false },
        work: workOf(baseline, sizes, estimator.of(node[sides.build]).rows),
        way: ways[algorithm]
    };
}
