// SPDX-License-Identifier: Apache-2.0
// Results whose type is not that of the one column they come from.
import { Binary, BinaryView, DataType, Decimal, Int32, Utf8, Utf8View } from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { expectedJoin, joinedRows } from "../../support/engine.js";
import { buildTable, oneBatch } from "../../support/relations.js";
import { expectSameRows } from "../../support/rows.js";
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

test.each([
    ["Utf8View", new Utf8View(), new Utf8()],
    ["Utf8", new Utf8(), new Utf8View()],
    ["BinaryView", new BinaryView(), new Binary()]
])("a full join puts keys of %s and its partner into one column", async (_, leftType, rightType) => {
    const long = "a value too long to lie in a view";
    const plain = (values: (string | null)[]) =>
        DataType.isUtf8(leftType) || DataType.isUtf8View(leftType)
            ? values
            : values.map((value) => (value === null ? null : new TextEncoder().encode(value)));
    const table = (type: DataType, name: string, values: (string | null)[]) =>
        buildTable(
            [
                { name: "k", type, values: plain(values) },
                { name, type: new Int32(), values: values.map((_, i) => BigInt(i)) }
            ],
            oneBatch(values.length)
        );
    const left = table(leftType, "l", ["x", long, null, "", "left"]);
    const right = table(rightType, "r", [long, "right", null, "x", "x"]);
    const on: [string, string][] = [["k", "k"]];
    for (const nullEquality of [false, true]) {
        for (const algorithm of ["radix", "streaming"] as const) {
            const joinCase = { left, right, on, type: "full", nullEquality, text: algorithm } as const;
            const options = { on: "k", type: "full", nullEquality, debug: { algorithm } } as const;
            const result = await runtime
                .join({ left: runtime.fromTable(left), right: runtime.fromTable(right), ...options })
                .toTable();
            expectSameRows(joinedRows(cellTable(result), joinCase), expectedJoin(joinCase).rows, "");
        }
    }
});

test("a full join of views with a query on themselves, spilled", async () => {
    const values = Array.from({ length: 500 }, (_, i) => `value number ${i % 100} of a column`);
    const table = buildTable([{ name: "k", type: new Utf8View(), values }], oneBatch(values.length));
    const relation = runtime.fromTable(table);
    const groups = relation.groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } });
    const joined = runtime.join({ left: relation, right: groups, on: "k", type: "full", debug: { forceSpill: true } });
    const [keys, counts] = cellTable(await joined.toTable()).cells as [string[], string[]];
    expect([...keys].sort()).toEqual(values.map((value) => JSON.stringify(value)).sort());
    expect(new Set(counts)).toEqual(new Set(["5"]));
});

test("a sum of decimals of 32 and 64 bits has all its digits and says so", async () => {
    const most = [10n ** 9n - 1n, 10n ** 18n - 1n] as const;
    for (const [bits, value] of [
        [32, most[0]],
        [64, most[1]]
    ] as const) {
        const type = new Decimal(2, bits === 32 ? 9 : 18, bits);
        const values = [value, value, null, value];
        const table = buildTable(
            [
                { name: "d", type, values },
                { name: "e", type, values: values.map((v) => v && -v) }
            ],
            oneBatch(4)
        );
        const aggregates = { s: { sum: "d" }, e: { sum: "e" } } as const;
        for (const keys of [[], ["d"]]) {
            const groups = await runtime.fromTable(table).groupBy({ keys, aggregates }).toTable();
            const types = groups.schema.fields.slice(-2).map(({ type: of }) => of as Decimal);
            expect(types.map(({ precision, scale, bitWidth }) => [precision, scale, bitWidth])).toEqual([
                [38, 2, 128],
                [38, 2, 128]
            ]);
            const sums = cellTable(groups)
                .cells.slice(-2)
                .map((cells) => cells.find((cell) => /\d/.test(cell)));
            expect(sums).toEqual([`${3n * value}`, `${-3n * value}`]);
        }
    }
});
