// SPDX-License-Identifier: Apache-2.0
// What plans expect of trees of joins and group-bys, against what the trees give: nothing here depends on speeds.
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ssbQueries, tpchQueries, type WarehouseQuery } from "../../support/warehouse-queries.js";
import { ssb, tpch } from "../../support/warehouse.js";

/** Rows of joins and groups are expected within these factors of the truth, both ways. */
const [joinFactor, groupFactor] = [1.5, 2];
/** Of so few rows a drawn table has as many more or fewer as chance has it. */
const fewRows = 32;
/**
 * Relations of fewer than 16,384 rows are not sampled where no tree joins them with a larger one, nor are pairs of a
 * single join: a third of the customers have no orders, by which half as many rows again are expected of "q3 orders".
 */
const unsampled = ["q11 suppliers", "q3 orders"];

interface Found {
    name: string;
    expected: number;
    rows: number;
}

async function wrongOnes(queries: readonly WarehouseQuery[]): Promise<Found[]> {
    const wrong: Found[] = [];
    for (const { name, groups, query } of queries) {
        const { plan } = await query.explain();
        const [expected, rows] = [plan.result.rows, await query.count()];
        const factor = groups ? groupFactor : joinFactor;
        const isRight = expected <= rows * factor && rows <= expected * factor;
        if (!isRight && Math.abs(expected - rows) > fewRows) wrong.push({ name, expected, rows });
    }
    return wrong;
}

describe.each([7, 13])("rows of trees of joins and group-bys are expected of data of seed %i", (seed) => {
    let runtime: Runtime;
    beforeAll(async () => {
        runtime = await openRuntime({ threads: 2 });
    });
    afterAll(async () => {
        await runtime.close();
    });

    test("in TPC-H", async () => {
        const queries = tpchQueries(runtime, tpch(0.12, seed));
        expect(queries.length).toBeGreaterThan(40);
        expect((await wrongOnes(queries)).filter(({ name }) => !unsampled.includes(name))).toEqual([]);
    });

    test("in the Star Schema Benchmark, with filtered dimensions", async () => {
        const queries = ssbQueries(runtime, ssb(0.05, seed));
        expect(queries.length).toBeGreaterThan(25);
        expect(await wrongOnes(queries)).toEqual([]);
    });
});
