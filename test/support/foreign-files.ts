// SPDX-License-Identifier: Apache-2.0
// Arrow files that other implementations write and this package (or Arrow JS) does not read.
import { writeFileSync } from "node:fs";
import { Int64, makeData, makeVector, Message, Table } from "apache-arrow";
import { Field as FieldTable } from "apache-arrow/fb/field";
import { Footer as FooterTable } from "apache-arrow/fb/footer";
import { Message as MessageTable } from "apache-arrow/fb/message";
import { MessageHeader } from "apache-arrow/fb/message-header";
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
