// SPDX-License-Identifier: Apache-2.0
// What a file is and what schema it has: by few reads, and refused by name where its sizes cannot be.
import { Field, Int32, MessageHeader, MetadataVersion, Schema } from "apache-arrow";
import { Footer } from "apache-arrow/ipc/metadata/file";
import { Message } from "apache-arrow/ipc/metadata/message";
import { describe, expect, test } from "vitest";
import { DamagedMetadata } from "../../../src/arrow/flatbuffer-check.js";
import { readSchema, type FileReader, type FileSchema } from "../../../src/arrow/ipc-messages.js";
import { encapsulate } from "../../support/foreign-files.js";

const path = "some/file.arrow";
const head = Buffer.from("ARROW1\0\0");
const magic = Buffer.from("ARROW1");
const schema = new Schema([new Field("n", new Int32(), true)]);

/** A reader of one file that is these bytes, or begins with them and has `fileBytes` in all, and what was read. */
function readerOf(bytes: Uint8Array, fileBytes = bytes.length) {
    const reads: unknown[] = [];
    const reader: FileReader = {
        ends: async (_, headBytes, tailBytes) => {
            const at = Math.max(0, fileBytes - tailBytes);
            return {
                ...{ fileBytes, identity: null, stamp: "the stamp" },
                ...{ head: bytes.subarray(0, headBytes), tail: bytes.subarray(at) }
            };
        },
        ranges: async (_, offsets, lengths) => {
            reads.push([...offsets, ...lengths]);
            const [begin, length] = [offsets[0]!, lengths[0]!];
            if (begin + length > bytes.length) throw new Error("a read behind the end of the file");
            return bytes.subarray(begin, begin + length);
        },
        footer: async () => {
            reads.push("footer");
            return Footer.encode(new Footer(schema, MetadataVersion.V5, [], []));
        },
        batches: () => Promise.reject(new Error("nobody asked for batches"))
    };
    return { reader, reads };
}

async function read(bytes: Uint8Array, fileBytes?: number): Promise<FileSchema & { reads: unknown[] }> {
    const { reader, reads } = readerOf(bytes, fileBytes);
    return { ...(await readSchema(reader, path)), reads };
}

/** Refused as a file of that path, for a reason that has these words. */
async function expectRefused(bytes: Uint8Array, code: string, words: RegExp, fileBytes?: number): Promise<void> {
    const message = expect.stringMatching(words) as string;
    await expect(read(bytes, fileBytes)).rejects.toMatchObject({
        name: "SpillwayError",
        code,
        details: { path },
        message
    });
}

function uint32(value: number): Buffer {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return bytes;
}

/** A file whose footer is these bytes, `stated` long as it says. */
function fileOf(footer: Uint8Array, stated = footer.length, between = 0): Buffer {
    return Buffer.concat([head, Buffer.alloc(between), footer, uint32(stated), magic]);
}

function footerOf(paddedTo = 0): Uint8Array {
    const footer = Footer.encode(new Footer(schema, MetadataVersion.V5, [], []));
    return Buffer.concat([footer, Buffer.alloc(Math.max(0, paddedTo - footer.length))]);
}

describe("a file of the file format", () => {
    test("has the schema of its footer", async () => {
        const found = await read(fileOf(footerOf(), undefined, 1000));
        expect(String(found.schema)).toBe(String(schema));
        expect(found).toMatchObject({ format: "file", stamp: "the stamp", begin: 0, reads: [] });
        expect(found.facts).toEqual({ bigEndian: false, hasUnion: false });
    });

    test("may begin with its footer", async () => {
        expect(String((await read(fileOf(footerOf()))).schema)).toBe(String(schema));
    });

    test("whose footer says that it is longer than the file, or nothing, is corrupt", async () => {
        const footer = footerOf();
        for (const stated of [footer.length + 1, footer.length + 8, footer.length + 18, 2 ** 31, 2 ** 32 - 1, 0]) {
            await expectRefused(fileOf(footer, stated), "FILE_CORRUPT", /length of its footer/);
        }
        // No byte is left for a footer in the shortest file that has all else.
        await expectRefused(fileOf(new Uint8Array(0)), "FILE_CORRUPT", /length of its footer/);
    });

    test("whose footer has fewer bytes than its tables take is damaged", async () => {
        const bytes = fileOf(footerOf().subarray(0, -8));
        await expect(read(bytes)).rejects.toBeInstanceOf(DamagedMetadata);
    });

    test("without all of its end is truncated", async () => {
        for (const bytes of [
            head,
            Buffer.concat([head, magic]),
            Buffer.concat([head, uint32(0), magic]).subarray(0, 17)
        ]) {
            await expectRefused(bytes, "FILE_TRUNCATED", /footer is missing/);
        }
        await expectRefused(fileOf(footerOf()).subarray(0, -1), "FILE_TRUNCATED", /footer is missing/);
    });

    test("is read once more only where its footer is longer than the bytes that are read at first", async () => {
        // The last 64 KiB, which end with the footer's length and the magic.
        const most = 64 * 1024 - 10;
        for (const [bytes, reads] of [
            [most - 1, []],
            [most, []],
            [most + 1, ["footer"]],
            [most + 11, ["footer"]]
        ] as const) {
            const found = await read(fileOf(footerOf(bytes), undefined, 100));
            expect(String(found.schema)).toBe(String(schema));
            expect(found.reads, `a footer of ${bytes} bytes`).toEqual(reads);
        }
    });
});

describe("a stream", () => {
    const message = (bodyBytes: number, of = schema): Buffer =>
        encapsulate(Message.encode(new Message(bodyBytes, MetadataVersion.V5, MessageHeader.Schema, of)));
    const metadataOf = (length: number): Buffer => Buffer.concat([uint32(0xffffffff), uint32(length)]);

    test("has the schema of its first message, behind which its batches begin", async () => {
        const first = message(0);
        const found = await read(Buffer.concat([first, Buffer.alloc(100)]));
        expect(String(found.schema)).toBe(String(schema));
        expect(found).toMatchObject({ format: "stream", stamp: "the stamp", begin: first.length });
        expect(found.reads).toEqual([[0, first.length + 100]]);
        // Nothing need follow.
        expect((await read(first)).begin).toBe(first.length);
    });

    test("may have a body there, which is passed over", async () => {
        const first = message(64);
        expect((await read(Buffer.concat([first, Buffer.alloc(64)]))).begin).toBe(first.length + 64);
        expect((await read(Buffer.concat([first, Buffer.alloc(80)]))).begin).toBe(first.length + 64);
        await expectRefused(Buffer.concat([first, Buffer.alloc(63)]), "FILE_TRUNCATED", /body/);
        await expectRefused(Buffer.concat([message(-8), Buffer.alloc(64)]), "FILE_TRUNCATED", /body/);
    });

    test("is read a second time only where its first message is longer than 4 KiB", async () => {
        for (const [bytes, reads] of [
            [4088, [[0, 4096]]],
            [4096, [[0, 4096]]],
            // prettier-ignore
            [4104, [[0, 4096], [0, 4104]]]
        ] as const) {
            const length = message(0).length;
            const first = Buffer.concat([message(0), Buffer.alloc(bytes - length)]);
            first.writeUInt32LE(bytes - 8, 4);
            const found = await read(Buffer.concat([first, Buffer.alloc(5000)]));
            expect(String(found.schema)).toBe(String(schema));
            expect(found.begin).toBe(bytes);
            expect(found.reads).toEqual(reads);
        }
    });

    test("of a long schema has all of it", async () => {
        const wide = new Schema(Array.from({ length: 100 }, (_, i) => new Field(`column-${i}`, new Int32(), true)));
        const first = message(0, wide);
        expect(first.length).toBeGreaterThan(4096);
        expect(String((await read(Buffer.concat([first, Buffer.alloc(8)]))).schema)).toBe(String(wide));
    });

    test("without a schema is corrupt", async () => {
        await expectRefused(Buffer.concat([metadataOf(0), Buffer.alloc(8)]), "FILE_CORRUPT", /no schema/);
    });

    test("that ends in its first message is truncated, as long as there can be such a message", async () => {
        const first = message(0);
        await expectRefused(first.subarray(0, -1), "FILE_TRUNCATED", /message at byte 0/);
        const most = 256 * 1024 * 1024;
        const bytes = Buffer.concat([metadataOf(most), Buffer.alloc(100)]);
        await expectRefused(bytes, "FILE_TRUNCATED", /message at byte 0/);
        for (const length of [most + 1, 2 ** 32 - 1]) {
            const longer = Buffer.concat([metadataOf(length), Buffer.alloc(4088)]);
            await expectRefused(longer, "FILE_CORRUPT", /message at byte 0/, 2 ** 40);
        }
    });
});

describe("a file that is neither", () => {
    test.each([
        ["", /is empty/],
        ["A", /has 1 bytes/],
        ["ARROW", /has 5 bytes/],
        ["ARROW1", /footer/]
    ])("but may have been going to be one is truncated: '%s'", async (text, words) => {
        await expectRefused(Buffer.from(text), "FILE_TRUNCATED", words);
    });

    test("but of another known format is told so", async () => {
        await expectRefused(Buffer.from("PAR1 and more PAR1"), "UNSUPPORTED_TYPE", /Parquet.*duckdb -c/);
        await expectRefused(Buffer.from("id,name\n1,one\n"), "UNSUPPORTED_TYPE", /CSV/);
        await expectRefused(Buffer.from("no! PAR1"), "UNSUPPORTED_TYPE", /text file/);
    });

    test("is known by the first 4 KiB, however long it is", async () => {
        const bytes = Buffer.from("a,b\n".repeat(2000));
        const { reader, reads } = readerOf(bytes, 2 ** 40);
        await expect(readSchema(reader, path)).rejects.toMatchObject({ code: "UNSUPPORTED_TYPE" });
        expect(reads).toEqual([[0, 4096]]);
    });

    test.each([
        ["the beginning of a stream's first message", Buffer.from([0xff, 0xff, 0xff, 0xff, 8, 0, 0])],
        ["a text with a message of a stream in it", Buffer.concat([Buffer.from("text"), uint32(0xffffffff)])]
    ])("is corrupt: %s", async (_, bytes) => {
        await expectRefused(bytes, "FILE_CORRUPT", /ARROW1.*stream/);
    });
});
