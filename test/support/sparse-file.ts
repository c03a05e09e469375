// SPDX-License-Identifier: Apache-2.0
// Arrow files whose buffers lie beyond 4 GiB, with a hole where nothing is: few blocks on disk, big offsets.
import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { Field, FixedSizeBinary, Int64, Message, Schema } from "apache-arrow";
import { FileBlock, Footer } from "apache-arrow/ipc/metadata/file";
import { BufferRegion, FieldNode, RecordBatch } from "apache-arrow/ipc/metadata/message";
import { encapsulate } from "./foreign-files.js";

const magic = Buffer.from("ARROW1");
export const sparseSchema = new Schema([
    new Field("blob", new FixedSizeBinary(1024 * 1024), false),
    new Field("key", new Int64(), false)
]);

/**
 * Writes `batches` record batches of keys 0, 1, 2 ...; in each, a column of `blobRows` MiB of zeros lies in front of
 * the keys and is never written, so it is a hole.
 */
export function writeSparseFile(path: string, batches: number, blobRows: number): void {
    const file = openSync(path, "w");
    let offset = 0;
    const write = (bytes: Uint8Array): void => {
        writeSync(file, bytes, 0, bytes.length, offset);
        offset += bytes.length;
    };
    write(Buffer.concat([magic, Buffer.alloc(2)]));
    write(encapsulate(Message.encode(Message.from(sparseSchema))));
    const blocks: FileBlock[] = [];
    const blobBytes = blobRows * 1024 * 1024;
    const bodyBytes = blobBytes + blobRows * 8;
    for (let batch = 0; batch < batches; ++batch) {
        const nodes = [new FieldNode(blobRows, 0), new FieldNode(blobRows, 0)];
        const buffers = [
            ...[new BufferRegion(0, 0), new BufferRegion(0, blobBytes)],
            ...[new BufferRegion(blobBytes, 0), new BufferRegion(blobBytes, blobRows * 8)]
        ];
        const metadata = encapsulate(
            Message.encode(Message.from(new RecordBatch(blobRows, nodes, buffers, null), bodyBytes))
        );
        blocks.push(new FileBlock(metadata.length, bodyBytes, offset));
        write(metadata);
        offset += blobBytes;
        write(
            new Uint8Array(BigInt64Array.from({ length: blobRows }, (_, row) => BigInt(batch * blobRows + row)).buffer)
        );
    }
    write(Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
    const footer = Footer.encode(new Footer(sparseSchema, 4, blocks, []));
    const end = Buffer.alloc(4);
    end.writeInt32LE(footer.length);
    write(Buffer.concat([footer, end, magic]));
    ftruncateSync(file, offset);
    closeSync(file);
}
