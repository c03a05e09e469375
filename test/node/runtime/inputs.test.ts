// SPDX-License-Identifier: Apache-2.0
// Relations of files, of tables in memory and of streams: their names, their sizes and what is no table.
import { Field, Int32, makeData, Schema, Struct, tableFromArrays, type Table } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { memoryLayout } from "../../../src/arrow/memory-layout.js";
import type { OpenedFiles } from "../../../src/arrow/open-files.js";
import { sourceFacts } from "../../../src/arrow/source-facts.js";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { SpillwayError } from "../../../src/errors.js";
import type { InputNode } from "../../../src/plan/logical.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { fileInput, memoryInput, streamInput } from "../../../src/runtime/inputs.js";
import { Relation } from "../../../src/runtime/query.js";
import { fakeRuntime } from "../../support/fake-runtime.js";
import { expectRefused } from "../../support/refused.js";

const { runner, runtime } = fakeRuntime();
const table = tableFromArrays({ id: Int32Array.of(1, 2, 3), age: Float64Array.of(30, 40, 50) });
const schema = table.schema as unknown as Schema;
const open = async function* (): AsyncGenerator<Table> {
    yield await Promise.resolve(table as unknown as Table);
};

function opened(...paths: string[]): OpenedFiles {
    const types = schema.fields.map((field) => columnTypeOf(field));
    const layout = memoryLayout(types, table.batches, "always");
    return { paths, schema, layout, facts: sourceFacts(layout), heldBytes: 0 };
}

describe("a relation of files", () => {
    test.each([
        [["/data/a.arrow"], undefined, "a.arrow"],
        [["/data/a.arrow", "/data/b.arrow"], undefined, "a.arrow + 1 more"],
        [["/data/a.arrow", "/data/b.arrow", "/data/c.arrow"], undefined, "a.arrow + 2 more"],
        [["/data/a.arrow", "/data/b.arrow"], "people", "people"],
        [["/data/a.arrow"], "people", "people"]
    ])("%j, named %s, is called %s", (paths, name, shown) => {
        const input = fileInput(opened(...paths), name);
        expect(input).toMatchObject({ name: shown, rows: 3, inMemory: false, streamed: false });
        const relation = new Relation(runner, input);
        expect([relation.name, relation.rows, relation.bytes]).toEqual([shown, 3, 36]);
    });
});

describe("a relation in memory", () => {
    test("has the rows and bytes of its table", () => {
        const relation = runtime.fromTable(table, { name: "people" });
        expect([relation.name, relation.rows, relation.bytes]).toEqual(["people", 3, 36]);
        expect((relation._node as InputNode).input).toMatchObject({ inMemory: true, streamed: false });
        expect(runtime.fromTable(table).name).toBe("table");
    });

    test.each([undefined, null, 7, "table", [], {}, { schema }, [table, 7]])("is not made of %s", (value) => {
        expectRefused(() => memoryInput(value, "t", "always"), { option: "table" }, { words: [/Arrow table/] });
    });

    test("needs batches of one schema", () => {
        const others = tableFromArrays({ id: Int32Array.of(1), size: Float64Array.of(30) });
        const details = { option: "table" };
        expectRefused(() => memoryInput([table, others], "t", "always"), details, {
            words: [/0 and 1.*`age`.*`size`/]
        });
    });

    test("of which parts are missing cannot be read", () => {
        // NULLs are counted, but the bitmap that says where they are is none.
        const broken = { length: 3, nullCount: 1, offset: 0, values: Int32Array.of(1, 2, 3), nullBitmap: 7 };
        const one = new Schema([new Field("id", new Int32(), true)]);
        const struct = makeData({ type: new Struct(one.fields), length: 3, nullCount: 0, children: [] });
        Object.assign(struct, { children: [broken] });
        const batch = { schema: one, data: struct, numRows: 3 };
        let error: unknown;
        try {
            memoryInput(batch, "t", "always");
        } catch (thrown) {
            error = thrown;
        }
        expect(error).toBeInstanceOf(SpillwayError);
        expect(error).toMatchObject({ code: "INVALID_ARGUMENT", details: { option: "table" } });
        expect((error as Error).message).toMatch(/cannot be read/);
        expect((error as Error).cause).toBeInstanceOf(TypeError);
    });
});

describe("a relation of batches", () => {
    test("has as many rows as are stated, and says nothing of what it does not know", () => {
        const stated = runtime.fromBatches(schema, open, { rows: 12, name: "people" });
        const input = (relation: { _node: unknown }) => (relation._node as InputNode).input;
        expect(input(stated)).toMatchObject({ name: "people", rows: 12, inMemory: false, streamed: true });
        expect([stated.name, stated.rows, stated.bytes]).toEqual(["people", null, null]);
        const unknown = runtime.fromBatches(schema, open);
        expect(input(unknown)).toMatchObject({ name: "batches", rows: defaultPolicy.unknownRows });
        expect(input(unknown)).toMatchObject({ columnBytes: [0, 0], dictionaryRows: [0, 0], largestBatchRows: 0 });
    });

    test.each([undefined, null, 7, {}, table])("has no schema of %s", (stated) => {
        const words = [/Arrow schema/];
        expectRefused(() => streamInput(stated, open, "t", undefined), { option: "schema" }, { words });
    });

    test.each([
        ["rows", { rows: -1 }],
        ["name", { name: "" }],
        ["row", { row: 1 }]
    ])("refuses %s of %j", (option, options) => {
        expectRefused(() => runtime.fromBatches(schema, open, options as never), { option });
    });
});
