// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreOutput, OutOfCoreShape, OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";

type Shape = OutOfCoreShape;

/**
 * GPU memory that a join out of core takes: the twin of JoinShape::device_bytes in cuda/staged_join/join_state.cu,
 * whose constants these are. A test compares both.
 */
const columnAlignBytes = 256;
const regionAlignRows = 8;
const groupRows = 32;
const fragmentAlignWords = 32;
const tileRows = 1024;
const passBitsMax = 8;
const runBuffers = 2;
const parcelSlots = 16;
const codeFieldsMax = 29;
const markedChunks = 16;
const indexedPartitionBytes = 24;
const sortPartitions = 64;
const indexCounters = 5;
const counterBytes = 8;
const extremesBytes = 16;
const wordBytes = 4;
const filterWordBytes = 8;

const align = (bytes: number): number => Math.ceil(bytes / columnAlignBytes) * columnAlignBytes;
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Bytes of a packed row: whole words. */
export function rowBytes({ keyBytes, buildWidths, probeWidths }: Shape, side: "build" | "probe"): number {
    return Math.ceil((keyBytes + sum(side === "build" ? buildWidths : probeWidths)) / wordBytes) * wordBytes;
}

export function outputWidth({ keyBytes, buildWidths, probeWidths }: Shape, output: OutOfCoreOutput): number {
    switch (output.side) {
        case "key":
            return keyBytes;
        case "presence":
            return 1;
        default:
            return (output.side === "build" ? buildWidths : probeWidths)[output.column] ?? 0;
    }
}

/** A chunk of either side, as it comes. */
export function chunkBytes(shape: Shape, side: "build" | "probe", chunkRows: number): number {
    const widths = side === "build" ? shape.buildWidths : shape.probeWidths;
    const validity = Math.ceil(chunkRows / 32) * wordBytes;
    return align(chunkRows * shape.keyBytes) + align(validity) + sum(widths.map((width) => align(chunkRows * width)));
}

/** A buffer of result rows. */
export function resultBytes(shape: Shape, rows: number): number {
    return sum(shape.outputs.map((output) => align(rows * outputWidth(shape, output))));
}

/** A chunk whose rows all leave, packed, if packing gains nothing: each partition rounds its rows and words up. */
export function packedBytesMax(shape: Shape, side: "build" | "probe", chunkRows: number, radixBits: number): number {
    const partitions = 2 ** radixBits;
    const groups = (Math.floor(chunkRows / groupRows) + partitions) * groupRows;
    return groups * rowBytes(shape, side) + partitions * fragmentAlignWords * wordBytes;
}

/** Build rows of a partition that can be indexed at once. */
export function indexRows({
    chunkRows,
    pages,
    pageRows,
    radixBits
}: Pick<OutOfCoreSizes, "chunkRows" | "pages" | "pageRows" | "radixBits">): number {
    const buildRows = pages * pageRows;
    return Math.min(buildRows, 2 * Math.max(chunkRows, Math.floor(buildRows / 2 ** radixBits)));
}

/** Probe rows are marked, for those that have no partner or one of many. */
export function marksProbeRows(shape: Pick<Shape, "emit" | "keepUnmatchedProbe">): boolean {
    return shape.emit === "pairs" ? shape.keepUnmatchedProbe : shape.emit === "probeOnce";
}

export function deviceBytes(shape: Shape, sizes: OutOfCoreSizes): number {
    const { chunkRows, chunkSlots, pageRows, pages, radixBits } = sizes;
    const partitions = 2 ** radixBits;
    const sides = ["build", "probe"] as const;
    const runBytes = Math.max(...sides.map((side) => packedBytesMax(shape, side, chunkRows, radixBits)));
    const slotBytes = Math.max(runBytes, ...sides.map((side) => chunkBytes(shape, side, chunkRows)));
    const widest = Math.max(...sides.map((side) => rowBytes(shape, side)));
    const passes = radixBits > passBitsMax ? 2 : 1;
    const partitioned = (chunkRows + partitions * regionAlignRows) * widest + partitions * 256;
    const keyless = shape.emit === "pairs" ? shape.keepUnmatchedBuild || shape.keepUnmatchedProbe : shape.anti;
    const keylessBytes = keyless ? 2 * partitioned + Math.floor(chunkRows / 8) : 0;
    const buildRowBytes = rowBytes(shape, "build");
    const buildRows = pages * pageRows;
    const marks = shape.emit === "pairs" ? shape.keepUnmatchedBuild : shape.emit === "buildOnce";
    const indexedRows = indexRows(sizes);
    const scratchRows = indexedRows + sortPartitions * 2 ** passBitsMax * regionAlignRows;
    const buckets = Math.floor(buildRows / 2) + 2 * partitions;
    const tiles = Math.floor(chunkRows / tileRows) + 2 * partitions + 1024;
    const result =
        shape.result === "rows"
            ? sizes.resultSlots * resultBytes(shape, sizes.resultRows) + 2 * ((tiles * tileRows) / groupRows + 1) * 8
            : 0;
    const lists = (partitions + Math.floor(chunkRows / Math.max(1, pageRows))) * 96;
    return (
        chunkSlots * slotBytes +
        (1 + passes) * partitioned +
        keylessBytes +
        (marksProbeRows(shape) ? markedChunks * chunkRows : 0) +
        sizes.filterWords * filterWordBytes +
        runBuffers * runBytes +
        buildRows * (buildRowBytes + (marks ? 1 : 0)) +
        scratchRows * buildRowBytes +
        indexCounters * counterBytes * 2 ** passBitsMax * partitions +
        Math.floor(chunkRows / 8) +
        buckets * wordBytes +
        partitions * indexedPartitionBytes +
        pages * wordBytes +
        result +
        parcelSlots * lists +
        2 * partitions * codeFieldsMax * extremesBytes +
        Math.floor(indexedRows / 8) +
        2 ** 24
    );
}
