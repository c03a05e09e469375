// SPDX-License-Identifier: Apache-2.0
// Messages that Spillway writes itself, beside those that Arrow JS writes.
import { Dictionary, Field, Int32, Schema, Table, tableToIPC, Utf8 } from "apache-arrow";
import { expect, test } from "vitest";
import { encodeFooter, encodeSchemaMessage } from "../../../src/arrow/ipc-encoding.js";
import { footerPlaces } from "../../support/ipc-places.js";

// Names of several lengths, so that flatbuffers end in all places of a word.
const schemas = ["a", "ab", "abc", "a rather long name"].map(
    (name) =>
        new Schema(
            [new Field(name, new Int32(), false), new Field("d", new Dictionary(new Utf8(), new Int32(), 7), true)],
            new Map([["key", name]])
        )
);

test.each(schemas)("a schema message is the one with which Arrow JS begins a stream: %s", (schema) => {
    const message = encodeSchemaMessage(schema);
    const stream = tableToIPC(new Table(schema), "stream");
    expect(message.byteLength % 8).toBe(0);
    expect(message).toEqual(stream.slice(0, message.byteLength));
    // What follows is another message: the continuation marker and no more metadata ends the stream.
    const rest = new DataView(stream.buffer, stream.byteOffset + message.byteLength);
    expect(rest.getInt32(0, true)).toBe(-1);
});

test("a footer names the blocks where they lie", () => {
    const blocks = [
        { offset: 8, metadataBytes: 200, bodyBytes: 64 },
        { offset: 2 ** 40, metadataBytes: 136, bodyBytes: 2 ** 33 }
    ];
    const records = [{ offset: 2 ** 42, metadataBytes: 304, bodyBytes: 0 }];
    const footer = encodeFooter(schemas[0]!, blocks, records);
    // A footer ends in its length and the magic, which are no part of the flatbuffer.
    const file = new Uint8Array(footer.byteLength + 10);
    file.set(footer);
    new DataView(file.buffer).setInt32(footer.byteLength, footer.byteLength, true);
    const view = new DataView(file.buffer);
    const blockAt = (at: number) => ({
        offset: Number(view.getBigInt64(at, true)),
        metadataBytes: view.getInt32(at + 8, true),
        bodyBytes: Number(view.getBigInt64(at + 16, true))
    });
    const places = footerPlaces(file);
    expect(places.dictionaries.map(blockAt)).toEqual(blocks);
    expect(places.records.map(blockAt)).toEqual(records);
});
