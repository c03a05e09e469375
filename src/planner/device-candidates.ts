// SPDX-License-Identifier: Apache-2.0
import {
    algorithmTitles,
    deviceGroupAlgorithms,
    deviceJoinAlgorithms,
    isTableJoin,
    type AlgorithmChoice,
    type DeviceGroupAlgorithm,
    type DeviceJoinAlgorithm
} from "../model/algorithms.js";
import type { GroupNode, JoinNode } from "../plan/logical.js";
import { NotOnDevice } from "./device-support.js";
import type { Estimator } from "./estimates.js";
import { joinSides, joinSidesFrom, otherSide, type JoinSides, type Side } from "./join-sides.js";
import { refusedAlgorithm } from "./named-algorithm.js";
import { perfectRange, unknownRange, type KeyRange } from "./perfect-keys.js";
import type { Policy } from "./policy.js";

export interface JoinCandidates extends KeyRange {
    readonly sides: JoinSides;
    /** The planner takes the fastest of these; there is one where the user named it. */
    readonly algorithms: readonly DeviceJoinAlgorithm[];
    readonly chosenBy: AlgorithmChoice;
}

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
        // Nobody has read all keys of an array: their range is found on the GPU.
        const algorithms = plain ? (["phj-tr"] as const) : deviceJoinAlgorithms;
        return { sides, algorithms, chosenBy: "planner", ...unknownRange };
    }
    if (!isTableJoin(algorithm))
        throw new NotOnDevice(`"${algorithm}" was asked for, which is no join of tables in GPU memory`);
    const algorithms = [algorithm];
    if (algorithm !== "npj-perfect") return { sides, algorithms, chosenBy: "user", ...unknownRange };
    const candidates = node.hints.buildSide === undefined ? [sides.build, otherSide(sides.build)] : [sides.build];
    const ranges = candidates.map((side) => perfectRange(node, side, estimator, policy));
    const found = ranges.findIndex((range) => typeof range !== "string");
    const range = ranges[found];
    if (range === undefined || typeof range === "string") throw refusedAlgorithm(algorithm, ranges.join(", and "));
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
