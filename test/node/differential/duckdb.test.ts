// SPDX-License-Identifier: Apache-2.0
// Larger generated relations against DuckDB, under budgets from tiny to ample; results compared by hash.
import { Field, Float64, Int32, Int64, makeData, RecordBatch, Schema, Struct, Table, Utf8 } from "apache-arrow";
import { openRuntime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildData } from "../../support/arrow-data.js";
import { cellTable } from "../../support/cells.js";
import { DuckDB } from "../../support/duckdb.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { Random } from "../../support/random.js";
import { hashRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

const leftRows = 30_000;
const rightRows = 50_000;
const types = { k: new Int64(), n: new Int32(), f: new Float64(), s: new Utf8() };

/** Keys drawn by `key`, an int, a float and a text that tell rows apart; batches of 10,007 rows. */
function relation(random: Random, prefix: string, rows: number, key: () => bigint): Table {
    const schema = new Schema(Object.entries(types).map(([name, type]) => new Field(prefix + name, type, true)));
    const batches: RecordBatch[] = [];
    for (let first = 0; first < rows; first += 10_007) {
        const length = Math.min(10_007, rows - first);
        const column = <T>(make: (row: number) => T) => Array.from({ length }, (_, i) => make(first + i));
        const children = [
            buildData(
                types.k,
                column(() => (random.chance(0.02) ? null : key()))
            ),
            buildData(
                types.n,
                column((row) => BigInt(row))
            ),
            buildData(
                types.f,
                column((row) => (row % 11 === 0 ? null : row / 4))
            ),
            buildData(
                types.s,
                column((row) => "x".repeat(row % 23) + String(row % 1000))
            )
        ];
        batches.push(
            new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length, nullCount: 0, children }))
        );
    }
    return new Table(schema, batches);
}

const random = new Random("relations for DuckDB");
const skewed = random.zipf(20_000, 0.6);
const left = relation(random, "l", leftRows, () => BigInt(random.below(25_000)) * 7n - 100_000n);
const right = relation(random, "r", rightRows, () => BigInt(skewed()) * 7n - 100_000n);

let duckdb: DuckDB;
const hashes = new Map<string, string>();
/** DuckDB's answer, asked once per query. */
async function expectedHash(sql: string): Promise<string> {
    const known = hashes.get(sql);
    if (known !== undefined) return known;
    const hash = hashRows(rowTexts(await duckdb.query(sql)));
    hashes.set(sql, hash);
    return hash;
}
beforeAll(async () => {
    duckdb = await DuckDB.open();
    await duckdb.load("l", left);
    await duckdb.load("r", right);
});
afterAll(async () => {
    await duckdb[Symbol.asyncDispose]();
});

const budgets = ["16MiB", "32MiB", "64MiB", "1GiB"];

/** Keys of 8 bytes and text, whose NULLs are equal: workers number them. */
test.each(["left", "right", "full", "semi", "anti"] as const)(
    "%s join on numbered keys beyond GPU memory",
    async (type) => {
        using sandbox = new Sandbox();
        const memory = { host: "256MiB", device: "96MiB", spillDirectory: sandbox.spill };
        const turned = knobs({ outOfCore: true, chunkRows: 4096, radixBits: 3, residentShare: 0.4 });
        const runtime = await openRuntime({ device: "gpu", threads: 2, memory, ...turned });
        try {
            const [l, r] = [runtime.fromTable(left), runtime.fromTable(right)];
            const query = runtime.join({ left: l, right: r, on: { lk: "rk", ls: "rs" }, type, nullEquality: true });
            const [stage] = (await query.explain()).plan.stages;
            expect(stage).toMatchObject({ kind: "deviceOutOfCoreJoin", layout: { keys: "numbered" } });
            const ofRight = type === "semi" || type === "anti" ? [] : ["rk", "rn", "rf", "rs"];
            const columns = ["lk", "ln", "lf", "ls", ...ofRight];
            const expected = await expectedHash(
                `SELECT ${columns.join(", ")} FROM l ${type.toUpperCase()} JOIN r ` +
                    "ON lk IS NOT DISTINCT FROM rk AND ls IS NOT DISTINCT FROM rs"
            );
            expect(hashRows(rowTexts(cellTable(await query.toTable()), columns))).toBe(expected);
        } finally {
            await runtime.close();
        }
        await sandbox.expectClean();
    }
);

describe.each(budgets)("with a budget of %s", (host) => {
    test.each(["inner", "left", "right", "full", "semi", "anti"] as const)("%s join", async (type) => {
        using sandbox = new Sandbox();
        const runtime = await openRuntime({ threads: 2, memory: { host, spillDirectory: sandbox.spill } });
        try {
            const query = runtime.join({
                left: runtime.fromTable(left),
                right: runtime.fromTable(right),
                on: { lk: "rk" },
                type
            });
            const columns = [
                "lk",
                "ln",
                "lf",
                "ls",
                ...(type === "semi" || type === "anti" ? [] : ["rk", "rn", "rf", "rs"])
            ];
            const expected = await expectedHash(
                `SELECT ${columns.join(", ")} FROM l ${type.toUpperCase()} JOIN r ON lk = rk`
            );
            const rows: string[] = [];
            for await (const batch of query.batches()) rows.push(...rowTexts(cellTable(new Table(batch)), columns));
            expect(hashRows(rows)).toBe(expected);
        } finally {
            await runtime.close();
        }
        await sandbox.expectClean();
    });

    test("join and group-by in one go", async () => {
        using sandbox = new Sandbox();
        const runtime = await openRuntime({ threads: 2, memory: { host, spillDirectory: sandbox.spill } });
        try {
            const query = runtime
                .join({ left: runtime.fromTable(left), right: runtime.fromTable(right), on: { lk: "rk" } })
                .groupBy({
                    keys: ["ls"],
                    aggregates: {
                        rows: { count: "*" },
                        total: { sum: "rn" },
                        low: { min: "lf" },
                        kinds: { countDistinct: "rk" }
                    }
                });
            const expected = await expectedHash(
                "SELECT ls, count(*), sum(rn), min(lf), count(DISTINCT rk) FROM l JOIN r ON lk = rk GROUP BY ls"
            );
            expect(hashRows(rowTexts(cellTable(await query.toTable())))).toBe(expected);
        } finally {
            await runtime.close();
        }
        await sandbox.expectClean();
    });
});
