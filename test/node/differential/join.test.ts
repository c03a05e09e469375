// SPDX-License-Identifier: Apache-2.0
// Generated joins through the public API, in every suite mode, against the reference join.
import { readFileSync } from "node:fs";
import type { RecordBatch } from "apache-arrow";
import { Table, tableFromIPC } from "apache-arrow";
import { openRuntime, type Relation, type Runtime } from "spillway";
import { describe, expect, test } from "vitest";
import { joinCase, type JoinCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { hasViews } from "../../support/domains.js";
import { expectedJoin, joinedRows, suiteModes } from "../../support/engine.js";
import { forSeeds, runsOneSeed, type Random } from "../../support/random.js";
import { expectSameRows } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

const seedsPerMode = 16;

/** A file holds one dictionary per column; in memory and in a stream every batch may have its own. */
function hasOneDictionary(table: Table): boolean {
    const types = table.schema.fields.map((field) => String(field.type));
    return table.batches.length <= 1 || !types.some((type) => type.includes("Dictionary"));
}

/** The table by one of the ways a relation comes in. */
async function relation(random: Random, runtime: Runtime, table: Table, sandbox: Sandbox): Promise<Relation> {
    const way = random.below(3);
    const views = table.schema.fields.some((field) => hasViews(field.type));
    if (way === 0 && !views && hasOneDictionary(table)) return runtime.fromArrowFile(sandbox.write(table));
    if (way === 1) {
        const schema = table.schema;
        return runtime.fromBatches(schema, async function* () {
            yield* table.batches;
        });
    }
    return runtime.fromTable(table);
}

/** Returns the bytes that the join wrote to spill files. */
async function checkJoin(random: Random, runtime: Runtime, sandbox: Sandbox, joinCase: JoinCase): Promise<number> {
    const { on, type, nullEquality, text } = joinCase;
    const query = runtime.join({
        left: await relation(random, runtime, joinCase.left, sandbox),
        right: await relation(random, runtime, joinCase.right, sandbox),
        on: Object.fromEntries(on),
        ...{ type, nullEquality }
    });
    const expected = expectedJoin(joinCase);
    expect(query.schema.fields.map((field) => field.name)).toEqual(expected.names);
    const result = await results(random, query, sandbox);
    expect(result.schema.fields.map((field) => field.name)).toEqual(expected.names);
    const spilled = query.report()?.spilledBytes ?? 0;
    expectSameRows(joinedRows(cellTable(result), joinCase), expected.rows, text);
    expect(await query.count(), `count of ${text}`).toBe(expected.rows.length);
    return spilled;
}

/** The result by one of the ways it goes out. */
async function results(random: Random, query: ReturnType<Runtime["join"]>, sandbox: Sandbox): Promise<Table> {
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

describe.each(Object.entries(suiteModes))("joins: %s", (name, options) => {
    test("equal the reference", async () => {
        const first = 10_000 + 1000 * Object.keys(suiteModes).indexOf(name);
        let spilled = 0;
        await forSeeds(first, seedsPerMode, async (random) => {
            using sandbox = new Sandbox();
            const memory = { host: "256MiB", ...options.memory, spillDirectory: sandbox.spill };
            const runtime = await openRuntime({ threads: 2, ...options, memory });
            try {
                spilled += await checkJoin(random, runtime, sandbox, joinCase(random));
            } finally {
                await runtime.close();
            }
            await sandbox.expectClean();
        });
        // A mode that is meant to spill and does not would test nothing.
        if (options.debug?.forceSpill === true && !runsOneSeed) {
            expect(spilled).toBeGreaterThan(0);
        }
    });
});
