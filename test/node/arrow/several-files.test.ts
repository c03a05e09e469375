// SPDX-License-Identifier: Apache-2.0
// Several files as one relation: what makes their schemas differ, what of them may, and how errors name their file.
import { writeFileSync } from "node:fs";
import {
    Decimal,
    Dictionary,
    Field,
    FixedSizeBinary,
    Int16,
    Int32,
    Int8,
    List,
    makeData,
    MetadataVersion,
    RecordBatch,
    Schema,
    SparseUnion,
    Struct,
    Table,
    tableToIPC,
    TimestampMillisecond,
    TimestampSecond,
    Utf8,
    type DataType
} from "apache-arrow";
import { afterAll, describe, expect, test } from "vitest";
import { openArrowFiles, requireUniqueColumns } from "../../../src/arrow/open-files.js";
import { schemaDifference } from "../../../src/arrow/schema-difference.js";
import { SpillwayError } from "../../../src/errors.js";
import { fileReader } from "../../support/file-reader.js";
import { flatbufferOf, tableOf } from "../../support/flatbuffers.js";
import { writeForeignSchema } from "../../support/foreign-files.js";
import { Sandbox } from "../../support/sandbox.js";

const sandbox = new Sandbox();
afterAll(() => sandbox[Symbol.dispose]());

const schemaOf = (...fields: [name: string, type: DataType, nullable?: boolean][]): Schema =>
    new Schema(fields.map(([name, type, nullable = true]) => new Field(name, type, nullable)));

describe("two schemas differ", () => {
    const union = (typeId: number): DataType => new SparseUnion([typeId], [new Field("m", new Int32())]);
    const members = (name: string): DataType => new Struct([new Field(name, new Int32())]);
    const listOf = (name: string): DataType => new List(new Field("outer", new List(new Field(name, new Int32()))));
    const one = schemaOf(["a", new Int32()], ["b", new Utf8()]);

    test.each<[string, Schema, Schema, RegExp]>([
        ["in a column behind the others", one, schemaOf(["a", new Int32()]), /column 2 `b` .* (in|of) the first only/],
        ["in one that the first lacks", schemaOf(["a", new Int32()]), one, /column 2 `b` .* the second only/],
        ["in all columns", schemaOf(), one, /column 1 `a` .* the second only/],
        ["in a name", one, schemaOf(["a", new Int32()], ["c", new Utf8()]), /column 2 .*`b` in the first .*`c` in the/],
        ["in a type", one, schemaOf(["a", new Int32()], ["b", new Int32()]), /`b` .*Utf8 .*first .*Int32 .*second/],
        [
            "in the unit of a type",
            schemaOf(["t", new TimestampSecond()]),
            schemaOf(["t", new TimestampMillisecond()]),
            /`t` .*second/
        ],
        [
            "in the index of a dictionary",
            schemaOf(["d", new Dictionary(new Utf8(), new Int8(), 1)]),
            schemaOf(["d", new Dictionary(new Utf8(), new Int16(), 1)]),
            /`d` .*Int8.*Int16/
        ],
        ["in a name inside of a type", schemaOf(["s", members("x")]), schemaOf(["s", members("y")]), /`s` .*x.*y/],
        // Arrow JS writes both types alike.
        [
            "in the type ids of a union",
            schemaOf(["u", union(0)]),
            schemaOf(["u", union(1)]),
            /`u` has type \S+ in both, but with type ids 0 in the first and 1 in the second/
        ],
        [
            "in the name of the values of a list of lists",
            schemaOf(["l", listOf("item")]),
            schemaOf(["l", listOf("element")]),
            /`l` has type \S+ in both, but with values called `item` in the first and `element` in the second/
        ],
        [
            "in the precision of a decimal",
            schemaOf(["p", new Decimal(2, 15)]),
            schemaOf(["p", new Decimal(2, 18)]),
            /`p` has type Decimal128\(15, 2\) in the first and Decimal128\(18, 2\) in the second/
        ],
        [
            "in the name of a time zone",
            schemaOf(["t", new TimestampSecond("UTC")]),
            schemaOf(["t", new TimestampSecond("Etc/UTC")]),
            /`t` .*UTC.*in the first.*Etc\/UTC.*in the second/
        ]
    ])("%s", (_, first, second, words) => {
        expect(schemaDifference(first, second)).toMatch(words);
        const called = schemaDifference(first, second, ["the schema", "batch 7"]);
        expect(called).toMatch(/the schema|batch 7/);
        expect(called).not.toMatch(/the (first|second) /);
        expect(schemaDifference(first, first)).toBeUndefined();
    });

    test("in nothing where NULLs, metadata and ids of dictionaries do", () => {
        const typeOf = (id: number) => new Dictionary(new Utf8(), new Int8(), id);
        const first = new Schema([new Field("d", typeOf(1), true)], new Map([["made", "today"]]));
        const second = new Schema([new Field("d", typeOf(2), false, new Map([["k", "v"]]))]);
        expect(schemaDifference(first, second)).toBeUndefined();
        const unnamed = new Schema([new Field(null as never, new Int32())]);
        expect(schemaDifference(unnamed, schemaOf(["", new Int32()]))).toBeUndefined();
    });
});

/** A file of one row of these columns, whose type is Int32. */
function fileOf(name: string, fields: readonly Field[]): string {
    const schema = new Schema([...fields]);
    const children = fields.map(({ type }) => makeData({ type: type as Int32, data: Int32Array.of(7) }));
    const struct = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children });
    return sandbox.write(new Table(schema, [new RecordBatch(schema, struct)]), name);
}

const numberField = (name: string, nullable: boolean): Field => new Field(name, new Int32(), nullable);

describe("files of one relation", () => {
    test("have columns that are nullable where one of them says so", async () => {
        const paths = [
            fileOf("a.arrow", [numberField("x", false), numberField("y", true), numberField("z", false)]),
            fileOf("b.arrow", [numberField("x", false), numberField("y", false), numberField("z", true)])
        ];
        const nullable = async (path: string | string[]) =>
            (await openArrowFiles(path, fileReader)).schema.fields.map((field) => field.nullable);
        expect(await nullable(paths)).toEqual([false, true, true]);
        expect(await nullable(paths[0]!)).toEqual([false, true, false]);
        expect(await nullable(paths[1]!)).toEqual([false, false, true]);
    });

    test("keep the metadata and the version of the first", async () => {
        const field = tableOf({ 0: "x", 2: { int8: 5 }, 3: tableOf({}) });
        const schema = tableOf({ 1: [field], 2: [tableOf({ 0: "made", 1: "here" })] });
        const footer = flatbufferOf(tableOf({ 0: { int16: MetadataVersion.V4 }, 1: schema }));
        const path = sandbox.path("version-4.arrow");
        const length = Buffer.alloc(4);
        length.writeInt32LE(footer.length);
        writeFileSync(path, Buffer.concat([Buffer.from("ARROW1\0\0"), footer, length, Buffer.from("ARROW1")]));
        const other = sandbox.write(new Table(schemaOf(["x", new Utf8()]), []), "version-5.arrow");
        for (const paths of [[path], [path, other]]) {
            const opened = await openArrowFiles(paths, fileReader);
            expect([...opened.schema.metadata]).toEqual([["made", "here"]]);
            expect(opened.schema.metadataVersion).toBe(MetadataVersion.V4);
        }
    });

    test("that differ are refused with both names", async () => {
        const first = fileOf("one.arrow", [numberField("x", true)]);
        const second = fileOf("two.arrow", [numberField("x", true), numberField("y", true)]);
        const open = () => openArrowFiles([first, first, second], fileReader);
        const message = expect.stringMatching(/one\.arrow.*two\.arrow.*column 2 `y`/) as string;
        await expect(open()).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            message,
            details: { option: "path", path: second }
        });
    });

    test("have no two columns of one name", async () => {
        const names = ["first", "twice", "between", "twice"];
        const path = fileOf(
            "twice.arrow",
            names.map((name) => numberField(name, true))
        );
        await expect(openArrowFiles(path, fileReader)).rejects.toMatchObject({
            code: "DUPLICATE_COLUMN",
            message: expect.stringContaining(path) as string,
            details: { column: "twice" }
        });
        expect(requireUniqueColumns(schemaOf(["a", new Int32()], ["b", new Int32()]), "it")).toBeUndefined();
    });
});

describe("an error says once which file it is about", () => {
    test.each<[string, (path: string) => void, string, object]>([
        [
            "for a column that Arrow JS does not know",
            (path) => writeForeignSchema(path, 25),
            "UNSUPPORTED_TYPE",
            { column: "c", type: "ListView" }
        ],
        ["for big-endian data", (path) => writeForeignSchema(path, 6, true), "UNSUPPORTED_TYPE", {}],
        [
            "for a column that the engine does not read",
            (path) => {
                const table = new Table(schemaOf(["none", new FixedSizeBinary(0)]), []);
                writeFileSync(path, tableToIPC(table, "file"));
            },
            "UNSUPPORTED_TYPE",
            { column: "none", type: expect.stringContaining("FixedSizeBinary") as string }
        ],
        ["for a list of nothing", (path) => writeForeignSchema(path, 12), "FILE_CORRUPT", {}]
    ])("%s", async (_, write, code, details) => {
        const path = sandbox.path("refused.arrow");
        write(path);
        const error = await openArrowFiles(path, fileReader).then(
            () => undefined,
            (thrown: unknown) => thrown
        );
        if (!(error instanceof SpillwayError)) throw new Error("it was not refused, or with some other error");
        expect(error.code).toBe(code);
        expect(error.message.split(path)).toHaveLength(2);
        expect(error.details).toEqual({ ...details, path });
    });

    test("and stays as it was where it has the path already", async () => {
        const error = new SpillwayError("FILE_UNREADABLE", "'x.arrow' is on a disk that is gone", { path: "x.arrow" });
        const reader = { ...fileReader, ends: () => Promise.reject(error) };
        await expect(openArrowFiles("x.arrow", reader)).rejects.toBe(error);
    });
});
