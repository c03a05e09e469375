// SPDX-License-Identifier: Apache-2.0
// One number of a sound file's headers is another one: the very code and sentence, or the rows that it means.
import { readFileSync, writeFileSync } from "node:fs";
import {
    Dictionary,
    Field,
    Int32,
    makeData,
    RecordBatch,
    Schema,
    SparseUnion,
    Struct,
    Table,
    tableToIPC,
    Utf8,
    vectorFromArray
} from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { expectError } from "../../support/errors.js";
import { footerPlaces, messagesOf, putInt64, type MessagePlaces } from "../../support/ipc-places.js";
import { fileOf, type Block } from "../../support/many-batches.js";
import { rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } });
});
afterAll(async () => {
    await runtime.close();
    await sandbox.expectClean();
    sandbox[Symbol.dispose]();
});

const rows = 1000;
const some = Array.from({ length: rows }, (_, row) => (row % 7 === 0 ? null : row));
const nulls = some.filter((value) => value === null).length;
const words = Array.from({ length: rows }, (_, row) => ["x", "y", "z"][row % 3]!);
const table = new Table({
    n: vectorFromArray(some, new Int32()),
    d: vectorFromArray(words, new Dictionary(new Utf8(), new Int32(), 41))
});

type Patch = (bytes: Uint8Array, record: MessagePlaces, dictionary: MessagePlaces) => void;

function patched(patch: Patch, format: "file" | "stream" = "file", of = table): string {
    const bytes = tableToIPC(of, format);
    const messages = messagesOf(bytes);
    const [record, dictionary] = ["record", "dictionary"].map((kind) => messages.find((one) => one.kind === kind));
    patch(bytes, record!, dictionary!);
    const path = sandbox.path(`patched-${format}.arrow`);
    writeFileSync(path, bytes);
    return path;
}

const put =
    (of: "record" | "dictionary", place: (message: MessagePlaces) => number, value: number | bigint): Patch =>
    (bytes, record, dictionary) =>
        putInt64(bytes, place(of === "record" ? record : dictionary), value);

/** What a batch of the table has: n is node 0 with buffers 0 and 1, d node 1 with buffers 2 and 3. */
const refused: [string, Patch, RegExp][] = [
    ["negative rows", put("record", (m) => m.rows, -1), /a batch has a negative number of rows/],
    ["one row more", put("record", (m) => m.rows, rows + 1), /column 'n' of batch 0 has 1000 rows, the batch 1001/],
    ["a negative length", put("record", (m) => m.nodes[1]!, -5), /a column has a negative length/],
    ["a length of its own", put("record", (m) => m.nodes[1]!, 999), /column 'd' of batch 0 has 999 rows/],
    ["NULLs without a bitmap", put("record", (m) => m.nodes[1]! + 8, 3), /column 'd' .* has 3 NULLs but no validity/],
    ["more NULLs than rows", put("record", (m) => m.nodes[0]! + 8, 1001), /claims 1000 rows and 1001 NULLs/],
    ["a negative offset", put("record", (m) => m.buffers[1]!, -8), /a buffer lies outside of its batch/],
    ["a negative size", put("record", (m) => m.buffers[1]! + 8, -1), /a buffer lies outside of its batch/],
    [
        "a buffer that ends a byte behind its batch",
        (bytes, { buffers, bodyBytes }) => {
            putInt64(bytes, buffers[3]!, 0);
            putInt64(bytes, buffers[3]! + 8, bodyBytes + 1);
        },
        /a buffer lies outside of its batch/
    ],
    [
        "an offset whose end is no number",
        (bytes, { buffers }) => {
            putInt64(bytes, buffers[3]!, 8);
            putInt64(bytes, buffers[3]! + 8, 2n ** 63n - 1n);
        },
        /a buffer lies outside of its batch/
    ],
    ["a byte too few", put("record", (m) => m.buffers[1]! + 8, 3999), /has 3999 bytes of values but needs 4000/],
    ["a dictionary of no column", put("dictionary", (m) => m.id, 77), /dictionary 77 belongs to no column/],
    ["a dictionary of negative rows", put("dictionary", (m) => m.rows, -3), /a batch has a negative number of rows/],
    ["a dictionary whose buffer leaves it", put("dictionary", (m) => m.buffers[2]! + 8, 4000), /outside of its batch/],
    ["a header of no kind", (bytes, { headerType }) => void (bytes[headerType] = 9), /message type 9 is not part/],
    ["a record batch as dictionary", (bytes, { headerType }) => void (bytes[headerType] = 2), /'/]
];

describe.each(["file", "stream"] as const)("a header in a %s", (format) => {
    test.each(refused)("with %s is corrupt", async (_, patch, sentence) => {
        const path = patched(patch, format);
        const error = await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path, sentence);
        expect(error.details["path"]).toBe(path);
    });

    test("may end with its batch", async () => {
        const path = patched((bytes, { buffers, bodyBytes }) => {
            putInt64(bytes, buffers[3]!, 0);
            putInt64(bytes, buffers[3]! + 8, bodyBytes);
        }, format);
        expect((await runtime.fromArrowFile(path)).rows).toBe(rows);
    });

    test.each([-1, -2])("with the unknown number of NULLs %i has those of its bitmap", async (unknown) => {
        const path = patched((bytes, { nodes }) => {
            for (const node of nodes) putInt64(bytes, node + 8, unknown);
        }, format);
        const relation = await runtime.fromArrowFile(path);
        const grouped = relation.groupBy({
            aggregates: { rows: { count: "*" }, n: { count: "n" }, d: { count: "d" } }
        });
        const counted = rowTexts(cellTable(await grouped.toTable()));
        expect(counted).toEqual([`${rows} | ${rows - nulls} | ${rows}`]);
        expect(nulls).toBe(143);
    });

    test("in version V4 is read, but for unions, whose format was another one", async () => {
        const old: Patch = (bytes, { version }) => void (bytes[version] = 3);
        expect((await runtime.fromArrowFile(patched(old, format))).rows).toBe(rows);
        const type = new SparseUnion([0], [new Field("x", new Int32(), true)]);
        const children = [makeData({ type: new Int32(), length: 2, data: Int32Array.of(1, 2) })];
        const data = makeData({ type, length: 2, typeIds: Int8Array.of(0, 0), children } as never);
        const unions = new Schema([new Field("u", type, true)]);
        const struct = makeData({ type: new Struct(unions.fields), length: 2, children: [data as never] });
        const path = patched(old, format, new Table([new RecordBatch(unions, struct)]));
        const words = /has unions .* before Arrow 1.0/;
        await expectError(() => runtime.fromArrowFile(path), "UNSUPPORTED_TYPE", path, words);
    });

    test("in version V3 is sound and not read", async () => {
        const path = patched((bytes, { version }) => void (bytes[version] = 2), format);
        await expectError(() => runtime.fromArrowFile(path), "UNSUPPORTED_TYPE", path, /written by Arrow 0.7 or older/);
    });
});

test("NULLs inside of a dictionary make its column nullable, and rows NULL", async () => {
    const values = vectorFromArray(["x", null, "y"], new Utf8());
    const type = new Dictionary(new Utf8(), new Int32(), 3);
    const schema = new Schema([new Field("d", type, true)]);
    const data = makeData({ type, length: 4, nullCount: 0, data: Int32Array.of(0, 1, 2, 1), dictionary: values });
    const batch = new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: 4, children: [data] }));
    for (const format of ["file", "stream"] as const) {
        const path = sandbox.path(`null-in-dictionary-${format}`);
        writeFileSync(path, tableToIPC(new Table([batch]), format));
        const relation = await runtime.fromArrowFile(path);
        const grouped = relation.groupBy({ keys: ["d"], aggregates: { rows: { count: "*" } } });
        const found = rowTexts(cellTable(await grouped.toTable()));
        expect(found.sort()).toEqual(['"x" | 1', '"y" | 1', "NULL | 2"]);
    }
});

describe("a dictionary", () => {
    /** The messages of a stream of the table, in another order and number. */
    const reordered = (order: readonly ("schema" | "dictionary" | "record")[]): Buffer => {
        const bytes = Buffer.from(tableToIPC(table, "stream"));
        return Buffer.concat(
            order.map((kind) => {
                const { offset, body, bodyBytes } = messagesOf(bytes).find((one) => one.kind === kind)!;
                return bytes.subarray(offset, body + bodyBytes);
            })
        );
    };
    const asFile = (order: readonly ("dictionary" | "record")[]): string => {
        const messages = reordered(order);
        const path = sandbox.path("reordered.arrow");
        const blocksAt = (begin: number): { records: Block[]; dictionaries: Block[] } => {
            const whole = Buffer.concat([
                reordered(["schema"]),
                messages,
                Buffer.from([255, 255, 255, 255, 0, 0, 0, 0])
            ]);
            const shift = begin - reordered(["schema"]).length;
            const blocks = (kind: string): Block[] =>
                messagesOf(whole)
                    .filter((one) => one.kind === kind)
                    .map(({ offset, body, bodyBytes }) => ({
                        ...{ offset: offset + shift, metadataBytes: body - offset, bodyBytes }
                    }));
            return { records: blocks("record"), dictionaries: blocks("dictionary") };
        };
        writeFileSync(path, fileOf(table.schema, messages, blocksAt));
        return path;
    };

    test("comes once in a file", async () => {
        expect((await runtime.fromArrowFile(asFile(["dictionary", "record", "record"]))).rows).toBe(2 * rows);
        const path = asFile(["dictionary", "record", "dictionary", "record"]);
        await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path, /dictionary 41 appears twice/);
    });

    test("may come again in a stream, and each batch has the one before it", async () => {
        const path = sandbox.path("again.arrows");
        writeFileSync(path, reordered(["schema", "dictionary", "record", "dictionary", "record"]));
        const relation = await runtime.fromArrowFile(path);
        const grouped = relation.groupBy({ keys: ["d"], aggregates: { rows: { count: "*" } } });
        const found = rowTexts(cellTable(await grouped.toTable()));
        expect(found.sort()).toEqual(['"x" | 668', '"y" | 666', '"z" | 666']);
    });

    test("that never came has no values: its codes are none", async () => {
        const path = sandbox.path("never.arrows");
        writeFileSync(path, reordered(["schema", "record"]));
        const relation = await runtime.fromArrowFile(path);
        expect(relation.rows).toBe(rows);
        const grouped = relation.groupBy({ keys: ["d"] });
        await expectError(() => grouped.count(), "FILE_CORRUPT", /its dictionary has 0 values/);
    });

    test("before the schema, and a second schema, are no stream", async () => {
        const path = sandbox.path("schemas.arrows");
        writeFileSync(path, reordered(["dictionary", "schema", "record"]));
        await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path, /it has no schema/);
        writeFileSync(path, reordered(["schema", "dictionary", "schema", "record"]));
        await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path, /it has two schemas/);
    });
});

describe("a footer", () => {
    const numbers = new Table({ n: vectorFromArray([1, 2, 3], new Int32()) });
    const withFooter = (patch: (bytes: Uint8Array, record: number) => void): string => {
        const bytes = tableToIPC(numbers, "file");
        patch(bytes, footerPlaces(bytes).records[0]!);
        const path = sandbox.path("footer.arrow");
        writeFileSync(path, bytes);
        return path;
    };

    test.each<[string, number, bigint, string, RegExp]>([
        ["in front of all messages", 0, 0n, "FILE_CORRUPT", /describes an impossible batch 0/],
        ["of a negative body", 16, -1n, "FILE_CORRUPT", /describes an impossible batch 0/],
        ["behind the end", 0, 1n << 40n, "FILE_TRUNCATED", /batch 0 lies behind its end/],
        ["of a body behind the end", 16, 1n << 40n, "FILE_TRUNCATED", /batch 0 lies behind its end/],
        ["whose end is no number", 16, (1n << 63n) - 1n, "FILE_TRUNCATED", /batch 0 lies behind its end/],
        ["of a shorter body than its message", 16, 8n, "FILE_CORRUPT", /batch 0 has a longer body than its block/]
    ])("with a block %s is refused", async (_, at, value, code, sentence) => {
        const path = withFooter((bytes, record) => putInt64(bytes, record + at, value));
        await expectError(() => runtime.fromArrowFile(path), code as "FILE_CORRUPT", path, sentence);
    });

    test("with metadata shorter than its message is refused", async () => {
        for (const [bytes, sentence] of [
            [4, /impossible batch 0/],
            [16, /a message is longer than its block/]
        ] as const) {
            const path = withFooter((file, record) =>
                new DataView(file.buffer, file.byteOffset).setInt32(record + 8, bytes, true)
            );
            await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path, sentence);
        }
    });

    /** Batches of three rows each, named by the footer in any order and number. */
    const listing = (blocks: (all: readonly Block[]) => Block[], dictionaries = false): string => {
        const bytes = Buffer.from(tableToIPC(numbers, "stream"));
        const [, record] = messagesOf(bytes);
        const message = bytes.subarray(record!.offset, record!.body + record!.bodyBytes);
        const path = sandbox.path("listing.arrow");
        const file = fileOf(numbers.schema, Buffer.concat([message, message, message]), (begin) => {
            const all = [0, 1, 2].map((i) => ({
                offset: begin + i * message.length,
                metadataBytes: record!.body - record!.offset,
                bodyBytes: record!.bodyBytes
            }));
            const listed = blocks(all);
            return dictionaries ? { records: listed.slice(1), dictionaries: listed.slice(0, 1) } : { records: listed };
        });
        writeFileSync(path, file);
        return path;
    };

    test.each<[string, (all: readonly Block[]) => Block[]]>([
        ["the same batch twice", ([first]) => [first!, first!]],
        ["the same batch twice, others between", ([first, second, third]) => [first!, second!, third!, first!]],
        ["a batch that begins in another", ([first, second]) => [first!, { ...second!, offset: second!.offset - 8 }]],
        ["a batch that ends in another", ([first, second]) => [{ ...first!, bodyBytes: first!.bodyBytes + 8 }, second!]]
    ])("that names %s is corrupt", async (_, blocks) => {
        const path = listing(blocks);
        await expectError(
            () => runtime.fromArrowFile(path),
            "FILE_CORRUPT",
            path,
            /its footer names the bytes .* twice|in two/
        );
    });

    test("that names a batch as dictionary too is corrupt", async () => {
        const path = listing(([first, second]) => [first!, second!, first!], true);
        await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path, /in two batches/);
    });

    test("may name batches in any order and leave some out", async () => {
        const path = listing(([first, , third]) => [third!, first!]);
        expect((await runtime.fromArrowFile(path)).rows).toBe(6);
    });

    test("that names a batch 10,000 times is corrupt at once", async () => {
        const path = listing(([first]) => Array.from({ length: 10_000 }, () => first!));
        const started = performance.now();
        await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path);
        expect(performance.now() - started).toBeLessThan(2000);
    });

    test("of many columns, larger than what is read with the end of the file, is read", async () => {
        const wide = new Table(
            Object.fromEntries(
                Array.from({ length: 1500 }, (_, i) => [`column_${i}`, vectorFromArray([i], new Int32())])
            )
        );
        const path = sandbox.write(wide, "wide.arrow");
        expect(readFileSync(path).readInt32LE(readFileSync(path).length - 10)).toBeGreaterThan(64 * 1024);
        const relation = await runtime.fromArrowFile(path);
        expect(relation.schema.names).toEqual(wide.schema.names);
        const total = await relation.groupBy({ aggregates: { last: { max: "column_1499" as never } } }).toTable();
        expect(rowTexts(cellTable(total))).toEqual(["1499"]);
    });
});
