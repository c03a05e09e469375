// SPDX-License-Identifier: Apache-2.0
// Relations of many record batches, and small ones, stay open between queries; all others are opened for each.
import { Table, tableFromArrays, type RecordBatch } from "apache-arrow";
import { openRuntime } from "spillway";
import { expect, test } from "vitest";
import { fakeRuntime } from "../../support/fake-runtime.js";

const batchRows = 10;

/** A table of so many record batches, each with memory of its own, or all in that of the first. */
function tableOf(batches: number, shared = false, rows = batchRows): Table {
    const whole = tableFromArrays({ k: Int32Array.from({ length: batches * rows }, (_, i) => i) });
    const parts = Array.from({ length: batches }, (_, at): RecordBatch[] => {
        const from = at * rows;
        if (shared) return whole.slice(from, from + rows).batches;
        return tableFromArrays({ k: Int32Array.from({ length: rows }, (__, i) => from + i) }).batches;
    });
    return new Table(whole.schema, parts.flat());
}

test.each([
    ["many batches is opened once, and closed with the runtime", 256, 300, 1],
    ["fewer is opened for each query", 255, 300, 3],
    ["a few KiB is opened once", 3, 300, 1]
])("a relation of %s", async (_, batches, rows, opened) => {
    const { fake, runtime } = fakeRuntime({});
    const relation = runtime.fromTable(tableOf(batches, false, rows));
    for (let i = 0; i < 3; i++) await relation.groupBy({ keys: [], aggregates: { n: { count: "*" } } }).count();
    const calls = (name: string): number => fake.calls.filter((call) => call === name).length;
    expect(calls("openSource")).toBe(opened);
    expect(calls("closeSource")).toBe(opened === 1 ? 0 : opened);
    await runtime.close();
    expect(calls("closeSource")).toBe(opened);
    expect(fake.leftOpen).toEqual([]);
});

test.each([false, true])(
    "queries of a relation that stays open tell what changed it, memory shared: %s",
    async (shared) => {
        const table = tableOf(300, shared);
        const runtime = await openRuntime({ device: "cpu", threads: 2 });
        const relation = runtime.fromTable(table);
        const sum = async (): Promise<unknown> => {
            const found = await relation.groupBy({ keys: [], aggregates: { sum: { sum: "k" } } }).toTable();
            return found.get(0)?.["sum"];
        };
        const rows = 300n * BigInt(batchRows);
        for (const found of await Promise.all([sum(), sum(), sum()])) expect(found).toBe((rows * (rows - 1n)) / 2n);
        expect(await sum()).toBe((rows * (rows - 1n)) / 2n);
        const { buffer } = table.batches[200]!.data.children[0]!.values as Int32Array;
        structuredClone(buffer, { transfer: [buffer as ArrayBuffer] });
        const message = expect.stringContaining("transferred or resized") as string;
        await expect(sum()).rejects.toMatchObject({ code: "INVALID_ARGUMENT", message });
        await runtime.close();
    }
);
