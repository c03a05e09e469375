// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import {
    algorithmTitles,
    deviceGroupAlgorithms,
    deviceJoinAlgorithms,
    type AlgorithmChoice,
    type DeviceGroupAlgorithm,
    type DeviceJoinAlgorithm
} from "../model/algorithms.js";
import type { KeySpec } from "../model/column-type.js";
import { formatCount } from "../model/sizes.js";
import type { GroupNode, JoinNode, LogicalNode } from "../plan/logical.js";
import type { Estimator } from "./estimates.js";
import { joinSides, joinSidesFrom, otherSide, type JoinSides, type Side } from "./join-sides.js";
import type { Policy } from "./policy.js";
import { looksUnique, type KeyStatistics } from "./statistics.js";

/** The values that have a slot in the array of "npj-perfect"; none for other algorithms. */
interface KeyRange {
    /** As 64 bits in hexadecimal. */
    readonly firstKey: string;
    readonly keyRange: number;
}

export interface JoinCandidates extends KeyRange {
    readonly sides: JoinSides;
    /** Of these the planner takes the fastest: one where the user named it. */
    readonly algorithms: readonly DeviceJoinAlgorithm[];
    readonly chosenBy: AlgorithmChoice;
}

const withoutRange = deviceJoinAlgorithms.filter((name) => name !== "npj-perfect");
const noRange: KeyRange = { firstKey: "0x0", keyRange: 0 };

/** Makes its rows in pieces, whatever the user named: other algorithms need all their pairs in memory at once. */
export const piecesAlgorithm: DeviceJoinAlgorithm = "phj-tr";

/** "phj-tr, radix hash join of packed rows on the GPU, inner (chosen by the planner)". */
export function operationText(
    algorithm: DeviceJoinAlgorithm | DeviceGroupAlgorithm,
    chosenBy: AlgorithmChoice,
    type?: string,
    inPieces = false
): string {
    const what = `${algorithm}, ${algorithmTitles[algorithm]} on the GPU`;
    const by = algorithm === piecesAlgorithm ? "" : ` by ${piecesAlgorithm}`;
    const pieces = inPieces ? `, in pieces${by}` : "";
    return `${what}${type === undefined ? "" : `, ${type}`} (chosen by the ${chosenBy})${pieces}`;
}

/** Some name of an algorithm in the query that the user gave; undefined: all is left to the planner. */
export function namedAlgorithm(node: LogicalNode): DeviceJoinAlgorithm | DeviceGroupAlgorithm | undefined {
    if (node.kind === "input") return undefined;
    if (node.kind === "group") return node.algorithm ?? namedAlgorithm(node.child);
    return node.algorithm ?? namedAlgorithm(node.left) ?? namedAlgorithm(node.right);
}

function refused(algorithm: DeviceJoinAlgorithm, reason: string): SpillwayError {
    const message = `\`algorithm\` "${algorithm}" cannot run this join: ${reason}; use "auto" or another algorithm`;
    return new SpillwayError("INVALID_ARGUMENT", message, { option: "algorithm", reason });
}

/** Is no key of the side's rows there twice, as far as anybody can tell before the query runs? */
function isUnique(node: LogicalNode, statistics: KeyStatistics): boolean {
    // A group-by by the key alone gives each of its values once; the sample is that of what it reads.
    if (node.kind === "group") return node.keys.length === 1;
    return node.kind === "input" && (statistics.min === null || looksUnique(statistics));
}

/** Keys are words without a sign; narrow ones get zeros in front, which tears a range around 0 apart. */
function rangeOf(statistics: KeyStatistics, key: KeySpec): KeyRange {
    const { min, max } = statistics;
    if (min === null || max === null) return noRange;
    if (key.width < 4 && min < 0n) return { firstKey: "0x0", keyRange: 2 ** (8 * key.width) };
    return { firstKey: `0x${BigInt.asUintN(64, min).toString(16)}`, keyRange: Number(max - min) + 1 };
}

/** The range of the keys if that side can be an array indexed by them, or why it cannot. */
function perfectRange(node: JoinNode, side: Side, estimator: Estimator, policy: Policy): KeyRange | string {
    const [key] = node.keys;
    if (key === undefined || node.keys.length > 1) return `it joins by one key column, not by ${node.keys.length}`;
    const name = node[side].columns[key[side].column]?.name ?? "";
    if (key[side].kind !== "integer") return `key \`${name}\` is no integer`;
    if (node.nullEquality) return "NULL has no place in an array indexed by keys (`nullEquality`)";
    const statistics = estimator.statisticsOf(node[side], [key[side]]);
    if (statistics === undefined) return `the range of key \`${name}\` is not known before the query runs`;
    if (!isUnique(node[side], statistics)) return `values of key \`${name}\` may come twice in the ${side} relation`;
    const range = rangeOf(statistics, key[side]);
    const { rows } = estimator.of(node[side]);
    if (range.keyRange <= Math.max(policy.devicePerfectRangeMin, rows * policy.devicePerfectSlotsPerRow)) return range;
    const values = `${formatCount(range.keyRange)} values for ${formatCount(Math.ceil(rows))} rows`;
    return `key \`${name}\` is not dense, with a range of ${values}`;
}

/**
 * The build side of a join on the GPU and the algorithms that can do it; throws INVALID_ARGUMENT where the user's does
 * not fit. `plain`: the planner takes nothing that the GPU may refuse.
 */
export function joinCandidates(
    node: JoinNode,
    needed: readonly number[],
    estimator: Estimator,
    policy: Policy,
    plain: boolean
): JoinCandidates {
    const sides = joinSides(node, needed, estimator, policy);
    const { algorithm } = node;
    if (algorithm === undefined) {
        // An array over keys needs their exact range, for which all of them would have to be read.
        const algorithms = plain ? (["phj-tr"] as const) : withoutRange;
        return { sides, algorithms, chosenBy: "planner", ...noRange };
    }
    const algorithms = [algorithm];
    if (algorithm !== "npj-perfect") return { sides, algorithms, chosenBy: "user", ...noRange };
    const candidates = node.hints.buildSide === undefined ? [sides.build, otherSide(sides.build)] : [sides.build];
    const ranges = candidates.map((side) => perfectRange(node, side, estimator, policy));
    const found = ranges.findIndex((range) => typeof range !== "string");
    const range = ranges[found];
    if (range === undefined || typeof range === "string") throw refused(algorithm, ranges.join(", and "));
    return { sides: joinSidesFrom(node, candidates[found] as Side), algorithms, chosenBy: "user", ...range };
}

export interface GroupCandidates {
    readonly algorithms: readonly DeviceGroupAlgorithm[];
    readonly chosenBy: AlgorithmChoice;
}

/** The same of a group-by. All algorithms do whatever one of them does. */
export function groupCandidates(node: GroupNode): GroupCandidates {
    return node.algorithm === undefined
        ? { algorithms: deviceGroupAlgorithms, chosenBy: "planner" }
        : { algorithms: [node.algorithm], chosenBy: "user" };
}
