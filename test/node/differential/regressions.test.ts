// SPDX-License-Identifier: Apache-2.0
// Cases that a random test or a user found once, each with a name and as small as it goes.
import { readFileSync } from "node:fs";
import {
    Bool,
    DenseUnion,
    Dictionary,
    Field,
    Int32,
    makeData,
    makeVector,
    RecordBatch,
    Schema,
    Struct,
    Table,
    tableFromArrays,
    tableFromIPC,
    Utf8,
    vectorFromArray
} from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, expect, test } from "vitest";
import { showsGpu } from "../../../src/machine/devices.js";
import type { PlainValue } from "../../support/arrow-data.js";
import { cellTable } from "../../support/cells.js";
import { buildTable, oneBatch } from "../../support/relations.js";
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

test("a file with a union opens wherever its footer lies", async () => {
    // Decoding the type ids of a union wants the footer at an address of its own alignment, also when only the end of
    // a large file is read (join seed 11061).
    const rows = 20_000;
    const pair = new Struct([new Field("x", new Int32(), true)]);
    const type = new DenseUnion([3, 5], [new Field("one", new Bool(), true), new Field("two", pair, true)]);
    const union = Array.from({ length: rows }, (_, row) => (row % 2 === 0 ? [0, true] : [1, [7n]]) as PlainValue);
    const keys = Array.from({ length: rows }, (_, row) => BigInt(row));
    for (let length = 1; length <= 4; ++length) {
        const columns = [
            { name: "key", type: new Int32(), values: keys },
            { name: "u".repeat(length), type, values: union }
        ];
        const relation = await runtime.fromArrowFile(sandbox.write(buildTable(columns, oneBatch(rows))));
        const joined = await relation.join(relation, { on: "key", type: "semi" }).toTable();
        const cells = new Set(cellTable(joined).cells[1]);
        expect([joined.numRows, [...cells].sort()]).toEqual([rows, ["<3:true>", "<5:{7}>"]]);
    }
});

test("a key whose hash marks free slots of tables matches only itself", async () => {
    // The hash of the first is all ones; the second marks free slots once the first is a build key. Probe rows with the
    // marker met free slots in the AVX2 kernels.
    const marker = -3_487_469_807_577_879_104n;
    const column = (keys: bigint[]): Table => new Table({ k: makeVector(BigInt64Array.from(keys)) });
    for (const length of [3, 10, 1000, 100_000]) {
        const build = Array.from({ length }, (_, i) => BigInt(i) * 3n);
        const probe = [marker, 6n, ...Array.from({ length: 4 * length }, (_, i) => BigInt(-1 - i))];
        for (const algorithm of ["streaming", "partitioned"] as const) {
            const join = (right: bigint[], type: "inner" | "anti") =>
                runtime.join({
                    left: runtime.fromTable(column(probe)),
                    right: runtime.fromTable(column(right)),
                    on: "k",
                    type,
                    debug: { algorithm }
                });
            expect((await join(build, "inner").toTable()).toArray().map((row) => String(row["k"]))).toEqual(["6"]);
            expect(await join(build, "inner").count()).toBe(1);
            expect(await join(build, "anti").count()).toBe(4 * length + 1);
            expect(await join([...build, marker], "inner").count()).toBe(2);
        }
    }
});

test("a table made from an empty typed array has no rows", async () => {
    // Arrow JS puts a Vector where the batch of such a table should hold Data.
    const none = runtime.fromTable(tableFromArrays({ id: new Int32Array(0) }));
    expect(none.rows).toBe(0);
    expect(await none.groupBy({ keys: ["id"] }).count()).toBe(0);
});

test("a stream whose last batch fills a group keeps its dictionaries", async () => {
    // The group behind that batch had no rows, and no dictionary: codes of the result pointed nowhere (found by
    // a search over joins of streams with budgets near the least).
    const rows = 2 ** 21; // 8 MiB of codes: a whole group under any budget
    const words = ["a", "b", "c"];
    const type = new Dictionary(new Utf8(), new Int32());
    const codes = Int32Array.from({ length: rows }, (_, row) => row % words.length);
    const dictionary = vectorFromArray(words, new Utf8());
    const schema = new Schema([new Field("word", type, true)]);
    const children = [makeData({ type, length: rows, data: codes, dictionary })];
    const batch = new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: rows, children }));
    const stream = runtime.fromBatches(schema, async function* () {
        yield batch;
    });
    const groups = await stream.groupBy({ keys: ["word"], aggregates: { rows: { count: "*" } } }).toTable();
    const [keys, counts] = cellTable(groups).cells as [string[], string[]];
    expect(Object.fromEntries(keys.map((key, row) => [key, counts[row]]))).toEqual({
        '"a"': "699051",
        '"b"': "699051",
        '"c"': "699050"
    });
});

test("aggregates of a dictionary column of a join input without rows are NULL", async () => {
    const words = vectorFromArray(["b", "a", null], new Dictionary(new Utf8(), new Int32()));
    const counts = vectorFromArray([2, 1, null], new Dictionary(new Int32(), new Int32()));
    const some = new Table({ id: vectorFromArray([1, 2, 3], new Int32()), w: words, c: counts });
    const none = some.slice(0, 0);
    const aggregates = { least: { min: "w_right" }, sum: { sum: "c_right" }, n: { count: "*" } } as const;
    for (const [table, type, least, sum, n] of [
        [none, "inner", null, null, 0n],
        [none, "left", null, null, 3n],
        [some, "inner", "a", 3n, 3n]
    ] as const) {
        const join = runtime.join({ left: runtime.fromTable(some), right: runtime.fromTable(table), on: "id", type });
        const result = await join.groupBy({ keys: [], aggregates }).toTable();
        expect(result.get(0)?.toJSON()).toEqual({ least, sum, n });
        expect(await join.groupBy({ keys: ["w_right"], aggregates }).count()).toBe(type === "left" ? 1 : Number(n));
    }
});

test("a group-by that is planned again on its way to a file writes each dictionary once", async () => {
    const rows = 200_000;
    const ids = makeVector(makeData({ type: new Int32(), data: Int32Array.from({ length: rows }, (_, i) => i) }));
    const words = makeVector(
        makeData({
            type: new Dictionary(new Utf8(), new Int32()),
            length: rows,
            data: Int32Array.from({ length: rows }, (_, i) => i % 3),
            dictionary: vectorFromArray(["a", "b", "c"], new Utf8())
        })
    );
    const relation = runtime.fromTable(new Table({ id: ids, w: words }));
    const query = relation.groupBy({ keys: ["id", "w"], hints: { groups: 10 } }); // tables for ten groups overflow
    const path = sandbox.path("again.arrow");
    await query.toArrowFile(path);
    expect(query.report()?.stages.map(({ name }) => name)).toEqual(["partition groups", "group"]);
    // That of the first plan: nothing new is known of GPUs. Without a sign of one, nobody speaks of any.
    expect(query.report()?.deviceReason).toEqual(showsGpu() ? expect.any(String) : null);
    const written = tableFromIPC(readFileSync(path));
    expect(written.numRows).toBe(rows);
    expect(written.getChild("w")?.data[0]?.dictionary?.length).toBe(3);
});
