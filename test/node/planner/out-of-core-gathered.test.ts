// SPDX-License-Identifier: Apache-2.0
// Which columns of joins out of core are gathered by row number, which cannot be, and what it is predicted to take.
import { Dictionary, Int32, Int64, Int8, Utf8, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { inputNode, join, planQueryOf, type InputShape } from "../../support/planning.js";

const gibibyte = 2 ** 30;
const rows = 10 ** 8;

function planOf(
    columns: Record<string, DataType>,
    options: object,
    more: Partial<PlanQuery> = {},
    shape: InputShape = {}
): Plan | NotOnDevice {
    const [left, right] = ["l", "r"].map((name) => inputNode(columns, { rows, name, inMemory: true, ...shape }));
    const query = planQueryOf(join(left!, right!, options), { budgetBytes: 128 * gibibyte, threads: 16, ...more });
    return planOutOfCore(query, planQuery(query), 4 * gibibyte);
}

function stageOf(...of: Parameters<typeof planOf>): OutOfCoreStage {
    const plan = planOf(...of);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreStage;
}

describe("columns of both sides", () => {
    const narrow = (count: number): Record<string, DataType> =>
        Object.fromEntries(
            Array.from({ length: count }, (_, i) => [`k${i}`, new Dictionary(new Int8(), new Int32(), i)])
        );
    const full = (count: number) => planOf(narrow(count), { on: Object.keys(narrow(count)), type: "full" });

    test("are carried while a row has room for them", () => {
        expect((full(24) as Plan).stages[0]).toMatchObject({ kind: "deviceOutOfCoreJoin" });
    });

    test("that are wider than a row are a reason not to run out of core", () => {
        const plan = full(26);
        expect(plan).toBeInstanceOf(NotOnDevice);
        expect((plan as NotOnDevice).reason).toMatch(/136 bytes and 29 columns of a row, 128 and 28 are the most/);
    });
});

describe("keys of which a hash is compared", () => {
    test("take workers the time to fetch and compare them, for counts too", () => {
        const columns = { k: new Utf8(), l: new Int64(), v: new Int64() };
        const [count, batches] = (["count", "batches"] as const).map((sink) =>
            stageOf(
                columns,
                { on: ["k", "l"], nullEquality: true, hints: { resultRows: rows } },
                { sink },
                { nullable: true }
            )
        );
        expect(count!.layout).toMatchObject({ keys: "hashed", gathered: [] });
        const pairs = count!.rowsOut;
        expect(count!.predicted.gatherMs).toBeGreaterThan((pairs * 50) / 1e6 / 16);
        expect(batches!.predicted.gatherMs).toBeGreaterThan(count!.predicted.gatherMs);
    });

    test("are none of text, whose numbers are compared: it is fetched for rows of the result alone", () => {
        const columns = { k: new Utf8(), v: new Int64() };
        const [count, batches] = (["count", "batches"] as const).map((sink) =>
            stageOf(columns, { on: "k", type: "left", hints: { resultRows: rows } }, { sink })
        );
        expect(count!.layout).toMatchObject({ keys: "packed", join: { keyBytes: 4, result: "count" }, gathered: [] });
        expect(count!.predicted.gatherMs).toBe(0);
        expect(batches!.layout.gathered.map(({ name, reason }) => `${name}: ${reason}`)).toContain("k: text");
        expect(batches!.predicted.gatherMs).toBeGreaterThan(0);
    });
});
