// SPDX-License-Identifier: Apache-2.0
import { MetadataVersion, type Schema } from "apache-arrow";
import { FileBlock, Footer } from "apache-arrow/ipc/metadata/file";
import { Message } from "apache-arrow/ipc/metadata/message";

/** Where one message lies in an Arrow file: the same three numbers as `NativeFileBlock`. */
export interface IpcFileBlock {
    readonly offset: number;
    readonly metadataBytes: number;
    readonly bodyBytes: number;
}

// Continuation marker (0xFFFFFFFF) and metadata length, both 32 bits.
const prefixBytes = 8;

/**
 * The schema message as it stands in a stream or file: prefix, flatbuffer, zeros up to a multiple of 8 bytes.
 * Dictionary fields keep the ids of their types; the dictionary batches must use the same.
 */
export function encodeSchemaMessage(schema: Schema): Uint8Array {
    const flatbuffer = Message.encode(Message.from(schema));
    const metadataBytes = Math.ceil(flatbuffer.byteLength / 8) * 8;
    const message = new Uint8Array(prefixBytes + metadataBytes);
    message.fill(0xff, 0, 4);
    new DataView(message.buffer).setInt32(4, metadataBytes, true);
    message.set(flatbuffer, prefixBytes);
    return message;
}

/** The footer flatbuffer; length and magic behind it are the writer's part. */
export function encodeFooter(
    schema: Schema,
    dictionaryBlocks: readonly IpcFileBlock[],
    recordBlocks: readonly IpcFileBlock[]
): Uint8Array {
    return Footer.encode(
        new Footer(schema, MetadataVersion.V5, recordBlocks.map(toArrowBlock), dictionaryBlocks.map(toArrowBlock))
    );
}

function toArrowBlock(block: IpcFileBlock): FileBlock {
    return new FileBlock(block.metadataBytes, block.bodyBytes, block.offset);
}
