// SPDX-License-Identifier: Apache-2.0
// Cases that a random test or a user found once, each with a name and as small as it goes.
import { Bool, DenseUnion, Field, Int32, Struct, tableFromArrays } from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, expect, test } from "vitest";
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
    // Decoding the type ids of a union wants the footer at an address of its own alignment (seed 11061).
    for (let length = 1; length <= 8; ++length) {
        const pair = new Struct([new Field("x", new Int32(), true)]);
        const type = new DenseUnion([3, 5], [new Field("one", new Bool(), true), new Field("two", pair, true)]);
        const column = { name: "u".repeat(length), type, values: [[0, true] as const, [1, [7n]] as const] };
        const key = { name: "key", type: new Int32(), values: [1n, 2n] };
        const table = buildTable([key, column], oneBatch(2));
        const relation = await runtime.fromArrowFile(sandbox.write(table));
        const joined = await relation.join(relation, { on: "key", type: "semi" }).toTable();
        expect([...cellTable(joined).cells[1]!].sort()).toEqual(["<3:true>", "<5:{7}>"]);
    }
});

test("a table made from an empty typed array has no rows", async () => {
    // Arrow JS puts a Vector where the batch of such a table should hold Data.
    const none = runtime.fromTable(tableFromArrays({ id: new Int32Array(0) }));
    expect(none.rows).toBe(0);
    expect(await none.groupBy({ keys: ["id"] }).count()).toBe(0);
});
