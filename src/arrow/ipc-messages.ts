// SPDX-License-Identifier: Apache-2.0
import type { Schema } from "apache-arrow";
import { Footer } from "apache-arrow/ipc/metadata/file";
import { Message } from "apache-arrow/ipc/metadata/message";

import { SpillwayError } from "../errors.js";
import type { FileBatchesSpec, FileEnds, OpenedFileBatches } from "../model/files.js";
import { foreignFileError, startBytes } from "./foreign-format.js";
import { checkFooter, checkSchemaMessage, type SchemaFacts } from "./metadata-check.js";

/** The schema of a file, and where its batches begin. */
export interface FileSchema {
    schema: Schema;
    facts: SchemaFacts;
    format: "file" | "stream";
    stamp: FileEnds["stamp"];
    /** Stream: the byte behind the schema; else 0. */
    begin: number;
}

/**
 * Reads files by their paths, without keeping them open: an open that is under way when its worker thread is terminated
 * would leave its descriptor behind. All reject with a SpillwayError when the file cannot be read.
 */
export interface FileReader {
    ends(path: string, headBytes: number, tailBytes: number): Promise<FileEnds>;
    /** Bytes [offset, offset + length) of each range, one behind the other. */
    ranges(path: string, offsets: Float64Array, lengths: Float64Array): Promise<Uint8Array>;
    /** The footer of the file format, with zeros in place of its lists of batches. */
    footer(path: string): Promise<Uint8Array>;
    /** All batches of files of one schema. */
    batches(spec: FileBatchesSpec): Promise<OpenedFileBatches>;
}

const magic = "ARROW1";
const headBytes = 8; // magic and padding
const tailBytes = 10; // footer length and magic
const continuation = 0xffffffff;
const oldPrefixBytes = 4; // of messages of before Arrow 0.15: the length alone
// A footer is mostly 24 bytes per batch; one read of this size covers 2,000 batches of a usual schema.
const tailReadBytes = 64 * 1024;
// Metadata of one message (kIpcMetadataBytesMax in native/transfer/ipc_limits.hpp).
const metadataBytesMax = 256 * 1024 * 1024;
// How much of a stream's first message is read at once: mostly all of its metadata.
const streamHeadBytes = 4 * 1024;

export function corruptFile(path: string, reason: string, cause?: unknown): SpillwayError {
    return new SpillwayError("FILE_CORRUPT", `'${path}' is not a sound Arrow IPC file: ${reason}`, { path }, cause);
}

export function truncatedFile(path: string, reason: string): SpillwayError {
    return new SpillwayError("FILE_TRUNCATED", `'${path}' ends too early: ${reason}; write or copy it again`, { path });
}

async function readAt(reader: FileReader, path: string, offset: number, bytes: number): Promise<Uint8Array> {
    return await reader.ranges(path, Float64Array.of(offset), Float64Array.of(bytes));
}

function text(bytes: Uint8Array): string {
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

function uint32(bytes: Uint8Array, offset: number): number {
    return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(offset, true);
}

async function readFileFormat(reader: FileReader, path: string, ends: FileEnds): Promise<FileSchema> {
    const { fileBytes: size, tail, stamp } = ends;
    const end = tail.byteLength;
    if (size < headBytes + tailBytes || text(tail.subarray(end - magic.length)) !== magic) {
        throw truncatedFile(path, "the footer is missing, as if its writer had not finished");
    }
    const footerBytes = uint32(tail, end - tailBytes);
    if (footerBytes === 0 || footerBytes > size - headBytes - tailBytes) {
        throw corruptFile(path, "the length of its footer is impossible");
    }
    // Arrow JS views type ids of unions in place: a flatbuffer must begin at an aligned address, wherever it lay.
    const aligned =
        footerBytes + tailBytes <= end
            ? new Uint8Array(tail.subarray(end - tailBytes - footerBytes, end - tailBytes))
            : await reader.footer(path);
    const facts = checkFooter(aligned);
    return { schema: Footer.decode(aligned).schema, facts, format: "file", stamp, begin: 0 };
}

/** Stream format: the schema is its first message, behind a prefix that ends with the length of its metadata. */
async function readStreamFormat(
    reader: FileReader,
    path: string,
    ends: FileEnds,
    prefixBytes: number
): Promise<FileSchema> {
    const { fileBytes: size, stamp } = ends;
    const head = await readAt(reader, path, 0, Math.min(streamHeadBytes, size));
    const length = uint32(head, prefixBytes - 4);
    if (length === 0) throw corruptFile(path, "it has no schema");
    if (length > metadataBytesMax) throw corruptFile(path, "the message at byte 0 has an impossible length");
    const begin = prefixBytes + length;
    if (begin > size) throw truncatedFile(path, "the message at byte 0 is incomplete");
    const metadata = begin <= head.byteLength ? head : await readAt(reader, path, 0, begin);
    const flatbuffer = new Uint8Array(metadata.subarray(prefixBytes, begin));
    const facts = checkSchemaMessage(flatbuffer);
    const message = Message.decode(flatbuffer);
    const next = begin + message.bodyLength;
    if (!(next >= begin && next <= size)) throw truncatedFile(path, "the body at byte 0 is incomplete");
    return { schema: message.header() as Schema, facts, format: "stream", stamp, begin: next };
}

/**
 * May this be a stream of before Arrow 0.15, whose messages begin with the length of their metadata? Behind it is the
 * offset of the flatbuffer's first table, which no more than the description of that table lies in front of.
 */
function mayBeOldStream(head: Uint8Array): boolean {
    if (head.byteLength < headBytes) return false;
    const [length, root] = [uint32(head, 0), uint32(head, 4)];
    return length > 0 && length <= metadataBytesMax && length % 4 === 0 && root >= 4 && root < Math.min(length, 256);
}

/** The first and last bytes of a file, as many as tell what it is and mostly all of its footer. */
export async function readEnds(reader: FileReader, path: string): Promise<FileEnds> {
    return await reader.ends(path, headBytes, tailReadBytes);
}

/** The schema of a file, by small positional reads. */
export async function readSchema(reader: FileReader, path: string): Promise<FileSchema> {
    const ends = await readEnds(reader, path);
    const { fileBytes, head } = ends;
    const start = text(head);
    if (start.startsWith(magic)) return await readFileFormat(reader, path, ends);
    if (fileBytes === 0)
        throw new SpillwayError("FILE_TRUNCATED", `'${path}' is empty; write or copy it again`, { path });
    if (magic.startsWith(start)) throw truncatedFile(path, `it has ${fileBytes} bytes`);
    if (head.byteLength === headBytes && uint32(head, 0) === continuation) {
        return await readStreamFormat(reader, path, ends, headBytes);
    }
    const whole = fileBytes <= ends.tail.byteLength;
    const first = whole ? ends.tail : await readAt(reader, path, 0, Math.min(startBytes, fileBytes));
    const foreign = foreignFileError(path, first, ends.tail);
    if (foreign !== undefined) throw foreign;
    if (mayBeOldStream(head)) return await readStreamFormat(reader, path, ends, oldPrefixBytes);
    throw corruptFile(path, 'it starts neither with "ARROW1" nor with an Arrow stream');
}
