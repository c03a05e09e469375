// SPDX-License-Identifier: Apache-2.0
import { deviceConstants } from "../../model/device-constants.js";
import { sumOf } from "../../model/sizes.js";

/** What a join on the GPU is made of, as far as its cost goes. */
export interface DeviceJoinShape {
    readonly buildRows: number;
    readonly probeRows: number;
    /** Pairs of rows with equal keys. */
    readonly pairs: number;
    /** Share of the probe side's rows that have a partner, and of the build side's. */
    readonly matchRatio: number;
    readonly buildMatchRatio: number;
    /** Share of the probe side's rows whose key lies between the least and the greatest one of the build side. */
    readonly inRangeShare: number;
    readonly keyBytes: number;
    /** Bits of the keys that sorts have to look at; all if left out. */
    readonly keyBits?: number;
    /** Widths of the columns that the result takes from each side, without the key; none for a count. */
    readonly buildPayload: readonly number[];
    readonly probePayload: readonly number[];
    /** Mean bytes of a value, with its place, of those that are byte strings: no join moves these with its rows. */
    readonly buildTexts?: readonly number[];
    readonly probeTexts?: readonly number[];
    /** Every key of the build side comes once there, as far as anybody knows. */
    readonly uniqueBuildKeys: boolean;
    /** Rows that a key of the build side has on average; null: no sample of its rows says so. */
    readonly buildRowsPerKey: number | null;
    /** Values between the smallest and the largest key of the build side; null: unknown, or keys are no numbers. */
    readonly buildKeyRange: number | null;
    /** They are dense and come once each, sure enough for an array that the GPU refuses otherwise. */
    readonly arrayKeys: boolean;
    /** Share of each side's rows that its most frequent key has. */
    readonly buildHeaviestShare: number;
    readonly probeHeaviestShare: number;
    /** Pairs are only counted: nothing is written. */
    readonly counted?: boolean;
    /** Whether pairs come out, or rows of one side once for all their partners. */
    readonly emit: "pairs" | "buildOnce" | "probeOnce";
    /** Rows of a side that have no partner are in the result, or are all of it where rows of one side come out. */
    readonly keepsBuild: boolean;
    readonly keepsProbe: boolean;
    /** Algorithms that may be chosen; all that can do the join if left out. */
    readonly algorithms?: readonly string[];
}

/** What a group-by on the GPU is made of. */
export interface DeviceGroupShape {
    readonly rows: number;
    readonly groups: number;
    readonly keyBytes: number;
    /** Width of the column of each aggregate; 0 for a count of rows. */
    readonly values: readonly number[];
    /** All aggregates are minima or maxima: a state is as wide as its value, and a compare often needs no write. */
    readonly extremes: boolean;
    /** All aggregates are minima, maxima, numbers of rows, sums and means. */
    readonly narrow: boolean;
    /** Share of the rows that the most frequent key has. */
    readonly heaviestShare: number;
    /** Groups have to come out in the order of their keys, or an aggregate needs its rows together. */
    readonly sorted: boolean;
    readonly algorithms?: readonly string[];
}

/**
 * Share of accesses by key that fall on a few addresses, where the most frequent key has `heaviestShare` of the rows.
 */
export function hotShare(heaviestShare: number): number {
    // With Zipf frequencies the first million of 2^27 keys, whose values a cache of 50 MB holds, have 75 % of the rows
    // where the first has 5 % (exponent 1), nearly all where it has 38 % (1.5). Unique keys come to nothing.
    return 1 - (1 - Math.min(1, heaviestShare)) ** 26;
}

/**
 * The same of addresses that are few enough for the first-level caches, fitted to joins of Zipf keys on an H200: a
 * third where the most frequent key has 5 % of the rows (exponent 1), nearly all where it has 38 % (1.5).
 */
export function hottestShare(heaviestShare: number): number {
    return 1 - (1 - Math.min(1, heaviestShare)) ** 8;
}

/** Bytes of a packed row: whole words of 4 bytes. */
export function packedRowBytes(keyBytes: number, payload: readonly number[]): number {
    return 4 * Math.ceil((keyBytes + sumOf(payload)) / 4);
}

/** Joins move whole rows up to this width; the columns of wider ones become packs. */
export const wholeRowBytesMax = 4 * deviceConstants.wholeRowWordsMax;

/** Bytes of a memory sector, and of a pack at most. */
export const sectorBytes = 32;

/** Bytes of a row of each pack that columns become: sectors, and a last one of 4, 8, 16 or 32 bytes. */
export function packRowBytes(payload: readonly number[]): number[] {
    const bytes = sumOf(payload);
    const packs = Array.from({ length: Math.floor(bytes / sectorBytes) }, () => sectorBytes);
    const rest = bytes % sectorBytes;
    return rest > 0 ? [...packs, Math.max(4, 2 ** Math.ceil(Math.log2(rest)))] : packs;
}
