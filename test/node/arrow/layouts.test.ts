// SPDX-License-Identifier: Apache-2.0
// What the engine is told about files and tables, read back region by region.
import { writeFileSync } from "node:fs";
import {
    Dictionary,
    Field,
    Int32,
    Int8,
    makeData,
    RecordBatch,
    RecordBatchStreamWriter,
    Schema,
    Struct,
    Table,
    tableToIPC,
    Utf8,
    Vector,
    vectorFromArray,
    type DataType
} from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, describe, expect, test } from "vitest";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { memoryLayout, recordBatchesOf } from "../../../src/arrow/memory-layout.js";
import { openArrowFiles } from "../../../src/arrow/open-files.js";
import { narrowNullability, sourceFacts } from "../../../src/arrow/source-facts.js";
import { cellTable } from "../../support/cells.js";
import { hasViews, randomType, randomValue } from "../../support/domains.js";
import { layoutCells } from "../../support/layout-cells.js";
import { forSeeds, type Random } from "../../support/random.js";
import { fileReader } from "../../support/file-reader.js";
import { buildTable, randomShape, type PlainColumn } from "../../support/relations.js";
import { rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

const sandbox = new Sandbox();
afterAll(() => sandbox[Symbol.dispose]());

function randomColumns(random: Random, rows: number, allowed: (type: DataType) => boolean): PlainColumn[] {
    return Array.from({ length: random.between(1, 4) }, (_, i) => {
        let type = randomType(random);
        while (!allowed(type)) type = randomType(random);
        const nulls = random.pick([0, 0.1, 1]);
        const values = Array.from({ length: rows }, () => (random.chance(nulls) ? null : randomValue(random, type)));
        return { name: `c${i}`, type, values };
    });
}

const typesOf = (table: Table): DataType[] => table.schema.fields.map((field) => field.type as DataType);
const layoutOf = (table: Table) =>
    memoryLayout(
        table.schema.fields.map((field) => columnTypeOf(field)),
        table.batches,
        "always"
    );

test("tables in memory of every type, sliced and with many dictionaries", async () => {
    await forSeeds(500, 60, async (random) => {
        const rows = random.below(80);
        const table = buildTable(
            randomColumns(random, rows, () => true),
            randomShape(random, rows)
        );
        expect(layoutCells(layoutOf(table), typesOf(table))).toEqual(cellTable(table).cells);
        await Promise.resolve();
    });
});

/** The rows of a relation in their order, by a join of its first column, which numbers them. */
async function cellsOf(runtime: Runtime, path: string | string[], rows: number): Promise<string[][]> {
    const number = Array.from({ length: rows }, (_, row) => row);
    const relation = await runtime.fromArrowFile<{ row: Int32 }>(path);
    const keys = runtime.fromTable(new Table({ row: vectorFromArray(number, new Int32()) }));
    const { cells } = cellTable(await relation.join(keys, { on: "row" }).toTable());
    const order = cells[0]!.map((_, at) => at).sort((a, b) => Number(cells[0]![a]) - Number(cells[0]![b]));
    return cells.map((column) => order.map((at) => column[at]!));
}

test.each(["file", "stream"] as const)("files of every type, %s format", async (format) => {
    await using runtime = await openRuntime({ threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } });
    await forSeeds(600, 30, async (random) => {
        const rows = random.below(80);
        const shape = { ...randomShape(random, rows, false), shared: true };
        const row = { name: "row", type: new Int32(), values: Array.from({ length: rows }, (_, i) => i) };
        const table = buildTable([row, ...randomColumns(random, rows, (type) => !hasViews(type))], shape);
        const path = sandbox.path(`every-${format}.arrow`);
        writeFileSync(path, tableToIPC(table, format));
        const opened = await openArrowFiles(path, fileReader);
        expect(String(opened.schema)).toBe(String(table.schema));
        expect(opened.facts.rows).toBe(rows);
        expect(await cellsOf(runtime, path, rows)).toEqual(cellTable(table).cells);
    });
});

describe("files", () => {
    const table = new Table({
        a: vectorFromArray([1, 2, 3], new Int32()),
        b: vectorFromArray(["x", null, "z"], new Utf8())
    });

    test("several of one schema follow each other; a difference is named", async () => {
        const first = sandbox.write(table, "first.arrow");
        const second = sandbox.write(table, "second.arrow");
        const opened = await openArrowFiles([first, second], fileReader);
        expect(opened.facts.rows).toBe(6);
        await using runtime = await openRuntime({ threads: 1, memory: { host: "64MiB" } });
        const grouped = (await runtime.fromArrowFile([first, second])).groupBy({
            keys: ["a", "b"],
            aggregates: { rows: { count: "*" } }
        });
        const rows = rowTexts(cellTable(await grouped.toTable()));
        expect(rows.sort()).toEqual(['1 | "x" | 2', "2 | NULL | 2", '3 | "z" | 2']);
        const other = sandbox.write(new Table({ a: table.getChild("a")!, b: table.getChild("a")! }), "other.arrow");
        await expect(openArrowFiles([first, other], fileReader)).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            message: expect.stringMatching(/`b`.*Utf8.*Int32/) as string
        });
    });

    test("a stream may replace and extend a dictionary", async () => {
        const type = new Dictionary(new Utf8(), new Int8(), 7);
        const schema = new Schema([new Field("d", type, true)]);
        const batchOf = (values: string[]): RecordBatch => {
            const dictionary = vectorFromArray(values, new Utf8());
            const data = makeData({ type, length: 2, nullCount: 0, data: Int8Array.of(0, 1), dictionary });
            return new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: 2, children: [data] }));
        };
        const writer = RecordBatchStreamWriter.writeAll([batchOf(["a", "b"]), batchOf(["c", "d"])]);
        const path = sandbox.path("replaced.arrows");
        writeFileSync(path, await writer.toUint8Array());
        const opened = await openArrowFiles(path, fileReader);
        expect(opened.facts).toMatchObject({ rows: 4, dictionaryRows: [4], largestBatchRows: 2 });
        await using runtime = await openRuntime({ threads: 1, memory: { host: "64MiB" } });
        const grouped = (await runtime.fromArrowFile(path)).groupBy({
            keys: ["d"],
            aggregates: { rows: { count: "*" } }
        });
        const rows = rowTexts(cellTable(await grouped.toTable()));
        expect(rows.sort()).toEqual(['"a" | 1', '"b" | 1', '"c" | 1', '"d" | 1']);
    });

    test("sizes and NULLs come from the headers", async () => {
        const opened = await openArrowFiles(sandbox.write(table, "facts.arrow"), fileReader);
        expect(opened.layout.columns.map((column) => column.nullable)).toEqual([false, true]);
        expect(opened.facts.columnBytes[0]).toBeGreaterThanOrEqual(12);
        expect(opened.facts.largestBatchRows).toBe(3);
    });
});

describe("tables", () => {
    test("batches that share a dictionary share its entry", () => {
        const dictionary = vectorFromArray(["a", "b"], new Dictionary(new Utf8(), new Int32()));
        const table = new Table({ d: dictionary });
        const twice = new Table([...table.batches, ...table.batches]);
        expect(layoutOf(twice).dictionaries).toHaveLength(1);
    });

    test("columns that Arrow JS padded are as long as the others", () => {
        const table = new Table({
            long: vectorFromArray([1, 2, 3, 4], new Int32()),
            short: vectorFromArray([9], new Int32()),
            text: vectorFromArray(["x", "y"], new Utf8())
        });
        const cells = layoutCells(layoutOf(table), typesOf(table));
        expect(cells[1]).toEqual(["9", "NULL", "NULL", "NULL"]);
        expect(cells[2]).toEqual(['"x"', '"y"', "NULL", "NULL"]);
    });

    test("NULLs are looked for in every batch", () => {
        const some = new Table({ a: vectorFromArray([1, null], new Int32()) });
        const none = new Table({ a: vectorFromArray([1, 2], new Int32()) });
        const both = layoutOf(new Table([...none.batches, ...some.batches]));
        expect(narrowNullability(both)[0]!.nullable).toBe(true);
        expect(narrowNullability(layoutOf(none))[0]!.nullable).toBe(false);
        expect(sourceFacts(both)).toMatchObject({ rows: 4, largestBatchRows: 2 });
    });

    test("a NULL inside of a dictionary makes its column nullable", () => {
        const withNull = (values: (string | null)[]) => {
            const type = new Dictionary(new Utf8(), new Int8(), 9);
            const dictionary = vectorFromArray(values, new Utf8());
            const data = makeData({ type, length: 2, nullCount: 0, data: Int8Array.of(0, 1), dictionary });
            const schema = new Schema([new Field("d", type, true)]);
            return new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: 2, children: [data] }));
        };
        expect(narrowNullability(layoutOf(new Table([withNull(["x", null])])))[0]!.nullable).toBe(true);
        expect(narrowNullability(layoutOf(new Table([withNull(["x", "y"])])))[0]!.nullable).toBe(false);
    });

    test("what can be a table is told from what cannot", () => {
        const table = new Table({ a: vectorFromArray([1], new Int32()) });
        expect(recordBatchesOf(table)?.batches).toHaveLength(1);
        expect(recordBatchesOf(table.batches)?.batches).toHaveLength(1);
        expect(recordBatchesOf(table.batches[0])?.batches).toHaveLength(1);
        for (const value of [[], {}, null, 7, [1], new Vector(table.getChildAt(0)!.data)]) {
            expect(recordBatchesOf(value)).toBeUndefined();
        }
    });
});
