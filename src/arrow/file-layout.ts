// SPDX-License-Identifier: Apache-2.0
import { DataType, MetadataVersion, type Field, type Schema } from "apache-arrow";
import type { DictionaryBatch, RecordBatch as BatchHeader } from "apache-arrow/ipc/metadata/message";

import { SpillwayError } from "../errors.js";
import type { BatchLayout, ColumnType, DictionaryLayout } from "../model/column-type.js";
import { bufferCount, columnTypeOf, visitNodes } from "./column-type-of.js";
import { DamagedMetadata } from "./flatbuffer-check.js";
import type { Block, FileContents, LocatedMessage } from "./ipc-messages.js";
import { withNames } from "./with-names.js";

/** The batches of one file. */
export interface FileLayout {
    schema: Schema;
    columns: ColumnType[];
    stamp: string;
    batches: BatchLayout[];
    /** Appended to the list of all files; `BatchLayout.dictionaries` index that list. */
    dictionaries: DictionaryLayout[];
}

interface DictionaryNode {
    id: number;
    valueType: ColumnType;
}

/** Ids of the dictionary nodes of fields, in pre-order, as `BatchLayout.dictionaries` lists them. */
export function dictionaryNodes(fields: readonly Field[], columns: readonly ColumnType[]): DictionaryNode[] {
    return fields.flatMap((field, i) => {
        const column = columns[i] as ColumnType;
        const type = field.type as DataType;
        if (DataType.isDictionary(type)) return [{ id: type.id, valueType: column.children[0] as ColumnType }];
        return dictionaryNodes(type.children ?? [], column.children);
    });
}

function valueNodes(type: DataType, column: ColumnType): DictionaryNode[] {
    return dictionaryNodes(type.children ?? [], column.children);
}

/** Throws unless the header has exactly the nodes and buffers of the columns; first buffer of each node. */
function firstBuffers(header: BatchHeader, columns: readonly ColumnType[]): number[] {
    const first: number[] = [];
    let buffers = 0;
    let views = 0;
    visitNodes(columns, (type) => {
        first.push(buffers);
        buffers += bufferCount(type.layout);
        if (type.layout === "view") buffers += header.variadicBufferCounts[views++] ?? 0;
    });
    if (header.nodes.length === first.length && header.buffers.length === buffers) return first;
    throw new DamagedMetadata(
        `a batch has ${header.nodes.length} nodes and ${header.buffers.length} buffers, ` +
            `its schema asks for ${first.length} and ${buffers}`
    );
}

/** Some writers leave the number of NULLs unknown (-1): then the bitmap decides, and without one there is none. */
function nullCount(node: { length: number; nullCount: number }, validityBytes: number): number {
    if (node.nullCount >= 0) return node.nullCount;
    return validityBytes > 0 ? node.length : 0;
}

function batchLayout(
    header: BatchHeader,
    block: Block,
    columns: readonly ColumnType[],
    dictionaries: number[],
    file: number
): BatchLayout {
    const first = firstBuffers(header, columns);
    if (!(header.length >= 0)) throw new DamagedMetadata("a batch has a negative number of rows");
    const nodes = new Float64Array(header.nodes.length * 3);
    header.nodes.forEach((node, i) => {
        if (node.length < 0) throw new DamagedMetadata("a column has a negative length");
        nodes[i * 3] = node.length;
        nodes[i * 3 + 1] = nullCount(node, header.buffers[first[i] ?? 0]?.length ?? 0);
    });
    // Each stands for a buffer of its own: more of them than buffers are as wrong as fewer than none.
    if (header.variadicBufferCounts.some((count) => count < 0 || count > header.buffers.length)) {
        throw new DamagedMetadata("a view column has an impossible number of buffers");
    }
    const body = block.offset + block.metadataBytes;
    const buffers = new Float64Array(header.buffers.length * 2);
    header.buffers.forEach(({ offset, length }, i) => {
        if (offset < 0 || length < 0 || offset + length > block.bodyBytes) {
            throw new DamagedMetadata("a buffer lies outside of its batch");
        }
        buffers[i * 2] = body + offset;
        buffers[i * 2 + 1] = length;
    });
    return {
        file,
        rows: header.length,
        nodes,
        buffers,
        memory: null,
        variadicCounts: [...header.variadicBufferCounts],
        dictionaries
    };
}

function requireUncompressed(header: BatchHeader, path: string): void {
    const { compression } = header;
    if (compression === null) return;
    const codec = ["LZ4", "ZSTD"][compression.type] ?? `codec ${compression.type}`;
    throw new SpillwayError(
        "UNSUPPORTED_TYPE",
        `'${path}' has buffers compressed with ${codec}, which cannot be read; write it uncompressed ` +
            "(pyarrow: IpcWriteOptions(compression=None); Polars: write_ipc(compression='uncompressed'))",
        { path, codec }
    );
}

/** Walks the messages of a file in order; keeps which dictionary applies to which batch. */
class LayoutBuilder {
    readonly #columns: ColumnType[];
    readonly #nodes: DictionaryNode[];
    readonly #current = new Map<number, number>();
    public readonly batches: BatchLayout[] = [];
    public readonly dictionaries: DictionaryLayout[] = [];

    public constructor(
        private readonly contents: FileContents,
        private readonly path: string,
        private readonly file: number,
        private readonly firstDictionary: number,
        columns: ColumnType[]
    ) {
        this.#columns = columns;
        this.#nodes = dictionaryNodes(contents.schema.fields, columns);
    }

    public add({ block, message }: LocatedMessage): void {
        if (message.version < MetadataVersion.V4) {
            throw new DamagedMetadata("it was written by Arrow 0.7 or older; rewrite it with a newer version");
        }
        if (message.version < MetadataVersion.V5 && this.contents.facts.hasUnion) {
            throw new DamagedMetadata("it has unions in the format of before Arrow 1.0; rewrite it");
        }
        if (message.isRecordBatch()) {
            const header = message.header();
            requireUncompressed(header, this.path);
            const dictionaries = this.#nodes.map((node) => this.#dictionary(node));
            this.batches.push(batchLayout(header, block, this.#columns, dictionaries, this.file));
        } else if (message.isDictionaryBatch()) {
            this.#addDictionary(message.header(), block);
        } else throw new DamagedMetadata("a message is neither a record batch nor a dictionary");
    }

    /** Index of the dictionary that applies now; a dictionary that never came is an empty one. */
    #dictionary(node: DictionaryNode): number {
        const found = this.#current.get(node.id);
        if (found !== undefined) return found;
        const index = this.firstDictionary + this.dictionaries.length;
        this.dictionaries.push({ valueType: node.valueType, batches: [] });
        this.#current.set(node.id, index);
        return index;
    }

    #addDictionary(header: DictionaryBatch, block: Block): void {
        requireUncompressed(header.data, this.path);
        const node = this.#nodes.find((candidate) => candidate.id === header.id) ?? this.#nestedNode(header.id);
        const type = this.contents.schema.dictionaries.get(header.id) as DataType;
        const inner = valueNodes(type, node.valueType).map((nested) => this.#dictionary(nested));
        const batch = batchLayout(header.data, block, [node.valueType], inner, this.file);
        const known = this.#current.get(header.id);
        if (header.isDelta && known !== undefined) {
            this.dictionaries[known - this.firstDictionary]?.batches.push(batch);
            return;
        }
        if (known !== undefined && this.contents.format === "file") {
            throw new DamagedMetadata(`dictionary ${header.id} appears twice`);
        }
        this.#current.set(header.id, this.firstDictionary + this.dictionaries.length);
        this.dictionaries.push({ valueType: node.valueType, batches: [batch] });
    }

    /** A dictionary inside the values of another one. */
    #nestedNode(id: number): DictionaryNode {
        for (const node of this.#nodes) {
            const type = this.contents.schema.dictionaries.get(node.id);
            const found = type && valueNodes(type, node.valueType).find((nested) => nested.id === id);
            if (found) return found;
        }
        throw new DamagedMetadata(`dictionary ${id} belongs to no column`);
    }
}

/** Turns the messages of one file into batches that the engine reads by offset and length. */
export function fileLayout(contents: FileContents, path: string, file: number, firstDictionary: number): FileLayout {
    const schema = withNames(contents.schema);
    const columns = schema.fields.map((field) => columnTypeOf(field));
    const builder = new LayoutBuilder(contents, path, file, firstDictionary, columns);
    contents.messages.forEach((message) => builder.add(message));
    return { schema, columns, stamp: contents.stamp, batches: builder.batches, dictionaries: builder.dictionaries };
}
