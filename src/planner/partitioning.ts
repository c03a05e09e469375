// SPDX-License-Identifier: Apache-2.0
import { usableMemory, type MachineInfo } from "../machine/machine.js";
import type { Knobs } from "../model/debug-knobs.js";
import { clamp, powerOfTwoAtLeast, powerOfTwoAtMost } from "../model/sizes.js";
import type { ValueWidth } from "./estimates.js";
import type { PlanLimits } from "./limits.js";
import type { Policy } from "./policy.js";

// native/model/stage_spec.hpp and native/memory/page_pool.hpp
const radixBitsLargest = 14;
const pageBytesLargest = 2 * 1024 * 1024;
// native/cpu/radix_partition/radix_partitioner.cpp: rows of a write-combining buffer, widest row that is combined.
const combinedRows = 8;
const combinedRowBytesMax = 64;
// Pages of wide rows: this many times the largest ones of others, before they hold fewer rows than are combined.
const wideRowPages = 64;

/** Rows that go through one partition pass. */
export interface PartitionLoad {
    rows: number;
    width: ValueWidth;
}

export interface PartitionContext {
    limits: PlanLimits;
    policy: Policy;
    machine: MachineInfo;
    debug: Knobs;
    budgetBytes: number;
}

export function loadBytes(load: PartitionLoad): number {
    return load.rows * (load.width.fixed + load.width.heap);
}

function bitsFor(bytes: number, targetBytes: number): number {
    return Math.max(0, Math.ceil(Math.log2(bytes / Math.max(1, targetBytes))));
}

/**
 * Bytes that the open pages of one worker may take on one side of a join: both sides' stay within their share of the
 * budget. Wider passes or larger pages would leave no memory to fill.
 */
function openBytesOfSide({ budgetBytes, limits }: PartitionContext): number {
    return (budgetBytes * limits.openPagesShare) / (2 * limits.workers);
}

interface SpillSizes {
    pageBytes: number;
    spillRunBytes: number;
    spillWriteBytes: number;
}

type PartitionSizing = SpillSizes & { workers: number; radixBits: number };

/** Bits of both partition passes. */
export interface Fanout {
    /** Bits of the pass over the inputs. */
    first: number;
    /** Bits of the pass inside each co-partition, in memory; 0 = none. */
    second: number;
}

// native/addon/decode/stage.cpp
const secondBitsLargest = 8;

/**
 * Fan-out of the partition passes. `tableBytes`: rows and tables of the side (or groups) that must be in memory per
 * partition; `widest`: the wider row of both sides.
 */
export function fanout(context: PartitionContext, tableBytes: number, rows: number, widestRowBytes: number): Fanout {
    const { limits, policy, machine, debug, budgetBytes } = context;
    // Into the cache: what partitioning is for. Rounded, not up: half a cache more or less shows little.
    const cached = Math.max(0, Math.round(Math.log2(tableBytes / (machine.l2Bytes * policy.cacheShare))));
    // Into a worker's share of the table memory: else fewer workers join at a time, or in chunks.
    const share = (budgetBytes * policy.tableShare) / limits.workers;
    const fitting = bitsFor(tableBytes * policy.partitionSlack, share);
    // Enough of them to keep unequal ones from leaving a worker alone.
    const balanced = limits.workers > 1 ? Math.ceil(Math.log2(limits.workers * policy.partitionsPerWorker)) : 0;
    const worthwhile = Math.max(0, Math.floor(Math.log2(Math.max(1, rows) / policy.partitionRowsMin)));
    const affordable = Math.floor(Math.log2(Math.max(1, openBytesOfSide(context) / policy.pageBytesAffordable)));
    // What spills is written and read in runs of rows of one partition: the more partitions, the shorter they are.
    const spills = 2 * rows * widestRowBytes > budgetBytes;
    const readable = spills
        ? Math.floor(Math.log2(Math.max(1, budgetBytes / policy.bytesPerSpilledPartition)))
        : Infinity;
    const wanted = Math.min(Math.max(cached, balanced), worthwhile, affordable, readable, limits.radixBitsMax);
    const needed = limits.radixBitsMax === policy.firstPassBitsMax ? fitting : Math.min(fitting, limits.radixBitsMax);
    const bits = Math.min(Math.max(wanted, needed), radixBitsLargest);
    // Write-combining buffers beyond the L2 cache would be worse than none.
    const combinedRow = Math.min(widestRowBytes, combinedRowBytesMax);
    const combining = Math.floor(Math.log2((machine.l2Bytes * 0.75) / (combinedRows * combinedRow)));
    const first = debug.radixBits ?? Math.max(Math.min(bits, combining), Math.min(needed, radixBitsLargest));
    // What the first pass leaves too large for the cache is worth another one: rows move once more, inside a cache.
    const left = Math.min(cached, worthwhile) - first;
    const second = left >= policy.secondPassBitsMin ? Math.min(left, secondBitsLargest) : 0;
    return { first, second: debug.secondRadixBits ?? second };
}

/** Page size at which a worker fills several pages per partition. */
export function pageBytes(context: PartitionContext, load: PartitionLoad, bits: number): number {
    const { limits, policy, debug } = context;
    if (debug.pageBytes !== undefined) return debug.pageBytes;
    const perPartition = loadBytes(load) / (limits.workers * 2 ** bits);
    const open = Math.max(1, openBytesOfSide(context) / 2 ** bits);
    const filled = Math.max(perPartition / policy.pagesPerPartition, policy.pageBytesGood);
    const wanted = powerOfTwoAtMost(Math.min(filled, open));
    // Some rows per page, as far as memory allows so large ones; a row that is larger still gets a page of its own.
    const row = load.width.fixed + load.width.heap;
    const several = powerOfTwoAtLeast(clamp(wideRowPages * limits.pageBytesMax, row, combinedRows * row));
    const least = Math.min(Math.max(policy.pageBytesMin, several), pageBytesLargest);
    return clamp(wanted, least, Math.max(least, limits.pageBytesMax));
}

/**
 * Rows of one partition that are spilled together, at most. Larger runs are read back with fewer calls, but until
 * a run is full its rows wait in memory. `bytes`: of all rows of the set.
 */
export function spillRunBytes(context: PartitionContext, page: number, bits: number, bytes: number): number {
    const { policy, limits, budgetBytes } = context;
    const wanted = powerOfTwoAtMost(Math.max(1, budgetBytes / 2 ** bits));
    // The engine's record of a run is in no budget: hundreds of gigabytes go in longer ones. Workers have buffers for
    // whole runs.
    const few = powerOfTwoAtLeast(Math.max(1, bytes / policy.spilledRunsMax));
    const affordable = powerOfTwoAtMost(Math.max(1, (budgetBytes * policy.spillRunBudgetShare) / limits.workers));
    const most = Math.max(policy.spillRunBytesMax, Math.min(few, affordable, pageBytesLargest));
    return clamp(wanted, page, Math.max(page, most));
}

/** The same in a pool whose size is known: on average half a run waits per partition, beside the open pages. */
export function runBytesInPool(spec: PartitionSizing, rows: number, poolBytes: number): number {
    const { workers, radixBits, pageBytes: page, spillRunBytes: most } = spec;
    const spare = poolBytes - openPageBytes(workers, radixBits, page, rows);
    return clamp(powerOfTwoAtMost(Math.max(1, (2 * spare) / 2 ** radixBits)), Math.min(page, most), most);
}

/**
 * The most of a run of the build side of a join: a partition with a frequent key is joined in chunks of whole runs, so
 * that one, its rows read back, and their table have to fit. `tableBytes`: what the join has for all of that.
 */
export function runBytesInChunk(spec: PartitionSizing, rowBytes: number, tableBytes: number, policy: Policy): number {
    const takes = 3 + policy.slotBytesPerRowMax / Math.max(1, rowBytes);
    return Math.max(spec.pageBytes, powerOfTwoAtMost(Math.max(1, tableBytes / takes)));
}

/** Bytes that a worker gathers for one write: large enough to make the call cheap, little of a small budget. */
export function spillWriteBytes({ policy, limits, budgetBytes }: PartitionContext): number {
    const share = powerOfTwoAtMost(Math.max(1, budgetBytes / (32 * limits.workers)));
    return clamp(share, policy.spillWriteBytesMin, policy.spillWriteBytesMax);
}

/**
 * Are spilled rows packed? Packing costs 0.3 ns per byte, as much as writing and reading the byte in the system's page
 * cache. It pays where that overflows and the disk's speed counts. `bytes`: of all rows of the set.
 */
export function packsSpilled({ machine, policy, debug }: PartitionContext, bytes: number): boolean {
    return debug.packSpilled ?? bytes > usableMemory(machine) * policy.cachedSpillShare;
}

/** Memory of all workers that pack and write spilled rows; native/cpu/radix_partition/page_spiller.cpp. */
export function spillScratchBytes(
    spec: SpillSizes & { workers: number; spill: boolean; packSpilled: boolean }
): number {
    const run = Math.max(spec.pageBytes, spec.spillRunBytes);
    return spec.spill && spec.packSpilled ? spec.workers * (spec.spillWriteBytes + 2 * run) : 0;
}

/** Memory of one worker that reads spilled rows back: calls that read several runs at once, and a run unpacked. */
export function spillReadBytes(
    spec: Pick<SpillSizes, "pageBytes" | "spillRunBytes"> & { packSpilled: boolean }
): number {
    const run = Math.max(spec.pageBytes, spec.spillRunBytes);
    // native/cpu/radix_partition/partitioned_rows.cpp
    return (spec.packSpilled ? run : 0) + Math.max(run, Math.min(32 * 1024, 2 * spec.spillRunBytes));
}

/** One open page per worker and partition (and one for NULL keys), as far as there are rows for them. */
export function openPageBytes(workers: number, bits: number, page: number, rows: number): number {
    return Math.min(workers * (2 ** bits + 1), rows + 1) * page;
}

export function combiningBytes(workers: number, bits: number, width: ValueWidth): number {
    if (width.heap > 0 || width.fixed > combinedRowBytesMax) return 0;
    return workers * (2 ** bits + 1) * combinedRows * width.fixed;
}
