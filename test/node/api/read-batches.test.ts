// SPDX-License-Identifier: Apache-2.0
// Memory of batches in their reader's hands: one block for each, which can be given back, and a limit to what is kept.
import type { RecordBatch } from "apache-arrow";
import { tableFromArrays, tableFromJSON, vectorFromArray, type Data, type Table } from "apache-arrow";
import { openRuntime, plainRows, releaseBatch, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectError } from "../../support/errors.js";

let runtime: Runtime;
beforeAll(async () => {
    runtime = await openRuntime({ threads: 2, memory: { host: "64MiB" } });
});
afterAll(async () => {
    await runtime.close();
});

const ints = (rows: number, of: (row: number) => number): BigInt64Array =>
    BigInt64Array.from({ length: rows }, (_, row) => BigInt(of(row)));
const names = ["a", "b", "c", "d", "e", "f"];

/** Seven columns and the key of as many rows, each joined once. */
const wide = (rows: number) => {
    const keys = ints(rows, (row) => row);
    const table = tableFromArrays({ k: keys, ...Object.fromEntries(names.map((name) => [name, keys])) });
    return runtime.join({
        left: runtime.fromTable(table),
        right: runtime.fromTable(tableFromArrays({ k: keys, z: keys })),
        on: "k"
    });
};
const arraysOf = (data: Data): ArrayBufferView[] => [
    ...[data.values, data.valueOffsets, data.nullBitmap].filter((view) => ArrayBuffer.isView(view)),
    ...data.children.flatMap(arraysOf)
];
const memoryOf = (batch: RecordBatch): Set<ArrayBufferLike> =>
    new Set(arraysOf(batch.data).flatMap(({ buffer, byteLength }) => (byteLength > 0 ? [buffer] : [])));

const mixedRows = Array.from({ length: 300 }, (_, row) => ({
    k: row,
    text: row % 3 === 0 ? null : `text ${row}`,
    flag: row % 5 === 0 ? null : row % 2 === 0,
    list: row % 7 === 0 ? null : [row, row + 1],
    pair: { x: row, y: `y${row}` }
}));
const mixed = () =>
    runtime.join({
        left: runtime.fromTable(tableFromJSON(mixedRows) as unknown as Table),
        right: runtime.fromTable(tableFromArrays({ k: Float64Array.from(mixedRows, ({ k }) => k) })),
        on: "k"
    });

describe("a batch", () => {
    test("has one block of memory for all of its columns of fixed width", async () => {
        let rows = 0;
        for await (const batch of wide(100_000).batches()) {
            expect(memoryOf(batch).size).toBe(1);
            rows += batch.numRows;
        }
        expect(rows).toBe(100_000);
    });

    test("is copied to another thread with all of its values, and keeps its own", async () => {
        for await (const batch of wide(5000).batches()) {
            const values = batch.getChildAt(1)!.toArray() as BigInt64Array;
            expect([...structuredClone(values)]).toEqual([...values]);
            // Node 20 copies what is not to be transferred, later versions refuse it.
            let copied = values;
            try {
                copied = structuredClone(values, { transfer: [values.buffer as ArrayBuffer] });
            } catch (error) {
                expect((error as Error).name).toBe("DataCloneError");
            }
            expect(values).toHaveLength(batch.numRows);
            expect([...copied]).toEqual([...values]);
        }
    });
});

describe("releaseBatch", () => {
    test("takes all values of a batch, and does nothing the second time", async () => {
        let released = 0;
        for await (const batch of wide(20_000).batches()) {
            const vector = batch.getChildAt(1)!;
            const values = vector.data[0]!.values as BigInt64Array;
            expect([vector.get(0), values.length]).toEqual([values[0], batch.numRows]);
            releaseBatch(batch);
            releaseBatch(batch);
            expect([batch.numRows, batch.numCols, values.length, values.buffer.byteLength]).toEqual([0, 8, 0, 0]);
            expect([vector.get(0), [...batch]]).toEqual([null, []]);
            released++;
        }
        expect(released).toBeGreaterThan(0);
    });

    test("leaves NULLs of columns of all kinds, and does not touch what was copied before", async () => {
        const seen: unknown[] = [];
        for await (const batch of mixed().batches()) {
            const vectors = ["text", "flag", "list", "pair"].map((name) => batch.getChild(name)!);
            seen.push(...plainRows(batch));
            releaseBatch(batch);
            expect(vectors.map((vector) => vector.get(4))).toEqual([null, null, null, null]);
            expect(vectors.map((vector) => vector.slice(1, 3).toJSON())).toEqual(Array(4).fill([null, null]));
            expect(plainRows(batch)).toEqual([]);
        }
        const byKey = (seen as { k: number }[]).sort((a, b) => a.k - b.k);
        expect(byKey).toEqual(mixedRows);
    });

    test("takes batches of batches() alone", async () => {
        const other = tableFromArrays({ x: Int32Array.of(1) }).batches[0]!;
        const table = await wide(100).toTable();
        for (const batch of [other, table.batches[0]!, null, {}, vectorFromArray([1])]) {
            await expectError(async () => Promise.resolve(releaseBatch(batch as RecordBatch)), "INVALID_ARGUMENT");
        }
        expect(table.getChildAt(1)!.get(0)).not.toBeNull();
    });
});

describe("a reader", () => {
    const rows = 1_500_000; // 108 MB

    test("that keeps more than the budget is told what to do instead, and the runtime goes on", async () => {
        const kept: RecordBatch[] = [];
        const read = async (): Promise<void> => {
            for await (const batch of wide(rows).batches()) kept.push(batch);
        };
        const error = await expectError(read, "BUDGET_TOO_SMALL");
        expect(error.message).toMatch(/releaseBatch\(\).*toTable\(\) or toArrowFile\(\).*memory\.host/s);
        expect(error.details).toMatchObject({ tier: "host", option: "memory.host", limitBytes: 64 * 2 ** 20 });
        const bytes = kept.reduce((sum, { data }) => sum + data.byteLength, 0);
        expect(bytes / 2 ** 20).toBeGreaterThan(48);
        expect(bytes / 2 ** 20).toBeLessThan(72);
        expect(kept[0]!.getChildAt(0)!.get(0)).not.toBeNull();
        for (const batch of kept) releaseBatch(batch);
        expect(await wide(1000).count()).toBe(1000);
    });

    test.each(["releases", "drops"])("that %s batches reads on for ever", async (way) => {
        let read = 0;
        for await (const batch of wide(rows).batches()) {
            read += batch.numRows;
            if (way === "releases") releaseBatch(batch);
        }
        expect(read).toBe(rows);
    });

    test("that keeps batches which it has released reads all", async () => {
        const kept: RecordBatch[] = [];
        for await (const batch of wide(rows).batches()) {
            kept.push(batch);
            releaseBatch(batch);
        }
        expect(kept.map(({ numRows }) => numRows)).toEqual(kept.map(() => 0));
    });
});
