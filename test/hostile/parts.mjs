// SPDX-License-Identifier: Apache-2.0
// Messages of Arrow IPC one by one, sound or not, and files and streams put together from them in any order.
import { RecordBatchStreamWriter } from "apache-arrow";
import { FileBlock, Footer } from "apache-arrow/ipc/metadata/file";
import { DictionaryBatch, Message, RecordBatch } from "apache-arrow/ipc/metadata/message";

const magic = Buffer.from("ARROW1");
export const endOfStream = Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

/** A message: its flatbuffer behind continuation mark and length, padded to 8 bytes, and its body. */
function part(kind, flatbuffer, body = Buffer.alloc(0)) {
    const length = (flatbuffer.length + 7) & ~7;
    const head = Buffer.alloc(8 + length);
    head.writeInt32LE(-1, 0);
    head.writeInt32LE(length, 4);
    head.set(flatbuffer, 8);
    return { kind, head, body };
}

export function schemaPart(schema) {
    return part("schema", Message.encode(Message.from(schema)));
}

/**
 * Header and body of a record batch. nodes: [length, NULLs]; buffers: bytes that are laid one behind the other, or
 * { offset, length } for any place in the body, or beyond it. Numbers may be bigints.
 */
function recordBatch({ rows, nodes, buffers, variadic = [] }) {
    const pieces = [];
    let end = 0;
    const regions = buffers.map((buffer) => {
        if (!ArrayBuffer.isView(buffer)) return buffer;
        const region = { offset: end, length: buffer.byteLength };
        const padded = Buffer.alloc((buffer.byteLength + 7) & ~7);
        padded.set(new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength));
        pieces.push(padded);
        end += padded.length;
        return region;
    });
    const named = nodes.map(([length, nullCount = 0]) => ({ length, nullCount }));
    const header = new RecordBatch(0, named, regions, null, variadic);
    header._length = rows; // its constructor takes no number above 2^53
    return { header, body: Buffer.concat(pieces) };
}

export function batchPart(batch) {
    const { header, body } = recordBatch(batch);
    return part("batch", Message.encode(Message.from(header, body.length)), body);
}

export function dictionaryPart(id, batch, isDelta = false) {
    const { header, body } = recordBatch(batch);
    const message = Message.from(new DictionaryBatch(header, id, isDelta), body.length);
    return part("dictionary", Message.encode(message), body);
}

const kinds = { 1: "schema", 2: "dictionary", 3: "batch" };

/** The messages that Arrow JS writes for these batches, schema first. */
export function partsOf(schema, batches) {
    const writer = new RecordBatchStreamWriter();
    writer.reset(undefined, schema);
    for (const batch of batches) writer.write(batch);
    writer.finish();
    return splitStream(Buffer.from(writer.toUint8Array(true)));
}

export function splitStream(bytes) {
    const parts = [];
    for (let at = 0; at + 8 <= bytes.length;) {
        const length = bytes.readInt32LE(at + 4);
        if (length === 0) break;
        const head = bytes.subarray(at, at + 8 + length);
        const message = Message.decode(Uint8Array.from(head.subarray(8)));
        at += 8 + length;
        parts.push({ kind: kinds[message.headerType], head, body: bytes.subarray(at, at + message.bodyLength) });
        at += message.bodyLength;
    }
    return parts;
}

export function streamOf(parts, end = endOfStream) {
    return Buffer.concat([...parts.flatMap(({ head, body }) => [head, body]), end]);
}

/**
 * A file of these parts. `blocks` may change what the footer says about them: it gets { dictionaries, batches }, each a
 * list of { offset, metadataBytes, bodyBytes }, and returns the same.
 */
export function fileOf(schema, parts, blocks = (found) => found) {
    const pieces = [magic, Buffer.alloc(2)];
    const found = { dictionaries: [], batches: [], schema: [] };
    const lists = { dictionary: found.dictionaries, batch: found.batches, schema: found.schema };
    let at = 8;
    for (const { kind, head, body } of parts) {
        lists[kind].push({ offset: at, metadataBytes: head.length, bodyBytes: body.length });
        pieces.push(head, body);
        at += head.length + body.length;
    }
    const toBlock = ({ offset, metadataBytes, bodyBytes }) => new FileBlock(metadataBytes, bodyBytes, offset);
    const told = blocks(found);
    const footer = Footer.encode(new Footer(schema, 4, told.batches.map(toBlock), told.dictionaries.map(toBlock)));
    const length = Buffer.alloc(4);
    length.writeInt32LE(footer.length);
    return Buffer.concat([...pieces, endOfStream, footer, length, magic]);
}
