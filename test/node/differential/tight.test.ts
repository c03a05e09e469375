// SPDX-License-Identifier: Apache-2.0
// Joins of some ten thousand rows whose plans do what small relations never need: spill runs of several small pages,
// wait for each other's table memory, take a second pass. Each test checks that the plan really is of that kind.
import { readFileSync } from "node:fs";
import { Int32, Int64, tableFromIPC, Utf8, type DataType } from "apache-arrow";
import { openRuntime, type Explanation, type Query } from "spillway";
import { describe, expect, test } from "vitest";
import type { PlainValue } from "../../support/arrow-data.js";
import type { JoinCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { expectedJoin, joinedRows } from "../../support/engine.js";
import { forSeeds, type Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import { buildTable, drawIndices, randomShape, withNulls } from "../../support/relations.js";
import { expectSameRows } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

const threads = 4;
const mebibyte = 2 ** 20;
type Debug = Parameters<typeof knobs>[0];
type Plan = Explanation["plan"];
/** What a join of unknown columns offers. */
type JoinQuery = Pick<Query, "explain" | "toArrowFile" | "report">;

/** Rows on each side with about as many keys, a number, and with `text` a text that tells rows apart. */
function tightCase(random: Random, most: number, text = random.chance(0.3)): JoinCase {
    const rows = [most, random.pick([most, 2 * most])] as const;
    const type = random.pick(joinTypes);
    const step = BigInt(random.pick([1, 7, 2 ** 33]));
    const tables = rows.map((count, side) => {
        const keys = drawIndices(random, count, most, random.pick(["unique", "uniform", "sorted"]));
        const values: PlainValue[] = keys.map((key) => BigInt(key) * step);
        const prefix = "lr"[side]!;
        const payload = (name: string, of: DataType, value: (row: number) => PlainValue) => ({
            name: prefix + name,
            type: of,
            values: Array.from({ length: count }, (_, row) => value(row))
        });
        const columns = [
            { name: "k", type: new Int64(), values: withNulls(random, values, random.pick([0, 0.01])) },
            payload("n", new Int32(), BigInt),
            ...(text ? [payload("t", new Utf8(), (row) => "x".repeat(row % 30) + String(row % 100))] : [])
        ];
        return buildTable(columns, randomShape(random, count));
    });
    const words = `${type} join of ${rows.join(" x ")} rows${text ? " with texts" : ""}`;
    return { left: tables[0]!, right: tables[1]!, on: [["k", "k"]], type, nullEquality: false, text: words };
}

async function withJoin<T>(joinCase: JoinCase, host: number, debug: Debug, use: (query: JoinQuery) => Promise<T>) {
    using sandbox = new Sandbox();
    const memory = { host, spillDirectory: sandbox.spill };
    const runtime = await openRuntime({
        threads,
        memory,
        ...knobs({ workers: threads, algorithm: "radix", ...debug })
    });
    try {
        const [left, right] = [runtime.fromTable(joinCase.left), runtime.fromTable(joinCase.right)];
        return await use(runtime.join({ left, right, on: "k", type: joinCase.type }));
    } finally {
        await runtime.close();
        await sandbox.expectClean();
    }
}

/** The least budget, in steps of a tenth, whose plan is as wanted. */
async function leastBudget(joinCase: JoinCase, debug: Debug, wanted: (plan: Plan) => boolean): Promise<number> {
    for (let host = mebibyte; host < 64 * mebibyte; host = Math.ceil(host * 1.1)) {
        const fits = await withJoin(joinCase, host, debug, async (query) => {
            try {
                return wanted((await query.explain({ result: "file" })).plan);
            } catch (error) {
                expect(error).toMatchObject({ code: "BUDGET_TOO_SMALL" });
                return false;
            }
        });
        if (fits) return host;
    }
    throw new Error(`no budget makes a plan as wanted for the ${joinCase.text}`);
}

/** Joins into files, one with each budget, and compares them with the reference; gives the most that was spilled. */
async function checkJoin(joinCase: JoinCase, hosts: readonly number[], debug: Debug): Promise<number> {
    const expected = expectedJoin(joinCase).rows;
    const spilledBytes = [];
    for (const host of hosts) {
        const spilled = await withJoin(joinCase, host, debug, async (query) => {
            using sandbox = new Sandbox();
            const path = sandbox.path("joined.arrow");
            await query.toArrowFile(path);
            const joined = cellTable(tableFromIPC(readFileSync(path)));
            expectSameRows(joinedRows(joined, joinCase), expected, joinCase.text);
            return query.report()?.spilledBytes ?? 0;
        });
        spilledBytes.push(spilled);
    }
    return Math.max(...spilledBytes);
}

describe("joins that are short of memory equal the reference:", () => {
    test("pages of 1 KiB that are spilled in runs of several", async () => {
        await forSeeds(80_000, 6, async (random) => {
            const joinCase = tightCase(random, 60_000, false);
            const debug = { pageBytes: 1024, radixBits: random.pick([2, 4, 5]) };
            const inRuns = ({ sets, threads: used }: Plan): boolean =>
                used === threads && sets.every(({ spec }) => spec.spillRunBytes >= 4 * spec.pageBytes);
            const host = await leastBudget(joinCase, debug, inRuns);
            expect(await checkJoin(joinCase, [host], debug)).toBeGreaterThan(0);
        });
    });

    test("tables of which few fit at a time, so that workers wait for each other", async () => {
        await forSeeds(81_000, 6, async (random) => {
            const joinCase = tightCase(random, 60_000);
            const debug = { radixBits: 2, forceSpill: random.chance(0.5), packSpilled: random.chance(0.5) };
            const host = await leastBudget(joinCase, debug, (plan) => plan.threads === threads);
            const { sets, stages } = (
                await withJoin(joinCase, host, debug, (query) => query.explain({ result: "file" }))
            ).plan;
            const build = sets.find(({ role }) => role === "build")!;
            // Rows and 20 bytes of slots each, the least there are.
            const oneTable = (build.estimatedBytes + 20 * build.estimatedRows) / 2 ** debug.radixBits;
            expect(stages.find(({ kind }) => kind === "join")!.memory.tableBytes).toBeLessThan(threads * oneTable);
            await checkJoin(joinCase, [host], debug);
        });
    });

    test("a second pass, with budgets that hold it and with those that hardly do", async () => {
        await forSeeds(82_000, 8, async (random) => {
            const joinCase = tightCase(random, 12_000);
            const debug = {
                radixBits: random.pick([0, 1, 3]),
                secondRadixBits: random.pick([1, 4, 8]),
                forceSpill: random.chance(0.3),
                packSpilled: random.chance(0.5),
                ...(random.chance(0.3) ? { hashMask: 0xf00000000000000fn } : {})
            };
            const host = await leastBudget(joinCase, debug, (plan) => plan.threads === threads);
            await checkJoin(joinCase, [host, 2 * host, 256 * mebibyte], debug);
        });
    });
});
