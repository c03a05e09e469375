// SPDX-License-Identifier: Apache-2.0
// The tables of benchmarks that `generate` makes, from the engine to files and tables: whole and in parts, as plain
// text and as dictionaries, with keys that have their partners. What the rows hold is tested in
// test/native/generate_tables_test.cpp.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { tableFromIPC, type Table } from "apache-arrow";
import { benchmarkTables, openRuntime, type GenerateOptions, type Relation, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

type Benchmark = keyof typeof benchmarkTables;
type More = Partial<{ dictionary: boolean; part: number; parts: number; batchRows: number; seed: number }>;

const scale = 0.002;
const allTables = Object.entries(benchmarkTables).flatMap(([benchmark, tables]) =>
    tables.map((table) => [benchmark as Benchmark, table] as const)
);

let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 2, memory: { host: "128MiB", spillDirectory: sandbox.spill } });
});
afterAll(async () => {
    await runtime.close();
    sandbox[Symbol.dispose]();
});

const optionsOf = (benchmark: Benchmark, table: string, more: More = {}) =>
    ({ benchmark, table, scale, ...more }) as GenerateOptions;

let files = 0;
async function fileOf(by: Runtime, options: GenerateOptions): Promise<{ path: string; relation: Relation }> {
    const path = sandbox.path(`${files++}.arrow`);
    return { path, relation: await by.generate(options, { path }) };
}

const tableOf = (path: string): Table => tableFromIPC(readFileSync(path));
const rowsOf = (table: Table): string[] => rowTexts(cellTable(table));
const hashOf = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");

describe.each(allTables)("%s %s", (benchmark, table) => {
    test("is the same in a file and in memory, and whoever makes it", async () => {
        const { path, relation } = await fileOf(runtime, optionsOf(benchmark, table, { batchRows: 1000 }));
        const rows = rowsOf(tableOf(path));
        expect(relation.rows).toBe(rows.length);
        expect(rows.length).toBeGreaterThan(0);
        const inMemory = await runtime.generate(optionsOf(benchmark, table), "memory");
        expect(inMemory.rows).toBe(rows.length);
        const alone = await openRuntime({ threads: 1, memory: { host: "64MiB", spillDirectory: sandbox.spill } });
        try {
            const again = await fileOf(alone, optionsOf(benchmark, table, { batchRows: 1000 }));
            expect(hashOf(again.path)).toBe(hashOf(path));
            const other = await fileOf(alone, optionsOf(benchmark, table, { batchRows: 77 }));
            expect(rowsOf(tableOf(other.path))).toEqual(rows);
        } finally {
            await alone.close();
        }
    });

    test("has the same values in dictionaries", async () => {
        const plain = await fileOf(runtime, optionsOf(benchmark, table));
        const encoded = await fileOf(runtime, optionsOf(benchmark, table, { dictionary: true }));
        expect(rowsOf(tableOf(encoded.path))).toEqual(rowsOf(tableOf(plain.path)));
        expect(String(encoded.relation.schema)).toBe(String(tableOf(encoded.path).schema));
    });

    test.each([2, 3, 40])("is that of %i parts together", async (parts) => {
        const whole = await fileOf(runtime, optionsOf(benchmark, table));
        const rows: string[] = [];
        const paths: string[] = [];
        for (let part = 1; part <= parts; part++) {
            const dictionary = part % 2 === 0; // equal values either way
            const { path } = await fileOf(runtime, optionsOf(benchmark, table, { part, parts, dictionary }));
            const made = tableOf(path);
            expect(made.schema.names).toEqual(tableOf(whole.path).schema.names);
            rows.push(...rowsOf(made));
            if (!dictionary) paths.push(path);
        }
        expect(rows).toEqual(rowsOf(tableOf(whole.path)));
        const relation = await runtime.fromArrowFile(paths);
        expect(relation.rows).toBeLessThan(rows.length + 1);
    });
});

describe("dictionaries in memory", () => {
    test("have all values, also those that no row has", async () => {
        const nation = await runtime.generate(
            { table: "nation", scale, dictionary: true, part: 1, parts: 25 },
            "memory"
        );
        const region = await runtime.generate({ table: "region", scale, dictionary: true }, "memory");
        const joined = await runtime
            .join({ left: region, right: nation, on: { r_regionkey: "n_regionkey" } })
            .toTable();
        expect(joined.numRows).toBe(1);
        expect(joined.getChild("n_name")?.get(0)).toBe("ALGERIA");
        expect(joined.getChild("r_name")?.get(0)).toBe("AFRICA");
        expect(joined.getChild("n_name")?.data[0]?.dictionary?.length).toBe(25);
    });
});

describe("every foreign key has its partner", () => {
    const foreignKeys: readonly [Benchmark, string, string, Record<string, string>][] = [
        ["tpch", "nation", "region", { n_regionkey: "r_regionkey" }],
        ["tpch", "supplier", "nation", { s_nationkey: "n_nationkey" }],
        ["tpch", "customer", "nation", { c_nationkey: "n_nationkey" }],
        ["tpch", "partsupp", "part", { ps_partkey: "p_partkey" }],
        ["tpch", "partsupp", "supplier", { ps_suppkey: "s_suppkey" }],
        ["tpch", "orders", "customer", { o_custkey: "c_custkey" }],
        ["tpch", "lineitem", "orders", { l_orderkey: "o_orderkey" }],
        ["tpch", "lineitem", "partsupp", { l_partkey: "ps_partkey", l_suppkey: "ps_suppkey" }],
        ["ssb", "lineorder", "customer", { lo_custkey: "c_custkey" }],
        ["ssb", "lineorder", "supplier", { lo_suppkey: "s_suppkey" }],
        ["ssb", "lineorder", "part", { lo_partkey: "p_partkey" }],
        ["ssb", "lineorder", "date", { lo_orderdate: "d_datekey" }],
        ["ssb", "lineorder", "date", { lo_commitdate: "d_datekey" }]
    ];
    test.each(foreignKeys)("%s: %s refers to %s", async (benchmark, from, to, on) => {
        const left = await runtime.generate(optionsOf(benchmark, from), "memory");
        const right = await runtime.generate(optionsOf(benchmark, to), "memory");
        const join = { left, right, on } as Parameters<Runtime["join"]>[0];
        expect(await runtime.join({ ...join, type: "anti" }).count()).toBe(0);
        expect(await runtime.join({ ...join, type: "semi" }).count()).toBe(left.rows);
    });
});
