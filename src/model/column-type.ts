// SPDX-License-Identifier: Apache-2.0

/** Physical layout of a column as it lies in Arrow memory; mirrors native/model/column_type.hpp. */
export type Layout =
    | "null"
    | "bool"
    | "fixed"
    | "binary"
    | "view"
    | "list"
    | "fixedList"
    | "struct"
    | "unionSparse"
    | "unionDense"
    | "dictionary";

/** How fixed values compare. */
export type ValueOrder = "signed" | "unsigned" | "float" | "decimal" | "bytes";

/** What the engine knows of a column: widths, order and nesting. The logical type stays with Arrow JS. */
export interface ColumnType {
    name: string;
    layout: Layout;
    order: ValueOrder;
    /** Value width, offset width (4 | 8) or dictionary index width (1, 2, 4, 8), in bytes. */
    byteWidth: number;
    /** Dictionary: whether indices are signed. */
    indexSigned?: boolean;
    nullable: boolean;
    utf8: boolean;
    listSize: number;
    typeIds: number[];
    children: ColumnType[];
}

export type ValueKeyKind = "integer" | "float" | "fixedBytes" | "bytes" | "inlineBytes";
export type KeyKind = ValueKeyKind | "dictionaryIndex" | "dictionaryValue";

/** How one key column is normalized so that equal keys have equal bytes; mirrors native/model/row_layout.hpp. */
export interface KeySpec {
    column: number;
    kind: KeyKind;
    /** For dictionaryValue: how the decoded value is normalized. */
    kindOfValue: ValueKeyKind;
    /**
     * Normalized bytes; 0 for byte strings, but where a chunk has short ones as words (native short_text.hpp). Inline
     * bytes: one more than the longest value has.
     */
    width: number;
}

/** What happens to rows with a NULL key: vanish, go to the partition that never matches, or equal each other. */
export type NullKeys = "drop" | "keep" | "equal";

/** Carried pseudo column: the row's number in its source. */
export const rowNumberColumn = -1;
/** Pseudo column of a chunk beyond GPU memory: a word of keys that exceed one, the second, third and so on. */
export const keyWordColumn = -2;

export function isNested(type: ColumnType): boolean {
    return (
        type.layout === "list" ||
        type.layout === "fixedList" ||
        type.layout === "struct" ||
        type.layout === "unionSparse" ||
        type.layout === "unionDense"
    );
}

/** Does a row hold a reference to bytes kept elsewhere for this column? */
export function isVariable(type: ColumnType): boolean {
    return type.layout === "binary" || type.layout === "view" || isNested(type);
}

/** One record or dictionary batch in memory, in IPC pre-order; mirrors BatchLayout in native/transfer/source.hpp. */
export interface BatchLayout {
    rows: number;
    /** Triples: length, nullCount, bitOffset. */
    nodes: Float64Array;
    /** One view per buffer (null = absent); kept referenced by the source. */
    memory: (Uint8Array | null)[];
    variadicCounts: number[];
    /** Per dictionary node in pre-order: index into `dictionaries`. */
    dictionaries: number[];
}

export interface DictionaryLayout {
    valueType: ColumnType;
    /** In order; later ones are appended to the earlier (deltas). */
    batches: BatchLayout[];
}

declare const brand: unique symbol;
/** Where the batches of a relation of files lie; native code has it, since there may be millions. */
export interface FileBatches {
    readonly [brand]: "FileBatches";
}

/** Dictionaries that a dictionary node goes through before those of its own batches; mirrors DictionaryLink. */
export interface DictionaryLink {
    /** In pre-order over the columns, among dictionary nodes. */
    node: number;
    parts: DictionaryLinkPart[];
}

export interface DictionaryLinkPart {
    /** The files whose dictionaries of `node` it goes through; null: none. */
    files: FileBatches | null;
    node: number;
    /** Those of the layout's own dictionaries that it goes through. */
    dictionaries: number[];
}

/** Everything the engine needs to read a relation. */
export interface SourceLayout {
    columns: ColumnType[];
    /** In memory. */
    batches: BatchLayout[];
    /** The dictionaries of the batches in memory. */
    dictionaries: DictionaryLayout[];
    /** Batches that follow. */
    files: FileBatches | null;
    links: DictionaryLink[];
    /** Of all batches, the first rows; left out: all. */
    rowsMax?: number;
}

/**
 * Does the memory of an ArrayBuffer stay where it is while the engine reads it, also when the buffer is transferred to
 * somebody else? "unlessResized": but for `ArrayBuffer.prototype.transfer` with another length (Node 22).
 */
export type KeptMemory = "always" | "unlessResized" | "never";
