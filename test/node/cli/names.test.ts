// SPDX-License-Identifier: Apache-2.0
// Names of columns that mean something else to JavaScript.
import { Field, Int32, makeData, RecordBatch, Schema, Struct, Table } from "apache-arrow";
import { openRuntime } from "spillway";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";
import { command } from "./in-process.js";

const schema = new Schema([new Field("__proto__", new Int32(), false), new Field("toString", new Int32(), false)]);
const children = [Int32Array.of(1, 2, 2), Int32Array.of(5, 6, 7)].map((data) =>
    makeData({ type: new Int32(), length: 3, nullCount: 0, data })
);
const data = makeData({ type: new Struct(schema.fields), length: 3, nullCount: 0, children });
const table = new Table(schema, [new RecordBatch(schema, data)]);

let sandbox: Sandbox;
let path: string;
beforeAll(() => {
    sandbox = new Sandbox();
    path = sandbox.write(table);
});
afterAll(() => sandbox[Symbol.dispose]());

test("a result and a column may be called __proto__", async () => {
    const words = ["groupby", path, "--aggregate", "__proto__=count:*,constructor=max:__proto__", "--json", "--quiet"];
    expect(await command(words)).toMatchObject({ code: 0, stdout: '{"__proto__":3,"constructor":2}\n' });
    const twice = await command(["groupby", path, "--aggregate", "__proto__=count:*,__proto__=min:toString"]);
    expect(twice).toMatchObject({ code: 2, stderr: '--aggregate names two results "__proto__".' + "\n" });
});

test("names that are whole numbers come first, as JavaScript has them", async () => {
    const words = ["groupby", path, "--aggregate", "b=count:*,2=min:toString,1=max:toString", "--json", "--quiet"];
    expect((await command(words)).stdout).toBe('{"1":7,"2":5,"b":3}\n');
});

test("so may a key of a join", async () => {
    const words = ["join", path, path, "--on", "__proto__", "--count", "--quiet"];
    expect(await command(words)).toMatchObject({ code: 0, stdout: "5\n" });
    expect((await command([...words.slice(0, 3), "--on", "__proto__=toString", "--count", "--quiet"])).stdout).toBe(
        "0\n"
    );
});

test("the API takes such names from objects without a prototype", async () => {
    await using runtime = await openRuntime({ threads: 1 });
    const aggregates = Object.assign(Object.create(null) as Record<string, { count: "*" }>, {});
    aggregates["__proto__"] = { count: "*" };
    const groups = runtime.groupBy(runtime.fromTable(table) as never, { aggregates });
    expect((await groups.toTable()).schema.fields.map(({ name }) => name)).toEqual(["__proto__"]);
});
