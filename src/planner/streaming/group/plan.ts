// SPDX-License-Identifier: Apache-2.0
import type { GroupNode, InputNode } from "../../../plan/logical.js";
import type { OutOfCoreGroupLayout, OutOfCoreGroupStage } from "../../../plan/out-of-core-group-stage.js";
import type { Plan } from "../../../plan/plan.js";
import { attempt, NotOnDevice } from "../../device-support.js";
import { Estimator } from "../../estimates.js";
import type { KeyStatistics } from "../../statistics.js";
import { isForcedOutOfCore } from "../../named-algorithm.js";
import type { PlanQuery } from "../../plan-search.js";
import { defaultPolicy } from "../../policy.js";
import { hostBytes, hostShare, tablesFactor } from "../host-memory.js";
import { fillingOf, isPacked, outOfCoreStartMs } from "../link.js";
import { isShortText } from "../short-texts.js";
import { diskBytes, expectedOnDisk, expectedOnPeer, spilledTo } from "../spill.js";
import { moreKeyWords, withShortTexts } from "./keys.js";
import { outOfCoreGroupLayout } from "./row-layout.js";
import { shortSumsOf } from "./short-sums.js";
import { packedPartialBytes, predictGroups } from "./predict.js";
import { chooseGroupSizes, groupRingBytes, mostGroupHostBytes, spilledGroupRows } from "./sizes.js";
import type { GroupSizeRequest } from "./sizes.js";

type InputGroup = GroupNode & { readonly child: InputNode };

function requireInputGroup(node: GroupNode): InputGroup {
    if (node.child.kind !== "input") throw new NotOnDevice("it is no group-by of an input");
    if (node.algorithm !== undefined) {
        throw new NotOnDevice(`"${node.algorithm}" was asked for, which groups a table in GPU memory`);
    }
    return node as InputGroup;
}

/**
 * Keys of so many groups at most are compared by their words: two of them share a hash of 64 bits in one of 8,000
 * queries, which are planned again then.
 */
const wordGroupsMax = 2 ** 26;

function layoutOf(query: PlanQuery, node: InputGroup): OutOfCoreGroupLayout {
    const estimator = new Estimator(node, query.statistics, query.policy ?? defaultPolicy, query.tableFull);
    const inWords = query.plainDevice !== true && estimator.of(node).rows <= wordGroupsMax;
    const counted = query.sink === "count";
    const isShortSum = shortSumsOf(query, node, estimator);
    const short = withShortTexts(node);
    if (short.keys.some(isShortText)) {
        const layout = attempt(() => outOfCoreGroupLayout(short, counted, { inWords, isShortSum }));
        // Keys that workers number have no words.
        if (!(layout instanceof NotOnDevice) && !layout.side.numbered) return layout;
    }
    return outOfCoreGroupLayout(node, counted, { inWords, isShortSum });
}

/** The whole sample counts: a chunk of rows is longer, and finds keys again that a piece of the sample has once. */
function differentShare(statistics: KeyStatistics | undefined): number {
    if (statistics === undefined || statistics.sampledRows === 0) return 1;
    return Math.min(1, statistics.sampledDistinct / statistics.sampledRows);
}

/** As outOfCoreHostBytes; throws NotOnDevice. */
export function groupHostBytes(query: PlanQuery, root: GroupNode, limitBytes: number): number {
    const node = requireInputGroup(root);
    const { group } = layoutOf(query, node);
    const memory = query.deviceMemory.ofGroupBy(group);
    const { rows } = node.child.input;
    if (!isForcedOutOfCore(query) && tablesFactor * rows * memory.rowBytes < limitBytes) return 0;
    return Math.ceil(mostGroupHostBytes(memory, rows, limitBytes, query.debug) / hostShare);
}

/** Throws NotOnDevice with why the group-by cannot run out of core. */
export function groupStageOf(query: PlanQuery, root: GroupNode, host: Plan, limitBytes: number): OutOfCoreGroupStage {
    const { sink, profile, debug } = query;
    const node = requireInputGroup(root);
    const policy = query.policy ?? defaultPolicy;
    const estimator = new Estimator(node, query.statistics, policy, query.tableFull);
    const layout = layoutOf(query, node);
    const words = moreKeyWords(layout);
    const rows = Math.ceil(estimator.of(node.child).rows);
    const groups = Math.ceil(estimator.of(node).rows);
    // Nothing is known of the numbers that the host makes of keys.
    const isKnown = node.keys.length > 0 && !layout.side.numbered && words === 0;
    const statistics = isKnown ? estimator.statisticsOf(node.child, node.keys) : undefined;
    const memory = query.deviceMemory.ofGroupBy(layout.group);
    const request: GroupSizeRequest = {
        ...{ memory, rows, groups, limitBytes, debug },
        packedBytes: packedPartialBytes(layout, statistics),
        hostBytes: hostBytes(host),
        peerBytes: query.peerBytes,
        sparing: sink === "table",
        guessed: node.child.input.streamed,
        isKeyless: node.keys.length === 0
    };
    const sizes = chooseGroupSizes(request);
    const spilledRows = spilledGroupRows(request, sizes);
    const spilledBytes = spilledRows * request.packedBytes;
    const hasShortTexts = layout.side.keys.some(isShortText);
    const leastBytes = node.child.input.streamed ? rows * memory.rowBytes : 0;
    const filling = fillingOf(node.child.input, layout.side, leastBytes, { ...query, workers: host.threads });
    const predicted = predictGroups({
        ...{ layout, memory, rows, sink, profile },
        filling,
        distinctKeys: Math.min(rows, groups),
        distinctTexts: node.keys.length === 1 && !layout.side.numbered && !hasShortTexts ? Math.min(rows, groups) : 0,
        ...{ isManyKeys: groups > sizes.chunkRows / 2, differentShare: differentShare(statistics), sizes },
        // Words of keys are checked by the host.
        groups: sink === "count" && words === 0 ? 0 : groups,
        spilledBytes,
        peerBytes: expectedOnPeer({ build: spilledBytes, probe: 0 }, sizes).build,
        diskBytes: expectedOnDisk({ build: spilledBytes, probe: 0 }, sizes).build,
        spilledShare: rows === 0 ? 0 : spilledRows / rows,
        workers: host.threads
    });
    const rings = groupRingBytes(memory, sizes);
    return {
        id: 0,
        kind: "deviceOutOfCoreGroupBy",
        name: sink === "count" ? "count" : "group",
        algorithm:
            "out of core on the GPU: chunks aggregated and partitioned in GPU memory, " +
            `spilled to ${spilledTo(predicted)}`,
        rowsIn: rows,
        rowsOut: groups,
        frees: [],
        live: [],
        memory: {
            inputBytes: rings.chunks,
            tableBytes: sizes.spillBytes + diskBytes(sizes),
            outputBytes: rings.results
        },
        predictedMs: predicted.readMs + predicted.residentMs + predicted.spilledMs + outOfCoreStartMs,
        predictedSpillBytes: predicted.diskBytes,
        input: 0,
        packed: isPacked(filling) ? [0] : [],
        ...{ layout, sizes, predicted, deviceBytes: memory.of(sizes).deviceBytes },
        path: { wanted: "staged", runs: "staged", reason: "group-bys have no other" },
        work: { histogram: "none", streams: ["chunks in", "kernels", "spilled rows out", "results out"] }
    };
}
