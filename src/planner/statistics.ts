// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, KeySpec } from "../model/column-type.js";
import type { Knobs } from "../model/debug-knobs.js";
import { inputsOf, type InputInfo, type LogicalNode } from "../plan/logical.js";
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
    readonly heaviestShare: number;
    /** A query found keys outside of the sample's range, or equal ones. */
    readonly notDense?: boolean;
    /** Estimated pairs of rows with equal keys, by the id of the other side's statistics. */
    readonly pairs?: Readonly<Record<string, number>>;
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

export function statisticsId(inputs: readonly InputInfo[], input: InputInfo, keys: readonly KeySpec[]): string {
    return `${inputs.indexOf(input)}:${keys.map((key) => `${key.column}/${key.kind}/${key.width}`).join(",")}`;
}

/** Such a sample takes 3 MiB beside the budget and shows two pairs of 2^30 keys that are drawn at random. */
const hostSampleRowsMax = 64 * 1024 - 256;

/**
 * An array join that is asked for needs the range of its keys, however few they are. Pairs matter to a GPU alone.
 */
export function samplingPolicy(policy: Policy, debug: Knobs, forDevice: boolean): Policy {
    const sampled = debug.algorithm === "array" ? { ...policy, sampledFromRows: 1 } : policy;
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

/** Joins of two relations whose pairs are worth a sample: large sides, of which the samples would show some. */
export function wantedPairs(root: LogicalNode, policy: Policy): WantedPairs[] {
    const { pairSampleRows: sampleRows, pairsSeenMin, pairSampleShareMin } = policy;
    const inputs = inputsOf(root);
    const pairs: WantedPairs[] = [];
    const isSampled = ({ streamed, rows }: InputInfo): boolean => !streamed && rows >= sampleRows * pairSampleShareMin;
    const visit = (node: LogicalNode): void => {
        if (node.kind === "group") visit(node.child);
        if (node.kind !== "join") return;
        visit(node.left);
        visit(node.right);
        if (node.left.kind !== "input" || node.right.kind !== "input" || node.hints.resultRows !== undefined) return;
        const [left, right] = [node.left.input, node.right.input];
        const seen = sampleRows ** 2 / Math.min(left.rows, right.rows);
        if (!isSampled(left) || !isSampled(right) || seen < pairsSeenMin) return;
        const keys = { left: node.keys.map((key) => key.left), right: node.keys.map((key) => key.right) };
        const side = (input: InputInfo, of: readonly KeySpec[]): WantedStatistics => ({
            id: statisticsId(inputs, input, of),
            input,
            keys: of,
            sampleRows,
            exactRange: false
        });
        pairs.push({ left: side(left, keys.left), right: side(right, keys.right), sampleRows });
    };
    if (sampleRows > 0) visit(root);
    return pairs;
}

/** Rows of a node, at most, as far as those of its inputs are known. An outer join keeps rows without a partner. */
function mostRows(node: LogicalNode): number {
    if (node.kind === "group") return mostRows(node.child);
    if (node.kind === "input") return node.input.rows;
    const [left, right] = [mostRows(node.left), mostRows(node.right)];
    return Math.min(Math.max(left * right, left, right), Number.MAX_VALUE);
}

/** Samples worth taking before planning. */
export function wantedStatistics(root: LogicalNode, policy: Policy): WantedStatistics[] {
    const inputs = inputsOf(root);
    const wanted = new Map<string, WantedStatistics>();
    const add = (
        node: LogicalNode,
        all: readonly KeySpec[],
        sampleRows: (rows: number) => number,
        isWanted = false,
        exactRange = false
    ): void => {
        for (const { input, keys } of traceKeysOfInputs(node, all)) {
            if (input.streamed || (input.rows < policy.sampledFromRows && !isWanted)) continue;
            const id = statisticsId(inputs, input, keys);
            const before = wanted.get(id);
            const most = Math.max(sampleRows(input.rows), before?.sampleRows ?? 0);
            const exact = exactRange || before?.exactRange === true;
            wanted.set(id, { id, input, keys, sampleRows: most, exactRange: exact });
        }
    };
    const visit = (node: LogicalNode): void => {
        if (node.kind === "join") {
            const keysOf = (side: "left" | "right"): KeySpec[] => node.keys.map((key) => key[side]);
            // An array indexed by keys has a slot for each of them, also for those that no sample has seen.
            const exactRange = node.algorithm === "npj-perfect";
            const isWanted = exactRange || mostRows(node) >= policy.deviceSampledFromPairs;
            const rowsOf = (rows: number): number => joinSampleRows(rows, policy);
            add(node.left, keysOf("left"), rowsOf, isWanted, exactRange);
            add(node.right, keysOf("right"), rowsOf, isWanted, exactRange);
            visit(node.left);
            visit(node.right);
        } else if (node.kind === "group") {
            if (node.keys.length > 0) add(node.child, node.keys, () => policy.sampleRows);
            visit(node.child);
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
