// SPDX-License-Identifier: Apache-2.0
import type { NullKeys } from "../model/column-type.js";
import { otherSide, type JoinNode, type Side } from "../plan/logical.js";
import type { Estimator } from "./estimates.js";
import { rowWidth } from "./estimates.js";
import type { Policy } from "./policy.js";
import { looksUnique, type KeyStatistics } from "./statistics.js";

export { otherSide, type Side };

/** What the plan makes of left and right; never changes the result. */
export interface JoinSides {
    build: Side;
    emit: "pairs" | "buildOnce" | "probeOnce";
    anti: boolean;
    keepUnmatchedBuild: boolean;
    keepUnmatchedProbe: boolean;
    nullKeys: Record<Side, NullKeys>;
}

/** Are rows of this side without a partner part of the result? */
function keepsUnmatched(node: JoinNode, side: Side): boolean {
    return node.type === "full" || node.type === side || (node.type === "anti" && side === "left");
}

function nullKeys(node: JoinNode, side: Side): NullKeys {
    if (node.nullEquality) return "equal";
    // A NULL key matches nothing, so such a row matters only where rows without a partner come out.
    return keepsUnmatched(node, side) ? "keep" : "drop";
}

/** Carried columns of one side for the wanted result columns. */
export function carriedColumns(node: JoinNode, needed: readonly number[], side: Side): number[] {
    const carried = new Set<number>();
    for (const index of needed) {
        const column = node.columns[index];
        if (column !== undefined && (column.side === side || column.side === "either")) carried.add(column[side]);
    }
    return [...carried].sort((a, b) => a - b);
}

/** Bytes of a side if the tables were built on it, more where its keys repeat. */
function buildBytes(
    node: JoinNode,
    needed: readonly number[],
    side: Side,
    estimator: Estimator,
    policy: Policy
): number {
    const child = node[side];
    const { widths } = estimator.of(child);
    const rows = estimator.givenRows(child);
    const types = child.columns.map((column) => column.type);
    const keys = node.keys.map((key) => key[side]);
    const width = rowWidth(types, widths, keys, carriedColumns(node, needed, side), nullKeys(node, side));
    return rows * (width.fixed + width.heap + policy.slotBytesPerRow) * repeatsFactor(node, side, estimator);
}

// A key that so many rows of a sample have, and of which a build side would have a chain of so many rows.
const [hotSampled, hotRows] = [16, 1024];
/** How much larger another build side may be to be taken in the place of one with repeated keys, or with hot ones. */
const [repeatedFactor, hotFactor] = [1.25, 4];
/** Keys of a side are taken to repeat where its sample has this many times the other one's share of repeated keys. */
const repeatedMore = 8;

/**
 * What rows of the side weigh as those of a build side: a probe row walks along all build rows of its key, a hot one
 * alone along millions, while probe rows of a key may be as many as they like. H100, 2^25 x 2^25 rows counted, of which
 * the probe side has each key once: 20 ms with build keys that are drawn evenly, 115 with those by Zipf's law (1).
 */
function repeatsFactor(node: JoinNode, side: Side, estimator: Estimator): number {
    const statisticsOf = (of: Side): KeyStatistics | undefined =>
        estimator.statisticsOf(
            node[of],
            node.keys.map((key) => key[of])
        );
    const [own, others] = [statisticsOf(side), statisticsOf(otherSide(side))];
    if (own === undefined || others === undefined || !repeatMore(own, others)) return 1;
    const { heaviestShare, sampledRows, rows } = own;
    const isHot = heaviestShare * sampledRows >= hotSampled && heaviestShare * rows >= hotRows;
    return isHot ? hotFactor : repeatedFactor;
}

/**
 * A sample of a large relation shows few of the keys that repeat: one of 16,384 keys, of 2^24 that were drawn from as
 * many values, shows eight that come twice. Where all keys are different it shows none. A join of 2^24 rows each takes
 * 500 ms on two cores with tables of such keys and 308 with tables of the others.
 */
function repeatMore(own: KeyStatistics, others: KeyStatistics): boolean {
    const shareOf = ({ sampledRows, sampledDistinct }: KeyStatistics): number =>
        sampledRows === 0 ? 0 : 1 - sampledDistinct / sampledRows;
    if (!looksUnique(others) || looksUnique(own, 0)) return false;
    return !looksUnique(own) || shareOf(own) >= repeatedMore * shareOf(others);
}

/**
 * Builds on the smaller side, unless its keys repeat (or on the one that was asked for), and says how the join type
 * reads from there.
 */
export function joinSides(node: JoinNode, needed: readonly number[], estimator: Estimator, policy: Policy): JoinSides {
    const left = buildBytes(node, needed, "left", estimator, policy);
    const right = buildBytes(node, needed, "right", estimator, policy);
    return joinSidesFrom(node, node.hints.buildSide ?? (right < left ? "right" : "left"));
}

/** How a join reads from the given build side. */
export function joinSidesFrom(node: JoinNode, build: Side): JoinSides {
    const probe = otherSide(build);
    const once = node.type === "semi" || node.type === "anti";
    return {
        build,
        emit: once ? (build === "left" ? "buildOnce" : "probeOnce") : "pairs",
        anti: node.type === "anti",
        keepUnmatchedBuild: !once && keepsUnmatched(node, build),
        keepUnmatchedProbe: !once && keepsUnmatched(node, probe),
        nullKeys: { left: nullKeys(node, "left"), right: nullKeys(node, "right") }
    };
}
