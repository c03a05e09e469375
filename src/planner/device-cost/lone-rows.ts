// SPDX-License-Identifier: Apache-2.0
import { rowNumberBytes, type MemoryCost } from "./memory-cost.js";
import type { DeviceJoinShape } from "./shapes.js";

const wordBytes = 4;

/** Numbers of rows of each side. */
export interface SideRows {
    readonly build: number;
    readonly probe: number;
}

/** Pairs alone come out: no rows without a partner, and none that come once for all their partners. */
export function isInner({ emit, keepsBuild, keepsProbe }: DeviceJoinShape): boolean {
    return emit === "pairs" && !keepsBuild && !keepsProbe;
}

/** Rows of the result that are pairs. */
export function pairRows({ emit, pairs }: DeviceJoinShape): number {
    return emit === "pairs" ? pairs : 0;
}

/** Rows of the result that come from one side: without a partner in outer and anti joins, with one in semi joins. */
export function loneRows(shape: DeviceJoinShape): SideRows {
    const { emit, keepsBuild, keepsProbe, buildRows, probeRows, buildMatchRatio, matchRatio } = shape;
    const of = (rows: number, share: number, keeps: boolean, once: boolean): number => {
        if (keeps) return rows * (1 - share);
        return once ? rows * share : 0;
    };
    return {
        build: of(buildRows, buildMatchRatio, keepsBuild, emit === "buildOnce"),
        probe: of(probeRows, matchRatio, keepsProbe, emit === "probeOnce")
    };
}

/** All rows of the result. */
export function resultRows(shape: DeviceJoinShape): number {
    const lone = loneRows(shape);
    return pairRows(shape) + lone.build + lone.probe;
}

/** How often rows of a side are marked as having a partner, which is 0 where nobody asks. */
export function marks(shape: DeviceJoinShape): SideRows {
    const { emit, keepsBuild, keepsProbe, buildRows, probeRows, buildMatchRatio, matchRatio, pairs } = shape;
    if (emit === "probeOnce") return { build: 0, probe: probeRows * matchRatio };
    // The first probe row with a key marks all build rows of it.
    if (emit === "buildOnce") return { build: Math.min(pairs, buildRows * buildMatchRatio), probe: 0 };
    return { build: keepsBuild ? pairs : 0, probe: keepsProbe ? pairs : 0 };
}

/** Sides whose rows are marked. */
export function markedSides({ emit, keepsBuild, keepsProbe }: DeviceJoinShape): number {
    return emit === "pairs" ? Number(keepsBuild) + Number(keepsProbe) : 1;
}

/** A bit per row is cleared and set near others, and then read to list the rows that come alone. */
export function markBitsMs(shape: DeviceJoinShape, memory: MemoryCost, marked: SideRows): number {
    const lone = loneRows(shape);
    const of = (rows: number, setBits: number, listed: number): number => {
        if (setBits + listed === 0) return 0;
        return memory.sequential(setBits * wordBytes + (3 * rows) / 8 + listed * rowNumberBytes(rows));
    };
    return of(shape.buildRows, marked.build, lone.build) + of(shape.probeRows, marked.probe, lone.probe);
}

/** Columns of rows that come alone are gathered in their order; those of the other side are cleared. */
export function gatherLoneMs(
    shape: DeviceJoinShape,
    memory: MemoryCost,
    build: readonly number[],
    probe: readonly number[]
): number {
    const lone = loneRows(shape);
    const of = (rows: number, own: number, other: number, widths: readonly number[]): number =>
        widths.reduce(
            (ms, width) => ms + memory.clusteredGather(own, rows, width) + memory.sequential(other * width),
            0
        );
    return of(shape.buildRows, lone.build, lone.probe, build) + of(shape.probeRows, lone.probe, lone.build, probe);
}
