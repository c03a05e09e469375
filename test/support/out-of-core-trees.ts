// SPDX-License-Identifier: Apache-2.0
// Trees of joins and group-bys, planned beyond GPU memory from the shapes of relations alone.
import { Int32, Int64 } from "apache-arrow";
import type { LogicalNode } from "../../src/plan/logical.js";
import type { OutOfCoreTreeStage } from "../../src/plan/out-of-core-tree-stage.js";
import type { Plan } from "../../src/plan/plan.js";
import { NotOnDevice } from "../../src/planner/device-support.js";
import { planOutOfCore } from "../../src/planner/plan-out-of-core.js";
import { planQuery, type PlanQuery } from "../../src/planner/plan-query.js";
import { inputNode, join, planQueryOf, type InputShape } from "./planning.js";

export const mebibyte = 2 ** 20;
export const gibibyte = 2 ** 30;
export const factRows = 2 ** 28;

export function queryOf(root: LogicalNode, more: Partial<PlanQuery> = {}): PlanQuery {
    return planQueryOf(root, { budgetBytes: 128 * gibibyte, threads: 16, ...more });
}

export function planOf(query: PlanQuery, limitBytes = gibibyte): Plan | NotOnDevice {
    return planOutOfCore(query, planQuery(query), limitBytes);
}

export function stageOf(query: PlanQuery, limitBytes = gibibyte): OutOfCoreTreeStage {
    const plan = planOf(query, limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreTreeStage;
}

/** Why the tree cannot run out of core. */
export function refusal(root: LogicalNode, more: Partial<PlanQuery> = {}): string {
    const plan = planOf(queryOf(root, more));
    return plan instanceof NotOnDevice ? plan.reason : "";
}

/** A key and a value, both named after the relation. */
export function dimension(name: string, rows: number, shape: InputShape = {}): LogicalNode {
    return inputNode({ [`${name}_k`]: new Int64(), [`${name}_v`]: new Int32() }, { rows, name, ...shape });
}

export const on = (left: string, right: string, more: object = {}): object => ({ on: { [left]: right }, ...more });

/** Relations of so many rows, joined in a chain by the key of the first. */
export function chain(shapes: readonly InputShape[], types: readonly string[]): LogicalNode {
    const [first, ...others] = shapes.map((shape, at) => dimension(`r${at}`, shape.rows ?? 1000, shape));
    return others.reduce<LogicalNode>(
        (child, side, at) => join(child, side, on("r0_k", `r${at + 1}_k`, { type: types[at] })),
        first!
    );
}

export function joinsOf({ operators }: OutOfCoreTreeStage) {
    return operators.flatMap((operator) => (operator.kind === "join" ? [operator.join] : []));
}
