// SPDX-License-Identifier: Apache-2.0
// The first rows of a result: how many there are, and that the engine stops once it has them.
import { readFileSync } from "node:fs";
import {
    Dictionary,
    Int32,
    makeData,
    RecordBatch,
    Struct,
    Table,
    tableFromArrays,
    tableFromIPC,
    Utf8,
    vectorFromArray
} from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { expectError } from "../../support/errors.js";
import { Sandbox } from "../../support/sandbox.js";

let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({
        ...{ threads: 2, device: "cpu" },
        memory: { host: "256MiB", spillDirectory: sandbox.spill }
    });
});
afterAll(async () => {
    await runtime.close();
    await sandbox.expectClean();
    sandbox[Symbol.dispose]();
});

const numbers = (rows: number, make = (i: number): number => i): Int32Array =>
    Int32Array.from({ length: rows }, (_, i) => make(i));

/** Keys from 0 on, each once. */
const keyed = (rows: number, name: string, first = 0) =>
    tableFromArrays({ k: numbers(rows, (i) => first + i), [name]: numbers(rows, (i) => 7 * (first + i)) });

const few = keyed(100, "a");

/** Rows of `k`, `a` and `b` that a join of `keyed` tables has. */
function expectRows(table: Table, rows: number): void {
    expect(table.numRows).toBe(rows);
    const [k, a, b] = ["k", "a", "b"].map((name) => table.getChild(name));
    const seen = new Set<unknown>();
    for (let i = 0; i < rows; i++) {
        expect([a?.get(i), b?.get(i)]).toEqual([7 * Number(k?.get(i)), 7 * Number(k?.get(i))]);
        seen.add(k?.get(i));
    }
    expect(seen.size).toBe(rows);
}

const joinOf = (left: Table, right: Table): Query =>
    runtime.fromTable(left).join(runtime.fromTable(right), { on: "k" });

describe("a limit", () => {
    test.each([0, 1, 10, 99, 100, 101, Number.MAX_SAFE_INTEGER])("of %d rows holds for every result", async (limit) => {
        const query = joinOf(few, keyed(100, "b")).limit(limit);
        const rows = Math.min(limit, 100);
        expectRows(await query.toTable(), rows);
        expect(query.report()?.rowsOut).toBe(rows);
        expect(await query.count()).toBe(rows);
        let streamed = 0;
        for await (const batch of query) streamed += batch.numRows;
        expect(streamed).toBe(rows);
        const path = sandbox.path(`limit-${limit}.arrow`);
        expect(await query.toArrowFile(path)).toBe(rows);
        expectRows(tableFromIPC(readFileSync(path)), rows);
        expect((await runtime.fromArrowFile(path)).rows).toBe(rows);
    });

    test("keeps the type of the query, and the smaller one of two holds", async () => {
        const query = runtime.fromTable(few).groupBy({ keys: ["k"], aggregates: { rows: { count: "*" } } });
        expectTypeOf(query.limit(3)).toEqualTypeOf(query);
        expect(await query.limit(3).limit(5).count()).toBe(3);
        expect(await query.limit(5).limit(3).count()).toBe(3);
        expect(await query.count()).toBe(100);
        expect(query.limit(3).schema).toEqual(query.schema);
    });

    test.each([-1, 1.5, NaN, Infinity, 2 ** 53, "10", null, undefined, 10n])("of %s is refused", async (rows) => {
        const query = joinOf(few, few);
        const wanted = /whole number of at least 0 for `rows`/;
        await expectError(() => query.limit(rows as number), "INVALID_ARGUMENT", wanted);
    });

    test("of no rows gives the columns, and a file with its dictionaries", async () => {
        const words = new Table({
            k: vectorFromArray([1, 2], new Int32()),
            word: vectorFromArray(["one", "two"], new Dictionary(new Utf8(), new Int32()))
        });
        const query = joinOf(words, few).limit(0);
        const path = sandbox.path("none.arrow");
        expect(await query.toArrowFile(path)).toBe(0);
        const written = await runtime.fromArrowFile(path);
        expect(written.schema.fields.map(({ name }) => name)).toEqual(["k", "word", "a"]);
        expect((await query.toTable()).schema.fields.map(({ name }) => name)).toEqual(["k", "word", "a"]);
        expect(String(await query.explain())).toContain("none: no rows are wanted");
    });

    test("is part of the plan", async () => {
        const explained = await joinOf(few, keyed(100, "b")).limit(7).explain();
        expect(explained.plan).toMatchObject({ limit: 7, batchRows: 7, result: { rows: 7 } });
        expect(String(explained)).toContain("at most 7 rows");
    });
});

describe("of a query that others read", () => {
    test.each(["inner", "left", "right", "full"] as const)("no more rows go into a join: %s", async (type) => {
        const inner = joinOf(few, keyed(100, "b")).limit(30);
        const right = runtime.fromTable(keyed(100, "c"));
        const rows = { inner: 30, left: 30, right: 100, full: 100 }[type];
        const query = inner.join(right, { on: "k", type });
        const table = await query.toTable();
        expect(table.numRows).toBe(rows);
        const found = [...(table.getChild("a") ?? [])].filter((value) => value !== null);
        expect(found).toHaveLength(30);
        expect(await query.count()).toBe(rows);
    });

    test("no more rows go into a group-by, and into one of no rows none", async () => {
        const inner = joinOf(few, keyed(100, "b"));
        const grouped = (limit: number): Query => inner.limit(limit).groupBy({ aggregates: { rows: { count: "*" } } });
        for (const limit of [0, 1, 64, 1000]) {
            const table = await grouped(limit).toTable();
            expect(Number(table.getChild("rows")?.get(0))).toBe(Math.min(limit, 100));
        }
    });

    test("groups are cut as well, before they are joined", async () => {
        const groups = runtime.fromTable(few).groupBy({ keys: ["k"], aggregates: { most: { max: "a" } } });
        const query = groups.limit(9).join(runtime.fromTable(keyed(100, "b")), { on: "k", type: "semi" });
        expect(await query.count()).toBe(9);
    });
});

describe("the engine stops", () => {
    const rows = 600_000;
    const left = keyed(rows, "a");
    const right = keyed(rows, "b");

    test.each(["count", "table", "batches", "file"] as const)("after the first rows: %s", async (way) => {
        const query = joinOf(left, right).limit(10);
        if (way === "count") expect(await query.count()).toBe(10);
        if (way === "table") expectRows(await query.toTable(), 10);
        if (way === "file") await query.toArrowFile(sandbox.path("first.arrow"), { overwrite: true });
        if (way === "batches") for await (const batch of query.batches()) expect(batch.numRows).toBeLessThan(11);
        const report = query.report();
        expect(report?.rowsOut).toBe(10);
        // Rows to count have no columns: an array of all keys of one side, of which the other one's are looked up.
        expect(report?.rowsIn).toBeLessThan(way === "count" ? 1.5 * rows : rows / 4);
        expect(runtime.memory().host.usedBytes).toBe(0);
    });

    test.each(["left", "right", "full", "semi"] as const)("for pairs of other joins: %s", async (type) => {
        const query = runtime.fromTable(left).join(runtime.fromTable(right), { on: "k", type }).limit(20);
        const table = (await query.toTable()) as unknown as Table;
        if (type === "semi") expect(table.getChild("a")?.get(0)).toBe(7 * Number(table.getChild("k")?.get(0)));
        else expectRows(table, 20);
        expect(table.numRows).toBe(20);
        expect(query.report()?.rowsIn).toBeLessThan(type === "semi" ? 1.5 * rows : rows / 4);
    });

    test("for a join of joins, and of a relation with itself", async () => {
        const [one, other] = [runtime.fromTable(left), runtime.fromTable(right)];
        const joined = one
            .join(other, { on: "k" })
            .join(runtime.fromTable(keyed(rows / 2, "c")), { on: "k" })
            .limit(2);
        expect((await joined.explain()).plan.first).toBeDefined();
        expectRows(await joined.toTable(), 2);
        expect(joined.report()?.rowsIn).toBeLessThan(rows / 4);
        const self = one.join(one, { on: "k" }).limit(10);
        const table = await self.toTable();
        expect([...(table.getChild("a") ?? [])]).toEqual([...(table.getChild("a_right") ?? [])]);
        expect(table.numRows).toBe(10);
    });

    test("for the first rows of files, too, with their dictionaries", async () => {
        const words = vectorFromArray(
            Array.from(numbers(rows), (i) => `word ${i % 50}`),
            new Dictionary(new Utf8(), new Int32())
        );
        const table = left.assign(new Table({ word: words }));
        const path = sandbox.write(table);
        const file = await runtime.fromArrowFile(path);
        const query = file.join(runtime.fromTable(right), { on: "k" }).limit(25);
        const explained = await query.explain();
        expect(explained.plan.first?.inputs.map((input) => input.rows)).toEqual([2 ** 14, 2 ** 14]);
        expect(String(explained)).toMatch(/first\n.*the first 16,384 rows of .*likely to give 25 rows/);
        const result = await query.toTable();
        expectRows(result, 25);
        for (let i = 0; i < 25; i++) {
            expect(result.getChild("word")?.get(i)).toBe(`word ${Number(result.getChild("k")?.get(i)) % 50}`);
        }
        const written = sandbox.path("words.arrow");
        await query.toArrowFile(written);
        expect(String(tableFromIPC(readFileSync(written)).getChild("word")?.get(0))).toMatch(/^word \d+$/);
        expect(query.report()?.rowsIn).toBeLessThan(2 ** 16);
    });

    test.each([
        ["inner", 200],
        ["left", rows + 200 - 200],
        ["full", 2 * rows - 200],
        ["semi", 200],
        ["anti", rows - 200]
    ] as const)("and goes on where the first rows have no partners: %s", async (type, all) => {
        // The last 200 keys of the left are the first ones of the right, which lie at its end.
        const shifted = keyed(rows, "b", rows - 200);
        const turned = new Table({
            k: vectorFromArray(Array.from(shifted.getChild("k") ?? []).reverse(), new Int32()),
            b: vectorFromArray(Array.from(shifted.getChild("b") ?? []).reverse(), new Int32())
        });
        const query = runtime
            .fromTable(left)
            .join(runtime.fromTable(turned), { on: "k", type, hints: { resultRows: rows } });
        for (const limit of [10, 1000]) {
            const limited = query.limit(limit);
            const streamed: number[] = [];
            for await (const batch of limited.batches()) streamed.push(batch.numRows);
            const wanted = Math.min(limit, all);
            expect(streamed.reduce((sum, one) => sum + one, 0)).toBe(wanted);
            expect(await limited.count()).toBe(wanted);
            expect((await limited.toTable()).numRows).toBe(wanted);
            expect(await limited.toArrowFile(sandbox.path("missed.arrow"), { overwrite: true })).toBe(wanted);
        }
    });

    test.each([
        ["is not read to its end", Infinity],
        ["that falls silent is not waited for", 40]
    ])("a stream %s", async (_, silentAfter) => {
        let given = 0;
        let left = false;
        const { schema } = few;
        const next = (): RecordBatch => {
            const children = [numbers(50_000, (i) => i % 100), numbers(50_000)].map((data) =>
                makeData({ type: new Int32(), data })
            );
            return new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: 50_000, children }));
        };
        async function* open() {
            try {
                for (; given < 2000; given++) {
                    if (given >= silentAfter) await new Promise(() => undefined);
                    yield next();
                }
            } finally {
                left = true;
            }
        }
        const stream = runtime.fromBatches(schema, open, { rows: 1e8 });
        const query = stream.join(runtime.fromTable(keyed(100, "b")), { on: "k" }).limit(1000);
        expect((await query.toTable()).numRows).toBe(1000);
        // A generator ends where it yields, and this one does so no more.
        expect(left).toBe(silentAfter === Infinity);
        expect(given).toBeLessThan(200);
        expect(query.report()?.rowsIn).toBeLessThan(200 * 50_000);
    });

    test("with little memory, and leaves no spill file behind", async () => {
        using own = new Sandbox();
        await using small = await openRuntime({
            ...{ threads: 2, device: "cpu" },
            debug: { algorithm: "radix" },
            memory: { host: "4MiB", spillDirectory: own.spill }
        });
        const query = small
            .fromTable(left)
            .join(small.fromTable(right), { on: "k", type: "anti", hints: { resultRows: rows } });
        const others = small
            .fromTable(left)
            .join(small.fromTable(keyed(rows, "b", 300_000)), { on: "k", type: "full" });
        for (const [limited, wanted] of [
            [query.limit(10), 0],
            [others.limit(100_000), 100_000]
        ] as const) {
            let found = 0;
            for await (const batch of limited.batches()) found += batch.numRows;
            expect(found).toBe(wanted);
            expect(limited.report()?.spilledBytes).toBeGreaterThan(0);
        }
        await own.expectClean([], 8);
        await small.close();
        await own.expectClean();
    });

    test("at an abort", async () => {
        const product = new Table({ one: vectorFromArray(new Array<number>(5000).fill(1), new Int32()) });
        const query = runtime.fromTable(product).join(runtime.fromTable(product), { on: "one" }).limit(20_000_000);
        const controller = new AbortController();
        const stopped = (async () => {
            for await (const batch of query.batches({ signal: controller.signal })) {
                expect(batch.numRows).toBeGreaterThan(0);
                controller.abort(new RangeError("enough"));
            }
        })();
        await expect(stopped).rejects.toThrow("enough");
        for await (const batch of query.batches()) {
            expect(batch.numRows).toBeGreaterThan(0);
            break;
        }
        expect(query.report()).toBeUndefined();
        expect(runtime.memory().host.usedBytes).toBe(0);
    });
});
