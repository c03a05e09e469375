// SPDX-License-Identifier: Apache-2.0
// What DuckDB runs beside the queries larger than GPU memory, from Node: SQL for each, over tables of the same shape.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import * as duckdb from "@duckdb/node-api";
import { DataType, type Schema } from "apache-arrow";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";
import { checkGenerateOptions } from "../../../src/runtime/generate-options.js";
import { generatedSchema } from "../../../src/runtime/generate.js";

type Result = "count" | "table" | "batches" | "file";
interface Query {
    name: string;
    query: unknown;
    run: (query: unknown) => Promise<number | bigint>;
}
interface Runtime {
    close: () => Promise<void>;
}
interface Measured {
    version: string;
    queries: Map<string, { samples_ms: number[]; rows: number }>;
}
const bench = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench", file))) as T;
const { queriesOf, tableNames } = await bench<{
    queriesOf: (relations: object, output: string) => Query[];
    tableNames: string[];
}>("node-auto-queries.mjs");
type MakeQueries = (runtime: object, bits: number) => Promise<Query[]>;
const { largeQueries, wideQueries } = await bench<{ largeQueries: MakeQueries; wideQueries: MakeQueries }>(
    "node-generated-queries.mjs"
);
const { duckdbQuery } = await bench<{ duckdbQuery: (name: string) => { result: Result; sql: string } }>(
    "node-duckdb-queries.mjs"
);
type MakeTables = (size: number) => string[];
const { suiteTables, largeTables, wideTables } =
    await bench<Record<`${"suite" | "large" | "wide"}Tables`, MakeTables>>("node-duckdb-tables.mjs");
type Measure = (engine: object, tables: string[], names: string[], options: object) => Promise<Measured>;
const { measureDuckdb } = await bench<{ measureDuckdb: Measure }>("node-duckdb.mjs");
const { zipfShare } = await bench<{ zipfShare: (zipf: number, keys: number) => number }>("model-shapes.mjs");

interface BuiltTables {
    generateTables: (options: object) => Promise<void>;
    openTables: (runtime: Runtime, options: object) => Promise<object>;
}
const [scale, bits] = [0.01, 14];

describe("SQL", () => {
    /** Relations and queries of nothing: their methods give others. */
    const nothing: object = new Proxy({}, { get: (_, name) => (name === "then" ? undefined : () => nothing) });

    test("is there for every query of all sets, and its result goes where that of the query goes", async () => {
        const suite = queriesOf(Object.fromEntries(tableNames.map((name) => [name, nothing])), "");
        const sets = [suite, await largeQueries(nothing, bits), await wideQueries(nothing, bits)];
        expect(sets.map((queries) => queries.length)).toEqual([30, 5, 12]);
        for (const { name, run } of sets.flat()) {
            expect([name, duckdbQuery(name).result]).toEqual([name, run.name]);
        }
    });

    test("that is missing is an error", () => {
        expect(() => duckdbQuery("orders by moon")).toThrow("Expected SQL for 'orders by moon'");
    });
});

describe("DuckDB", () => {
    let sandbox: Sandbox;
    beforeEach(() => {
        sandbox = new Sandbox();
        vi.spyOn(process.stderr, "write").mockReturnValue(true);
    });
    afterEach(() => {
        vi.restoreAllMocks();
        sandbox[Symbol.dispose]();
    });

    /** As many rows of each query as Spillway has: few groups exactly, others by the same law of other numbers. */
    async function expectSameShape(queries: Query[], tables: string[]): Promise<void> {
        const names = queries.map(({ name }) => name);
        const { version, queries: measured } = await measureDuckdb(duckdb, tables, names, {
            ...{ folder: sandbox.folder, samples: 1 }
        });
        expect(version).toMatch(/^v\d+\.\d+/);
        expect([...measured.keys()]).toEqual(names);
        for (const { name, query, run } of queries) {
            const expected = Number(await run(query));
            const { rows, samples_ms: times } = measured.get(name)!;
            expect(times).toHaveLength(1);
            const apart = Math.abs(rows - expected) / expected;
            expect([name, rows, expected, apart <= (expected <= 400 ? 0 : 0.08)]).toEqual([name, rows, expected, true]);
        }
    }

    test("has tables of the same shape as Spillway's", async () => {
        const { openRuntime } = (await import(join(repositoryRoot, "dist/index.js"))) as {
            openRuntime: (options: object) => Promise<Runtime>;
        };
        const { generateTables, openTables } = await bench<BuiltTables>("node-suite-tables.mjs");
        const files = { folder: sandbox.folder, scale };
        await generateTables(files);
        const runtime = await openRuntime({ device: "cpu", memory: { host: "1GiB" } });
        try {
            const suite = queriesOf(await openTables(runtime, files), sandbox.path("result.arrow"));
            await expectSameShape(suite, suiteTables(scale));
            await expectSameShape(await largeQueries(runtime, bits), largeTables(bits));
            await expectSameShape(await wideQueries(runtime, bits), wideTables(bits));
        } finally {
            await runtime.close();
        }
    });

    async function withTables(
        tables: string[],
        check: (rows: (sql: string) => Promise<duckdb.DuckDBValue[][]>) => Promise<void>
    ): Promise<void> {
        const instance = await duckdb.DuckDBInstance.create(":memory:", { threads: "2" });
        const connection = await instance.connect();
        for (const sql of tables) await connection.run(sql);
        await check(async (sql) => (await connection.runAndReadAll(sql)).getRows());
        connection.closeSync();
        instance.closeSync();
    }

    const typeOf = (type: DataType): string => {
        if (DataType.isInt(type)) return type.bitWidth === 64 ? "BIGINT" : "INTEGER";
        if (DataType.isDecimal(type)) return `DECIMAL(${type.precision},${type.scale})`;
        return DataType.isDate(type) ? "DATE" : "VARCHAR";
    };

    test("has columns of the same types, and lines in the order of their orders", async () => {
        await withTables(suiteTables(scale), async (rows) => {
            for (const table of ["orders", "lineitem"]) {
                const schema: Schema = generatedSchema(checkGenerateOptions({ table, scale }));
                const expected = new Map(schema.fields.map(({ name, type }) => [name, typeOf(type)]));
                const found = await rows(`SELECT column_name, column_type FROM (DESCRIBE ${table})`);
                expect(found.length).toBeGreaterThan(5);
                expect(found).toEqual(found.map(([name]) => [name, expected.get(name as string)]));
            }
            const lag = "lag(l_orderkey, 1, 0) OVER (ORDER BY rowid) AS before";
            const inOrder = `SELECT bool_and(before <= l_orderkey) FROM (SELECT l_orderkey, ${lag} FROM lineitem)`;
            expect(await rows(inOrder)).toEqual([[true]]);
        });
    });

    test("has keys by Zipf's law", async () => {
        const keys = 2 ** bits;
        await withTables(wideTables(bits), async (rows) => {
            for (const [table, zipf] of [
                ["facts_zipf_1", 1],
                ["facts_zipf_1_5", 1.5]
            ] as const) {
                const counts = `SELECT count(*) AS n FROM ${table} GROUP BY k ORDER BY n DESC`;
                const [[all]] = (await rows(`SELECT count(*) FROM ${table}`)) as [[bigint]];
                const [[first], [second]] = (await rows(counts)) as [[bigint], [bigint]];
                expect(Number(all)).toBe(keys);
                // Within four standard deviations.
                for (const [found, share] of [
                    [first, zipfShare(zipf, keys)],
                    [second, zipfShare(zipf, keys) * 2 ** -zipf]
                ] as const) {
                    expect(Math.abs(Number(found) - keys * share)).toBeLessThan(4 * Math.sqrt(keys * share));
                }
            }
        });
    });
});

test("DuckDB is on or off", () => {
    const file = join(repositoryRoot, "test/bench/node-out-of-core.mjs");
    const { status, stderr } = spawnSync(process.execPath, [file, "--duckdb", "maybe"], { encoding: "utf8" });
    expect([status, stderr]).toEqual([1, expect.stringContaining("for --duckdb but received 'maybe'")]);
});
