// SPDX-License-Identifier: Apache-2.0
// What is checked of a schema before Arrow JS decodes it: each place that it follows, and each type that it knows.
import { describe, expect, test } from "vitest";
import { DamagedMetadata } from "../../../src/arrow/flatbuffer-check.js";
import { checkFooter, checkSchemaMessage, UnreadType } from "../../../src/arrow/metadata-check.js";
import { flatbufferOf, outside, tableOf, type Slot, type TableNode } from "../../support/flatbuffers.js";

// Numbers of the format's Type union.
const [int, utf8, timestamp, list, union] = [2, 5, 10, 12, 14];
type Slots = Readonly<Record<number, Slot>>;

/** Fields of a Field: 0 name, 2 number of its type, 3 type, 4 dictionary, 5 children, 6 metadata. */
function fieldOf(typeId: number, more: Slots = {}): TableNode {
    return tableOf({ 0: "c", 2: { int8: typeId }, 3: tableOf({}), ...more });
}

/** Fields of a Schema: 0 endianness, 1 fields, 2 metadata. */
function schemaOf(fields: readonly TableNode[], more: Slots = {}): TableNode {
    return tableOf({ 1: fields, ...more });
}

/** Fields of a Message: 1 number of its header's type, 2 header, 4 metadata. */
function messageOf(schema: TableNode, more: Slots = {}): Uint8Array {
    return flatbufferOf(tableOf({ 1: { int8: 1 }, 2: schema, ...more }));
}

/** Fields of a Footer: 1 schema, 2 dictionaries, 3 batches, 4 metadata. */
function footerOf(schema: TableNode, more: Slots = {}): Uint8Array {
    return flatbufferOf(tableOf({ 1: schema, ...more }));
}

const pair = tableOf({ 0: "key", 1: "value" });
const brokenPairs = [tableOf({ 0: outside, 1: "value" }), tableOf({ 0: "key", 1: outside })];
const nested = (child: TableNode): TableNode => fieldOf(list, { 5: [child] });

/** Every type that a field can have and the parts that it refers to. */
const sound: [string, TableNode][] = [
    ["a field", fieldOf(int)],
    ["a field without a name", tableOf({ 2: { int8: int }, 3: tableOf({}) })],
    ["a field of a list", nested(fieldOf(utf8))],
    ["a union with type ids", fieldOf(union, { 3: tableOf({ 1: { elementBytes: 4, bytes: 8 } }) })],
    ["a union without type ids", fieldOf(union)],
    ["a time zone", fieldOf(timestamp, { 3: tableOf({ 1: "UTC" }) })],
    ["no time zone", fieldOf(timestamp)],
    ["a dictionary", fieldOf(utf8, { 4: tableOf({ 1: tableOf({}) }) })],
    ["a dictionary without a type of its indices", fieldOf(utf8, { 4: tableOf({}) })],
    ["metadata of a field", fieldOf(int, { 6: [pair, pair] })],
    ["metadata without a key and a value", fieldOf(int, { 6: [tableOf({})] })],
    ["a Null without a table of its type", tableOf({ 0: "c", 2: { int8: 1 } })],
    ["a field without any type", tableOf({ 0: "c" })],
    ["the last type that there is", fieldOf(24)]
];

/** The same, each with one offset that leads out of the buffer. */
const broken: [string, TableNode][] = [
    ["a name", fieldOf(int, { 0: outside })],
    ["the table of a type", fieldOf(int, { 3: outside })],
    ["children", fieldOf(list, { 5: outside })],
    ["a name in a list", nested(fieldOf(int, { 0: outside }))],
    ["the type ids of a union", fieldOf(union, { 3: tableOf({ 1: outside }) })],
    ["a time zone", fieldOf(timestamp, { 3: tableOf({ 1: outside }) })],
    ["a dictionary", fieldOf(utf8, { 4: outside })],
    ["the type of a dictionary's indices", fieldOf(utf8, { 4: tableOf({ 1: outside }) })],
    ["metadata of a field", fieldOf(int, { 6: outside })],
    ["a key of a field", fieldOf(int, { 6: [pair, brokenPairs[0]!] })],
    ["a value of a field", nested(fieldOf(int, { 6: [brokenPairs[1]!] }))]
];

describe.each([
    ["the message of a schema", checkSchemaMessage, messageOf],
    ["a footer", checkFooter, footerOf]
] as const)("%s", (_, check, bytesOf) => {
    test.each(sound)("with %s is sound", (name, field) => {
        const hasUnion = name.startsWith("a union");
        expect(check(bytesOf(schemaOf([field])))).toEqual({ bigEndian: false, hasUnion });
        expect(check(bytesOf(schemaOf([fieldOf(int), field, fieldOf(utf8)]))).hasUnion).toBe(hasUnion);
    });

    test.each(broken)("is damaged where %s lies outside of it", (_name, field) => {
        for (const fields of [[field], [fieldOf(int), field]]) {
            expect(() => check(bytesOf(schemaOf(fields)))).toThrow(DamagedMetadata);
        }
    });

    test("says which byte order its data have", () => {
        for (const [endianness, bigEndian] of [
            [0, false],
            [1, true]
        ] as const) {
            const bytes = bytesOf(schemaOf([fieldOf(int)], { 0: { int16: endianness } }));
            expect(check(bytes)).toEqual({ bigEndian, hasUnion: false });
        }
    });

    test("is damaged where metadata of the schema or of itself lie outside of it", () => {
        const fields = [fieldOf(int)];
        expect(check(bytesOf(schemaOf(fields, { 2: [pair] }), { 4: [pair] })).hasUnion).toBe(false);
        for (const metadata of [outside, [brokenPairs[0]!], [pair, brokenPairs[1]!]] as const) {
            expect(() => check(bytesOf(schemaOf(fields, { 2: metadata })))).toThrow(DamagedMetadata);
            expect(() => check(bytesOf(schemaOf(fields), { 4: metadata }))).toThrow(DamagedMetadata);
        }
        expect(() => check(bytesOf(tableOf({ 1: outside })))).toThrow(DamagedMetadata);
    });

    test.each([-1, -128, 27, 127])("with a field of type number %i is damaged", (typeId) => {
        expect(() => check(bytesOf(schemaOf([fieldOf(typeId)])))).toThrow(new RegExp(`number ${typeId} is unknown`));
    });

    test.each([int, utf8, union, 24])("with a field of type number %i without its table is damaged", (typeId) => {
        const field = tableOf({ 0: "c", 2: { int8: typeId } });
        expect(() => check(bytesOf(schemaOf([field])))).toThrow(new RegExp(`number ${typeId} has no type table`));
    });

    test.each([
        [22, "RunEndEncoded", /decode/],
        [25, "ListView", /List\b/],
        [26, "LargeListView", /LargeList\b/]
    ] as const)("with type number %i names its column and the way out", (typeId, type, wayOut) => {
        const column = (field: TableNode): TableNode => fieldOf(list, { 0: "outermost", 5: [nested(field)] });
        for (const [field, name] of [
            [fieldOf(typeId), "c"],
            [column(fieldOf(typeId)), "outermost"]
        ] as const) {
            const thrown = expect(() => check(bytesOf(schemaOf([fieldOf(int, { 0: "first" }), field]))));
            thrown.toThrow(UnreadType);
            thrown.toThrow(
                expect.objectContaining({ column: name, type, wayOut: expect.stringMatching(wayOut) as string })
            );
        }
    });
});

describe("a message", () => {
    test("without a header is damaged", () => {
        const bytes = flatbufferOf(tableOf({ 1: { int8: 1 } }));
        expect(() => checkSchemaMessage(bytes)).toThrow(/no header/);
    });

    test("of another kind, or of none, is no schema", () => {
        for (const kind of [{ 1: { int8: 3 } }, { 1: { int8: 0 } }, {}] as Slots[]) {
            const bytes = flatbufferOf(tableOf({ ...kind, 2: schemaOf([fieldOf(int)]) }));
            expect(() => checkSchemaMessage(bytes)).toThrow(/no schema/);
        }
    });
});

describe("a footer", () => {
    test("without a schema is damaged", () => {
        expect(() => checkFooter(flatbufferOf(tableOf({})))).toThrow(/no schema/);
    });

    test.each([
        ["dictionaries", 2],
        ["batches", 3]
    ])("whose list of %s is longer than itself is damaged", (_, field) => {
        const schema = schemaOf([fieldOf(int)]);
        const blocks = { elementBytes: 24, bytes: 48 };
        expect(checkFooter(footerOf(schema, { [field]: blocks })).hasUnion).toBe(false);
        // As many bytes as the blocks are to be, counted as if each were one of them.
        const tooMany = { elementBytes: 1, bytes: 48 };
        expect(() => checkFooter(footerOf(schema, { [field]: tooMany }))).toThrow(DamagedMetadata);
        expect(() => checkFooter(footerOf(schema, { [field]: outside }))).toThrow(DamagedMetadata);
    });
});
