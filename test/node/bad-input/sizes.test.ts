// SPDX-License-Identifier: Apache-2.0
// Sizes that a file or a schema states: products and sums that no machine holds, or that 32 and 64 bits cannot count.
import { statSync, writeFileSync } from "node:fs";
import {
    Bool,
    Dictionary,
    Field,
    FixedSizeBinary,
    FixedSizeList,
    Int32,
    Int64,
    LargeUtf8,
    List,
    Null,
    RecordBatch,
    RecordBatchFileWriter,
    Schema,
    Struct,
    Table,
    Union,
    Utf8,
    Utf8View,
    makeData,
    tableFromArrays,
    type DataType
} from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { errorOf, runChild } from "../../support/child.js";
import { expectError } from "../../support/errors.js";
import { Sandbox } from "../../support/sandbox.js";
import { binding, int64Column, memorySource, openEngine, partitionSpec } from "../addon/support.js";

const mebibyte = 2 ** 20;
const gibibyte = 2 ** 30;
const besideBudget = 128;
const left = tableFromArrays({ k: Int32Array.of(1, 2, 3) });
let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({
        ...{ device: "cpu", threads: 2 },
        memory: { host: "64MiB", spillDirectory: sandbox.spill }
    });
});
afterAll(async () => {
    await runtime.close();
    await sandbox.expectClean();
    sandbox[Symbol.dispose]();
});

const item = (type: DataType): Field => new Field("x", type, true);

function listChain(leaf: DataType, sizes: readonly number[]): DataType {
    return sizes.reduce<DataType>((type, size) => new FixedSizeList(size, item(type)), leaf);
}

function schemaOf(...payload: DataType[]): Schema {
    return new Schema([
        item(new Int32()).clone({ name: "k" }),
        ...payload.map((type, i) => new Field(`p${i}`, type, true))
    ]);
}

/** A file of the schema, without rows. */
async function emptyFile(name: string, schema: Schema): Promise<string> {
    const writer = new RecordBatchFileWriter();
    writer.reset(undefined, schema);
    writer.finish();
    const path = sandbox.path(name);
    writeFileSync(path, await writer.toUint8Array());
    return path;
}

// Sizes in one another whose product is -1, 2^61, 2^62, 2^63, 2^64 (0) and 2^64 + 2^48 (little) modulo 2^64.
const chains: Record<string, number[]> = {
    "2^64 - 1": [65535, 65537, 641, 6700417],
    "2^61": [2, gibibyte, gibibyte],
    "2^62": [4, gibibyte, gibibyte],
    "2^63": [8, gibibyte, gibibyte],
    "2^64": [16, gibibyte, gibibyte],
    "2^64 + 2^48": [65537, 65536, 65536, 65536]
};
const leaves: Record<string, () => DataType> = {
    null: () => new Null(),
    bool: () => new Bool(),
    int64: () => new Int64(),
    bytes: () => new FixedSizeBinary(16),
    utf8: () => new Utf8(),
    largeUtf8: () => new LargeUtf8(),
    view: () => new Utf8View(),
    list: () => new List(item(new Int32())),
    struct: () => new Struct([item(new Utf8()), item(new Int32()).clone({ name: "y" })]),
    dense: () => new Union(1, [0, 1], [item(new Int32()), item(new Utf8())]),
    sparse: () => new Union(0, [0, 1], [item(new Int32()), item(new Utf8())]),
    dictionary: () => new Dictionary(new Utf8(), new Int32(), 5)
};

async function* noBatches(): AsyncGenerator<RecordBatch> {
    // A stream that ends at once.
}

/** The same schema by every way into a runtime. */
async function expectRefused(schema: Schema, column: string, ...words: (string | RegExp)[]): Promise<void> {
    const path = await emptyFile("refused.arrow", schema);
    const error = await expectError(() => runtime.fromArrowFile(path), "UNSUPPORTED_TYPE", `\`${column}\``, ...words);
    expect(error.details).toMatchObject({ column });
    const table = new Table(schema);
    await expectError(() => runtime.fromTable(table), "UNSUPPORTED_TYPE", `\`${column}\``, ...words);
    await expectError(() => runtime.fromBatches(schema, noBatches), "UNSUPPORTED_TYPE", `\`${column}\``, ...words);
}

describe("types of which no row can be held are refused when they are opened", () => {
    test("a file of 378 bytes whose lists multiply to 2^62", async () => {
        const path = await emptyFile("lists.arrow", schemaOf(listChain(new Utf8(), [4, gibibyte, gibibyte])));
        expect(statSync(path).size).toBeLessThan(400);
        const right = async () =>
            runtime.join({
                ...{ left: runtime.fromTable(left), right: await runtime.fromArrowFile(path) },
                ...{ on: "k", type: "left" }
            });
        const write = async () => (await right()).toArrowFile(sandbox.path("out.arrow"));
        const error = await expectError(write, "UNSUPPORTED_TYPE", "`p0`", /more than 2\^53 bytes/, /drop the column/);
        expect(error.details).toMatchObject({ column: "p0", largestRowBytes: gibibyte });
    });

    test.each(Object.keys(chains))("lists of %s items, of every type", async (name) => {
        for (const leaf of Object.values(leaves)) {
            const type = listChain(leaf(), chains[name]!);
            await expectRefused(schemaOf(type), "p0", /one row takes/);
            await expectRefused(schemaOf(new Int32(), new Struct([item(type)])), "p1", /one row takes/);
            await expectRefused(schemaOf(new List(item(type))), "p0", /one row takes/);
        }
    });

    test("one list, or one value, of more than a gibibyte", async () => {
        await expectRefused(schemaOf(listChain(new Int64(), [2 ** 27])), "p0", /at least 1090519040 bytes/);
        await expectRefused(schemaOf(new FixedSizeBinary(gibibyte + 1)), "p0", /at least 1073741825 bytes/);
        await runtime.fromArrowFile(await emptyFile("fits.arrow", schemaOf(listChain(new Int64(), [2 ** 26]))));
        await runtime.fromArrowFile(await emptyFile("fits.arrow", schemaOf(new FixedSizeBinary(gibibyte))));
    });

    test("unions without members", async () => {
        for (const mode of [0, 1]) {
            const union = new Union(mode, [], []);
            await expectRefused(schemaOf(union), "p0", /without members/);
            await expectRefused(schemaOf(new Struct([item(union)])), "p0", /without members/);
            await expectRefused(schemaOf(new List(item(union))), "p0", /without members/);
        }
    });
});

describe("the addon by itself", () => {
    const engine = openEngine(64 * mebibyte);
    const job = binding.createJob(engine);
    const list = (listSize: number, child: ReturnType<typeof int64Column>) => ({
        ...int64Column("p"),
        ...{ layout: "fixedList" as const, byteWidth: 0, nullable: true, listSize, children: [child] }
    });

    test("refuses the same types", async () => {
        const huge = list(gibibyte, list(gibibyte, list(4, int64Column("x"))));
        const union = { ...int64Column("p"), layout: "unionDense" as const, byteWidth: 1 };
        for (const column of [huge, { ...huge, layout: "list" as const, byteWidth: 4 }, union]) {
            const source = { ...memorySource(0, 0), columns: [column] };
            const opened = async () => binding.openSource(engine, source);
            await expect(opened()).rejects.toMatchObject({ code: "UNSUPPORTED_TYPE", details: { column: "p" } });
            const partitions = () =>
                binding.createPartitions(job, partitionSpec({ columns: [column], keys: [], carry: [0] }));
            expect(partitions).toThrowError(expect.objectContaining({ code: "UNSUPPORTED_TYPE" }));
        }
    });

    test("refuses rows whose widths add up to more than a gibibyte, and to little modulo 2^32", () => {
        const wide = { ...int64Column("wide"), byteWidth: gibibyte / 4 };
        const columns = [int64Column("key"), wide];
        for (const copies of [4, 16, 17, 64]) {
            const carry = [0, ...Array<number>(copies).fill(1)];
            const wanted = 8 + (copies * gibibyte) / 4;
            expect(() => binding.createPartitions(job, partitionSpec({ columns, carry }))).toThrowError(
                expect.objectContaining({
                    code: "UNSUPPORTED_TYPE",
                    message: expect.stringContaining(`${wanted} bytes`)
                })
            );
        }
    });
});

describe("rows of many wide columns", () => {
    const schema = schemaOf(...Array.from({ length: 17 }, () => new FixedSizeBinary(gibibyte / 4)));

    test("are refused before anything is read, with what to change", async () => {
        const path = await emptyFile("wide.arrow", schema);
        const right = await runtime.fromArrowFile(path);
        const join = (select?: string[]) =>
            runtime.join({ left: runtime.fromTable(left), right, on: "k", type: "left", ...(select && { select }) });
        const words = [/18 columns/, /4563402760 bytes/, /1073741824/, "`p0`", /select/];
        await expectError(() => join().toTable(), "UNSUPPORTED_TYPE", ...words);
        await expectError(() => join().explain(), "UNSUPPORTED_TYPE", ...words);
        const aggregates = Object.fromEntries(
            schema.names.slice(1).map((name) => [`a${String(name)}`, { first: String(name) }])
        );
        await expectError(() => runtime.groupBy(right, { keys: ["k"], aggregates }).toTable(), "UNSUPPORTED_TYPE");
        expect((await join(["k"]).toTable()).numRows).toBe(3);
    });
});

interface Failed {
    code: string;
    message: string;
    peakBytes: number;
}

/** A file with one row, a list of `count` values that all are the same `length` bytes. */
async function sharingFile(kind: "views" | "union", count: number, length: number): Promise<string> {
    const bytes = Buffer.alloc(length, 0x61);
    const items = (): { type: DataType; data: ReturnType<typeof makeData> } => {
        if (kind === "views") {
            const views = new Int32Array(4 * count);
            for (let i = 0; i < count; i++) views.set([length, bytes.readInt32LE(0), 0, 0], 4 * i);
            const type = new Utf8View();
            const buffers = { views: new Uint8Array(views.buffer), variadicBuffers: [bytes] };
            return { type, data: makeData({ type, length: count, nullCount: 0, ...buffers } as never) };
        }
        const text = makeData({
            type: new Utf8(),
            length: 1,
            nullCount: 0,
            valueOffsets: Int32Array.of(0, length),
            data: bytes
        });
        const type = new Union(1, [0], [item(new Utf8())]);
        const places = { typeIds: new Int8Array(count), valueOffsets: new Int32Array(count), children: [text] };
        return { type, data: makeData({ type, length: count, ...places } as never) };
    };
    const { type, data } = items();
    const list = new List(item(type));
    const schema = schemaOf(list);
    const key = makeData({ type: new Int32(), length: 1, nullCount: 0, data: Int32Array.of(1) });
    const lists = makeData({
        type: list,
        length: 1,
        nullCount: 0,
        valueOffsets: Int32Array.of(0, count),
        child: data
    } as never);
    const children = [key, lists] as never[];
    const struct = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children });
    const writer = new RecordBatchFileWriter();
    writer.reset(undefined, schema);
    writer.write(new RecordBatch(schema, struct as never));
    writer.finish();
    const path = sandbox.path(`${kind}-${count}.arrow`);
    writeFileSync(path, await writer.toUint8Array());
    return path;
}

describe("values that share their bytes", () => {
    test.each([
        ["views", 32768, 131072],
        ["views", 1024, 131072],
        ["union", 32768, 131072]
    ] as const)("%s: %i values of the same %i bytes stay within a budget of 64 MiB", async (kind, count, length) => {
        const right = await sharingFile(kind, count, length);
        expect(statSync(right).size).toBeLessThan(mebibyte);
        const budget = 64;
        const argument = {
            runtime: { device: "cpu", threads: 2, memory: { host: `${budget}MiB`, spillDirectory: sandbox.spill } },
            ...{ left: sandbox.write(left, "left.arrow"), right, on: "k", action: "file" },
            output: sandbox.path("shared-out.arrow")
        };
        const failed = errorOf(await runChild("query", argument)) as unknown as Failed;
        expect(failed).toMatchObject({ code: "BUDGET_TOO_SMALL", message: expect.stringContaining("'p0'") });
        expect(failed.peakBytes / mebibyte).toBeLessThanOrEqual(budget + besideBudget);
    });

    test("fit a budget that has room for them", async () => {
        const path = await sharingFile("views", 256, 65536);
        await using wide = await openRuntime({ device: "cpu", threads: 1, memory: { host: "256MiB" } });
        const other = wide.join({ left: wide.fromTable(left), right: await wide.fromArrowFile(path), on: "k" });
        const [row] = (await other.toTable()).toArray() as { p0: { get(i: number): string; length: number } }[];
        expect(row?.p0.length).toBe(256);
        expect(row?.p0.get(255)).toBe("a".repeat(65536));
    });
});

test("the bits of a row are those of the engine", () => {
    // At the bound to the byte, by both: test/native/transfer_type_size_test.cpp has the same types.
    const accepted = [new FixedSizeBinary(gibibyte), listChain(new Int32(), [2 ** 27])];
    const refused = [new FixedSizeBinary(gibibyte + 1), listChain(new Int32(), [2 ** 28])];
    for (const type of accepted) expect(columnTypeOf(item(type)).layout).toMatch(/fixed/);
    for (const type of refused) expect(() => columnTypeOf(item(type))).toThrowError(/one row takes/);
});
