// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreJoinWork, OutOfCoreShape, OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";
import { otherSide, type Side } from "../../join-sides.js";
import type { Estimator } from "../../estimates.js";
import { expectedOnDisk, expectedOnPeer, spilledTo } from "../spill.js";
import { sortPassBits } from "../shared-memory.js";
import { chooseFilter, noFilter, type FilterDraft } from "./filter.js";
import { isPacked } from "../link.js";
import { layoutOf, loadOf, sizeRequestOf, type InputJoin, type JoinDraft, type JoinFacts } from "./facts.js";
import { packedRowBytes, predictOutOfCore, usualRadixBits, type JoinLoad } from "./predict.js";
import { chooseSizes, ringBytes, spilledBytes, type SizeRequest } from "./sizes.js";
import { residentShareOf } from "./resident-share.js";
import { backStartMs, chunksOf, probeReads } from "./spilled-copies.js";

/** What a filter of the build side's keys would see. */
function matchOf(node: InputJoin, build: Side, estimator: Estimator) {
    const keys = node.keys.map((key) => key[build]);
    return {
        buildKeys: estimator.distinct(node[build], keys),
        matchRatio: estimator.matchRatio(node, otherSide(build)),
        matchRatioMost: estimator.matchRatioMost(node, otherSide(build))
    };
}

/** Sizes with such a filter, or none, and what they come to. */
function planWith(plain: SizeRequest, filter: FilterDraft, load: JoinLoad) {
    const request = { ...plain, filter };
    const sizes = chooseSizes(request);
    const spilled = spilledBytes(request, sizes);
    const rows = { build: request.buildRows, probe: request.probeRows };
    const reads = probeReads(rows.build, sizes, request.memory);
    const predicted = predictOutOfCore({
        ...load,
        spilled,
        onPeer: expectedOnPeer(spilled, sizes),
        onDisk: expectedOnDisk(spilled, sizes),
        chunks: chunksOf(rows, sizes),
        probeReads: reads,
        backStartMs: backStartMs({ rows, reads }, sizes),
        droppedRows: request.probeRows * filter.droppedShare,
        residentShare: residentShareOf(sizes)
    });
    return { sizes, predicted };
}

/** Rows of the result take turns with spilled ones: they leave by the same link. */
function workOf({ result }: OutOfCoreShape, { radixBits }: OutOfCoreSizes, buildRows: number): OutOfCoreJoinWork {
    const out = result === "rows" ? "spilled rows and results out" : "spilled rows out";
    return {
        histogram: "none",
        streams: ["chunks in", "kernels", out],
        secondPass: "sort",
        secondPassBits: sortPassBits(buildRows / 2 ** radixBits, radixBits),
        multiprocessors: null,
        turns: null
    };
}

/** The join by copy engines. Throws NotOnDevice with why it cannot run so. */
export function stagedDraft(facts: JoinFacts): JoinDraft {
    const { query, node, sides, estimator } = facts;
    const by = { build: sides.build, probe: otherSide(sides.build) } as const;
    const costed = layoutOf(facts);
    const { layout } = costed;
    const load = loadOf(facts, costed, true);
    const asked = sizeRequestOf(facts, load);
    const { memory } = asked;
    const packed = (role: "build" | "probe"): number => {
        const keys = node.keys.map((key) => key[by[role]]);
        const statistics = estimator.statisticsOf(node[by[role]], keys);
        return packedRowBytes(layout, role, query.debug.radixBits ?? usualRadixBits, { memory, statistics });
    };
    const request: SizeRequest = {
        ...asked,
        packedBytes: { build: packed("build"), probe: packed("probe") },
        filter: noFilter,
        linkBytesPerMs: query.profile.deviceCopyInBytesPerMs
    };
    const { sizes, predicted, filter } = chooseFilter(
        { ...request, shape: layout.join, ...matchOf(node, by.build, estimator) },
        (draft) => planWith(request, draft, load)
    );
    return {
        ...{ layout, sizes, predicted, filter },
        ...{ coherent: null, baseline: null },
        deviceBytes: memory.of(sizes).deviceBytes,
        heldBytes: load.heldBytes,
        rings: ringBytes(memory, sizes),
        packed: { build: isPacked(load.filling.build), probe: isPacked(load.filling.probe) },
        work: workOf(layout.join, sizes, estimator.of(node[sides.build]).rows),
        way: `partitioned in GPU memory, spilled to ${spilledTo(predicted)}`
    };
}
