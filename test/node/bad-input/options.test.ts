// SPDX-License-Identifier: Apache-2.0
// Wrong options, columns and types: refused before any work, with one SpillwayError that says what to change.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
    Decimal,
    Dictionary,
    Field,
    Int32,
    Int8,
    IntervalYearMonth,
    List,
    makeData,
    makeVector,
    RecordBatch,
    Schema,
    Struct,
    Table,
    tableFromArrays,
    Utf8,
    type DataType
} from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildData, type PlainValue } from "../../support/arrow-data.js";
import { expectError } from "../../support/errors.js";
import { numericTable } from "../../support/numeric-files.js";
import { Sandbox } from "../../support/sandbox.js";

const people = tableFromArrays({ id: Int32Array.of(1, 2, 3), age: Float64Array.of(30, 40, 50) });
const texts = new Table({ id: buildTable(new Utf8(), ["1", "2"]), note: buildTable(new Utf8(), ["a", "b"]) });

function buildTable(type: Utf8, values: string[]) {
    const data = buildData(type, values);
    const schema = new Schema([new Field("c", type, true)]);
    const struct = makeData({ type: new Struct(schema.fields), length: values.length, nullCount: 0, children: [data] });
    return new Table(schema, [new RecordBatch(schema, struct)]).getChildAt(0)! as never;
}

let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } });
});
afterAll(async () => {
    await runtime.close();
    await sandbox.expectClean();
    sandbox[Symbol.dispose]();
});

/** The API as an untyped caller sees it. */
type Loose = Record<string, (...args: unknown[]) => Query>;
const loose = () => runtime as unknown as Loose;
const joinWith = (options: Record<string, unknown>) => async () =>
    loose()["join"]!({
        left: runtime.fromTable(people),
        right: runtime.fromTable(people),
        on: "id",
        ...options
    }).count();
const groupWith = (options: unknown) => async () => loose()["groupBy"]!(runtime.fromTable(people), options).count();

describe("openRuntime refuses", () => {
    const open = (options: unknown) => async () => (await openRuntime(options as never)).close();

    test.each([
        ["a misspelt option", { memroy: {} }, /memroy/, /memory/],
        ["a misspelt inner option", { memory: { hots: "1GiB" } }, /hots/, /host/],
        ["a size that is no size", { memory: { host: "lots" } }, /memory\.host/, /lots/],
        ["a size of NaN", { memory: { host: NaN } }, /memory\.host/, /NaN/],
        ["a negative size", { memory: { host: -1 } }, /memory\.host/, /-1/],
        ["a size of 0", { memory: { host: 0 } }, /memory\.host/],
        ["an infinite size", { memory: { host: Infinity } }, /memory\.host/, /Infinity/],
        ["threads of 0", { threads: 0 }, /threads/],
        ["threads of NaN", { threads: NaN }, /threads/, /NaN/],
        ["half a thread", { threads: 1.5 }, /threads/, /1\.5/],
        ["threads as text", { threads: "2" }, /threads/, /"2"/],
        ["an unknown device", { device: "tpu" }, /device/, /tpu/],
        ["a spill folder that is a number", { memory: { spillDirectory: 7 } }, /memory\.spillDirectory/],
        ["an unknown knob", { debug: { pageByte: 1 } }, /pageByte/, /pageBytes/],
        ["a number instead of options", 7, /object/]
    ] as [string, unknown, ...RegExp[]][])("%s", async (_, options, ...words) => {
        await expectError(open(options), "INVALID_ARGUMENT", ...words);
    });

    test("a spill folder that does not exist, is a file or cannot be written", async () => {
        const missing = join(sandbox.folder, "missing");
        const file = sandbox.path("file");
        writeFileSync(file, "");
        for (const spillDirectory of [missing, file, "/proc"]) {
            const runJoin = async () => {
                await using opened = await openRuntime({
                    memory: { host: "64MiB", spillDirectory },
                    debug: { forceSpill: true }
                });
                const side = (prefix: string) =>
                    opened.fromTable(numericTable({ rows: 50_000, keys: 100_000, prefix }));
                await opened.join({ left: side("l"), right: side("r"), on: { lkey: "rkey" } }).count();
            };
            await expectError(
                runJoin,
                ["INVALID_ARGUMENT", "FILE_NOT_FOUND", "OUTPUT_FAILED"],
                "spillDirectory",
                spillDirectory
            );
        }
    });
});

describe("a budget that is too small", () => {
    // 400 columns: one row of the result is 6.4 KiB, so that buffers alone take megabytes.
    const wide = (prefix: string, rows: number) =>
        tableFromArrays({
            [`${prefix}key`]: Int32Array.from({ length: rows }, (_, row) => row),
            ...Object.fromEntries(
                Array.from({ length: 400 }, (_, i) => [`${prefix}${i}`, new Float64Array(rows).fill(i)])
            )
        });

    async function join(host: string | number, work: (query: Query) => Promise<unknown>): Promise<unknown> {
        await using opened = await openRuntime({ threads: 2, memory: { host, spillDirectory: sandbox.spill } });
        const [left, right] = ["l", "r"].map((prefix) => opened.fromTable(wide(prefix, 1000)));
        return await work(opened.join({ left: left!, right: right!, on: { lkey: "rkey" } as never }));
    }
    const rowsOf = async (query: Query) => {
        let rows = 0;
        for await (const batch of query.batches()) rows += batch.numRows;
        return rows;
    };

    test("for any runtime is refused with the smallest", async () => {
        await expectError(() => join("1KiB", rowsOf), "INVALID_ARGUMENT", "memory.host", /at least 1 MiB/);
    });

    test.each(["1MiB", "2MiB", "3MiB"])("for a query (%s) fails with the smallest that will do", async (host) => {
        const error = await expectError(() => join(host, rowsOf), "BUDGET_TOO_SMALL", "memory.host", /at least/);
        expect(error.details).toMatchObject({ tier: "host", option: "memory.host" });
        expect(error.details["wantedBytes"]).toBeGreaterThan(error.details["freeBytes"] as number);
        expect(await join(error.details["wantedBytes"]!, rowsOf)).toBe(1000);
    });

    test("for a table in memory names the ways out", async () => {
        await using opened = await openRuntime({ threads: 2, memory: { host: "8MiB", spillDirectory: sandbox.spill } });
        const [left, right] = ["l", "r"].map((prefix) =>
            opened.fromTable(numericTable({ rows: 300_000, keys: 300_000, prefix }))
        );
        const run = () => opened.join({ left: left!, right: right!, on: { lkey: "rkey" } as never }).toTable();
        await expectError(run, "BUDGET_TOO_SMALL", "memory.host", /batches\(\)/, /toArrowFile\(\)/);
    });
});

describe("join refuses", () => {
    test.each([
        ["no left", { left: undefined }, "INVALID_ARGUMENT", /left/],
        ["a table as left", { left: people }, "INVALID_ARGUMENT", /left/, /relation/],
        ["no keys", { on: undefined }, "INVALID_ARGUMENT", /on/],
        ["an empty list of keys", { on: [] }, "INVALID_ARGUMENT", /on/],
        ["an empty map of keys", { on: {} }, "INVALID_ARGUMENT", /on/],
        ["a key that is a number", { on: [7] }, "INVALID_ARGUMENT", /on\[0\]/],
        ["an unknown key", { on: "idd" }, "UNKNOWN_COLUMN", /idd/, /id/],
        ["an unknown right key", { on: { id: "agee" } }, "UNKNOWN_COLUMN", /agee/, /right/, /age/],
        ["a key twice", { on: ["id", "id"] }, "DUPLICATE_COLUMN", /id/],
        ["keys of two kinds", { on: { id: "age" } }, "KEY_TYPE_MISMATCH", /Int32/, /Float64/, /vectorFromArray/],
        ["an unknown type", { type: "outer" }, "INVALID_ARGUMENT", /type/, /outer/, /full/],
        ["a misspelt option", { nullEqualty: true }, "INVALID_ARGUMENT", /nullEqualty/, /nullEquality/],
        ["NULL equality that is no boolean", { nullEquality: 1 }, "INVALID_ARGUMENT", /nullEquality/],
        ["an unknown selected column", { select: ["agee"] }, "UNKNOWN_COLUMN", /agee/, /age/],
        ["a selected column twice", { select: ["age", "age"] }, "DUPLICATE_COLUMN", /age/],
        ["a selection that is no list", { select: "age" }, "INVALID_ARGUMENT", /select/],
        ["a suffix that clashes", { suffix: "" }, "DUPLICATE_COLUMN", /age/, /suffix/],
        ["a hint of NaN rows", { hints: { resultRows: NaN } }, "INVALID_ARGUMENT", /hints\.resultRows/, /NaN/],
        ["an unknown hint", { hints: { buildside: "left" } }, "INVALID_ARGUMENT", /buildside/, /buildSide/],
        ["an unknown build side", { hints: { buildSide: "small" } }, "INVALID_ARGUMENT", /buildSide/, /small/],
        ["a page size that is no power of two", { debug: { pageBytes: 5000 } }, "INVALID_ARGUMENT", /debug\.pageBytes/]
    ] as [string, Record<string, unknown>, "INVALID_ARGUMENT", ...RegExp[]][])(
        "%s",
        async (_, options, code, ...words) => {
            await expectError(joinWith(options), code, ...words);
        }
    );

    test("a text key against a number", async () => {
        const right = runtime.fromTable(texts);
        await expectError(joinWith({ right }), "KEY_TYPE_MISMATCH", /id/, /Int32/, /Utf8/);
    });

    test("nested keys", async () => {
        const type = new List(new Field("item", new Int32(), true));
        const schema = new Schema([new Field("id", type, true)]);
        const children = [buildData(type, [[1n], [2n]])];
        const struct = makeData({ type: new Struct(schema.fields), length: 2, nullCount: 0, children });
        const nested = runtime.fromTable(new Table(schema, [new RecordBatch(schema, struct)]));
        await expectError(joinWith({ left: nested, right: nested }), "UNSUPPORTED_TYPE", /id/, /List/);
    });

    test("a relation of another runtime", async () => {
        const other = await openRuntime({ memory: { host: "64MiB", spillDirectory: sandbox.spill } });
        try {
            await expectError(joinWith({ right: other.fromTable(people) }), "INVALID_ARGUMENT", /runtime/);
        } finally {
            await other.close();
        }
    });

    test("wrong run options", async () => {
        const query = runtime.join({ left: runtime.fromTable(people), right: runtime.fromTable(people), on: "id" });
        const run = (options: unknown) => () => query.toTable(options as never);
        await expectError(run({ signall: 1 }), "INVALID_ARGUMENT", /signall/, /signal/);
        await expectError(run({ signal: {} }), "INVALID_ARGUMENT", /signal/, /AbortSignal/);
        await expectError(run({ onProgress: true }), "INVALID_ARGUMENT", /onProgress/, /function/);
        for (const batchRows of [0, -1, NaN, 1.5, "9", Infinity]) {
            await expectError(run({ batchRows }), "INVALID_ARGUMENT", /batchRows/);
        }
        await expectError(() => query.toArrowFile(undefined as never), "INVALID_ARGUMENT", /path/);
    });
});

describe("groupBy refuses", () => {
    test.each([
        ["neither keys nor aggregates", {}, "INVALID_ARGUMENT", /keys/, /aggregates/],
        ["an unknown key", { keys: ["idd"] }, "UNKNOWN_COLUMN", /idd/, /id/],
        ["a key twice", { keys: ["id", "id"] }, "DUPLICATE_COLUMN", /id/],
        ["an unknown aggregate", { aggregates: { a: { summ: "age" } } }, "INVALID_ARGUMENT", /summ/, /sum/],
        ["an unknown column", { aggregates: { a: { sum: "agee" } } }, "UNKNOWN_COLUMN", /agee/, /age/],
        [
            "two aggregates in one",
            { aggregates: { a: { sum: "age", min: "age" } } },
            "INVALID_ARGUMENT",
            /aggregates\.a/
        ],
        ["an alias that is a key", { keys: ["id"], aggregates: { id: { sum: "age" } } }, "DUPLICATE_COLUMN", /id/],
        ["sum of everything", { aggregates: { a: { sum: "*" } } }, "UNKNOWN_COLUMN", /\*/],
        ["a misspelt option", { key: ["id"] }, "INVALID_ARGUMENT", /key/, /keys/],
        ["a hint of NaN groups", { keys: ["id"], hints: { groups: NaN } }, "INVALID_ARGUMENT", /hints\.groups/, /NaN/]
    ] as [string, unknown, "INVALID_ARGUMENT", ...RegExp[]][])("%s", async (_, options, code, ...words) => {
        await expectError(groupWith(options), code, ...words);
    });

    test("sums of text", async () => {
        const query = async () =>
            runtime
                .fromTable(texts)
                .groupBy({ aggregates: { a: { sum: "note" } } })
                .count();
        await expectError(query, "UNSUPPORTED_TYPE", /sum/, /note/, /Utf8/);
    });

    test.each([
        ["lists", new List(new Field("item", new Int32(), true)), [[1], [2, 3]], /nested/],
        ["intervals", new IntervalYearMonth(), [1, 2], /intervals/]
    ] as const)("the least of a dictionary of %s, as of %s themselves", async (_, type, values, reason) => {
        for (const column of [type, new Dictionary(type as DataType, new Int8(), 1)] as DataType[]) {
            const table = new Table({ v: makeVector(buildData(column, values as readonly PlainValue[])) });
            for (const kind of ["min", "max"]) {
                const query = async () =>
                    loose()["groupBy"]!(runtime.fromTable(table), { aggregates: { a: { [kind]: "v" } } }).count();
                await expectError(query, "UNSUPPORTED_TYPE", new RegExp(kind), reason);
            }
        }
    });

    test("the mean of decimals of a scale that is none, and nothing else of them", async () => {
        for (const scale of [77, -(2 ** 16)]) {
            const values = makeVector(buildData(new Decimal(scale, 38, 128), [1n, 2n]));
            const relation = runtime.fromTable(new Table({ v: values }));
            const run = (kind: "mean" | "first" | "min") => async () =>
                loose()["groupBy"]!(relation, { aggregates: { a: { [kind]: "v" } } }).count();
            await expectError(run("mean"), "UNSUPPORTED_TYPE", /mean/, /scale/);
            expect(await Promise.all([run("first")(), run("min")()])).toEqual([1, 1]);
        }
    });

    test("an integer sum that leaves 64 bits", async () => {
        const big = tableFromArrays({ v: BigInt64Array.of(2n ** 62n, 2n ** 62n, 2n ** 62n) });
        const query = runtime.fromTable(big).groupBy({ aggregates: { total: { sum: "v" } } });
        await expectError(() => query.toTable(), "INTEGER_OVERFLOW", /total|v|sum/);
    });
});
