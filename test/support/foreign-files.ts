// SPDX-License-Identifier: Apache-2.0
// Arrow files that other implementations write and this package (or Arrow JS) does not read.
import { writeFileSync } from "node:fs";
import { Int64, makeData, makeVector, Message, Table } from "apache-arrow";
import { Field as FieldTable } from "apache-arrow/fb/field";
import { Footer as FooterTable } from "apache-arrow/fb/footer";
import { KeyValue as KeyValueTable } from "apache-arrow/fb/key-value";
import { Message as MessageTable } from "apache-arrow/fb/message";
import { MessageHeader } from "apache-arrow/fb/message-header";
import { Buffer as BufferStruct } from "apache-arrow/fb/buffer";
import { FieldNode as NodeStruct } from "apache-arrow/fb/field-node";
import { RecordBatch as BatchTable } from "apache-arrow/fb/record-batch";
import { Schema as SchemaTable } from "apache-arrow/fb/schema";
import { FileBlock, Footer } from "apache-arrow/ipc/metadata/file";
import { BodyCompression, BufferRegion, FieldNode, RecordBatch } from "apache-arrow/ipc/metadata/message";
import { Builder } from "flatbuffers";

const magic = Buffer.from("ARROW1");
const endOfStream = Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

/** A message of the file: continuation mark, length, flatbuffer, padded to 8 bytes. */
export function encapsulate(metadata: Uint8Array): Buffer {
    const length = Math.ceil((metadata.length + 8) / 8) * 8 - 8;
    const message = Buffer.alloc(length + 8);
    message.writeInt32LE(-1, 0);
    message.writeInt32LE(length, 4);
    message.set(metadata, 8);
    return message;
}

function writeParts(path: string, schema: Uint8Array, messages: readonly Uint8Array[], footer: Uint8Array): void {
    const length = Buffer.alloc(4);
    length.writeInt32LE(footer.length);
    const head = [magic, Buffer.alloc(2), encapsulate(schema)];
    writeFileSync(path, Buffer.concat([...head, ...messages, endOfStream, footer, length, magic]));
}

/** Numbers of the format's Type union that Arrow JS has no class for. */
export const foreignTypes = { RunEndEncoded: 22, ListView: 25, LargeListView: 26 } as const;

/** The table of a schema with one column `c` of that type, which has no parameters of its own. */
function foreignSchema(builder: Builder, type: number, bigEndian: boolean): number {
    const name = builder.createString("c");
    builder.startObject(0);
    const parameters = builder.endObject();
    const children = FieldTable.createChildrenVector(builder, []);
    FieldTable.startField(builder);
    FieldTable.addName(builder, name);
    FieldTable.addNullable(builder, true);
    FieldTable.addTypeType(builder, type);
    FieldTable.addType(builder, parameters);
    FieldTable.addChildren(builder, children);
    const fields = SchemaTable.createFieldsVector(builder, [FieldTable.endField(builder)]);
    SchemaTable.startSchema(builder);
    SchemaTable.addEndianness(builder, bigEndian ? 1 : 0);
    SchemaTable.addFields(builder, fields);
    return SchemaTable.endSchema(builder);
}

/** A file without rows whose only column is of a type (and byte order) that Spillway refuses. */
export function writeForeignSchema(path: string, type: number, bigEndian = false): void {
    const message = new Builder();
    const schema = foreignSchema(message, type, bigEndian);
    MessageTable.startMessage(message);
    MessageTable.addVersion(message, 4);
    MessageTable.addHeaderType(message, MessageHeader.Schema);
    MessageTable.addHeader(message, schema);
    MessageTable.addBodyLength(message, 0n);
    MessageTable.finishMessageBuffer(message, MessageTable.endMessage(message));
    const footer = new Builder();
    const footerSchema = foreignSchema(footer, type, bigEndian);
    const [batches, dictionaries] = [0, 0].map(() => {
        FooterTable.startRecordBatchesVector(footer, 0);
        return footer.endVector();
    });
    FooterTable.startFooter(footer);
    FooterTable.addVersion(footer, 4);
    FooterTable.addSchema(footer, footerSchema);
    FooterTable.addRecordBatches(footer, batches!);
    FooterTable.addDictionaries(footer, dictionaries!);
    FooterTable.finishFooterBuffer(footer, FooterTable.endFooter(footer));
    writeParts(path, message.asUint8Array(), [], footer.asUint8Array());
}

/** A file whose only record batch says that its body is compressed. codec: 0 = LZ4 frames, 1 = Zstandard. */
export function writeCompressed(path: string, codec: 0 | 1): void {
    const data = makeData({ type: new Int64(), length: 4, nullCount: 0, data: new BigInt64Array(4) });
    const { schema } = new Table({ key: makeVector(data) });
    const body = Buffer.alloc(64);
    const buffers = [new BufferRegion(0, 0), new BufferRegion(0, 40)];
    const batch = new RecordBatch(4, [new FieldNode(4, 0)], buffers, new BodyCompression(codec));
    const metadata = encapsulate(Message.encode(Message.from(batch, body.length)));
    const schemaBytes = Message.encode(Message.from(schema));
    const block = new FileBlock(metadata.length, body.length, 8 + encapsulate(schemaBytes).length);
    writeParts(path, schemaBytes, [metadata, body], Footer.encode(new Footer(schema, 4, [block], [])));
}

/** A record batch of one int64 column, and that its buffers are compressed as Arrow 0.17 said it: in the metadata. */
function oldCompressedBatch(rows: number, valueBytes: number, codec: string): Uint8Array {
    const builder = new Builder();
    const pair = KeyValueTable.createKeyValue(
        builder,
        builder.createString("ARROW:experimental_compression"),
        builder.createString(codec)
    );
    const metadata = MessageTable.createCustomMetadataVector(builder, [pair]);
    BatchTable.startBuffersVector(builder, 2);
    BufferStruct.createBuffer(builder, 0n, BigInt(valueBytes));
    BufferStruct.createBuffer(builder, 0n, 0n);
    const buffers = builder.endVector();
    BatchTable.startNodesVector(builder, 1);
    NodeStruct.createFieldNode(builder, BigInt(rows), 0n);
    const nodes = builder.endVector();
    BatchTable.startRecordBatch(builder);
    BatchTable.addLength(builder, BigInt(rows));
    BatchTable.addNodes(builder, nodes);
    BatchTable.addBuffers(builder, buffers);
    const batch = BatchTable.endRecordBatch(builder);
    MessageTable.startMessage(builder);
    MessageTable.addVersion(builder, 3);
    MessageTable.addHeaderType(builder, MessageHeader.RecordBatch);
    MessageTable.addHeader(builder, batch);
    MessageTable.addBodyLength(builder, BigInt(valueBytes));
    MessageTable.addCustomMetadata(builder, metadata);
    MessageTable.finishMessageBuffer(builder, MessageTable.endMessage(builder));
    return builder.asUint8Array();
}

/** A stream whose values Arrow 0.17 could not make smaller: as they lie they are long enough to be taken for rows. */
export function writeOldCompressed(path: string, codec: string): void {
    const rows = 100;
    const body = Buffer.alloc(rows * 8 + 24, 7);
    body.writeBigInt64LE(BigInt(rows * 8), 0);
    const data = makeData({ type: new Int64(), length: 0, nullCount: 0, data: new BigInt64Array(0) });
    const { schema } = new Table({ key: makeVector(data) });
    const first = encapsulate(Message.encode(Message.from(schema)));
    const batch = encapsulate(oldCompressedBatch(rows, body.length, codec));
    writeFileSync(path, Buffer.concat([first, batch, body, endOfStream]));
}
