// SPDX-License-Identifier: Apache-2.0
import { deviceConstants } from "../../model/device-constants.js";
import { sumOf } from "../../model/sizes.js";
import { rowNumberBytes, type MemoryCost } from "./memory-cost.js";
import { sectorBytes, wholeRowBytesMax, type DeviceJoinShape } from "./shapes.js";

const { rangeFilterShareMin, rangeFilterRowsMin, rangeFilterBuildMax } = deviceConstants;
const { gatheredShareMax, gatheredWideShareMax, gatheredWideRowBytes } = deviceConstants;
const { gatheredBothShareMax, gatheredBothWideRowBytes, gatheredRowsMin, partnerKeysMax } = deviceConstants;

/** Starts of kernels, and a wait for them, by which a sample says whether rows out of the range are to be left out. */
const askedSteps = 4;

/** What the radix hash join partitions of both sides, and what it takes to leave out the rest. */
export interface FilteredSides {
    readonly buildRows: number;
    readonly probeRows: number;
    readonly ms: number;
    readonly steps: number;
}

/** A share of rows gathered column by column: each sector with one of them is read. */
function gatherMs(memory: MemoryCost, rows: number, kept: number, widths: readonly number[]): number {
    const bytesOf = (width: number): number => {
        const sectors = 1 - (1 - kept) ** (sectorBytes / width);
        return kept * (rowNumberBytes(rows) + width) + sectors * width;
    };
    return memory.sequential(rows * sumOf(widths.map(bytesOf)));
}

/** Up to which share rows are few, by the bytes that passes move of them (cuda/equi_join/equi_join_policy.hpp). */
function gatheredMax(rowBytes: number, bothSides: boolean): number {
    if (bothSides) return rowBytes >= gatheredBothWideRowBytes ? gatheredWideShareMax : gatheredBothShareMax;
    const isWide = rowBytes >= gatheredWideRowBytes && rowBytes <= wholeRowBytesMax;
    return isWide ? gatheredWideShareMax : gatheredShareMax;
}

/** Whether build rows without a partner are left out too, where so many probe rows are gathered. */
function filtersBoth(shape: DeviceJoinShape, build: readonly number[], probed: number): boolean {
    const { buildRows, buildKeyRange: range, keyBytes } = shape;
    if (range === null || range > partnerKeysMax || shape.keepsBuild || buildRows < gatheredRowsMin) return false;
    return probed <= gatheredMax(keyBytes + sumOf(build), true) * range;
}

/** Build rows whose key a gathered probe row has, by a bit per key of the range (cuda/equi_join/range_filter.hpp). */
function withPartner(shape: DeviceJoinShape, memory: MemoryCost, build: readonly number[], probed: number) {
    const { buildRows, keyBytes } = shape;
    const range = shape.buildKeyRange as number;
    const kept = -Math.expm1(-probed / range);
    const marksMs = memory.sequential(probed * keyBytes) + memory.randomInserts(probed, range / 8);
    const looksMs = memory.sequential(buildRows * keyBytes) + memory.randomReads(buildRows, range / 8);
    const ms = marksMs + looksMs + gatherMs(memory, buildRows, kept, [keyBytes, ...build]);
    return { rows: buildRows * kept, ms };
}

/** `build`, `probe`: widths of the columns that are moved. */
export function filteredSides(
    shape: DeviceJoinShape,
    memory: MemoryCost,
    build: readonly number[],
    probe: readonly number[]
): FilteredSides {
    const { buildRows, probeRows, inRangeShare: kept, keyBytes, keepsProbe } = shape;
    const asked = !keepsProbe && probeRows >= rangeFilterRowsMin && buildRows <= rangeFilterBuildMax * probeRows;
    const steps = asked ? askedSteps : 0;
    if (!asked || 1 - kept < rangeFilterShareMin) return { buildRows, probeRows, ms: 0, steps };
    const keysMs = memory.sequential((buildRows + probeRows) * keyBytes);
    const probed = probeRows * kept;
    const both = filtersBoth(shape, build, probed);
    if (kept > gatheredMax(keyBytes + sumOf(probe), both) || probeRows < gatheredRowsMin) {
        // Passes read all rows of a column whichever stay.
        const anyway = probeRows * (1 - kept) * (2 * keyBytes + sumOf(probe));
        const ms = keysMs + anyway / memory.speeds.devicePartitionBytesPerMs;
        return { buildRows, probeRows: probed, ms, steps };
    }
    const partners = both ? withPartner(shape, memory, build, probed) : { rows: buildRows, ms: 0 };
    const ms = keysMs + gatherMs(memory, probeRows, kept, [keyBytes, ...probe]) + partners.ms;
    return { buildRows: partners.rows, probeRows: probed, ms, steps };
}
