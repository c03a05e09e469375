// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, KeySpec } from "../model/column-type.js";
import type { Knobs } from "../model/debug-knobs.js";
import { clamp } from "../model/sizes.js";
import {
    inputsOf,
    type GroupNode,
    type InputInfo,
    type JoinKey,
    type JoinNode,
    type LogicalNode,
    type Side
} from "../plan/logical.js";
import { countedGroups } from "./distinct-groups.js";
import type { Policy } from "./policy.js";

/** What a sample of key columns showed; the same facts as NativeKeyStatistics. */
export interface KeyStatistics {
    readonly rows: number;
    readonly nulls: number;
    readonly min: bigint | null;
    readonly max: bigint | null;
    readonly sampledRows: number;
    readonly sampledDistinct: number;
    /**
     * Distinct keys of each of the pieces of neighbouring rows that the sample is made of, added up: fewer than rows
     * where equal keys lie together. Without it, all rows of the sample count as drawn one by one.
     */
    readonly pieceDistinct?: number;
    /** Mean share of the range that such a piece spans: near 0 where keys lie in order. Left out: in none. */
    readonly pieceRangeShare?: number;
    readonly heaviestShare: number;
    /** A query found keys outside of the sample's range, or equal ones. */
    readonly notDense?: boolean;
    /** Pairs of rows with equal keys, by the id of the other side's statistics. */
    readonly pairs?: Readonly<Record<string, SampledPairs>>;
}

/** What samples of both sides of a join showed. */
export interface SampledPairs {
    /** Estimated pairs of rows with equal keys of both relations. */
    readonly pairs: number;
    /** Pieces of neighbouring rows of one sample with a piece of the other one that has an equal key. */
    readonly pieces: number;
    /** Share of all pairs that the samples could hold. */
    readonly shown: number;
}

/** Key columns of an input that the planner wants a sample of. */
export interface WantedStatistics {
    readonly id: string;
    readonly input: InputInfo;
    readonly keys: readonly KeySpec[];
    readonly sampleRows: number;
    /** Smallest and largest key of all rows, not of the sample alone: all of them are read. */
    readonly exactRange: boolean;
}

/** Both sides of a join whose pairs the planner wants an estimate of. */
export interface WantedPairs {
    readonly left: WantedStatistics;
    readonly right: WantedStatistics;
    readonly sampleRows: number;
}

export type StatisticsById = ReadonlyMap<string, KeyStatistics>;

/** Key columns of a node as columns of the one input they come from. */
interface TracedKeys {
    input: InputInfo;
    keys: KeySpec[];
}

/** The column of an input that a node's column is; undefined: it is none, or one of several. */
export function traceColumn(node: LogicalNode, column: number): { input: InputInfo; column: number } | undefined {
    if (node.kind === "input") return { input: node.input, column };
    if (node.kind === "join") {
        const from = node.columns[column];
        if (from === undefined || from.side === "either") return undefined;
        return from.side === "left" ? traceColumn(node.left, from.left) : traceColumn(node.right, from.right);
    }
    const key = node.keys[column];
    return key === undefined ? undefined : traceColumn(node.child, key.column);
}

/** The keys that each input has of these; none where some key is no input's. */
export function traceKeysOfInputs(node: LogicalNode, keys: readonly KeySpec[]): TracedKeys[] {
    const found = new Map<InputInfo, KeySpec[]>();
    for (const key of keys) {
        const from = traceColumn(node, key.column);
        if (from === undefined) return [];
        found.set(from.input, [...(found.get(from.input) ?? []), { ...key, column: from.column }]);
    }
    return [...found].map(([input, own]) => ({ input, keys: own }));
}

export function traceKeys(node: LogicalNode, keys: readonly KeySpec[]): TracedKeys | undefined {
    const [traced, ...others] = traceKeysOfInputs(node, keys);
    return others.length > 0 ? undefined : traced;
}

export function joinKeys(node: JoinNode, side: Side): KeySpec[] {
    return node.keys.map((key) => key[side]);
}

/** Keys of a join's result as keys of both sides. A column that comes from either side counts as a left one. */
export function keysBySide(node: JoinNode, keys: readonly KeySpec[]): Record<Side, KeySpec[]> {
    const found: Record<Side, KeySpec[]> = { left: [], right: [] };
    for (const key of keys) {
        const from = node.columns[key.column];
        if (from === undefined) continue;
        if (from.side === "right") found.right.push({ ...key, column: from.right });
        else found.left.push({ ...key, column: from.left });
    }
    return found;
}

/** The keys of a group-by's result as keys of what it groups; undefined: one of them is an aggregate. */
export function groupedKeys(node: GroupNode, keys: readonly KeySpec[]): KeySpec[] | undefined {
    const found = keys.flatMap((key) => {
        const grouped = node.keys[key.column];
        return grouped === undefined ? [] : [{ ...key, column: grouped.column }];
    });
    return found.length < keys.length ? undefined : found;
}

/** The place in the tree that a column comes from: the path to an input, or to a group-by whose aggregate it is. */
function placeOf(node: LogicalNode, column: number): string {
    if (node.kind === "input") return "";
    if (node.kind === "group") {
        const key = node.keys[column];
        return key === undefined ? "a" : placeOf(node.child, key.column);
    }
    const from = node.columns[column];
    if (from?.side === "right") return `r${placeOf(node.right, from.right)}`;
    return `l${placeOf(node.left, from?.left ?? column)}`;
}

/** The keys of a join in parts that are independent: of one place on either side each. */
export function keyParts(node: JoinNode): JoinKey[][] {
    const parts = new Map<string, JoinKey[]>();
    for (const key of node.keys) {
        const places = `${placeOf(node.left, key.left.column)}:${placeOf(node.right, key.right.column)}`;
        parts.set(places, [...(parts.get(places) ?? []), key]);
    }
    return [...parts.values()];
}

/**
 * The keys that inputs have of these, together where they come from one place of the tree: a relation that is joined
 * twice has them apart. Keys that are aggregates are left out; those of a full join are the left side's.
 */
function keysOfInputs(node: LogicalNode, keys: readonly KeySpec[]): TracedKeys[] {
    if (keys.length === 0) return [];
    if (node.kind === "input") return [{ input: node.input, keys: [...keys] }];
    if (node.kind === "group") {
        const grouped = keys.filter(({ column }) => column < node.keys.length);
        return keysOfInputs(node.child, groupedKeys(node, grouped) ?? []);
    }
    const { left, right } = keysBySide(node, keys);
    return [...keysOfInputs(node.left, left), ...keysOfInputs(node.right, right)];
}

/** The input and the columns that an id of statistics is of. */
export function columnsOfId(id: string): { input: number; columns: number[] } {
    const [input = "", keys = ""] = id.split(":");
    return { input: Number(input), columns: keys.split(",").map((key) => Number.parseInt(key, 10)) };
}

export function statisticsId(inputs: readonly InputInfo[], input: InputInfo, keys: readonly KeySpec[]): string {
    return `${inputs.indexOf(input)}:${keys.map((key) => `${key.column}/${key.kind}/${key.width}`).join(",")}`;
}

/** Such a sample takes 3 MiB beside the budget and shows two pairs of 2^30 keys that are drawn at random. */
const hostSampleRowsMax = 64 * 1024 - 256;

/** An array join, or passes, that are asked for need the range of keys, however few these are. */
function samplesAll({ algorithm, passes }: Knobs): boolean {
    return algorithm === "array" || passes !== undefined;
}

/** What is sampled where tests say how a query is made. Pairs matter to a GPU alone. */
export function samplingPolicy(policy: Policy, debug: Knobs, forDevice: boolean): Policy {
    const known = samplingPolicies.get(policy) ?? new Map<string, Policy>();
    samplingPolicies.set(policy, known);
    const key = `${samplesAll(debug)} ${debug.inlineTexts} ${forDevice}`;
    let made = known.get(key);
    if (made === undefined) known.set(key, (made = makeSamplingPolicy(policy, debug, forDevice)));
    return made;
}

const samplingPolicies = new WeakMap<Policy, Map<string, Policy>>();

function makeSamplingPolicy(policy: Policy, debug: Knobs, forDevice: boolean): Policy {
    const all = samplesAll(debug) ? { ...policy, sampledFromRows: 1 } : policy;
    const { inlineTexts } = debug;
    const sampled = inlineTexts === undefined ? all : { ...all, inlineTextRowsMin: inlineTexts ? 1 : Infinity };
    return forDevice
        ? sampled
        : {
              ...sampled,
              pairSampleRows: 0,
              joinSampleRowsMax: hostSampleRowsMax,
              deviceSampledFromPairs: Infinity,
              devicePackedRowsMin: Infinity
          };
}

/** What a sample of a column's values tells. */
export interface ValueSample {
    /** The bits that a value takes on the link where it is packed. */
    readonly bits: number;
    /** The greatest absolute value of integers, or of the digits of decimals. It says nothing of floats. */
    readonly magnitude: number;
}

/** The samples of the columns of each input; undefined: there is none, or values of the column cannot be packed. */
export type ValueSamples = ReadonlyMap<InputInfo, readonly (ValueSample | undefined)[]>;

/** Widths in bytes of values that can be packed (cuda/api/packed_block.hpp). */
const packedWidths = [1, 2, 4, 8, 16];
/** Of more columns all others cross the link as they are. */
const packedColumnsMax = 64;

export function canPack({ layout, byteWidth }: ColumnType): boolean {
    return layout === "fixed" && packedWidths.includes(byteWidth);
}

/** Columns of an input of whose values there is to be a sample; none: all cross the link as they are. */
export function sampledColumns(input: InputInfo, { devicePackedRowsMin }: Policy): number[] {
    if (input.source.kind !== "layout" || input.rows < devicePackedRowsMin) return [];
    const found = input.columns.flatMap(({ type }, column) => (canPack(type) ? [column] : []));
    return found.slice(0, packedColumnsMax);
}

/**
 * Rows that are sampled of a side of a join: as many as show repeatsSeenMin pairs of equal keys if keys are drawn at
 * random from twice as many values as there are rows. Which side tables are built on depends on it, also on a CPU.
 */
export function joinSampleRows(rows: number, policy: Policy): number {
    const enough = Math.ceil(Math.sqrt(4 * policy.repeatsSeenMin * rows));
    return Math.max(policy.joinSampleRows, Math.min(enough, policy.joinSampleRowsMax));
}

/** Operators of a query, and rows of its largest input. */
function sizeOf(root: LogicalNode): { operators: number; rows: number } {
    if (root.kind === "input") return { operators: 0, rows: root.input.rows };
    const parts = root.kind === "group" ? [sizeOf(root.child)] : [sizeOf(root.left), sizeOf(root.right)];
    return {
        operators: parts.reduce((sum, { operators }) => sum + operators, 1),
        rows: Math.max(...parts.map(({ rows }) => rows))
    };
}

/**
 * Rows of each side that are sampled for the pairs of a join, if any are: of large sides for a GPU, and of those of a
 * tree, whose operators above go by what the join leaves. Samples that would show few pairs say nothing.
 */
function pairSampleRows(node: JoinNode, left: InputInfo, right: InputInfo, treeRows: number, policy: Policy): number {
    const { pairSampleRows: sampleRows, pairsSeenMin, pairSampleShareMin, treePairsSeenMin } = policy;
    const rows = [left.rows, right.rows];
    const smaller = Math.min(...rows);
    const isOfInputs = node.left.kind === "input" && node.right.kind === "input";
    const isLarge = sampleRows > 0 && smaller >= sampleRows * pairSampleShareMin;
    if (isOfInputs && isLarge && sampleRows ** 2 / smaller >= pairsSeenMin) return sampleRows;
    if (treeRows < policy.treePairsFromRows || smaller === 0) return 0;
    const { treePairSampleShare, treePairSampleRowsMin, treePairSampleRowsMax } = policy;
    const fewer = clamp(Math.ceil(treeRows * treePairSampleShare), treePairSampleRowsMin, treePairSampleRowsMax);
    const shown = rows.reduce((product, all) => product * Math.min(fewer, all), 1) / smaller;
    return shown >= treePairsSeenMin ? fewer : 0;
}

/** Joins whose pairs are worth a sample: those of which each side has its keys from one relation. */
export function wantedPairs(root: LogicalNode, policy: Policy): WantedPairs[] {
    const inputs = inputsOf(root);
    const { operators, rows } = sizeOf(root);
    const pairs: WantedPairs[] = [];
    const visit = (node: LogicalNode): void => {
        if (node.kind === "group") visit(node.child);
        if (node.kind !== "join") return;
        visit(node.left);
        visit(node.right);
        if (node.hints.resultRows !== undefined) return;
        const left = traceKeys(node.left, joinKeys(node, "left"));
        const right = traceKeys(node.right, joinKeys(node, "right"));
        if (left === undefined || right === undefined || left.input.streamed || right.input.streamed) return;
        const sampleRows = pairSampleRows(node, left.input, right.input, operators > 1 ? rows : 0, policy);
        if (sampleRows === 0) return;
        const side = ({ input, keys }: TracedKeys): WantedStatistics => ({
            id: statisticsId(inputs, input, keys),
            input,
            keys,
            sampleRows,
            exactRange: false
        });
        pairs.push({ left: side(left), right: side(right), sampleRows });
    };
    visit(root);
    return pairs;
}

/** Rows of a node, at most, as far as those of its inputs are known. An outer join keeps rows without a partner. */
function mostRows(node: LogicalNode): number {
    if (node.kind === "group") return mostRows(node.child);
    if (node.kind === "input") return node.input.rows;
    const [left, right] = [mostRows(node.left), mostRows(node.right)];
    return Math.min(Math.max(left * right, left, right), Number.MAX_VALUE);
}

const sides = ["left", "right"] as const;

/**
 * Samples worth taking before planning. The smaller inputs of a large tree are sampled too: what its operators give
 * goes by the keys of all of them.
 */
export function wantedStatistics(root: LogicalNode, policy: Policy): WantedStatistics[] {
    const inputs = inputsOf(root);
    const { operators, rows: treeRows } = sizeOf(root);
    const isTree = operators > 1 && treeRows >= policy.sampledFromRows;
    const wanted = new Map<string, WantedStatistics>();
    const add = (
        node: LogicalNode,
        all: readonly KeySpec[],
        sampleRows: (rows: number) => number,
        isWanted = false,
        exactRange = false
    ): void => {
        for (const { input, keys } of keysOfInputs(node, all)) {
            if (input.streamed || (input.rows < policy.sampledFromRows && !isWanted && !isTree)) continue;
            const id = statisticsId(inputs, input, keys);
            const before = wanted.get(id);
            const most = Math.max(sampleRows(input.rows), before?.sampleRows ?? 0);
            const exact = exactRange || before?.exactRange === true;
            wanted.set(id, { id, input, keys, sampleRows: most, exactRange: exact });
        }
    };
    const visit = (node: LogicalNode): void => {
        if (node.kind === "join") {
            // An array indexed by keys has a slot for each of them, also for those that no sample has seen.
            const exactRange = node.algorithm === "npj-perfect";
            const isWanted = exactRange || mostRows(node) >= policy.deviceSampledFromPairs;
            const rowsOf = (rows: number): number => joinSampleRows(rows, policy);
            add(node.left, joinKeys(node, "left"), rowsOf, isWanted, exactRange);
            add(node.right, joinKeys(node, "right"), rowsOf, isWanted, exactRange);
            const parts = keyParts(node);
            for (const keys of parts.length > 1 ? parts : []) {
                for (const side of sides)
                    add(
                        node[side],
                        keys.map((key) => key[side]),
                        rowsOf,
                        isWanted
                    );
            }
            visit(node.left);
            visit(node.right);
        } else if (node.kind === "group") {
            const { child, keys } = countedGroups(node)?.groups ?? node;
            if (keys.length > 0) add(child, keys, () => policy.sampleRows);
            visit(child);
        }
    };
    visit(root);
    return [...wanted.values()];
}

/** Share of a sample's keys that may come twice in a relation whose keys are taken for unique. */
export const repeatsTolerated = 0.001;

/** Share of the range of integer keys that a sample of 256 pieces may have missed at its ends, of sorted keys. */
const rangeMissed = 1 / 64;

/**
 * Distinct keys of the whole relation. A sample of s draws out of D equally likely keys shows D (1 - e^(-s/D)) of them
 * on average; D is found by bisection. Skewed keys show fewer, so their number is underestimated, which only makes
 * the estimated result larger. A draw is a key of a piece of neighbouring rows, however often the piece has it: the
 * lines of an order, one behind the other, say that there is one more order, and not that orders are few. Integers are
 * no more than their range has values.
 */
export function distinctKeys(statistics: KeyStatistics): number {
    const { rows, sampledRows, sampledDistinct, pieceDistinct = sampledRows } = statistics;
    if (sampledRows === 0 || rows === 0) return 0;
    if (sampledRows >= rows) return sampledDistinct;
    const range = keyRange(statistics) ?? Infinity;
    const most = Math.min(Math.round(rows * (pieceDistinct / sampledRows)), Math.ceil(range * (1 + rangeMissed)));
    // A sample in which (nearly) every key is new says no more than "many": unique keys are the usual reason.
    if (sampledDistinct >= pieceDistinct * (1 - repeatsTolerated)) return most;
    let low = Math.min(sampledDistinct, most);
    let high = Math.max(most, low);
    for (let i = 0; i < 60 && high - low > 0.25; i++) {
        const middle = (low + high) / 2;
        const expected = middle * -Math.expm1(-pieceDistinct / middle);
        if (expected < sampledDistinct) low = middle;
        else high = middle;
    }
    return Math.max(sampledDistinct, Math.min(most, Math.round(high)));
}

/**
 * Are all keys different, as far as the sample tells? `tolerance`: share of the sampled keys that may repeat another
 * one, unless the sample is the whole relation.
 */
export function looksUnique(statistics: KeyStatistics, tolerance = repeatsTolerated): boolean {
    const { rows, nulls, sampledRows, sampledDistinct } = statistics;
    const isWhole = sampledRows >= rows - nulls;
    return sampledRows > 0 && sampledDistinct >= sampledRows * (isWhole ? 1 : 1 - tolerance);
}

/** Number of values between the smallest and the largest integer key that was seen; null for other keys. */
export function keyRange(statistics: KeyStatistics): number | null {
    if (statistics.min === null || statistics.max === null) return null;
    return Number(statistics.max - statistics.min) + 1;
}

/**
 * Share of the range of integer keys that lies in the range of other keys; 1 where either has none. Samples miss a
 * little of both ends, by which neither range is worth less.
 */
export function sharedRange(keys: KeyStatistics, others: KeyStatistics): number {
    const { min, max } = keys;
    if (min === null || max === null || others.min === null || others.max === null) return 1;
    const low = min > others.min ? min : others.min;
    const high = max < others.max ? max : others.max;
    const range = Number(max - min) + 1;
    const shared = Math.max(0, Number(high - low) + 1) / range;
    return shared > 0.98 ? 1 : shared;
}
