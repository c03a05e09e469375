// SPDX-License-Identifier: Apache-2.0
// What the options of joins, group-bys and their runs become, and which are refused under which name.
import { Field, Int32, makeData, RecordBatch, Schema, Struct, tableFromArrays, type Table } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { GroupNode } from "../../../src/plan/logical.js";
import { checkBatchesOptions, checkFileOptions } from "../../../src/runtime/check-options.js";
import type { Source } from "../../../src/runtime/query.js";
import { fakeRuntime } from "../../support/fake-runtime.js";
import { expectRefused } from "../../support/refused.js";

const { runtime } = fakeRuntime();
const other = fakeRuntime().left;
const sourceOf = (table: Table) => runtime.fromTable(table) as unknown as Source;
const table = tableFromArrays({ id: Int32Array.of(1, 2, 2), age: Float64Array.of(30, 40, 50) });
const left = sourceOf(table);
const right = sourceOf(tableFromArrays({ id: Int32Array.of(1, 2), size: Int32Array.of(3, 4) }));
/** Without a NULL: its field says that there may be some, or that there are none. */
const ofField = (nullable: boolean) => {
    const schema = new Schema([new Field("id", new Int32(), nullable)]);
    const data = makeData({ type: new Int32(), data: Int32Array.of(1) });
    const struct = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children: [data] });
    return runtime.fromTable(new RecordBatch(schema, struct)) as unknown as Source;
};

const joinWith = (options: object) => runtime.join({ left, right, on: "id", ...options } as never);
const groupWith = (options: unknown) => left.groupBy(options as never);
const groupNode = (options: unknown) => groupWith(options)._node as GroupNode;

describe("join", () => {
    test("takes over the knobs of both sides, its own last", () => {
        const grouped = (from: Source, debug: object, experiment: object) =>
            from.groupBy({ keys: ["id"], debug, experiment });
        const [l, r] = [
            grouped(left, { workers: 1 }, { radixBits: 1 }),
            grouped(right, { morselRows: 2 }, { radixBits: 2 })
        ];
        expect(joinWith({ left: l, right: r })._debug).toEqual({ radixBits: 2, workers: 1, morselRows: 2 });
        const debug = { morselRows: 3, gpu: false };
        expect(joinWith({ left: l, right: r, debug })._debug).toEqual({ radixBits: 2, workers: 1, ...debug });
        expect(joinWith({})._debug).toEqual({});
    });

    test.each([
        ["no keys that there could be", { on: null }, { option: "on" }, /column name.*but received null/],
        ["a number as key", { on: 7 }, { option: "on" }, /\} for `on`.*7/],
        ["no key", { on: {} }, { option: "on" }, /at least one/],
        ["one column as selection", { select: "age" }, { option: "select" }, /array/],
        ["a relation of another runtime", { right: other }, { option: "right" }, /one runtime/],
        ["no relation", { left: table }, { option: "left" }, /relation/]
    ] as [string, object, object, RegExp][])("refuses %s", (_, options, details, word) => {
        expectRefused(() => joinWith(options), details as never, { words: [word] });
    });

    test("refuses keys that name a left column twice", () => {
        const options = { on: ["id", "id"] };
        const words = [/`on` names column `id` twice/];
        expectRefused(() => joinWith(options), { option: "on", column: "id" }, { code: "DUPLICATE_COLUMN", words });
    });
});

describe("groupBy", () => {
    test("takes over the knobs of its input, its own last", () => {
        const inner = left.groupBy({ keys: ["id"], debug: { workers: 1 }, experiment: { radixBits: 1 } });
        expect(inner.groupBy({ keys: ["id"] })._debug).toEqual({ radixBits: 1, workers: 1 });
        const debug = { workers: 2, morselRows: 3 };
        expect(inner.groupBy({ keys: ["id"], debug })._debug).toEqual({ radixBits: 1, ...debug });
    });

    test("counts rows, or the values of a column", () => {
        const { aggregates } = groupNode({ aggregates: { rows: { count: "*" }, ages: { count: "age" } } });
        expect(aggregates).toMatchObject([
            { kind: "countRows", column: -1 },
            { kind: "count", column: 1 }
        ]);
        expect(groupNode({ keys: ["id"] })).toMatchObject({ aggregates: [], hints: {} });
        expect(groupNode({ aggregates: { n: { count: "*" } }, hints: { groups: 0 } })).toMatchObject({
            ...{ keys: [], hints: { groups: 0 } }
        });
    });

    test("knows the column of the input that keys and values come from, where they are not computed", () => {
        const kinds = ["min", "max", "first", "any", "sum", "mean", "count", "countDistinct"];
        const aggregates = Object.fromEntries(kinds.map((kind) => [kind, { [kind]: "age" }]));
        const { columns } = groupNode({ keys: ["id"], aggregates: { ...aggregates, rows: { count: "*" } } });
        expect(columns.map(({ name, origin }) => [name, origin?.column])).toEqual([
            ...[["id", 0]],
            ...kinds.slice(0, 4).map((kind) => [kind, 1]),
            ...[...kinds.slice(4), "rows"].map((kind) => [kind, undefined])
        ]);
    });

    test("has keys that may be null where the field says so, or the column has some", () => {
        const nullable = (source: Source) => source.groupBy({ keys: ["id"] }).schema.fields[0]!.nullable;
        const filled = { left: ofField(false), right: ofField(false), on: "id", type: "full" } as const;
        expect([ofField(true), ofField(false)].map(nullable)).toEqual([true, false]);
        // A field that says no, of a column that has some after all.
        const column = ofField(false)._node.columns[0]!;
        const wrong = { ...column, type: { ...column.type, nullable: true } };
        const source = ofField(false);
        Object.assign(source._node, { columns: [wrong] });
        expect(nullable(source)).toBe(true);
        expect(nullable(runtime.join(filled as never))).toBe(false);
    });

    test.each([
        ["a key that is no list", { keys: "id" }, { option: "keys" }, /array/],
        ["no keys that there could be", { keys: null }, { option: "keys" }, /array/],
        ["a list of aggregates", { aggregates: [{ sum: "age" }] }, { option: "aggregates" }, /object/],
        ["null for aggregates", { aggregates: null }, { option: "aggregates" }, /object.*null/],
        ["text for aggregates", { aggregates: "age" }, { option: "aggregates" }, /object.*age/],
        ["text for an aggregate", { aggregates: { a: "s" } }, { option: "aggregates.a" }, /one aggregate such as/],
        ["null for an aggregate", { aggregates: { a: null } }, { option: "aggregates.a" }, /one aggregate.*null/],
        ["nothing for an aggregate", { aggregates: { a: {} } }, { option: "aggregates.a" }, /one aggregate such as/],
        ["two for one", { aggregates: { a: { min: "age", max: "age" } } }, { option: "aggregates.a" }, /one aggregate/],
        ["an unknown aggregate", { aggregates: { a: { summ: "age" } } }, { option: "aggregates.a" }, /summ.*`sum`/],
        ["neither of them", { keys: [], aggregates: {} }, { option: "keys" }, /at least one/]
    ] as [string, object, object, RegExp][])("refuses %s", (_, options, details, word) => {
        expectRefused(() => groupWith(options), details as never, { words: [word] });
    });

    test("refuses a key twice, and an aggregate of a key's name", () => {
        const code = "DUPLICATE_COLUMN";
        expectRefused(() => groupWith({ keys: ["age", "id", "age"] }), { option: "keys", column: "age" }, { code });
        const clash = { keys: ["id"], aggregates: { id: { sum: "age" } } };
        expectRefused(() => groupWith(clash), { option: "aggregates.id", column: "id" }, { code });
    });
});

describe("a runtime", () => {
    test.each([7, null, undefined, {}, table])("groups no %s", (input) => {
        expectRefused(() => runtime.groupBy(input as never, { keys: ["id" as never] }), { option: "input" });
    });

    test.each([undefined, null, 7, "disk"])("generates into no %s", async (target) => {
        const { fake, runtime: fresh } = fakeRuntime();
        const error = await fresh.generate({ rows: 1 }, target as never).catch((refused: unknown) => refused);
        expect(error).toMatchObject({ code: "INVALID_ARGUMENT", details: { option: "target" } });
        expect((error as Error).cause).toBeUndefined();
        expect(fake.calls).not.toContain("createJob");
    });

    test("tells its threads and memory, and is closed when its scope ends", async () => {
        const { fake, runtime: fresh } = fakeRuntime({}, {}, { threads: 3 });
        fake.usedBytes = 7;
        expect(fresh.memory()).toEqual({
            host: { limitBytes: 2 ** 28, usedBytes: 7, peakBytes: 5 },
            spillDirectory: "/tmp"
        });
        expect([fresh.threads, fresh.closed]).toEqual([3, false]);
        await fresh[Symbol.asyncDispose]();
        expect([fresh.closed, fake.leftOpen]).toEqual([true, []]);
    });
});

test("a batch has 1 to 2^31 - 1 rows", () => {
    const allowed = { batchRows: 2 ** 31 - 1 };
    expect(checkBatchesOptions(allowed)).toEqual(allowed);
    expect(checkFileOptions({ batchRows: 1, overwrite: false })).toEqual({ batchRows: 1, overwrite: false });
    expectRefused(() => checkBatchesOptions({ batchRows: 2 ** 31 }), { option: "batchRows" });
    expectRefused(() => checkFileOptions({ batchRows: 0 }), { option: "batchRows" });
});
