// SPDX-License-Identifier: Apache-2.0
// Memory of batches in their reader's hands: one block for each, which can be given back, and a limit to what is kept.
import type { RecordBatch } from "apache-arrow";
import {
    DenseUnion,
    Field,
    FixedSizeList,
    Int32,
    List,
    SparseUnion,
    Struct,
    Table,
    tableFromArrays,
    tableFromIPC,
    tableFromJSON,
    tableToIPC,
    TimestampMillisecond,
    Utf8,
    vectorFromArray,
    type Data,
    type DataType,
    type Vector
} from "apache-arrow";
import { setTimeout } from "node:timers/promises";
import { openRuntime, plainRows, releaseBatch, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { PlainValue } from "../../support/arrow-data.js";
import { cellTable } from "../../support/cells.js";
import { dictionaryOf } from "../../support/domains.js";
import { expectError } from "../../support/errors.js";
import { buildTable, oneBatch } from "../../support/relations.js";
import { hashRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

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

const item = (name: string, type: DataType): Field => new Field(name, type, true);
const members = [item("number", new Int32()), item("text", new Utf8())];
const nullEvery = (rows: number, of: (row: number) => PlainValue) => (row: number) =>
    row % rows === 0 ? null : of(row);
/** Columns of all kinds of memory, and values of theirs. */
const kinds: Record<string, [DataType, (row: number) => PlainValue]> = {
    number: [new Int32(), (row) => row],
    timestamp: [new TimestampMillisecond(), (row) => BigInt(row)],
    text: [new Utf8(), nullEvery(3, (row) => `text ${row}`)],
    dictionary: [dictionaryOf(new Utf8()), nullEvery(5, (row) => `entry ${row % 4}`)],
    sparseUnion: [new SparseUnion([0, 1], members), (row) => (row % 2 === 0 ? [0, BigInt(row)] : [1, `text ${row}`])],
    denseUnion: [new DenseUnion([0, 1], members), (row) => (row % 2 === 0 ? [0, BigInt(row)] : [1, `text ${row}`])],
    unionOfTexts: [new DenseUnion([0, 1], members), (row) => [1, `text ${row}`]],
    list: [new List(item("item", new Int32())), nullEvery(7, (row) => [row, row + 1])],
    pair: [new FixedSizeList(2, item("item", new Int32())), nullEvery(7, (row) => [row, row + 1])],
    struct: [
        new Struct([item("x", new Int32()), item("entry", dictionaryOf(new Utf8()))]),
        nullEvery(11, (row) => [row, `entry ${row % 4}`])
    ]
};
const kindRows = 3000;
/** A result with the key and columns of these kinds. */
const ofKinds = (...names: string[]) => {
    const columns = names.map((name) => {
        const [type, value] = kinds[name]!;
        return { name, type, values: Array.from({ length: kindRows }, (_, row) => value(row)) };
    });
    const key = { name: "k", type: new Int32(), values: Array.from({ length: kindRows }, (_, row) => row) };
    const right = tableFromArrays({ k: Int32Array.from(key.values) });
    const left = buildTable([key, ...columns], oneBatch(kindRows));
    return runtime.join({ left: runtime.fromTable(left), right: runtime.fromTable(right), on: "k" });
};
const cellsOf = (batch: RecordBatch): string[] => rowTexts(cellTable(new Table(batch.schema, [batch])));

describe("a released batch", () => {
    const names = Object.keys(kinds);

    test.each(names)("leaves NULLs in vectors of type %s, and does nothing the second time", async (name) => {
        let read = 0;
        for await (const batch of ofKinds(name).batches({ batchRows: 1000 })) {
            read += batch.numRows;
            const vector = batch.getChild(name)!;
            const [rows, row] = [batch.numRows, batch.get(1)!];
            expect(vector.toJSON().some((value) => value !== null)).toBe(true);
            for (let times = 0; times < 2; times++) {
                releaseBatch(batch);
                expect([batch.numRows, batch.numCols, [...batch]]).toEqual([0, 2, []]);
                expect([vector.length, vector.get(1), vector.isValid(1)]).toEqual([rows, null, false]);
                expect(new Set(vector)).toEqual(new Set([null]));
                expect(row.toJSON()).toEqual({ k: null, [name]: null });
            }
        }
        expect(read).toBe(kindRows);
    });

    // They mean nothing, but are not what now lies where the memory was.
    test.each(names)("shows no values in slices of type %s that were made before", async (name) => {
        const slices: Vector[] = [];
        const originals: string[] = [];
        for await (const batch of ofKinds(name).batches({ batchRows: 1000 })) {
            const vector = batch.getChild(name)!;
            originals.push(...vector.toJSON().flatMap((value) => (value === null ? [] : [String(value)])));
            slices.push(vector.slice(100, 200));
            releaseBatch(batch);
        }
        const shown = slices.flatMap((slice) =>
            Array.from({ length: slice.length }, (_, row) => {
                try {
                    return String(slice.get(row));
                } catch {
                    return "none";
                }
            })
        );
        expect(shown.length).toBeGreaterThanOrEqual(300);
        const known = new Set(originals);
        expect(shown.filter((value) => known.has(value))).toEqual([]);
    });

    test.each(names)("with a column of type %s can be written, and has no rows", async (name) => {
        for await (const batch of ofKinds(name).batches()) {
            releaseBatch(batch);
            const written = tableFromIPC(tableToIPC(new Table(batch.schema, [batch]), "file"));
            expect([written.numRows, String(written.schema)]).toEqual([0, String(batch.schema)]);
        }
    });

    test("leaves the values of its dictionary to the batches behind it", async () => {
        const entries: string[] = [];
        const earlier: RecordBatch[] = [];
        for await (const batch of ofKinds("dictionary").batches({ batchRows: 500 })) {
            const vector = batch.getChild("dictionary")!;
            const dictionary = vector.data[0]!.dictionary!;
            entries.push(...(vector.toJSON() as string[]));
            earlier.push(batch);
            releaseBatch(batch);
            releaseBatch(earlier[0]!);
            expect([...dictionary].sort()).toEqual(["entry 0", "entry 1", "entry 2", "entry 3"]);
        }
        expect(earlier.length).toBeGreaterThan(4);
        const counts = ["entry 0", "entry 1", "entry 2", "entry 3", null].map(
            (entry) => entries.filter((other) => other === entry).length
        );
        expect(counts).toEqual([600, 600, 600, 600, 600]);
    });

    test("without columns has no rows either", async () => {
        let read = 0;
        for await (const batch of wide(10_000).join(wide(10), { on: "k", select: [] }).batches()) {
            read += batch.numRows;
            expect([batch.numCols, batch.numRows > 0]).toEqual([0, true]);
            for (let times = 0; times < 2; times++) {
                releaseBatch(batch);
                expect([batch.numCols, batch.numRows, [...batch]]).toEqual([0, 0, []]);
            }
        }
        expect(read).toBe(10);
    });

    test("never had no rows: such a result has no batches", async () => {
        const none = tableFromArrays({ k: BigInt64Array.of(-1n) });
        for (const query of [wide(1000).join(runtime.fromTable(none), { on: "k" }), wide(1000).limit(0)]) {
            for await (const batch of query.batches()) expect.unreachable(`a batch of ${batch.numRows} rows`);
        }
    });
});

test("rows are the same, whether their batches are released, dropped or kept, or are a table", async () => {
    const query = ofKinds(...Object.keys(kinds));
    const hashes: Record<string, string> = { table: hashRows(rowTexts(cellTable(await query.toTable()))) };
    for (const way of ["released", "dropped", "kept", "every other one released"]) {
        const cells: string[] = [];
        const kept: RecordBatch[] = [];
        let batches = 0;
        for await (const batch of query.batches({ batchRows: 100 })) {
            const releases = way === "released" || (way.startsWith("every") && ++batches % 2 === 0);
            const keeps = way === "kept" || way.startsWith("every");
            if (!releases && keeps) {
                kept.push(batch);
                continue;
            }
            cells.push(...cellsOf(batch));
            if (releases) releaseBatch(batch);
        }
        hashes[way] = hashRows([...cells, ...kept.flatMap(cellsOf)]);
    }
    expect(hashes["table"]).toMatch(/^3000 rows/);
    expect(new Set(Object.values(hashes)).size, JSON.stringify(hashes)).toBe(1);
});

describe("a reader that is made to wait for what it keeps", () => {
    const keys = 110_000;
    /** Rows with a hundred partners each: 11 million, of 28 bytes. */
    const manyRows = (own: Runtime) => {
        const side = (name: string) => {
            const numbers = Int32Array.from({ length: keys }, (_, row) => row);
            const k = numbers.map((row) => Math.floor(row / 100));
            return own.fromTable(tableFromArrays({ k, [name]: Float64Array.from(numbers) }));
        };
        return own.join({ left: side("a"), right: side("b"), on: "k" });
    };
    /** Reads until the next batch does not come. That has been waited for as long as `waitedMs` then. */
    const readUntilItWaits = async (batches: AsyncIterableIterator<RecordBatch>, waitedMs: number) => {
        const kept: RecordBatch[] = [];
        for (let bytes = 0; ; bytes = kept.reduce((sum, { data }) => sum + data.byteLength, 0)) {
            const next = batches.next();
            // What it rejects with is looked at when it has been waited for.
            next.catch(() => undefined);
            const likely = bytes > 56 * 2 ** 20;
            const first = await (likely ? Promise.race([next, setTimeout(waitedMs, "waits" as const)]) : next);
            if (first === "waits") return { kept, next };
            expect(first.done).not.toBe(true);
            kept.push(first.value as RecordBatch);
        }
    };

    test.each(["abort", "return", "close"])("can end it by %s, without leftovers", async (way) => {
        using sandbox = new Sandbox();
        const memory = { host: "16MiB", spillDirectory: sandbox.spill };
        await using own = await openRuntime({ threads: 2, memory, debug: { forceSpill: true } });
        const controller = new AbortController();
        const batches = manyRows(own).batches({ signal: controller.signal });
        const { kept, next } = await readUntilItWaits(batches, 300);
        const reason = new Error("enough");
        const ending = expect(next).rejects.toMatchObject(
            way === "abort" ? reason : { code: way === "close" ? "CLOSED" : "ABORTED" }
        );
        if (way === "abort") controller.abort(reason);
        else if (way === "return") expect(await batches.return!()).toEqual({ done: true, value: undefined });
        else await own.close();
        await ending;
        if (way === "abort") await expect(next).rejects.toBe(reason);
        expect(await batches.next()).toEqual({ done: true, value: undefined });
        // What was read stays, and is given back one by one.
        for (const batch of kept) {
            expect(batch.getChild("a")!.get(batch.numRows - 1)).not.toBeNull();
            releaseBatch(batch);
        }
        if (way !== "close") {
            expect(own.memory().host.usedBytes).toBe(0);
            expect(await manyRows(own).limit(1000).count()).toBe(1000);
            await own.close();
        }
        await sandbox.expectClean();
    });

    test("ends it promptly by an abort, however long it has waited", async () => {
        const controller = new AbortController();
        const { kept, next } = await readUntilItWaits(manyRows(runtime).batches(controller), 1250);
        const start = performance.now();
        controller.abort("enough");
        await expect(next).rejects.toBe("enough");
        const elapsed = performance.now() - start;
        for (const batch of kept) releaseBatch(batch);
        expect(elapsed).toBeLessThan(250);
    });

    test.each(["released", "dropped"])("reads on when those were %s in the meantime", async (way) => {
        const batches = manyRows(runtime).batches();
        const { kept, next } = await readUntilItWaits(batches, 900);
        let rows = kept.reduce((sum, { numRows }) => sum + numRows, 0);
        if (way === "released") for (const batch of kept) releaseBatch(batch);
        kept.length = 0;
        rows += ((await next).value as RecordBatch).numRows;
        for await (const batch of batches) rows += batch.numRows;
        expect(rows).toBe(100 * keys);
    });

    test("waits for what other readers of the runtime keep, too", async () => {
        const first = manyRows(runtime).batches();
        const { kept, next } = await readUntilItWaits(first, 100);
        const second = manyRows(runtime).batches();
        const other = second.next();
        expect(await Promise.race([other, setTimeout(300, "waits")])).toBe("waits");
        for (const batch of kept) releaseBatch(batch);
        for (const batch of [await next, await other]) expect(batch.done).toBe(false);
        await first.return!();
        await second.return!();
        expect(runtime.memory().host.usedBytes).toBe(0);
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
