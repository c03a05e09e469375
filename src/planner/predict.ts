// SPDX-License-Identifier: Apache-2.0
import type { MachineProfile } from "../machine/profile.js";
import type { ColumnType } from "../model/column-type.js";
import { sumOf } from "../model/sizes.js";
import type { LogicalNode } from "../plan/logical.js";
import type { PlanDraft, StageDraft } from "./compile.js";
import { stageCost, type Cost, type CostContext, type StageInput } from "./cost.js";
import { arrowRowBytes } from "./estimates.js";
import { assignPools, type Phase } from "./pools.js";

/** A query compiled with the limits of one rung. Sizes in bytes. */
export interface Attempt {
    draft: PlanDraft;
    phases: Phase[];
    minimumBytes: number;
    wantedBytes: number;
    fixedBytes: number;
}

/** What the stages of an attempt take with a budget in bytes, and the pages that each set gets of it. */
export interface Prediction {
    readonly poolBytes: readonly number[];
    readonly costs: readonly Cost[];
}

function stageInput(stage: StageDraft, best: Attempt): StageInput | undefined {
    const index =
        stage.kind === "partition" || stage.kind === "hashGroup" || stage.kind === "pipeline"
            ? stage.input
            : stage.kind === "streamingJoin" || stage.kind === "arrayJoin"
              ? stage.probeInput
              : -1;
    const { inputs, estimator } = best.draft.request;
    const input = inputs[index];
    if (input === undefined) return undefined;
    const node: LogicalNode = { kind: "input", input, columns: input.columns };
    return {
        widths: estimator.of(node).widths,
        types: input.columns.map(({ type }) => type),
        inMemory: input.inMemory,
        newKeyShare: (keys) => {
            const { sampledRows = 0, pieceDistinct = sampledRows } = estimator.statisticsOf(node, keys) ?? {};
            return sampledRows === 0 ? 1 : pieceDistinct / sampledRows;
        }
    };
}

/** What its stages are expected to take on a machine of that profile. */
export function predict(profile: MachineProfile, attempt: Attempt, budgetBytes: number): Prediction {
    const { draft, phases, fixedBytes } = attempt;
    const { root, sink, machine, estimator } = draft.request;
    const poolBytes = assignPools(
        budgetBytes - fixedBytes,
        phases,
        draft.sets.map((set) => set.needs)
    );
    const isCount = sink === "count";
    const resultTypes: readonly ColumnType[] = isCount ? [] : root.columns.map((column) => column.type);
    const context: CostContext = {
        sets: draft.sets,
        poolBytes,
        profile,
        machine,
        workers: draft.workers,
        sink,
        resultRowBytes: isCount ? 0 : arrowRowBytes(estimator.of(root).widths),
        resultTypes
    };
    const costs = draft.stages.map((stage) => stageCost(context, stage, stageInput(stage, attempt)));
    return { poolBytes, costs };
}

/** All stages together, in milliseconds. */
export function predictedStagesMs(profile: MachineProfile, attempt: Attempt, budgetBytes: number): number {
    return sumOf(predict(profile, attempt, budgetBytes).costs.map(({ ms }) => ms));
}
