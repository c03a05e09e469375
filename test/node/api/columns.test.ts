// SPDX-License-Identifier: Apache-2.0
// Which columns a query has, what they are called, and that TypeScript knows it too.
import { tableFromArrays, type Float64, type Int32, type Int64, type Table } from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";

// Type aliases, because an interface that extends TypeMap has every name.
type Person = { id: Int32; city: Int32; age: Float64 };
type City = { id: Int32; name: Int32; age: Float64 };
type ColumnsOf<Q> = Q extends Query<infer T> ? T : never;

const people = tableFromArrays({
    id: Int32Array.of(1, 2, 3, 4),
    city: Int32Array.of(10, 20, 20, 99),
    age: Float64Array.of(30, 40, 50, 60)
}) as unknown as Table<Person>;
const cities = tableFromArrays({
    id: Int32Array.of(10, 20, 30),
    name: Int32Array.of(100, 200, 300),
    age: Float64Array.of(1000, 2000, 3000)
}) as unknown as Table<City>;

let runtime: Runtime;
beforeAll(async () => {
    runtime = await openRuntime({ threads: 2, memory: { host: "64MiB" } });
});
afterAll(async () => {
    await runtime.close();
});

const names = (query: { schema: { fields: readonly { name: string }[] } }): string[] =>
    query.schema.fields.map((field) => field.name);
const rowsOf = async (query: { toTable(): Promise<Iterable<{ toJSON(): object } | null>> }): Promise<unknown[]> =>
    [...(await query.toTable())].map((row) => JSON.stringify(Object.values(row!.toJSON()).map(plain))).sort();
const plain = (value: unknown): unknown => (typeof value === "bigint" ? Number(value) : value);

describe("a join's columns", () => {
    test("are the left ones, then the right ones with a suffix where names clash", async () => {
        const query = runtime.fromTable(people).join(runtime.fromTable(cities), { on: { city: "id" } });
        expect(names(query)).toEqual(["id", "city", "age", "id_right", "name", "age_right"]);
        expectTypeOf<ColumnsOf<typeof query>>().toEqualTypeOf<{
            id: Int32;
            city: Int32;
            age: Float64;
            id_right: Int32;
            name: Int32;
            age_right: Float64;
        }>();
        expect(await rowsOf(query)).toEqual([
            "[1,10,30,10,100,1000]",
            "[2,20,40,20,200,2000]",
            "[3,20,50,20,200,2000]"
        ]);
    });

    test("hold a shared key once, from the side that has the row", async () => {
        const on = "id";
        const left = runtime.fromTable(people);
        const right = runtime.fromTable(tableFromArrays({ id: Int32Array.of(4, 5), x: Int32Array.of(7, 8) }));
        const inner = left.join(right, { on });
        expect(names(inner)).toEqual(["id", "city", "age", "x"]);
        expect(await rowsOf(left.join(right, { on, type: "right" }))).toEqual(["[4,99,60,7]", "[5,null,null,8]"]);
        const full = await rowsOf(left.join(right, { on, type: "full" }));
        expect(full).toContain("[5,null,null,8]");
        expect(full).toContain("[1,10,30,null]");
        expect(full.length).toBe(5);
    });

    test("have the type of the side that a shared key is of", async () => {
        const id = BigInt64Array.of(2n, 3n);
        const narrow = runtime.fromTable(tableFromArrays({ id: Int32Array.of(1, 2), x: Int32Array.of(7, 8) }));
        const wide = runtime.fromTable(tableFromArrays({ id, y: Int32Array.of(5, 6) }));
        const right = wide.join(narrow, { on: "id", type: "right" });
        expectTypeOf<ColumnsOf<typeof right>>().toEqualTypeOf<{ id: Int32; y: Int32; x: Int32 }>();
        expect(right.schema.fields.map(({ type }) => String(type))).toEqual(["Int32", "Int32", "Int32"]);
        expect(await rowsOf(right)).toEqual(["[1,null,7]", "[2,5,8]"]);
        const listed = narrow.join(wide, { on: ["id"], type: "right" });
        expectTypeOf<ColumnsOf<typeof listed>>().toEqualTypeOf<{ id: Int64; x: Int32; y: Int32 }>();
        const left = narrow.join(wide, { on: { id: "id" }, type: "left" });
        expectTypeOf<ColumnsOf<typeof left>>().toEqualTypeOf<{ id: Int32; x: Int32; y: Int32 }>();
        const apart = narrow.join(wide, { on: { x: "id" }, type: "right" });
        expectTypeOf<ColumnsOf<typeof apart>>().toEqualTypeOf<{ id: Int32; x: Int32; id_right: Int64; y: Int32 }>();
        const types = [left, listed, apart].map(({ schema }) => schema.fields.map(({ type }) => String(type)));
        expect(types).toEqual([
            ["Int32", "Int32", "Int32"],
            ["Int64", "Int32", "Int32"],
            ["Int32", "Int32", "Int64", "Int32"]
        ]);
    });

    test("are the left ones alone for semi and anti", async () => {
        const [left, right] = [runtime.fromTable(people), runtime.fromTable(cities)];
        const semi = left.join(right, { on: { city: "id" }, type: "semi" });
        expectTypeOf<ColumnsOf<typeof semi>>().toEqualTypeOf<{ id: Int32; city: Int32; age: Float64 }>();
        expect(await rowsOf(semi)).toEqual(["[1,10,30]", "[2,20,40]", "[3,20,50]"]);
        expect(await rowsOf(left.join(right, { on: { city: "id" }, type: "anti" }))).toEqual(["[4,99,60]"]);
    });

    test("can be chosen, ordered and given another suffix", async () => {
        const query = runtime.join({
            ...{ left: runtime.fromTable(people), right: runtime.fromTable(cities), on: { city: "id" } },
            suffix: "_of_city",
            select: ["age_of_city", "id"]
        });
        expect(names(query)).toEqual(["age_of_city", "id"]);
        expect(await rowsOf(query)).toEqual(["[1000,1]", "[2000,2]", "[2000,3]"]);
    });
});

describe("a query of a query", () => {
    test("joins a join and groups the result", async () => {
        const query = runtime
            .fromTable(people)
            .join(runtime.fromTable(cities), { on: { city: "id" }, select: ["name", "age"] })
            .groupBy({
                keys: ["name"],
                aggregates: { people: { count: "*" }, years: { sum: "age" }, mean: { mean: "age" } }
            });
        expectTypeOf<ColumnsOf<typeof query>>().toEqualTypeOf<{
            name: Int32;
            people: Int64;
            years: Float64;
            mean: Float64;
        }>();
        expect(await rowsOf(query)).toEqual(["[100,1,30,30]", "[200,2,90,45]"]);
    });

    test("joins a group-by", async () => {
        const counts = runtime.fromTable(people).groupBy({ keys: ["city"], aggregates: { n: { count: "*" } } });
        const query = runtime.fromTable(cities).join(counts, { on: { id: "city" }, select: ["name", "n"] });
        expect(await rowsOf(query)).toEqual(["[100,1]", "[200,2]"]);
    });

    test("runs again and gives the same", async () => {
        const query = runtime.fromTable(people).join(runtime.fromTable(cities), { on: { city: "id" } });
        const first = await rowsOf(query);
        expect(await rowsOf(query)).toEqual(first);
        expect(await query.count()).toBe(first.length);
    });

    test("runs beside others at the same time", async () => {
        const query = runtime.fromTable(people).join(runtime.fromTable(cities), { on: { city: "id" } });
        const counts = await Promise.all(Array.from({ length: 20 }, () => query.count()));
        expect(new Set(counts)).toEqual(new Set([3]));
    });
});

describe("a relation", () => {
    test("knows its columns, rows and name", () => {
        const relation = runtime.fromTable(people, { name: "people" });
        expect([relation.name, relation.rows]).toEqual(["people", 4]);
        expect(relation.bytes).toBeGreaterThan(0);
        expect(relation.schema.fields.map((field) => String(field.type))).toEqual(["Int32", "Int32", "Float64"]);
    });

    test("of text joins text, whatever way it is stored", async () => {
        const words = ["a", "b", null, "c", "b"];
        const left = runtime.fromTable(tableFromArrays({ word: words }));
        expect(await left.join(left, { on: "word" }).count()).toBe(6);
        expect(await left.join(left, { on: "word", nullEquality: true }).count()).toBe(7);
    });
});

describe("explain", () => {
    test("is text for people and data that can be stored", async () => {
        const query = runtime.fromTable(people).join(runtime.fromTable(cities), { on: { city: "id" } });
        const explanation = await query.explain();
        expect(String(explanation)).toMatch(/join/i);
        expect(JSON.parse(JSON.stringify(explanation.plan))).toEqual(explanation.plan);
        expect(Object.isFrozen(explanation.plan)).toBe(true);
        await query.count();
        expect(query.report()).toMatchObject({ rowsOut: 3 });
    });

    test("is of the result that is asked for", async () => {
        const query = runtime.fromTable(people).join(runtime.fromTable(cities), { on: { city: "id" } });
        for (const result of ["batches", "count", "table", "file"] as const) {
            expect((await query.explain({ result })).plan.sink).toBe(result);
        }
        expect((await query.explain()).plan.sink).toBe("batches");
        await expect(query.explain({ result: "rows" as "count" })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
        await expect(query.explain({ sink: "count" } as object)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    });
});
