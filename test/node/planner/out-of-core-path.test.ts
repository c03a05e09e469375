// SPDX-License-Identifier: Apache-2.0
// Whether rows of a join out of core go by copy engines or by kernels, and what explain says of it.
import { Int64 } from "apache-arrow";
import { expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOutOfCore } from "../../../src/planner/out-of-core/plan.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

function planOf(coherentDevice: boolean | undefined) {
    const columns = { k: new Int64(), v: new Int64() };
    const [left, right] = ["l", "r"].map((name) => inputNode(columns, { rows: 2 ** 28, name }));
    const root = join(left!, right!, { on: "k" });
    const query = planQueryOf(root, {
        budgetBytes: 2 ** 36,
        threads: 16,
        ...(coherentDevice !== undefined && { coherentDevice })
    });
    const plan = planOutOfCore(query, planQuery(query), 2 ** 32);
    if (plan instanceof NotOnDevice) throw plan;
    return { path: (plan.stages[0] as OutOfCoreStage).path, text: planText(plan) };
}

test.each([undefined, false])("copy engines where kernels have no coherent link to the host: %s", (coherent) => {
    const { path, text } = planOf(coherent);
    expect([path.wanted, path.runs]).toEqual(["staged", "staged"]);
    expect(text).toContain("path: staged (PCIe: copy engines");
});

test("a coherent machine wants kernels to do it, and is told that they do not yet", () => {
    const { path, text } = planOf(true);
    expect([path.wanted, path.runs]).toEqual(["coherent", "staged"]);
    expect(text).toContain("path: staged (kernels of this GPU use the host's page tables, but");
});
