// SPDX-License-Identifier: Apache-2.0
// The option `schema` of fromArrowFile: what it accepts, what it tells, and the types that follow from it.
import {
    Decimal,
    Dictionary,
    Field,
    Float64,
    Int16,
    Int32,
    Int64,
    List,
    Schema,
    Table,
    TimestampMillisecond,
    Utf8,
    vectorFromArray,
    type TypeMap
} from "apache-arrow";
import { openRuntime, type Relation, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { expectError } from "../../support/errors.js";
import { Sandbox } from "../../support/sandbox.js";

let sandbox: Sandbox;
let runtime: Runtime;
let path: string;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 1, memory: { host: "32MiB", spillDirectory: sandbox.spill } });
    path = sandbox.write(
        new Table({
            id: vectorFromArray([1n, 2n], new Int64()),
            price: vectorFromArray([1.5, null], new Float64()),
            name: vectorFromArray(["a", "b"], new Dictionary(new Utf8(), new Int32()))
        }),
        "orders.arrow"
    );
});
afterAll(async () => {
    await runtime.close();
    sandbox[Symbol.dispose]();
});

const types = { id: new Int64(), price: new Float64(), name: new Dictionary(new Utf8(), new Int32()) };

describe("the columns of a file are those of `schema`", () => {
    test("given as types by name, from which the relation's type follows", async () => {
        const relation = await runtime.fromArrowFile(path, { schema: types });
        expectTypeOf(relation).toEqualTypeOf<Relation<{ id: Int64; price: Float64; name: Dictionary<Utf8, Int32> }>>();
        const query = relation.groupBy({ keys: ["name"], aggregates: { total: { sum: "price" } } });
        expect(query.schema.names).toEqual(["name", "total"]);
        expect(await query.count()).toBe(2);
        // @ts-expect-error: there is no such column
        await expectError(() => relation.groupBy({ keys: ["nam"] }), "UNKNOWN_COLUMN", "did you mean `name`");
    });

    test("in any order, with a name of the relation's own", async () => {
        const { id, price, name } = types;
        const relation = await runtime.fromArrowFile([path, path], { schema: { name, price, id }, name: "orders" });
        expect([relation.name, relation.rows]).toEqual(["orders", 4]);
        expect(relation.schema.names).toEqual(["id", "price", "name"]);
    });

    test("given as a schema, such as that of another relation", async () => {
        const first = await runtime.fromArrowFile(path, { schema: types });
        const second = await runtime.fromArrowFile(path, { schema: first.schema });
        expectTypeOf(second).toEqualTypeOf(first);
        const [id, price, name] = Object.entries(types).map(([column, type]) => new Field(column, type, false));
        const fields = [id!, price!, new Field("name", name!.type as never, true, new Map([["made", "here"]]))];
        expect((await runtime.fromArrowFile(path, { schema: new Schema(fields) })).rows).toBe(2);
    });

    test("not at all without it: a type argument is not checked", async () => {
        expectTypeOf(await runtime.fromArrowFile(path)).toEqualTypeOf<Relation<TypeMap>>();
        expectTypeOf(await runtime.fromArrowFile(path, { name: "n" })).toEqualTypeOf<Relation<TypeMap>>();
        const wrong = await runtime.fromArrowFile<{ absent: Utf8 }>(path);
        expect(wrong.schema.names).toEqual(["id", "price", "name"]);
    });
});

describe("another schema is refused", () => {
    test("with every difference", async () => {
        const schema = { idd: new Int64(), price: new Decimal(2, 15), name: new Utf8() };
        const error = await expectError(
            () => runtime.fromArrowFile(path, { schema }),
            "INVALID_ARGUMENT",
            "orders.arrow",
            "column `idd` is not in the file (did you mean `id`?)",
            "column `price` has type Decimal128(15, 2) in `schema` and Float64 in the file",
            "column `name` has type Utf8 in `schema` and Dictionary<Int32, Utf8> in the file",
            "column `id` (Int64) is in the file only",
            "leave `schema` out"
        );
        expect(error.details).toEqual({ option: "schema", path, column: "idd" });
    });

    test.each<[string, TypeMap, RegExp]>([
        ["a column more", { ...types, at: new TimestampMillisecond() }, /column `at` is not in the file\. State/],
        [
            "a column less",
            { id: types.id, price: types.price },
            /`name` \(Dictionary<Int32, Utf8>\) is in the file only\./
        ],
        ["narrower codes", { ...types, name: new Dictionary(new Utf8(), new Int16()) }, /Int16, Utf8.*Int32, Utf8/],
        ["no column", {}, /`id` .*; column `price` .*; column `name`/]
    ])("that has %s", async (_, schema, words) => {
        await expectError(() => runtime.fromArrowFile(path, { schema }), "INVALID_ARGUMENT", words);
    });

    test("in what the text of a type does not show", async () => {
        const item = (name: string): List<Int32> => new List(new Field(name, new Int32(), true));
        const lists = sandbox.write(new Table({ l: vectorFromArray([[1]], item("element")) }));
        expect((await runtime.fromArrowFile(lists, { schema: { l: item("element") } })).rows).toBe(1);
        await expectError(
            () => runtime.fromArrowFile(lists, { schema: { l: item("item") } }),
            "INVALID_ARGUMENT",
            "List<Int32> in both, but with values called `item` in `schema` and `element` in the file"
        );
    });

    test("with the first of many differences", async () => {
        const schema = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`column${i}`, new Int32()]));
        const words = [/`column11` .*; and 91 more/];
        await expectError(() => runtime.fromArrowFile(path, { schema }), "INVALID_ARGUMENT", ...words);
    });

    test("where it is none", async () => {
        for (const schema of [null, "id", 1, [], [new Field("id", new Int64())], new Int64(), Int64]) {
            const open = () => runtime.fromArrowFile(path, { schema: schema as never });
            await expectError(open, "INVALID_ARGUMENT", "`schema`", "Arrow schema", "new Int64()");
        }
        const open = (id: unknown) => () => runtime.fromArrowFile(path, { schema: { id } as never });
        for (const id of [Int64, "Int64", null, new Field("id", new Int64())]) {
            await expectError(open(id), "INVALID_ARGUMENT", "`schema.id`", "new Int64()");
        }
        const twice = new Schema([new Field("id", new Int64()), new Field("id", new Int64())]);
        await expectError(() => runtime.fromArrowFile(path, { schema: twice }), "DUPLICATE_COLUMN", "`id`");
        await expectError(() => runtime.fromArrowFile(path, { shema: types } as never), "INVALID_ARGUMENT", "`schema`");
    });
});
