// SPDX-License-Identifier: Apache-2.0
import type { DeviceGroupAlgorithm, DeviceJoinAlgorithm } from "../model/algorithms.js";
import type { DeviceAggregate } from "../plan/device-stages.js";
import type { GroupNode, JoinNode } from "../plan/logical.js";
import type { KeySpec } from "../model/column-type.js";
import type { DeviceGroupShape, DeviceJoinShape } from "./device-cost/shapes.js";
import type { Estimator } from "./estimates.js";
import { otherSide, type JoinSides, type Side } from "./join-sides.js";
import { arrayKeys, isUnique } from "./perfect-keys.js";
import type { Policy } from "./policy.js";
import { distinctKeys, repeatsTolerated, sharedRange } from "./statistics.js";

/** Keys are packed into words of 4 or 8 bytes; wider ones are numbered, and the numbers joined. */
function packedKeyBytes(keys: readonly KeySpec[]): number {
    const isBytes = keys.some(({ kind }) => kind === "bytes" || kind === "dictionaryValue");
    const bytes = keys.reduce((sum, { width }) => sum + width, 0);
    return !isBytes && bytes <= 4 ? 4 : 8;
}

function keysOf(node: JoinNode, side: Side): KeySpec[] {
    return node.keys.map((key) => key[side]);
}

/**
 * Bits in which the keys of both sides may differ, by which sorts go; undefined: not known, or keys are no numbers. Of
 * numbers in a range those that its ends differ in, and all below.
 */
function differingBits(node: JoinNode, estimator: Estimator): number | undefined {
    const [key] = node.keys;
    if (key === undefined || node.keys.length > 1) return undefined;
    const [left, right] = (["left", "right"] as const).map((side) =>
        estimator.statisticsOf(node[side], keysOf(node, side))
    );
    const ends = [left?.min, left?.max, right?.min, right?.max];
    const words = ends.map((end) =>
        end === null || end === undefined ? null : BigInt.asUintN(8 * key.left.width, end)
    );
    const [first] = words;
    if (first === null || first === undefined || words.includes(null)) return undefined;
    return Math.max(1, ...words.map((word) => (first ^ (word as bigint)).toString(2).length));
}

export interface JoinShapeRequest {
    node: JoinNode;
    sides: JoinSides;
    /** Widths of the columns that the result takes from each side. */
    payload: Record<Side, readonly number[]>;
    /** The same of columns of byte strings. */
    texts: Record<Side, readonly number[]>;
    counted: boolean;
    estimator: Estimator;
    policy: Policy;
    /** Among which to choose. */
    algorithms: readonly DeviceJoinAlgorithm[];
}

export function joinShape(request: JoinShapeRequest): DeviceJoinShape {
    const { node, sides, payload, texts, counted, estimator, policy, algorithms } = request;
    const { build, emit, anti, keepUnmatchedBuild, keepUnmatchedProbe } = sides;
    const probe = otherSide(build);
    const rowsOf = (side: Side): number => Math.ceil(estimator.of(node[side]).rows);
    const heaviest = (side: Side): number =>
        estimator.statisticsOf(node[side], keysOf(node, side))?.heaviestShare ?? 1 / Math.max(1, rowsOf(side));
    const uniqueBuildKeys = isUnique(node[build], keysOf(node, build), estimator, policy, repeatsTolerated);
    const { slots, likely } = arrayKeys(node, build, estimator, policy);
    const keyBytes = Math.max(packedKeyBytes(keysOf(node, "left")), packedKeyBytes(keysOf(node, "right")));
    const keyBits = differingBits(node, estimator);
    const statistics = estimator.statisticsOf(node[build], keysOf(node, build));
    const probed = estimator.statisticsOf(node[probe], keysOf(node, probe));
    const matchRatio = estimator.matchRatio(node, probe);
    // Without samples of both sides all rows may be in the range.
    const inRange = statistics === undefined || probed === undefined ? 1 : sharedRange(probed, statistics);
    const keys = statistics === undefined ? rowsOf(build) : Math.max(1, distinctKeys(statistics));
    const perKey = uniqueBuildKeys ? 1 : Math.max(1, rowsOf(build) / keys);
    return {
        buildRows: rowsOf(build),
        probeRows: rowsOf(probe),
        pairs: rowsOf(probe) * matchRatio * perKey,
        matchRatio,
        buildMatchRatio: estimator.matchRatio(node, build),
        inRangeShare: Math.max(matchRatio, inRange),
        keyBytes,
        ...(keyBits !== undefined && { keyBits }),
        buildPayload: payload[build],
        probePayload: payload[probe],
        buildTexts: texts[build],
        probeTexts: texts[probe],
        uniqueBuildKeys,
        // A sample is of an input: what a join below makes of its rows, it does not say.
        buildRowsPerKey: statistics !== undefined && node[build].kind === "input" ? perKey : null,
        buildKeyRange: slots,
        arrayKeys: likely,
        buildHeaviestShare: heaviest(build),
        probeHeaviestShare: heaviest(probe),
        counted,
        emit,
        keepsBuild: keepUnmatchedBuild || (anti && emit === "buildOnce"),
        keepsProbe: keepUnmatchedProbe || (anti && emit === "probeOnce"),
        algorithms
    };
}

const extremes: ReadonlySet<string> = new Set(["min", "max"]);
const narrowKinds: ReadonlySet<string> = new Set([...extremes, "sum", "mean", "countRows"]);

/** `widths`: of the column of each aggregate. */
export function groupShape(
    node: GroupNode,
    aggregates: readonly DeviceAggregate[],
    widths: readonly number[],
    algorithms: readonly DeviceGroupAlgorithm[],
    estimator: Estimator
): DeviceGroupShape {
    const rows = Math.ceil(estimator.of(node.child).rows);
    const statistics = node.keys.length === 0 ? undefined : estimator.statisticsOf(node.child, node.keys);
    return {
        rows,
        groups: Math.max(1, Math.ceil(estimator.of(node).rows)),
        keyBytes: packedKeyBytes(node.keys),
        values: widths,
        extremes: aggregates.every(({ kind }) => extremes.has(kind)),
        narrow: aggregates.every(({ kind }) => narrowKinds.has(kind)),
        heaviestShare: node.keys.length === 0 ? 1 : (statistics?.heaviestShare ?? 1 / Math.max(1, rows)),
        sorted: false,
        algorithms
    };
}
