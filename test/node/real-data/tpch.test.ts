// SPDX-License-Identifier: Apache-2.0
// TPC-H tables, every column of them: results equal DuckDB's row for row.
// The tables in test/fixtures/tpch are cut from scale factor 0.01; SPILLWAY_TPCH_DIR names a folder with whole ones.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { tableFromIPC, type Table } from "apache-arrow";
import { openRuntime, type Runtime, type RuntimeOptions } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellTable, type CellTable } from "../../support/cells.js";
import { DuckDB } from "../../support/duckdb.js";
import { rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

const tables = ["customer", "orders", "lineitem", "part", "partsupp", "nation"] as const;
const own = join(repositoryRoot, "test/fixtures/tpch");
const whole = process.env["SPILLWAY_TPCH_DIR"];
const folders = [own, ...(whole !== undefined && existsSync(whole) ? [whole] : [])];

const modes: Record<string, RuntimeOptions> = {
    "in memory": {},
    spilled: { memory: { host: "32MiB" }, debug: { forceSpill: true, pageBytes: 16384 } }
};

function sorted(table: CellTable): string[] {
    return rowTexts(table).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

describe.each(folders)("tables of %s", (folder) => {
    const path = (name: string) => join(folder, `${name}.arrow`);
    let duckdb: DuckDB;

    beforeAll(async () => {
        duckdb = await DuckDB.open();
        for (const name of tables) await duckdb.load(name, tableFromIPC(readFileSync(path(name))));
    }, 120_000);
    afterAll(async () => {
        await duckdb[Symbol.asyncDispose]();
    });

    async function expectSame(
        options: RuntimeOptions,
        sql: string,
        query: (runtime: Runtime) => Promise<{ toArrowFile(path: string): Promise<number>; toTable(): Promise<Table> }>
    ): Promise<void> {
        using sandbox = new Sandbox();
        const memory = { ...options.memory, spillDirectory: sandbox.spill };
        const runtime = await openRuntime({ threads: 2, ...options, memory });
        const file = join(sandbox.output, "result.arrow");
        try {
            const built = await query(runtime);
            const expected = sorted(await duckdb.query(sql));
            expect(expected.length).toBeGreaterThan(0);
            expect(sorted(cellTable(await built.toTable()))).toEqual(expected);
            expect(await built.toArrowFile(file)).toBe(expected.length);
            expect(sorted(cellTable(tableFromIPC(readFileSync(file))))).toEqual(expected);
        } finally {
            await runtime.close();
        }
        await sandbox.expectClean([file]);
    }

    describe.each(Object.entries(modes))("%s", (_, options) => {
        test("orders x lineitem, all columns", async () => {
            await expectSame(
                options,
                "SELECT o.* EXCLUDE (row), l.* EXCLUDE (row) FROM orders o JOIN lineitem l ON o_orderkey = l_orderkey",
                async (runtime) =>
                    runtime.join({
                        left: await runtime.fromArrowFile(path("orders")),
                        right: await runtime.fromArrowFile(path("lineitem")),
                        on: { o_orderkey: "l_orderkey" }
                    })
            );
        });

        test("customer x orders x lineitem, grouped by market segment", async () => {
            const sql =
                "SELECT c_mktsegment, count(*), sum(l_extendedprice), max(l_quantity), min(o_orderdate), " +
                "count(DISTINCT o_orderkey) FROM customer JOIN orders ON c_custkey = o_custkey " +
                "JOIN lineitem ON o_orderkey = l_orderkey GROUP BY c_mktsegment";
            await expectSame(options, sql, async (runtime) => {
                const customer = await runtime.fromArrowFile(path("customer"));
                const orders = await runtime.fromArrowFile(path("orders"));
                const lineitem = await runtime.fromArrowFile(path("lineitem"));
                return customer
                    .join(orders, { on: { c_custkey: "o_custkey" } })
                    .join(lineitem, { on: { o_orderkey: "l_orderkey" } })
                    .groupBy({
                        keys: ["c_mktsegment"],
                        aggregates: {
                            lines: { count: "*" },
                            revenue: { sum: "l_extendedprice" },
                            largest: { max: "l_quantity" },
                            first: { min: "o_orderdate" },
                            orders: { countDistinct: "o_orderkey" }
                        }
                    });
            });
        });

        test("partsupp x lineitem on two keys", async () => {
            const sql =
                "SELECT ps.* EXCLUDE (row), l.* EXCLUDE (row) FROM partsupp ps JOIN lineitem l " +
                "ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey";
            await expectSame(options, sql, async (runtime) =>
                runtime.join({
                    left: await runtime.fromArrowFile(path("partsupp")),
                    right: await runtime.fromArrowFile(path("lineitem")),
                    on: { ps_partkey: "l_partkey", ps_suppkey: "l_suppkey" }
                })
            );
        });

        test("part x partsupp, and the parts that no line item sells", async () => {
            const parts =
                "SELECT p.* EXCLUDE (row), ps.* EXCLUDE (row) FROM part p JOIN partsupp ps ON p_partkey = ps_partkey";
            await expectSame(options, parts, async (runtime) =>
                runtime.join({
                    left: await runtime.fromArrowFile(path("part")),
                    right: await runtime.fromArrowFile(path("partsupp")),
                    on: { p_partkey: "ps_partkey" }
                })
            );
            const pairs =
                "SELECT ps.* EXCLUDE (row) FROM partsupp ps ANTI JOIN lineitem " +
                "ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey";
            await expectSame(options, pairs, async (runtime) =>
                runtime.join({
                    left: await runtime.fromArrowFile(path("partsupp")),
                    right: await runtime.fromArrowFile(path("lineitem")),
                    on: { ps_partkey: "l_partkey", ps_suppkey: "l_suppkey" },
                    type: "anti"
                })
            );
        });

        test("every customer, with or without orders, and its nation's name", async () => {
            const sql =
                "SELECT c.* EXCLUDE (row), n.* EXCLUDE (row), o.* EXCLUDE (row) FROM customer c " +
                "JOIN nation n ON c_nationkey = n_nationkey LEFT JOIN orders o ON c_custkey = o_custkey";
            await expectSame(options, sql, async (runtime) => {
                const customer = await runtime.fromArrowFile(path("customer"));
                const nation = await runtime.fromArrowFile(path("nation"));
                const orders = await runtime.fromArrowFile(path("orders"));
                return customer
                    .join(nation, { on: { c_nationkey: "n_nationkey" } })
                    .join(orders, { on: { c_custkey: "o_custkey" }, type: "left" });
            });
        });
    });
});
