// SPDX-License-Identifier: Apache-2.0
// Generated joins of two relations larger than GPU memory, on the plugin of plain C++, against the reference join:
// every type of join and of key, files and streams among the relations, NULLs that are equal, sides without rows.
import type { Table } from "apache-arrow";
import { openRuntime, SpillwayError, type Relation, type Runtime } from "spillway";
import { expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { joinCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { expectedJoin, joinedRows } from "../../support/engine.js";
import { hasViews } from "../../support/domains.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { forSeeds, runsUsualSeeds, type Random } from "../../support/random.js";
import { expectSameRows } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

/** Columns of streams alone, and a result of no columns, cannot be there. */
const refused = /of the stream `|a result without columns|dictionary of the stream/;

/** A file holds one dictionary per column, and no views. */
function fitsFile({ batches, schema }: Table): boolean {
    const hasDictionary = schema.fields.some(({ type }) => String(type).includes("Dictionary"));
    return !schema.fields.some(({ type }) => hasViews(type)) && (batches.length <= 1 || !hasDictionary);
}

async function relation(random: Random, runtime: Runtime, table: Table, sandbox: Sandbox): Promise<Relation> {
    if (random.chance(0.4) && fitsFile(table)) return await runtime.fromArrowFile(sandbox.write(table));
    if (random.chance(0.75)) return runtime.fromTable(table);
    return runtime.fromBatches(table.schema, async function* () {
        yield* await Promise.resolve(table.batches);
    });
}

test("joins beyond GPU memory equal the reference", { timeout: 240_000 }, async () => {
    const ran = new Map<string, number>();
    const count = (what: string): void => void ran.set(what, (ran.get(what) ?? 0) + 1);
    await forSeeds(70_000, 120, async (random) => {
        using sandbox = new Sandbox();
        const tier = random.pick([
            { residentShare: 1, radixBits: 0 },
            { residentShare: 0.4, radixBits: 3 },
            { residentShare: 0, radixBits: 2, hostSpillBytes: 4096 }
        ]);
        const memory = { host: "256MiB", device: "96MiB", spillDirectory: sandbox.spill };
        const turned = knobs({ outOfCore: true, chunkRows: random.pick([64, 256]), ...tier });
        const runtime = await openRuntime({ device: "gpu", threads: 2, memory, ...turned });
        try {
            const drawn = joinCase(random);
            const { on, type, nullEquality, text } = drawn;
            const left = await relation(random, runtime, drawn.left, sandbox);
            const right = await relation(random, runtime, drawn.right, sandbox);
            const hints = { buildSide: random.pick(["left", "right"] as const) };
            const query = runtime.join({ left, right, on: Object.fromEntries(on), type, nullEquality, hints });
            const expected = expectedJoin(drawn);
            const { layout } = (await query.explain()).plan.stages[0] as OutOfCoreStage;
            expectSameRows(joinedRows(cellTable(await query.toTable()), drawn), expected.rows, text);
            expect(await query.count(), `count of ${text}`).toBe(expected.rows.length);
            count(layout.keys);
        } catch (error) {
            if (!(error instanceof SpillwayError) || !refused.test(error.message)) throw error;
            count("refused");
        } finally {
            await runtime.close();
        }
    });
    if (!runsUsualSeeds) return;
    // A fuzzer that draws none of these tests less than it says.
    for (const keys of ["packed", "numbered"]) expect(ran.get(keys), keys).toBeDefined();
    expect(ran.get("refused") ?? 0).toBeLessThan(40);
});
