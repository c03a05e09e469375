// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, FileBatches } from "./column-type.js";

/**
 * The size of a regular file in bytes, which one it is, and its first and last bytes: as many as asked for, or all that
 * there are.
 */
export interface FileEnds {
    fileBytes: number;
    /**
     * Equal as long as nobody wrote to the file or put another one in its place: device, inode, size and times. Null
     * when it changed so lately that the next change may leave no other times.
     */
    identity: string | null;
    /** Device, inode, size and time of the last write, as they were when the file was opened to read its ends. */
    stamp: string;
    head: Uint8Array;
    tail: Uint8Array;
}

/** One file, as far as its schema and its first and last bytes tell. */
export interface FileToScan {
    path: string;
    /** Which file it is (see FileEnds). The engine reads no other. */
    stamp: string;
    format: "file" | "stream";
    /** Stream: the byte behind its schema. */
    begin: number;
    hasUnion: boolean;
    /** The id of each dictionary node, in pre-order. */
    dictionaryIds: number[];
}

/** Mirrors FileBatchesSpec in native/transfer/file_batches.hpp. */
export interface FileBatchesSpec {
    columns: ColumnType[];
    files: FileToScan[];
}

/** The batches of a relation of files, and what their headers tell of it. */
export interface OpenedFileBatches {
    batches: FileBatches;
    /** What is taken of the budget as long as the relation is there. */
    heldBytes: number;
    rows: number;
    largestBatchRows: number;
    columnBytes: Float64Array;
    dictionaryBytes: Float64Array;
    dictionaryRows: Float64Array;
    /** Per field node in pre-order: 1 where a batch, or its dictionary, has a NULL. */
    nodeHasNulls: Uint8Array;
}
