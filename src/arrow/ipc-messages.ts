// SPDX-License-Identifier: Apache-2.0
import type { Schema } from "apache-arrow";
import { Footer } from "apache-arrow/ipc/metadata/file";
import { Message } from "apache-arrow/ipc/metadata/message";

import { SpillwayError } from "../errors.js";
import type { FileEnds } from "../model/file-ends.js";
import { DamagedMetadata } from "./flatbuffer-check.js";
import { checkFooter, checkMessage, type SchemaFacts } from "./metadata-check.js";

/** Where one message lies in a file. */
export interface Block {
    offset: number;
    /** Prefix, flatbuffer and padding. */
    metadataBytes: number;
    bodyBytes: number;
}

/** The file format's table of contents, or what a scan of the stream format found. */
export interface FileContents {
    schema: Schema;
    facts: SchemaFacts;
    format: "file" | "stream";
    stamp: FileEnds["stamp"];
    /** In the order in which they apply: file format dictionaries first, stream format as they lie. */
    messages: LocatedMessage[];
}

export interface LocatedMessage {
    block: Block;
    message: Message;
}

/**
 * Reads files by their paths, without keeping them open: an open that is under way when its worker thread is terminated
 * would leave its descriptor behind. Both reject with a SpillwayError when the file cannot be read.
 */
export interface FileReader {
    ends(path: string, headBytes: number, tailBytes: number): Promise<FileEnds>;
    /** Bytes [offset, offset + length) of each range, one behind the other. */
    ranges(path: string, offsets: Float64Array, lengths: Float64Array): Promise<Uint8Array>;
}

const magic = "ARROW1";
const headBytes = 8; // magic and padding
const tailBytes = 10; // footer length and magic
const continuation = 0xffffffff;
// A footer is mostly 24 bytes per batch; one read of this size covers 2,000 batches of a usual schema.
const tailReadBytes = 64 * 1024;
// Metadata of one message: 100,000 columns with NULLs take about 8 MiB.
const metadataBytesMax = 256 * 1024 * 1024;
// Message heads that are read and then decoded at a time: 800 of two columns, for which the event loop waits 3 ms.
const headGroupBytes = 256 * 1024;
// Of a message in a stream: mostly all of its metadata.
const streamHeadBytes = 4 * 1024;

export function corruptFile(path: string, reason: string, cause?: unknown): SpillwayError {
    return new SpillwayError("FILE_CORRUPT", `'${path}' is not a sound Arrow IPC file: ${reason}`, { path }, cause);
}

export function truncatedFile(path: string, reason: string): SpillwayError {
    return new SpillwayError("FILE_TRUNCATED", `'${path}' ends too early: ${reason}; write it again`, { path });
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

/** The flatbuffer of an encapsulated message; files of before 2019 have no continuation marker. */
function flatbufferOf(metadata: Uint8Array): Uint8Array {
    if (metadata.byteLength < 8) throw new DamagedMetadata("a message is shorter than its head");
    const prefix = uint32(metadata, 0) === continuation ? 8 : 4;
    const length = uint32(metadata, prefix - 4);
    if (length === 0 || prefix + length > metadata.byteLength) {
        throw new DamagedMetadata("a message is longer than its block");
    }
    return metadata.subarray(prefix, prefix + length);
}

function decodeMessage(metadata: Uint8Array): { message: Message; facts: SchemaFacts } {
    const flatbuffer = flatbufferOf(metadata);
    const facts = checkMessage(flatbuffer);
    return { message: Message.decode(flatbuffer), facts };
}

function checkBlock(path: string, size: number, block: Block, index: number): void {
    const { offset, metadataBytes, bodyBytes } = block;
    if (offset < headBytes || metadataBytes < 8 || metadataBytes > metadataBytesMax || bodyBytes < 0) {
        throw corruptFile(path, `the footer describes an impossible batch ${index}`);
    }
    if (offset + metadataBytes + bodyBytes > size) throw truncatedFile(path, `batch ${index} lies behind its end`);
}

/** The blocks from `first` on whose heads are read at once: up to headGroupBytes, but at least one. */
function headGroup(blocks: readonly Block[], first: number): readonly Block[] {
    let end = first;
    let bytes = 0;
    do bytes += blocks[end++]?.metadataBytes ?? 0;
    while (end < blocks.length && bytes + (blocks[end]?.metadataBytes ?? 0) <= headGroupBytes);
    return blocks.slice(first, end);
}

async function readMessages(
    path: string,
    size: number,
    blocks: readonly Block[],
    reader: FileReader
): Promise<LocatedMessage[]> {
    blocks.forEach((block, index) => checkBlock(path, size, block, index));
    const messages: LocatedMessage[] = [];
    while (messages.length < blocks.length) {
        const group = headGroup(blocks, messages.length);
        const offsets = Float64Array.from(group, (block) => block.offset);
        const lengths = Float64Array.from(group, (block) => block.metadataBytes);
        const heads = await reader.ranges(path, offsets, lengths);
        let begin = 0;
        for (const block of group) {
            const head = heads.subarray(begin, (begin += block.metadataBytes));
            messages.push({ block, message: decodeMessage(head).message });
        }
    }
    return messages;
}

async function readFileFormat(reader: FileReader, path: string, ends: FileEnds): Promise<FileContents> {
    const { fileBytes: size, tail } = ends;
    const end = tail.byteLength;
    if (size < headBytes + tailBytes || text(tail.subarray(end - magic.length)) !== magic) {
        throw truncatedFile(path, "the footer is missing, as if its writer had not finished");
    }
    const footerBytes = uint32(tail, end - tailBytes);
    if (footerBytes === 0 || footerBytes > size - headBytes - tailBytes) {
        throw corruptFile(path, "the length of its footer is impossible");
    }
    const bytes =
        footerBytes + tailBytes <= end
            ? tail.subarray(end - tailBytes - footerBytes, end - tailBytes)
            : await readAt(reader, path, size - tailBytes - footerBytes, footerBytes);
    // Arrow JS views type ids of unions in place: a flatbuffer must begin at an aligned address, wherever it lay.
    const aligned = new Uint8Array(bytes);
    const facts = checkFooter(aligned);
    const footer = Footer.decode(aligned);
    const toBlock = (block: { offset: number; metaDataLength: number; bodyLength: number }): Block => ({
        offset: block.offset,
        metadataBytes: block.metaDataLength,
        bodyBytes: block.bodyLength
    });
    const blocks = [...footer.dictionaryBatches(), ...footer.recordBatches()].map(toBlock);
    const messages = await readMessages(path, size, blocks, reader);
    return { schema: footer.schema, facts, format: "file", stamp: ends.stamp, messages };
}

/** Stream format: each message tells where the next begins, so the scan reads one head after the other. */
async function readStreamFormat(reader: FileReader, path: string, ends: FileEnds): Promise<FileContents> {
    const { fileBytes: size } = ends;
    let schema: Schema | undefined;
    let facts: SchemaFacts | undefined;
    const messages: LocatedMessage[] = [];
    let offset = 0;
    while (offset + 8 <= size) {
        const head = await readAt(reader, path, offset, Math.min(streamHeadBytes, size - offset));
        const length = uint32(head, 4);
        if (uint32(head, 0) !== continuation) throw corruptFile(path, `there is no message at byte ${offset}`);
        if (length === 0) break; // end of stream
        if (length > metadataBytesMax)
            throw corruptFile(path, `the message at byte ${offset} has an impossible length`);
        if (offset + 8 + length > size) throw truncatedFile(path, `the message at byte ${offset} is incomplete`);
        const whole = 8 + length <= head.byteLength;
        const metadata = whole ? head.slice(0, 8 + length) : await readAt(reader, path, offset, 8 + length);
        const decoded = decodeMessage(metadata);
        const { message } = decoded;
        if (message.isSchema()) {
            if (schema !== undefined) throw corruptFile(path, "it has two schemas");
            schema = message.header();
            facts = decoded.facts;
        } else {
            messages.push({ block: { offset, metadataBytes: 8 + length, bodyBytes: message.bodyLength }, message });
        }
        const next = offset + 8 + length + message.bodyLength;
        if (message.bodyLength < 0 || next > size)
            throw truncatedFile(path, `the body at byte ${offset} is incomplete`);
        offset = next;
    }
    if (schema === undefined || facts === undefined) throw corruptFile(path, "it has no schema");
    return { schema, facts, format: "stream", stamp: ends.stamp, messages };
}

/** The first and last bytes of a file, as many as tell what it is and mostly all of its footer. */
export async function readEnds(reader: FileReader, path: string): Promise<FileEnds> {
    return await reader.ends(path, headBytes, tailReadBytes);
}

/** Schema and message headers of a file, by small positional reads; row data is never touched. */
export async function readContents(reader: FileReader, path: string): Promise<FileContents> {
    const ends = await readEnds(reader, path);
    const { fileBytes, head } = ends;
    if (fileBytes === 0) throw truncatedFile(path, "it is empty");
    const start = text(head);
    if (start.startsWith(magic)) return await readFileFormat(reader, path, ends);
    if (magic.startsWith(start)) throw truncatedFile(path, `it has ${fileBytes} bytes`);
    if (head.byteLength === headBytes && uint32(head, 0) === continuation) {
        return await readStreamFormat(reader, path, ends);
    }
    if (start.startsWith("PAR1")) {
        throw corruptFile(path, "it is a Parquet file; convert it, for instance with DuckDB or pyarrow.feather");
    }
    throw corruptFile(path, 'it starts neither with "ARROW1" nor with an Arrow stream');
}
