// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, KeySpec } from "../model/column-type.js";
import type { StageCommon } from "./stage.js";

/** What the plan decides of a join out of core; mirrors OutOfCoreSizes in cuda/out_of_core/out_of_core_join.hpp. */
export interface OutOfCoreSizes {
    /** Of the first pass. */
    readonly radixBits: number;
    readonly chunkRows: number;
    /** Chunks in GPU memory at once. */
    readonly chunkSlots: number;
    /** Of a page of build rows: a power of two. */
    readonly pageRows: number;
    readonly pages: number;
    /** Partitions of the build side that begin in GPU memory. */
    readonly residentPartitions: number;
    /** Unit and limit of pinned host memory for spilled rows. */
    readonly spillBlockBytes: number;
    readonly spillBytes: number;
    /** Pinned host memory of rows on their way to disk and back; no blocks: nothing goes to disk. */
    readonly diskBlockBytes: number;
    readonly diskBlocks: number;
    /** Of a buffer of result rows. */
    readonly resultRows: number;
    readonly resultSlots: number;
}

/** A column that leaves the GPU: of a side's rows, the key, or a byte that says which of those are there. */
export interface OutOfCoreOutput {
    readonly side: "build" | "probe" | "key" | "presence";
    readonly column: number;
}

/** Mirrors GpuOutOfCoreSpec in native/device/gpu_out_of_core.hpp. */
export interface OutOfCoreJoin {
    readonly keyBytes: 4 | 8;
    /** Of the columns of each side beside its key. */
    readonly buildWidths: readonly number[];
    readonly probeWidths: readonly number[];
    readonly emit: "pairs" | "buildOnce" | "probeOnce";
    readonly anti: boolean;
    readonly keepUnmatchedBuild: boolean;
    readonly keepUnmatchedProbe: boolean;
    readonly result: "count" | "rows";
    readonly outputs: readonly OutOfCoreOutput[];
    readonly sizes: OutOfCoreSizes;
}

/** How an input becomes chunks. */
export interface OutOfCoreSide {
    readonly keys: readonly KeySpec[];
    /** validity: a byte per row instead of the value. */
    readonly columns: readonly { readonly column: number; readonly validity: boolean }[];
}

/** Where a result column's value is, among the outputs, if all bits of the mask are set in the presence byte. */
export interface OutOfCorePart {
    readonly value: number;
    /** Byte of the output where it begins. */
    readonly offset: number;
    /** Output with a byte that is 0 for NULL; -1: never NULL. */
    readonly validity: number;
    readonly mask: number;
}

export interface OutOfCoreColumn {
    readonly type: ColumnType;
    /** The first one that is there counts. */
    readonly parts: readonly OutOfCorePart[];
}

/** How a join's rows are laid out: all but the sizes. */
export interface OutOfCoreLayout {
    readonly join: Omit<OutOfCoreJoin, "sizes">;
    readonly build: OutOfCoreSide;
    readonly probe: OutOfCoreSide;
    readonly columns: readonly OutOfCoreColumn[];
    /** Output with the presence byte; -1: none. */
    readonly presence: number;
}

/** What each direction of the link will carry, and for how long. */
export interface OutOfCorePrediction {
    readonly h2dBytes: number;
    readonly d2hBytes: number;
    /** Packed, of both sides; part of both directions. */
    readonly spilledBytes: number;
    /** Of them, what host memory has no room for. */
    readonly diskBytes: number;
    readonly buildMs: number;
    readonly probeMs: number;
    readonly spilledMs: number;
}

/** The way of rows between the GPU and host memory: copy engines, or kernels that read and write it themselves. */
export interface OutOfCorePath {
    readonly wanted: "staged" | "coherent";
    readonly runs: "staged";
    readonly reason: string;
}

/** A join of two inputs larger than GPU memory, from their sources to the sink. */
export interface OutOfCoreStage extends StageCommon {
    readonly kind: "deviceOutOfCoreJoin";
    /** Nothing: its tables are its own. */
    readonly frees: readonly number[];
    readonly buildInput: number;
    readonly probeInput: number;
    readonly layout: OutOfCoreLayout;
    readonly sizes: OutOfCoreSizes;
    readonly deviceBytes: number;
    readonly predicted: OutOfCorePrediction;
    readonly path: OutOfCorePath;
}
