// SPDX-License-Identifier: Apache-2.0
// Which buffers of a table the engine reads where they lie, and which it gets a copy of.
import {
    Dictionary,
    Field,
    Int32,
    Schema,
    Struct,
    Table,
    Utf8,
    makeData,
    RecordBatch,
    vectorFromArray
} from "apache-arrow";
import { expect, test } from "vitest";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { memoryLayout } from "../../../src/arrow/memory-layout.js";
import { SteadyBytes } from "../../../src/arrow/steady-bytes.js";
import type { KeptMemory } from "../../../src/model/column-type.js";

const rows = 16;
type Make = (bytes: number) => ArrayBufferLike;

/** A column of int32 and one of text, both with NULLs, in memory of some kind. */
function tableIn(make: Make): Table {
    const bitmap = () => new Uint8Array(make(2)).fill(0x7f);
    const common = { length: rows, nullCount: 2 };
    const fixed = makeData({
        ...common,
        type: new Int32(),
        data: new Int32Array(make(4 * rows)),
        nullBitmap: bitmap()
    });
    const valueOffsets = new Int32Array(make(4 * (rows + 1))).map((_, row) => row);
    const offsets = new Int32Array(make(4 * (rows + 1)));
    offsets.set(valueOffsets);
    const data = new Uint8Array(make(rows)).fill(97);
    const text = makeData({ ...common, type: new Utf8(), valueOffsets: offsets, data, nullBitmap: bitmap() });
    const schema = new Schema([new Field("fixed", new Int32(), true), new Field("text", new Utf8(), true)]);
    const children = [fixed, text];
    const struct = makeData({ type: new Struct(schema.fields), length: rows, nullCount: 0, children });
    return new Table([new RecordBatch(schema, struct)]);
}

function memoryOf(table: Table, kept: KeptMemory): Uint8Array[] {
    const columns = table.schema.fields.map((field) => columnTypeOf(field));
    return memoryLayout(columns, table.batches, kept).batches.flatMap(({ memory }) => memory as Uint8Array[]);
}

/** Of validity and values of the one, validity, offsets and bytes of the other column: is it the table's own memory? */
function areBorrowed(table: Table, kept: KeptMemory): boolean[] {
    const own = new Set(
        table.batches
            .flatMap(({ data }) =>
                data.children.flatMap((child) => [child.nullBitmap, child.valueOffsets, child.values])
            )
            .map((array) => (array as ArrayBufferView | undefined)?.buffer)
    );
    return memoryOf(table, kept).map(({ buffer }) => own.has(buffer));
}

const plain: Make = (bytes) => new ArrayBuffer(bytes);
// Newer than the types.
const Resizable = ArrayBuffer as new (bytes: number, options: { maxByteLength: number }) => ArrayBuffer;
const Growable = SharedArrayBuffer as new (bytes: number, options: { maxByteLength: number }) => SharedArrayBuffer;
const resizable: Make = (bytes) => new Resizable(bytes, { maxByteLength: 2 * bytes });
const shared: Make = (bytes) => new SharedArrayBuffer(bytes);
const growable: Make = (bytes) => new Growable(bytes, { maxByteLength: 2 * bytes });

const all = [true, true, true, true, true];
const none = all.map(() => false);
const valuesOnly = [false, true, false, false, true];

test.each<[string, Make, KeptMemory, boolean[]]>([
    ["plain memory is read where it lies", plain, "always", all],
    ["... with Node 22, too", plain, "unlessResized", all],
    ["... and copied where V8 cannot be asked to keep it", plain, "never", none],
    ["resizable memory is copied", resizable, "always", none],
    ["of shared memory the values are read where they lie", shared, "always", valuesOnly],
    ["... and where V8 cannot be asked, as nothing detaches it", shared, "never", valuesOnly],
    ["of growable shared memory, too", growable, "always", valuesOnly]
])("%s", (_, make, kept, expected) => {
    expect(areBorrowed(tableIn(make), kept)).toEqual(expected);
});

test("indices of a dictionary in shared memory are copied", () => {
    const words = vectorFromArray(["a", "b"], new Utf8());
    const type = new Dictionary(new Utf8(), new Int32());
    const data = new Int32Array(new SharedArrayBuffer(8));
    const column = makeData({ type, length: 2, nullCount: 0, data, dictionary: words });
    const schema = new Schema([new Field("word", type)]);
    const struct = makeData({ type: new Struct(schema.fields), length: 2, nullCount: 0, children: [column] });
    const [, indices] = memoryOf(new Table([new RecordBatch(schema, struct)]), "always");
    data.fill(7);
    expect([...indices!]).toEqual(new Array(8).fill(0));
});

test("a copy has the rows of the moment in which it was made", () => {
    const table = tableIn(resizable);
    const memory = memoryOf(table, "always");
    const { values } = table.batches[0]!.data.children[0]!;
    (values as Int32Array).fill(5);
    ((values as Int32Array).buffer as { resize?: (bytes: number) => void }).resize!(0);
    expect(memory[1]).toEqual(new Uint8Array(4 * rows));
});

test("slices of one column share a copy of what they share", () => {
    const [batch] = tableIn(resizable).batches;
    const slices = new Table([0, 4, 8].map((row) => batch!.slice(row, row + 4)));
    const texts = memoryOf(slices, "always").filter((_, i) => i % 5 === 4);
    expect(texts).toHaveLength(3);
    expect(new Set(texts.map(({ buffer }) => buffer)).size).toBe(1);
});

test("what is not there has no bytes", () => {
    const bytes = new SteadyBytes("never");
    for (const absent of [undefined, null]) {
        expect(bytes.values(absent)).toEqual(new Uint8Array(0));
        expect(bytes.structure(absent)).toEqual(new Uint8Array(0));
    }
});

test("memory that is too short is filled up with zeros, 64 MiB of it in all", () => {
    const bytes = new SteadyBytes("always");
    const short = Uint8Array.of(1, 2);
    expect(bytes.padded(short, 2)).toBe(short);
    expect(bytes.padded(short, 1)).toBe(short);
    expect(bytes.padded(short, 4)).toEqual(Uint8Array.of(1, 2, 0, 0));
    expect(bytes.padded(short, 64 * 2 ** 20 - 4)).toHaveLength(64 * 2 ** 20 - 4);
    expect(bytes.padded(short, 2)).toBe(short);
    expect(() => bytes.padded(short, 3)).toThrow(
        expect.objectContaining({
            code: "INVALID_ARGUMENT",
            details: { option: "table" },
            message: expect.stringContaining("64 MiB") as string
        })
    );
});
