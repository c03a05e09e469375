// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, KeySpec } from "../model/column-type.js";
import type { OutOfCorePath, OutOfCoreWork } from "./out-of-core-stage.js";
import type { HeldRows, StageCommon } from "./stage.js";

/** What the plan decides of a group-by out of core; mirrors StreamSizes in cuda/api/stream_spec.hpp. */
export interface OutOfCoreGroupSizes {
    /** Bits of the first pass. */
    readonly radixBits: number;
    readonly chunkRows: number;
    /** Chunks in GPU memory at once. */
    readonly chunkSlots: number;
    /** As those of joins. */
    readonly hostChunkRows: number;
    readonly hostChunkSlots: number;
    /** Partial rows of a page, a key and accumulators each: a power of two. */
    readonly pageRows: number;
    readonly pages: number;
    /** Partial rows that are aggregated at once. */
    readonly mergeRows: number;
    /** Unit and limit of pinned host memory for spilled rows; what is more goes to disk, if there is a way to it. */
    readonly spillBlockBytes: number;
    /** Limit of another GPU's memory for them, which is taken first. */
    readonly peerBytes: number;
    readonly spillBytes: number;
    /** Blocks of pinned host memory, beside those, for rows on their way to disk; 0 blocks: no rows go there. */
    readonly diskBlockBytes: number;
    readonly diskBlocks: number;
    /** Groups of a buffer. */
    readonly resultRows: number;
    readonly resultSlots: number;
    /** Whether chunks are aggregated on their own before they are partitioned; "auto": while that pays. */
    readonly preAggregation: "auto" | "always" | "never";
}

export type OutOfCoreNumber = "signed" | "unsigned" | "float";

/** An aggregate of the GPU, over a column of the chunks. */
export interface OutOfCoreAggregate {
    readonly kind: "countRows" | "sum" | "min" | "max" | "first";
    readonly number: OutOfCoreNumber;
    readonly column: number;
    /** Only rows with the extreme of this column, which is an aggregate itself, count; null: all do. */
    readonly decidedBy: number | null;
}

/** Mirrors StagedGroupBySpec in cuda/api/stream_spec.hpp. */
export interface OutOfCoreGroup {
    readonly keyBytes: 4 | 8;
    /** Bytes of the columns of chunks, which have no NULLs. */
    readonly widths: readonly number[];
    readonly aggregates: readonly OutOfCoreAggregate[];
    /** Rows without a key are a group; results have a byte behind the key then. */
    readonly nullGroup: boolean;
    readonly sizes: OutOfCoreGroupSizes;
}

/** What the group-by is whatever way its rows take: all but the sizes. */
export type OutOfCoreGroupShape = Omit<OutOfCoreGroup, "sizes">;

export type OutOfCoreTextExtreme = "leastText" | "largestText";
export type OutOfCoreHalf = "half0" | "half1";
export type OutOfCoreQuarter = "quarter0" | "quarter1" | "quarter2" | "quarter3";

/**
 * A column of the chunks: values (of text its number), 64 bits of a decimal of 128 which say the same, half of 64 bits,
 * a half or a quarter of 128, numbered from the lowest, or a byte per row that says whether there is a value. Of text
 * also words of which the largest in a group has the number of the least or of the largest text in its low half, and 0
 * for NULL. column: of the source, rowNumberColumn, or keyWordColumn; those come first, and so do the least and
 * greatest value of each among the aggregates.
 */
export interface OutOfCoreChunkColumn {
    readonly column: number;
    readonly validity: boolean;
    readonly part: "whole" | "narrow" | "low" | "high" | OutOfCoreTextExtreme | OutOfCoreHalf | OutOfCoreQuarter;
    /** What stands for NULL: what changes no sum, no maximum, no minimum. */
    readonly fill: "none" | "zero" | "least" | "largest";
    /** Instead, bytes: 1 where a value, compared as this key, comes with the side's keys for the first time. */
    readonly distinct: KeySpec | null;
}

export function isTextExtreme(part: OutOfCoreChunkColumn["part"]): part is OutOfCoreTextExtreme {
    return part === "leastText" || part === "largestText";
}

/** How a result column is made of those that leave the GPU: the key, [the byte,] the aggregates. */
export interface OutOfCoreGroupColumn {
    readonly type: ColumnType;
    readonly kind: "copy" | "sum" | "mean";
    readonly value: number;
    /** Values in several parts: the highest one; `value` is the lowest. -1: there is one part. */
    readonly high: number;
    /** Sums of decimals of 128 bits: the two between these, the lower one first. */
    readonly between: readonly number[];
    readonly count: number;
    /** 0 there is NULL here; -1: it is never NULL. */
    readonly present: number;
    /**
     * Byte of the key where the value begins: of all its words, or of all keys, which are behind a bit for each, if
     * they are numbered.
     */
    readonly offset: number;
    /** Bytes of the value there (of text: of its number). A type with more has them extended, by the sign if any. */
    readonly bytes: number;
    /** Number of the key whose flag says NULL; -1: none does. Keys that are numbered or of several words have one. */
    readonly key: number;
    readonly number: OutOfCoreNumber;
    readonly decimalScale: number;
    /** Of the aggregated column, for errors. */
    readonly name: string;
}

/** Whole values of 64 bits are added up in 64 bits: halves, which add up exactly, have 32. */
export function hasShortSums({ aggregates, widths }: OutOfCoreGroupShape): boolean {
    return aggregates.some(({ kind, number, column }) => kind === "sum" && number !== "float" && widths[column] === 8);
}

/** How rows and groups are laid out: all but the sizes. */
export interface OutOfCoreGroupLayout {
    readonly group: OutOfCoreGroupShape;
    readonly side: {
        readonly keys: readonly KeySpec[];
        readonly columns: readonly OutOfCoreChunkColumn[];
        /** Byte of the key with a flag for each key that is NULL; -1: none. */
        readonly nullByte: number;
        /** Keys are a number of 4 bytes for all of them together, which the host knows them by. */
        readonly numbered: boolean;
    };
    readonly columns: readonly OutOfCoreGroupColumn[];
}

/** What each direction of the link will carry, and for how long. */
export interface OutOfCoreGroupPrediction {
    readonly h2dBytes: number;
    readonly d2hBytes: number;
    /** Packed; part of both directions. */
    readonly spilledBytes: number;
    /** The part of these bytes in the memory of another GPU. */
    readonly peerBytes: number;
    /** The part of them that host memory has no room for. */
    readonly diskBytes: number;
    readonly readMs: number;
    readonly residentMs: number;
    readonly spilledMs: number;
}

/** A group-by of an input larger than GPU memory, from its source to the sink. */
export interface OutOfCoreGroupStage extends StageCommon {
    readonly kind: "deviceOutOfCoreGroupBy";
    /** Nothing: its tables are its own. */
    readonly frees: readonly number[];
    /** Left out: its rows are the result. */
    readonly holds?: HeldRows;
    /** Inputs whose values cross the link in as many bits as they need. */
    readonly packed: readonly number[];
    readonly input: number;
    readonly layout: OutOfCoreGroupLayout;
    readonly sizes: OutOfCoreGroupSizes;
    readonly deviceBytes: number;
    readonly predicted: OutOfCoreGroupPrediction;
    readonly path: OutOfCorePath;
    readonly work: OutOfCoreWork;
}
