// SPDX-License-Identifier: Apache-2.0
import type { LogicalNode } from "../plan/logical.js";
import type { StageOutput } from "../plan/plan.js";
import { compileGroup } from "./compile-group.js";
import { compileJoin } from "./compile-join.js";
import type { PlanDraft } from "./compile.js";

/** Adds the stages whose last one sends the columns `needed` of `node` to `output`; inputs have no own stage. */
export function compileNode(draft: PlanDraft, node: LogicalNode, needed: readonly number[], output: StageOutput): void {
    if (node.kind === "join") compileJoin(draft, node, needed, output);
    else if (node.kind === "group") compileGroup(draft, node, needed, output);
}
