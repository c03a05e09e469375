// SPDX-License-Identifier: Apache-2.0
// Names are optional in the format, and Arrow JS leaves empty ones out: they read as "".
import { writeFileSync } from "node:fs";
import {
    Dictionary,
    Field,
    Int32,
    List,
    RecordBatchReader,
    Schema,
    Struct,
    Table,
    tableFromArrays,
    tableToIPC,
    Utf8,
    vectorFromArray,
    type RecordBatch
} from "apache-arrow";
import { openRuntime, type Relation, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkFieldNames, withNames } from "../../../src/arrow/with-names.js";
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

const unnamed = new Struct([
    new Field("", new Int32(), true),
    new Field("list", new List(new Field("", new Utf8(), true)), true)
]);
const table: Table = new Table({
    id: vectorFromArray([1, 2], new Int32()),
    "": vectorFromArray([3, 4], new Int32()),
    nested: vectorFromArray([{ "": 5, list: ["a"] }, null], unnamed),
    coded: vectorFromArray(["x", "y"], new Dictionary(new Utf8(), new Int32()))
});
const rowsOf = (result: Table): unknown[] => result.toArray().map((row: { toJSON(): object }) => row.toJSON());

async function expectNamed(relation: Relation): Promise<void> {
    expect(relation.schema.names).toEqual(["id", "", "nested", "coded"]);
    const result = await relation.join(relation, { on: "id", type: "semi" }).toTable();
    expect(result.schema.names).toEqual(["id", "", "nested", "coded"]);
    expect((result.schema.fields[2]?.type as Struct).children.map((field) => field.name)).toEqual(["", "list"]);
    const sum = await relation.groupBy({ aggregates: { sum: { sum: "" } } }).toTable();
    expect(Number(sum.getChild("sum")?.get(0))).toBe(7);
}

/** As Arrow JS reads it; the batches behind it have the column "null" instead. */
function readSchema(): Schema {
    return RecordBatchReader.from(tableToIPC(table, "file")).open().schema;
}

describe("columns without a name", () => {
    test("are read back from a file that was written with them", async () => {
        const path = sandbox.path("joined.arrow");
        const left = runtime.fromTable(tableFromArrays({ id: Int32Array.of(1, 2), "": Int32Array.of(3, 4) }));
        const right = runtime.fromTable(tableFromArrays({ id: Int32Array.of(1, 2), more: Int32Array.of(5, 6) }));
        await left.join(right, { on: "id" }).toArrowFile(path);
        const read = await runtime.fromArrowFile(path);
        expect(read.schema.names).toEqual(["id", "", "more"]);
        const back = await read.groupBy({ keys: [""], aggregates: { rows: { count: "*" } } }).toTable();
        expect(rowsOf(back)).toHaveLength(2);
    });

    test.each(["file", "stream"] as const)("are read from the %s format", async (format) => {
        const path = sandbox.path(`${format}.arrow`);
        writeFileSync(path, tableToIPC(table, format));
        await expectNamed(await runtime.fromArrowFile(path));
    });

    test("are read from batches under a schema that Arrow JS read", async () => {
        const schema = readSchema();
        expect(schema.names).toContain(null); // the case at hand
        async function* batches(): AsyncGenerator<RecordBatch> {
            yield* table.batches;
        }
        await expectNamed(runtime.fromBatches(schema, batches));
        await expectNamed(runtime.fromBatches(table.schema, batches));
        await expectNamed(runtime.fromTable(table));
    });

    test("keep everything else of their schema", () => {
        const schema = readSchema();
        const named = withNames(schema);
        expect(String(named)).toBe(String(table.schema));
        expect([...named.dictionaries.keys()]).toEqual([...schema.dictionaries.keys()]);
        expect(withNames(named)).toBe(named);
        const dictionary = new Dictionary(new Struct([new Field(null as never, new Int32())]), new Int32(), 7, true);
        const inner = withNames(new Schema([new Field("d", dictionary)])).fields[0]?.type as Dictionary;
        expect([inner.id, inner.isOrdered, inner.children[0]?.name]).toEqual([7, true, ""]);
    });

    test("leave all else as it is, the very same objects", () => {
        const [numbers, named] = [new Int32(), new Field("named", unnamed.children[1]!.type)];
        const { fields } = withNames(new Schema([new Field(null as never, numbers), named]));
        expect(fields.map(({ name }) => name)).toEqual(["", "named"]);
        expect(fields[0]!.type).toBe(numbers);
        expect(fields[1]).toBe(named);
    });
});

test("names on every level are text that UTF-8 can hold", () => {
    const half = "\ud83d";
    const [good, bad] = ["a \u{1f600}", half].map((name) => new Field(name, new Int32()));
    const within = (field: Field): Field => new Field("of", new List(new Field("item", new Struct([good!, field]))));
    const coded = (field: Field): Field => new Field("d", new Dictionary(new Struct([field]), new Int32()));
    for (const fields of [[], [good!], [good!, within(good!), coded(good!)]]) {
        expect(() => checkFieldNames(fields, "schema")).not.toThrow();
    }
    for (const fields of [[bad!], [good!, bad!], [within(bad!)], [good!, coded(bad!)]]) {
        const refused = expect.objectContaining({ code: "INVALID_ARGUMENT", details: { option: "schema" } });
        expect(() => checkFieldNames(fields, "schema")).toThrow(refused);
    }
});
