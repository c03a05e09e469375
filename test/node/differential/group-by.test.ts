// SPDX-License-Identifier: Apache-2.0
// Generated group-bys through the public API, in every suite mode, against the reference.
import { openRuntime, type RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { groupCase, type GroupCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { expectedGroups, expectSameGroups, suiteModes, sumOverflows } from "../../support/engine.js";
import { forSeeds } from "../../support/random.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

const seedsPerMode = 25;

const modes: Record<string, RuntimeOptions> = {
    ...Object.fromEntries(Object.entries(suiteModes).filter(([, { debug }]) => debug?.algorithm === undefined)),
    hash: { debug: { algorithm: "hash", workers: 4, morselRows: 50 } },
    partitioned: { debug: { algorithm: "partitioned", workers: 4, morselRows: 50 } },
    "partitioned and spilled": {
        ...knobs({ algorithm: "partitioned", forceSpill: true, pageBytes: 1024, radixBits: 5, workers: 2 })
    }
};

async function checkGroups(groups: GroupCase, options: RuntimeOptions): Promise<void> {
    const runtime = await openRuntime(options);
    try {
        const aggregates = Object.fromEntries(
            groups.aggregates.map(({ alias, kind, column }) => [alias, { [kind]: column }])
        ) as Record<string, { count: string }>;
        const query = runtime.groupBy(runtime.fromTable(groups.table), { keys: [...groups.keys], aggregates });
        const expected = expectedGroups(groups);
        if (sumOverflows(groups, expected)) {
            await expect(query.toTable(), groups.text).rejects.toMatchObject({ code: "INTEGER_OVERFLOW" });
            return;
        }
        expectSameGroups(cellTable(await query.toTable()), expected, groups);
        expect(await query.count(), `count of ${groups.text}`).toBe(expected.length);
    } finally {
        await runtime.close();
    }
}

describe.each(Object.entries(modes))("group-bys: %s", (name, options) => {
    test("equal the reference", async () => {
        const first = 50_000 + 1000 * Object.keys(modes).indexOf(name);
        await forSeeds(first, seedsPerMode, async (random) => {
            using sandbox = new Sandbox();
            const memory = { host: "256MiB", ...options.memory, spillDirectory: sandbox.spill };
            await checkGroups(groupCase(random), { threads: 2, ...options, memory });
            await sandbox.expectClean();
        });
    });
});
