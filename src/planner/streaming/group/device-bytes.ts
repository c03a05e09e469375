// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreAggregate, OutOfCoreGroup, OutOfCoreGroupSizes } from "../../../plan/out-of-core-group-stage.js";

export type GroupSpec = Omit<OutOfCoreGroup, "sizes">;

/**
 * GPU memory that a group-by out of core takes: the twin of GroupShape::device_bytes in
 * cuda/staged_group_by/group_shape.cu, whose constants these are. A test compares both.
 */
const columnAlignBytes = 256;
const regionAlignRows = 8;
const groupRows = 32;
const fragmentAlignWords = 32;
const passBitsMax = 8;
const runBuffers = 2;
const parcelSlots = 16;
const codeFieldsMax = 29;
const extremesBytes = 16;
const groupByRowsPerRow = 4;
const wordBytes = 4;
/** Key and validity bit of a row without a key. */
const keylessBytes = 5;

const align = (bytes: number): number => Math.ceil(bytes / columnAlignBytes) * columnAlignBytes;
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Bytes of a value that leaves the GPU, in a group or in a partial row: these aggregates have the same in both. */
export function aggregateWidth({ widths }: GroupSpec, { kind, column }: OutOfCoreAggregate): number {
    return kind === "min" || kind === "max" ? (widths[column] ?? 0) : 8;
}

/** A partial row: whole words. */
export function partialRowBytes(spec: GroupSpec): number {
    const bytes = spec.keyBytes + sum(spec.aggregates.map((aggregate) => aggregateWidth(spec, aggregate)));
    return Math.ceil(bytes / wordBytes) * wordBytes;
}

/** Accumulators that are wider than their columns. */
function widenedBytes(spec: GroupSpec): number {
    return sum(
        spec.aggregates.map((aggregate) => {
            const width = aggregateWidth(spec, aggregate);
            const own = aggregate.kind === "countRows" ? 0 : (spec.widths[aggregate.column] ?? 0);
            return own < width ? width : 0;
        })
    );
}

/** A chunk as it comes. */
export function groupChunkBytes({ keyBytes, widths }: GroupSpec, chunkRows: number): number {
    const validity = Math.ceil(chunkRows / 32) * wordBytes;
    return align(chunkRows * keyBytes) + align(validity) + sum(widths.map((width) => align(chunkRows * width)));
}

/** Widths of the columns that leave the GPU. */
export function groupOutputWidths(spec: GroupSpec): number[] {
    const aggregates = spec.aggregates.map((aggregate) => aggregateWidth(spec, aggregate));
    return [spec.keyBytes, ...(spec.nullGroup ? [1] : []), ...aggregates];
}

/** A buffer of groups. */
export function groupResultBytes(spec: GroupSpec, rows: number): number {
    return sum(groupOutputWidths(spec).map((width) => align(rows * width)));
}

/** A chunk whose rows all leave, packed, if packing gains nothing: each partition rounds its rows and words up. */
export function packedGroupBytesMax(spec: GroupSpec, chunkRows: number, radixBits: number): number {
    const partitions = 2 ** radixBits;
    const groups = (Math.floor(chunkRows / groupRows) + partitions) * groupRows;
    return groups * partialRowBytes(spec) + partitions * fragmentAlignWords * wordBytes;
}

export function groupDeviceBytes(spec: GroupSpec, sizes: OutOfCoreGroupSizes): number {
    const { chunkRows, chunkSlots, pageRows, pages, radixBits, mergeRows } = sizes;
    const partitions = 2 ** radixBits;
    const rowBytes = partialRowBytes(spec);
    const runBytes = packedGroupBytesMax(spec, chunkRows, radixBits);
    const slotBytes = Math.max(runBytes, groupChunkBytes(spec, chunkRows));
    const passes = radixBits > passBitsMax ? 2 : 1;
    const gaps = partitions * regionAlignRows * rowBytes;
    const lists = (partitions + Math.floor(mergeRows / pageRows)) * 96;
    return (
        chunkSlots * slotBytes +
        (1 + passes) * (chunkRows * rowBytes + gaps) +
        runBuffers * runBytes +
        pages * pageRows * rowBytes +
        chunkRows * (2 * rowBytes + widenedBytes(spec) + (spec.nullGroup ? keylessBytes : 0)) +
        (1 + groupByRowsPerRow) * mergeRows * rowBytes +
        gaps +
        sizes.resultSlots * groupResultBytes(spec, sizes.resultRows) +
        parcelSlots * lists +
        2 * partitions * (codeFieldsMax * extremesBytes + 256) +
        32 * 2 ** 20
    );
}
