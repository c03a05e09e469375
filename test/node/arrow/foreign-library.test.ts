// SPDX-License-Identifier: Apache-2.0
// Tables of another copy of apache-arrow: a CommonJS program has one, whatever the version.
import { createRequire } from "node:module";
import type * as Arrow from "apache-arrow";
import { type RecordBatch, Table } from "apache-arrow";
import { openRuntime, type Relation, type Runtime } from "spillway";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";

const foreign = createRequire(import.meta.url)("apache-arrow") as typeof Arrow;

let runtime: Runtime;
beforeAll(async () => (runtime = await openRuntime({ threads: 1, memory: { host: "64MiB" } })));
afterAll(async () => await runtime.close());

const field = (name: string, type: Arrow.DataType) => new foreign.Field(name, type, true);
const int = () => new foreign.Int32();
const entry = () =>
    field("e", new foreign.Struct([new foreign.Field("key", new foreign.Utf8()), field("value", int())]));
const types: [string, Arrow.DataType, unknown[]][] = [
    ["bool", new foreign.Bool(), [true, false, null]],
    ["uint64", new foreign.Uint64(), [1n, 2n ** 63n, null]],
    ["float16", new foreign.Float16(), [1, 2, null]],
    ["float64", new foreign.Float64(), [1.5, -0, null]],
    ["text", new foreign.Utf8(), ["a", "b", null]],
    ["large text", new foreign.LargeUtf8(), ["a", "b", null]],
    ["bytes", new foreign.Binary(), [Uint8Array.of(1), Uint8Array.of(), null]],
    ["large bytes", new foreign.LargeBinary(), [Uint8Array.of(1), Uint8Array.of(), null]],
    ["fixed bytes", new foreign.FixedSizeBinary(2), [Uint8Array.of(1, 2), Uint8Array.of(3, 4), null]],
    ["date", new foreign.DateDay(), [new Date(0), new Date(86_400_000), null]],
    ["time", new foreign.TimeMicrosecond(), [1n, 2n, null]],
    ["timestamp", new foreign.TimestampNanosecond("Europe/Berlin"), [1, 2, null]],
    ["duration", new foreign.DurationSecond(), [1n, 2n, null]],
    ["interval", new foreign.IntervalYearMonth(), [Int32Array.of(1), Int32Array.of(2), null]],
    ["decimal", new foreign.Decimal(2, 20, 128), [Uint32Array.of(1, 0, 0, 0), Uint32Array.of(2, 0, 0, 0), null]],
    ["nothing", new foreign.Null(), [null, null, null]],
    ["dictionary of texts", new foreign.Dictionary(new foreign.Utf8(), int()), ["a", "b", null]],
    ["dictionary of numbers", new foreign.Dictionary(new foreign.Int64(), new foreign.Int8()), [1n, 2n, null]],
    ["list", new foreign.List(field("item", int())), [[1], [2, 3], null]],
    ["fixed list", new foreign.FixedSizeList(2, field("item", int())), [[1, 2], [3, 4], null]],
    ["struct", new foreign.Struct([field("x", int())]), [{ x: 1 }, { x: null }, null]],
    ["map", new foreign.Map_(entry() as never), [new Map([["a", 1]]), new Map(), null]]
];

test("the other copy is another one", () => {
    expect(foreign.Table).not.toBe(Table);
});

test.each(types)("a column of type %s comes back", async (_, type, values) => {
    const id = foreign.vectorFromArray([1, 2, 3], int());
    const table = new foreign.Table({ id, c: foreign.vectorFromArray(values, type) });
    const before = cellTable(table).cells[1];
    const sources = [
        runtime.fromTable(table),
        runtime.fromBatches(table.schema, async function* () {
            yield* await Promise.resolve(table.batches as unknown as RecordBatch[]);
        })
    ] as Relation[];
    for (const relation of sources) {
        const joined = await relation.join(relation, { on: "id", type: "semi" }).toTable();
        expect(joined).toBeInstanceOf(Table);
        const rows = cellTable(joined).cells;
        const order = rows[0]!.map((cell, row) => [Number(cell), rows[1]![row]] as const).sort((a, b) => a[0] - b[0]);
        expect(order.map(([, cell]) => cell)).toEqual(before);
    }
});
