// SPDX-License-Identifier: Apache-2.0
// What flipped bits made of sound files, each once by name.
import { writeFileSync } from "node:fs";
import {
    Dictionary,
    Field,
    Float,
    Int32,
    Interval,
    List,
    makeData,
    Map_,
    RecordBatch,
    Schema,
    SparseUnion,
    Struct,
    Table,
    tableToIPC,
    Time,
    Utf8,
    Utf8View,
    vectorFromArray,
    type DataType
} from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectError } from "../../support/errors.js";
import { Sandbox } from "../../support/sandbox.js";

let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } });
});
afterAll(async () => {
    await runtime.close();
    sandbox[Symbol.dispose]();
});

/** Replaces each occurrence of a run of 64-bit numbers. */
function damaged(table: Table, format: "file" | "stream", from: bigint[], to: bigint[]): string {
    const bytes = Buffer.from(tableToIPC(table, format));
    const [search, put] = [from, to].map((numbers) => Buffer.from(BigInt64Array.from(numbers).buffer)) as [
        Buffer,
        Buffer
    ];
    let count = 0;
    for (let at = bytes.indexOf(search); at >= 0; at = bytes.indexOf(search, at + 1), count++) put.copy(bytes, at);
    expect(count).toBeGreaterThan(0);
    const path = sandbox.path(`damaged-${format}`);
    writeFileSync(path, bytes);
    return path;
}

const rows = 977;
const some = Array.from({ length: rows }, (_, row) => (row % 7 === 0 ? null : row));
const nulls = BigInt(some.filter((value) => value === null).length);

describe.each(["file", "stream"] as const)("a %s", (format) => {
    test("whose column has more NULLs than rows is corrupt", async () => {
        const table = new Table({ a: vectorFromArray(some, new Int32()) });
        const path = damaged(table, format, [BigInt(rows), nulls], [BigInt(rows), BigInt(rows + 1)]);
        const error = await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path, /'a'/);
        expect(error.details["path"]).toBe(path);
    });

    test("whose child or dictionary has more NULLs than rows is corrupt", async () => {
        const nested = vectorFromArray(
            some.map((x) => ({ x })),
            new Struct([new Field("x", new Int32(), true)])
        );
        const dictionary = vectorFromArray(["x", null, "y"], new Dictionary(new Utf8(), new Int32()));
        for (const [table, from, to] of [
            [new Table({ nested }), [BigInt(rows), nulls], [BigInt(rows), 1n << 40n]],
            [new Table({ dictionary }), [3n, 1n], [3n, 5n]]
        ] as const) {
            const path = damaged(table, format, [...from], [...to]);
            await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path);
        }
    });

    test("whose view column has an impossible number of buffers is corrupt", async () => {
        const { table, variadics } = viewTable();
        for (const count of [-1n, 1n << 33n]) {
            const path = damaged(table, format, [BigInt(variadics)], [count]);
            await expectError(() => runtime.fromArrowFile(path), ["FILE_CORRUPT", "FILE_TRUNCATED"], path);
        }
    });
});

/** A view column whose number of data buffers occurs nowhere else in its file. */
function viewTable(): { table: Table; variadics: number } {
    const variadics = 77;
    const data = makeData({
        type: new Utf8View(),
        length: 1,
        nullCount: 0,
        data: new Uint8Array(16),
        variadicBuffers: Array.from({ length: variadics }, () => new Uint8Array(8))
    } as never);
    const schema = new Schema([new Field("view", new Utf8View())]);
    return {
        table: new Table([
            new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: 1, children: [data as never] }))
        ]),
        variadics
    };
}

test("a column in memory with more NULLs than rows is named as the table's", async () => {
    const data = makeData({ type: new Int32(), length: 2, nullCount: 3, nullBitmap: Uint8Array.of(0), data: [1, 2] });
    const schema = new Schema([new Field("a", new Int32())]);
    const batch = new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: 2, children: [data] }));
    const error = await expectError(() => runtime.fromTable(batch), "INVALID_ARGUMENT", /table/, /3 NULLs/);
    expect(error.details["option"]).toBe("table");
});

function nest(levels: number): DataType {
    return levels === 0 ? new Int32() : new List(new Field("item", nest(levels - 1)));
}

const mapOf = (...children: Field[]): DataType => new Map_(new Field("entries", new Struct(children)) as never);

const relationOf = (type: DataType) =>
    runtime.fromBatches(new Schema([new Field("c", type)]), () => {
        throw new Error("nobody asked for rows");
    });

describe("a column type is refused", () => {
    const member = [new Field("x", new Int32())];
    test.each<[string, DataType]>([
        ["of a float of unknown precision", new Float(7 as never)],
        ["of a time of 8 bits", new Time(0, 8 as never)],
        ["of an interval of unknown unit", new Interval(5 as never)],
        ["of a union whose type ids are no bytes", new SparseUnion([300], member)],
        ["of a union with a negative type id", new SparseUnion([-2], member)],
        ["of lists in lists without end", nest(66)],
        ["of a map of numbers", new Map_(new Field("entries", new Int32()) as never)],
        ["of a map without values", new List(new Field("item", mapOf(...member)))],
        ["of a dictionary of maps of three", new Dictionary(mapOf(...member, ...member, ...member), new Int32())]
    ])("%s", async (_, type) => {
        await expectError(() => relationOf(type), "UNSUPPORTED_TYPE", /`c`/);
    });

    test("but not for 64 levels", () => {
        expect(relationOf(nest(64)).schema.names).toEqual(["c"]);
    });
});
