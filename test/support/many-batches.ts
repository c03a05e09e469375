// SPDX-License-Identifier: Apache-2.0
// Files of very many small batches, made fast: one message is encoded and its rows are written over for each batch.
import { writeFileSync } from "node:fs";
import { Dictionary, Field, Int32, Int64, MetadataVersion, Message, Null, Schema, Utf8 } from "apache-arrow";
import { Footer } from "apache-arrow/ipc/metadata/file";
import { BufferRegion, DictionaryBatch, FieldNode, RecordBatch } from "apache-arrow/ipc/metadata/message";
import { encapsulate } from "./foreign-files.js";

const magic = Buffer.from("ARROW1");
const endOfStream = Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

export interface Block {
    offset: number;
    metadataBytes: number;
    bodyBytes: number;
}

function blockList(blocks: readonly Block[]): Buffer {
    const list = Buffer.alloc(4 + 24 * blocks.length);
    list.writeUInt32LE(blocks.length);
    blocks.forEach(({ offset, metadataBytes, bodyBytes }, i) => {
        const at = 4 + 24 * i;
        list.writeUInt32LE(offset % 2 ** 32, at);
        list.writeUInt32LE(Math.floor(offset / 2 ** 32), at + 4);
        list.writeInt32LE(metadataBytes, at + 8);
        list.writeUInt32LE(bodyBytes % 2 ** 32, at + 16);
        list.writeUInt32LE(Math.floor(bodyBytes / 2 ** 32), at + 20);
    });
    return list;
}

/** A footer with these blocks: the lists of one without any are replaced by others behind its end. */
export function footerOf(schema: Schema, records: readonly Block[], dictionaries: readonly Block[] = []): Buffer {
    let footer = Buffer.from(Footer.encode(new Footer(schema, MetadataVersion.V5, [], [])));
    const root = footer.readUInt32LE(0);
    const vtable = root - footer.readInt32LE(root);
    for (const [slot, blocks] of [
        [2, dictionaries],
        [3, records]
    ] as const) {
        const field = root + footer.readUInt16LE(vtable + 4 + 2 * slot);
        const padding = Buffer.alloc((8 - ((footer.length + 4) % 8)) % 8);
        footer.writeUInt32LE(footer.length + padding.length - field, field);
        footer = Buffer.concat([footer, padding, blockList(blocks)]);
    }
    return footer;
}

/** A file of these messages, which lie one behind the other from the end of its schema on. */
export function fileOf(
    schema: Schema,
    messages: Uint8Array,
    blocksAt: (begin: number) => { records: Block[]; dictionaries?: Block[] }
): Buffer {
    const head = Buffer.concat([magic, Buffer.alloc(2), encapsulate(Message.encode(Message.from(schema)))]);
    const { records, dictionaries } = blocksAt(head.length);
    const footer = footerOf(schema, records, dictionaries);
    const length = Buffer.alloc(4);
    length.writeInt32LE(footer.length);
    return Buffer.concat([head, messages, endOfStream, footer, length, magic]);
}

/** Writes batches of `batchRows` rows: columns k = 0, 1, 2 ... and, with `columns` 2, v = 2 k. */
export function writeManyBatches(
    path: string,
    batches: number,
    { batchRows = 1, columns = 1, format = "file" } = {}
): string {
    const names = ["k", "v"].slice(0, columns);
    const schema = new Schema(names.map((name) => new Field(name, new Int64(), false)));
    const columnBytes = batchRows * 8;
    const bodyBytes = columnBytes * columns;
    const regions = names.flatMap((_, i) => [
        new BufferRegion(i * columnBytes, 0),
        new BufferRegion(i * columnBytes, columnBytes)
    ]);
    const header = new RecordBatch(
        batchRows,
        names.map(() => new FieldNode(batchRows, 0)),
        regions,
        null
    );
    const metadata = encapsulate(Message.encode(Message.from(header, bodyBytes)));
    const messageBytes = metadata.length + bodyBytes;
    const messages = Buffer.alloc(batches * messageBytes);
    for (let batch = 0; batch < batches; batch++) {
        const at = batch * messageBytes;
        metadata.copy(messages, at);
        for (let row = 0; row < batchRows; row++) {
            const key = batch * batchRows + row;
            for (let column = 0; column < columns; column++) {
                const place = at + metadata.length + column * columnBytes + row * 8;
                messages.writeUInt32LE(key * (column + 1), place);
            }
        }
    }
    if (format === "stream") {
        const head = encapsulate(Message.encode(Message.from(schema)));
        writeFileSync(path, Buffer.concat([head, messages, endOfStream]));
        return path;
    }
    const records = (begin: number): Block[] =>
        Array.from({ length: batches }, (_, i) => ({
            ...{ offset: begin + i * messageBytes, metadataBytes: metadata.length, bodyBytes }
        }));
    writeFileSync(
        path,
        fileOf(schema, messages, (begin) => ({ records: records(begin) }))
    );
    return path;
}

function textBody(values: readonly string[]): Buffer {
    const text = values.join("");
    const offsets = Buffer.alloc(8 * Math.ceil((values.length + 1) / 2));
    let end = 0;
    values.forEach((value, i) => offsets.writeInt32LE((end += value.length), 4 * (i + 1)));
    return Buffer.concat([offsets, Buffer.from(text), Buffer.alloc((8 - (text.length % 8)) % 8)]);
}

/**
 * Writes a stream whose every record batch of one row comes with a dictionary of its own: one that replaces the one
 * before, or a delta that extends it. Row i has the value `w<i>`, padded to eight characters.
 */
export function writeManyDictionaries(path: string, batches: number, kind: "delta" | "replacement"): string {
    const type = new Dictionary(new Utf8(), new Int32(), 5);
    const schema = new Schema([new Field("d", type, true)]);
    const body = textBody(["w0000000"]);
    const values = new RecordBatch(
        1,
        [new FieldNode(1, 0)],
        [new BufferRegion(0, 0), new BufferRegion(0, 8), new BufferRegion(8, 8)],
        null
    );
    const dictionary = (isDelta: boolean) =>
        encapsulate(Message.encode(Message.from(new DictionaryBatch(values, 5, isDelta), body.length)));
    const record = encapsulate(
        Message.encode(
            Message.from(
                new RecordBatch(1, [new FieldNode(1, 0)], [new BufferRegion(0, 0), new BufferRegion(0, 4)], null),
                8
            )
        )
    );
    const parts: Buffer[] = [encapsulate(Message.encode(Message.from(schema)))];
    const [first, later] = [dictionary(false), dictionary(kind === "delta")];
    for (let batch = 0; batch < batches; batch++) {
        const bytes = Buffer.from(body);
        bytes.write(`w${String(batch).padStart(7, "0")}`, 8, "latin1");
        const codes = Buffer.alloc(8);
        codes.writeInt32LE(kind === "delta" ? batch : 0);
        parts.push(batch === 0 ? first : later, bytes, record, codes);
    }
    writeFileSync(path, Buffer.concat([...parts, endOfStream]));
    return path;
}

/** Writes batches that claim `batchRows` rows each of a column of NULLs, which has no bytes. */
export function writeNullRows(path: string, batches: number, batchRows: number): string {
    const schema = new Schema([new Field("p", new Null(), true)]);
    const header = new RecordBatch(batchRows, [new FieldNode(batchRows, batchRows)], [], null);
    const message = encapsulate(Message.encode(Message.from(header, 0)));
    const file = fileOf(schema, Buffer.concat(Array.from({ length: batches }, () => message)), (begin) => ({
        records: Array.from({ length: batches }, (_, i) => ({
            ...{ offset: begin + i * message.length, metadataBytes: message.length, bodyBytes: 0 }
        }))
    }));
    writeFileSync(path, file);
    return path;
}
