// SPDX-License-Identifier: Apache-2.0
// Generated joins and group-bys with a limit, in every suite mode: as many rows as were asked for, all of them rows of
// the result without a limit.
import { readFileSync } from "node:fs";
import { Table, tableFromIPC, type RecordBatch } from "apache-arrow";
import { openRuntime, type Query, type Relation, type Runtime } from "spillway";
import { describe, expect, test } from "vitest";
import { groupCase, joinCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { expectedGroups, expectedJoin, joinedRows, suiteModes, sumOverflows } from "../../support/engine.js";
import { forSeeds, type Random } from "../../support/random.js";
import { Sandbox } from "../../support/sandbox.js";

const seedsPerMode = 16;

/** Each row of the one is one of the other, and comes no more often. */
function expectSomeOf(some: readonly string[], all: readonly string[], what: string): void {
    const left = new Map<string, number>();
    for (const row of all) left.set(row, (left.get(row) ?? 0) + 1);
    for (const row of some) {
        const count = left.get(row) ?? 0;
        if (count === 0) throw new Error(`${what}: no such row, or too often: ${row.slice(0, 400)}`);
        left.set(row, count - 1);
    }
}

function relation(random: Random, runtime: Runtime, table: Table): Relation {
    if (random.chance(0.7)) return runtime.fromTable(table);
    return runtime.fromBatches(table.schema, async function* () {
        yield* table.batches;
    });
}

/** The result by one of the ways it goes out. */
async function results(random: Random, query: Query, sandbox: Sandbox): Promise<Table> {
    const way = random.below(3);
    if (way === 0) return query.toTable();
    if (way === 1) {
        const batches: RecordBatch[] = [];
        for await (const batch of query.batches({ batchRows: random.pick([1, 100, 5000]) })) batches.push(batch);
        return new Table(query.schema, batches);
    }
    const path = sandbox.path("output.arrow");
    await query.toArrowFile(path, { overwrite: true });
    return tableFromIPC(readFileSync(path));
}

const limitOf = (random: Random, rows: number): number =>
    random.pick([0, 1, 2, 7, Math.floor(rows / 2), rows, rows + 1, Number.MAX_SAFE_INTEGER]);

async function checkJoin(random: Random, runtime: Runtime, sandbox: Sandbox): Promise<void> {
    const drawn = joinCase(random);
    const { on, type, nullEquality, text } = drawn;
    const [left, right] = [relation(random, runtime, drawn.left), relation(random, runtime, drawn.right)];
    const query = runtime.join({ left, right, on: Object.fromEntries(on), type, nullEquality });
    const expected = expectedJoin(drawn);
    const limit = limitOf(random, expected.rows.length);
    const what = `${limit} rows of a ${text}`;
    const limited = query.limit(limit);
    const result = await results(random, limited, sandbox);
    expect(result.schema.fields.map((field) => field.name)).toEqual(expected.names);
    expect(result.numRows, what).toBe(Math.min(limit, expected.rows.length));
    expect(limited.report()?.rowsOut, what).toBe(result.numRows);
    expectSomeOf(joinedRows(cellTable(result), drawn), expected.rows, what);
    expect(await limited.count(), `count of ${what}`).toBe(result.numRows);
}

/** Sums that overflow may fail, or be among the groups that nobody asked for. */
async function checkGroups(random: Random, runtime: Runtime, sandbox: Sandbox): Promise<void> {
    const drawn = groupCase(random);
    const groups = expectedGroups(drawn);
    if (sumOverflows(drawn, groups)) return;
    const input = relation(random, runtime, drawn.table);
    const aggregates = { rows: { count: "*" } } as const;
    const query = runtime.groupBy(input, { keys: [...drawn.keys], aggregates } as object);
    const all = await query.toTable();
    const limit = limitOf(random, all.numRows);
    const limited = query.limit(limit);
    const result = await results(random, limited, sandbox);
    expect(result.numRows, drawn.text).toBe(Math.min(limit, groups.length));
    const rowsOf = (table: Table): string[] => joinedRows(cellTable(table), { ...joinCase(random), on: [] });
    expectSomeOf(rowsOf(result), rowsOf(all), drawn.text);
    expect(await limited.count(), drawn.text).toBe(result.numRows);
}

describe.each(Object.entries(suiteModes))("limits: %s", (name, options) => {
    test.each([
        ["joins", checkJoin],
        ["group-bys", checkGroups]
    ] as const)("%s give as many rows of their result", async (what, check) => {
        const first = 700_000 + 1000 * Object.keys(suiteModes).indexOf(name) + (what === "joins" ? 0 : 500);
        await forSeeds(first, seedsPerMode, async (random) => {
            using sandbox = new Sandbox();
            const memory = { host: "256MiB", ...options.memory, spillDirectory: sandbox.spill };
            const runtime = await openRuntime({ threads: 2, ...options, memory });
            try {
                await check(random, runtime, sandbox);
            } finally {
                await runtime.close();
            }
            await sandbox.expectClean();
        });
    });
});
