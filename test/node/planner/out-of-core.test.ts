// SPDX-License-Identifier: Apache-2.0
import { Int64 } from "apache-arrow";
import { expect, test } from "vitest";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOnDevice } from "../../../src/planner/plan-device.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

test("show", () => {
    for (const [limit, select] of [[2 ** 34, ["a"]], [2 ** 32, ["a"]], [2 ** 34, ["k", "a", "b"]], [2 ** 30, ["k", "a", "b"]], [2**27, ["k","a","b"]]] as const) {
        const l = inputNode({ k: new Int64(), a: new Int64() }, { rows: 2 ** 30, name: "l" });
        const r = inputNode({ k: new Int64(), b: new Int64() }, { rows: 2 ** 30, name: "r" });
        const query = planQueryOf(join(l, r, { on: "k", select }), { sink: "batches", budgetBytes: 2 ** 37, threads: 16 });
        const made = planOnDevice(query, planQuery(query), limit);
        if (made instanceof NotOnDevice) throw made;
        console.log(limit, made.notOutOfCore, planText(made.plan), JSON.stringify((made.plan.stages[0] as { sizes: unknown }).sizes));
    }
    expect(1).toBe(1);
});
