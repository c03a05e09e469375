// SPDX-License-Identifier: Apache-2.0
// Keys that can be the places of an array ("npj-perfect"): each at most once, in a range that is not much larger than
// their number.
import type { KeySpec } from "../model/column-type.js";
import { formatCount } from "../model/sizes.js";
import type { InputKeys } from "../plan/device-stages.js";
import type { InputInfo, JoinNode, LogicalNode } from "../plan/logical.js";
import { NotOnDevice } from "./device-support.js";
import type { Estimator } from "./estimates.js";
import type { Side } from "./join-sides.js";
import type { Policy } from "./policy.js";
import { looksUnique, traceKeys, type KeyStatistics } from "./statistics.js";

/** The values that have a slot in the array. */
export interface KeyRange {
    /** As 64 bits in hexadecimal. */
    readonly firstKey: string;
    /** 0: found on the GPU, which refuses keys that are not dense. */
    readonly keyRange: number;
}

export const unknownRange: KeyRange = { firstKey: "0x0", keyRange: 0 };

/** Keys are words without a sign; narrow ones get zeros in front, which tears a range around 0 apart. */
export function rangeOf({ min, max }: KeyStatistics, key: KeySpec): KeyRange {
    if (min === null || max === null) return unknownRange;
    if (key.width < 4 && min < 0n) return { firstKey: "0x0", keyRange: 2 ** (8 * key.width) };
    return { firstKey: `0x${BigInt.asUintN(64, min).toString(16)}`, keyRange: Number(max - min) + 1 };
}

/**
 * Is no key of the node's rows there twice, as far as anybody can tell before the query runs? `tolerance`: share of a
 * sample's keys that may repeat another one all the same, for who makes no more than an estimate of it; he may take
 * small relations without a sample for tables of keys too. 0: a single repeated key is a refusal.
 */
export function isUnique(
    node: LogicalNode,
    keys: readonly KeySpec[],
    estimator: Estimator,
    policy: Policy,
    tolerance: number
): boolean {
    // A group-by gives each combination of its keys once; a sample is that of what it reads.
    if (node.kind === "group") return node.keys.every((_, i) => keys.some(({ column }) => column === i));
    if (node.kind === "join") return false;
    const statistics = estimator.statisticsOf(node, keys);
    if (statistics === undefined) return tolerance > 0 && node.input.rows < policy.sampledFromRows;
    // NULL is no key.
    return statistics.sampledRows === 0 || looksUnique(statistics, tolerance);
}

/** Slots that the GPU makes for the keys of so many rows, at most. */
export function arraySlotsMax(rows: number, policy: Policy): number {
    return Math.max(policy.devicePerfectRangeMin, rows * policy.devicePerfectSlotsPerRow);
}

/**
 * Is the GPU likely to take the keys of a relation for an array of so many slots? What it refuses is planned and copied
 * again, so that a sample has to say more than nothing against it:
 * - the range is half as large as it may be, at most, as a sample misses its ends;
 * - keys without repetition do not go into a range that is smaller than their number;
 * - of as many keys that somebody drew from this range, each for itself, the sample would show some twice.
 */
export function fitsArray(statistics: KeyStatistics, slots: number, policy: Policy): boolean {
    const { rows, nulls, sampledRows, notDense } = statistics;
    if (notDense === true || slots === 0 || !looksUnique(statistics, 0)) return false;
    if (slots > arraySlotsMax(rows, policy) / 2) return false;
    if (sampledRows + nulls >= rows) return true;
    const keyed = (rows * sampledRows) / Math.max(1, sampledRows + nulls);
    return slots >= keyed * (1 - policy.arrayRangeSlack) && sampledRows ** 2 / (2 * slots) >= policy.repeatsSeenMin;
}

/** The input's columns that a side's keys are those of; what its sample told of them, the GPU may find wrong. */
export function sampledKeys(node: JoinNode, side: Side, inputs: readonly InputInfo[]): InputKeys | null {
    const keys = node.keys.map((key) => key[side]);
    const traced = traceKeys(node[side], keys);
    return traced === undefined ? null : { keys: traced.keys, input: inputs.indexOf(traced.input) };
}

/** Why a side of a join cannot be an array indexed by its keys, whatever their values are; undefined: it can. */
export function arrayObstacle(node: JoinNode, side: Side): string | undefined {
    const [key] = node.keys;
    if (key === undefined || node.keys.length > 1) return `it joins by one key column, not by ${node.keys.length}`;
    const name = node[side].columns[key[side].column]?.name ?? "";
    if (key[side].kind !== "integer") return `key \`${name}\` is no integer`;
    return node.nullEquality ? "NULL has no place in an array indexed by keys (`nullEquality`)" : undefined;
}

/** The range of the keys if that side can be an array indexed by them, or why it cannot. */
export function perfectRange(node: JoinNode, side: Side, estimator: Estimator, policy: Policy): KeyRange | string {
    const obstacle = arrayObstacle(node, side);
    if (obstacle !== undefined) return obstacle;
    const key = (node.keys[0] as JoinNode["keys"][number])[side];
    const name = node[side].columns[key.column]?.name ?? "";
    const statistics = estimator.statisticsOf(node[side], [key]);
    if (statistics === undefined) return `the range of key \`${name}\` is not known before the query runs`;
    if (!isUnique(node[side], [key], estimator, policy, 0)) {
        return `values of key \`${name}\` may come twice in the ${side} relation`;
    }
    const range = rangeOf(statistics, key);
    const { rows } = estimator.of(node[side]);
    if (range.keyRange <= arraySlotsMax(rows, policy)) return range;
    const values = `${formatCount(range.keyRange)} values for ${formatCount(Math.ceil(rows))} rows`;
    return `key \`${name}\` is not dense, with a range of ${values}`;
}

/**
 * Throws NotOnDevice where the partitions of a build side surely are no arrays, as perfect hashing wants them. What
 * nobody knows of the keys of an input the GPU finds out: arrays begin at the smallest key that they have.
 */
export function requirePerfectKeys(node: JoinNode, side: Side, estimator: Estimator, policy: Policy): void {
    const [key] = node.keys;
    const isKnown = key === undefined || estimator.statisticsOf(node[side], [key[side]]) !== undefined;
    const isSeen = !isKnown && node[side].kind === "input";
    const reason = isSeen ? arrayObstacle(node, side) : perfectRange(node, side, estimator, policy);
    if (typeof reason !== "string") return;
    throw new NotOnDevice(
        '`experiment.coPartitionJoin` "perfect" wants one integer key of the build side, dense and without ' +
            `repetition, and ${reason}; \`hints.buildSide\` chooses the other side, and "hash" takes any keys`
    );
}

/** The keys of a join's build side as "npj-perfect" sees them. */
export interface ArrayKeys {
    /** Slots of the array; null: not known, or keys are no numbers. */
    readonly slots: number | null;
    /** The GPU is likely to take them. */
    readonly likely: boolean;
}

export function arrayKeys(node: JoinNode, side: Side, estimator: Estimator, policy: Policy): ArrayKeys {
    const key = node.keys[0]?.[side];
    if (key === undefined || arrayObstacle(node, side) !== undefined) return { slots: null, likely: false };
    const statistics = estimator.statisticsOf(node[side], [key]);
    if (statistics === undefined || statistics.min === null) return { slots: null, likely: false };
    const slots = rangeOf(statistics, key).keyRange;
    if (node[side].kind === "input") return { slots, likely: fitsArray(statistics, slots, policy) };
    // Groups are unique without a sample; their keys are as dense as there are many of them.
    const rows = estimator.of(node[side]).rows;
    const unique = isUnique(node[side], [key], estimator, policy, 0) && statistics.notDense !== true;
    return { slots, likely: unique && slots <= arraySlotsMax(rows, policy) / 2 };
}
