// SPDX-License-Identifier: Apache-2.0
import type { DeviceSpeeds } from "../../machine/profile.js";
import { sectorBytes } from "./shapes.js";

// Runs whose open sectors the first-level caches keep, fitted to the figures at permutedGather.
const runsInReach = 48;
/** How many times as fast as the L2 cache first-level caches are read, fitted to joins of Zipf keys on an H200. */
const nearestFactor = 2.5;

/** Bytes of a row number. */
export function rowNumberBytes(rows: number): number {
    return rows < 2 ** 32 ? 4 : 8;
}

/** Times of what kernels do with GPU memory, in ms. */
export class MemoryCost {
    public constructor(public readonly speeds: DeviceSpeeds) {}

    /** Bytes read or written one after the other. */
    public sequential(bytes: number): number {
        return bytes / this.speeds.deviceMemoryBytesPerMs;
    }

    /**
     * The cache holds its share of the table, whichever part of it that is. `hotShare`: of accesses to few addresses;
     * `hottestShare`: to so few that the first-level caches have them.
     */
    #random(
        accesses: number,
        tableBytes: number,
        [cachedPerMs, farPerMs]: readonly [number, number],
        hotShare: number,
        hottestShare: number
    ): number {
        const cached = Math.min(1, this.speeds.deviceCacheBytes / Math.max(1, tableBytes));
        const inCache = hotShare + (1 - hotShare) * cached;
        const nearest = Math.min(hottestShare, inCache);
        return (
            accesses *
            ((inCache - nearest) / cachedPerMs + nearest / (cachedPerMs * nearestFactor) + (1 - inCache) / farPerMs)
        );
    }

    public randomReads(accesses: number, tableBytes: number, hotShare = 0, hottestShare = 0): number {
        const { deviceCachedReadsPerMs, deviceRandomReadsPerMs } = this.speeds;
        const rates = [deviceCachedReadsPerMs, deviceRandomReadsPerMs] as const;
        return this.#random(accesses, tableBytes, rates, hotShare, hottestShare);
    }

    public randomInserts(accesses: number, tableBytes: number, hotShare = 0): number {
        const { deviceCachedInsertsPerMs, deviceRandomInsertsPerMs } = this.speeds;
        const rates = [deviceCachedInsertsPerMs, deviceRandomInsertsPerMs] as const;
        return this.#random(accesses, tableBytes, rates, hotShare, 0);
    }

    /**
     * Gathering `rows` values of a column of `columnRows` in the order of the column: each sector is read at most once,
     * beside the row numbers that are read and the values that are written.
     */
    public clusteredGather(rows: number, columnRows: number, width: number): number {
        const read = Math.min(columnRows * width, rows * Math.max(sectorBytes, width));
        return this.sequential(rows * (rowNumberBytes(columnRows) + width) + read);
    }

    /**
     * The same in any order: a random access for each row. The wider the value, the more sectors it takes.
     * `repeated`: share of the rows that are the one before once more, for which a warp reads one sector; `with`: bytes
     * of a row of all columns that are gathered at the same time, and share the cache.
     */
    public unclusteredGather(
        rows: number,
        columnRows: number,
        width: number,
        near: { hotShare?: number; hottestShare?: number; repeated?: number; with?: number } = {}
    ): number {
        const accesses = rows * (1 - (near.repeated ?? 0)) * Math.max(1, width / sectorBytes);
        const random = this.randomReads(accesses, columnRows * (near.with ?? width), near.hotShare, near.hottestShare);
        return random + this.sequential(rows * (rowNumberBytes(columnRows) + width));
    }

    /**
     * Gathering `values` bytes of columns for each of `rows` rows from rows of a pack that lie near each other. Rows of
     * a few bytes take as long as those of so many: H200, 2^26 rows of 32, 16, 8 and 4 bytes in 1.28, 0.81, 0.61 and
     * 0.50 ms. Few rows read a line of two sectors each.
     */
    public packedGather(rows: number, packRows: number, packBytes: number, values: number): number {
        const read = Math.min(packRows * packBytes, rows * 2 * sectorBytes);
        return this.sequential(Math.max(rows * (rowNumberBytes(packRows) + values) + read, rows * sectorBytes));
    }

    /**
     * Gathering a column by row numbers that are in order inside each of `runs` interleaved parts: groups after a
     * stable sort, partitions after a partition pass. Few runs read whole sectors, many read one for each row (the GFTR
     * paper's section 4.1.3, which counts the sectors of a warp). H200, 2^28 rows, two columns of 4 bytes: 3.2 ms with
     * 4 groups, 5.3 with 16, 10.8 with 64, 14.3 with 256, 16.2 with 4,096, measured less the sort and the aggregates.
     */
    public permutedGather(rows: number, width: number, runs: number): number {
        const near = this.clusteredGather(rows, rows, width);
        const far = this.unclusteredGather(rows, rows, width);
        return near + (far - near) * -Math.expm1(-(runs - 1) / runsInReach);
    }

    /** A radix sort of keys with a value each; `keyBits` of the key are sorted by, 8 in a pass. */
    public radixSort(rows: number, keyBytes: number, valueBytes: number, keyBits = keyBytes * 8): number {
        const passes = Math.max(1, Math.ceil(keyBits / 8));
        const bytes = rows * (keyBytes + passes * 2 * (keyBytes + valueBytes));
        return bytes / this.speeds.deviceSortBytesPerMs;
    }

    /**
     * Radix partition passes over rows of `rowBytes`, the first of which reads `columnBytes`; a histogram before them.
     */
    public partition(rows: number, keyBytes: number, columnBytes: number, rowBytes: number, passes: number): number {
        const bytes = rows * (keyBytes + columnBytes + rowBytes + (passes - 1) * 2 * rowBytes);
        return bytes / this.speeds.devicePartitionBytesPerMs;
    }
}
