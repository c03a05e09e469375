// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import type { MachineInfo } from "../machine/machine.js";
import type { MachineProfile } from "../machine/profile.js";
import type { ColumnType } from "../model/column-type.js";
import type { DebugKnobs } from "../model/debug-knobs.js";
import { bytesOption, clamp, formatBytes, parseBytes } from "../model/sizes.js";
import { inputsOf, type InputInfo, type LogicalNode } from "../plan/logical.js";
import { freezePlan, type PartitionSet, type Plan, type PlanInput, type SinkKind } from "../plan/plan.js";
import { compileNode } from "./compile-node.js";
import { PlanDraft, type StageDraft } from "./compile.js";
import { stageCost, type CostContext } from "./cost.js";
import { arrowRowBytes, Estimator, type ValueWidth } from "./estimates.js";
import { limitLadder } from "./limits.js";
import { defaultPolicy, type Policy } from "./policy.js";
import { assignPools, leastMemory, mostMemory, type Phase } from "./pools.js";
import type { StatisticsById } from "./statistics.js";

export interface PlanQuery {
    root: LogicalNode;
    sink: SinkKind;
    statistics: StatisticsById;
    machine: MachineInfo;
    profile: MachineProfile;
    budgetBytes: number;
    threads: number;
    debug: DebugKnobs;
    /** The tables of a hash group-by overflowed: plan for as many groups as rows. */
    manyGroups?: boolean;
    /** Result batch rows that the user asked for. */
    batchRows?: number;
    policy?: Policy;
}

interface Attempt {
    draft: PlanDraft;
    phases: Phase[];
    minimumBytes: number;
    wantedBytes: number;
    fixedBytes: number;
}

/** Sets that are alive while each stage runs: from the stage that fills them to the one that consumes them. */
function livePhases(stages: readonly StageDraft[]): Phase[] {
    const born = new Map<number, number>();
    const died = new Map<number, number>();
    stages.forEach((stage, i) => {
        if (stage.kind === "partition") born.set(stage.set, i);
        else {
            if (stage.output.to === "set") born.set(stage.output.set, i);
            if (stage.kind === "group") died.set(stage.set, i);
            else if (stage.kind !== "hashGroup") died.set(stage.build, i);
            if (stage.kind === "join") died.set(stage.probe, i);
        }
    });
    return stages.map((stage, i) => ({
        workingBytes: stage.memory.inputBytes + stage.memory.tableBytes + stage.memory.outputBytes,
        live: [...born].filter(([set, at]) => at <= i && (died.get(set) ?? i) >= i).map(([set]) => set)
    }));
}

function dictionaryBytes(inputs: readonly InputInfo[], policy: Policy): number {
    const values = inputs.reduce((sum, input) => sum + input.dictionaryBytes.reduce((a, b) => a + b, 0), 0);
    return values * policy.dictionaryFactor;
}

/** Held through the whole query, whatever its stages do. */
function constantBytes(inputs: readonly InputInfo[], workers: number, policy: Policy): number {
    return dictionaryBytes(inputs, policy) + policy.overheadBytes + workers * policy.overheadBytesPerWorker;
}

function neededColumns(root: LogicalNode, sink: SinkKind): number[] {
    return sink === "count" ? [] : root.columns.map((_, i) => i);
}

/** The plan at the first rung of the ladder that the budget can hold; the last rung if none does. */
function attempt(query: PlanQuery, policy: Policy, budgetBytes: number): Attempt {
    const { root, sink, machine, debug } = query;
    const inputs = inputsOf(root);
    const estimator = new Estimator(root, query.statistics, policy, query.manyGroups);
    const threads = debug.workers ?? query.threads;
    const rows = inputs.reduce((most, input) => Math.max(most, input.rows), 0);
    const useful = debug.workers ?? clamp(Math.ceil(rows / policy.rowsPerWorkerMin), 1, threads);
    const batchBytes =
        sink === "file" ? policy.fileBatchBytes : sink === "table" ? policy.tableBatchBytes : policy.batchBytes;
    let last: Attempt | undefined;
    for (const limits of limitLadder(policy, useful, batchBytes)) {
        const context = { limits, policy, machine, debug, budgetBytes };
        const draft = new PlanDraft({ ...context, root, estimator, inputs, sink, batchRows: query.batchRows });
        compileNode(draft, root, neededColumns(root, sink), { to: "sink" });
        const phases = livePhases(draft.stages);
        const needs = draft.sets.map((set) => set.needs);
        const constant = constantBytes(inputs, limits.workers, policy);
        last = {
            draft,
            phases,
            fixedBytes: Math.ceil(budgetBytes * policy.headroomShare) + constant,
            minimumBytes: Math.ceil((leastMemory(phases, needs) + constant) / (1 - policy.headroomShare)),
            wantedBytes: Math.ceil((mostMemory(phases, needs) + constant) / (1 - policy.headroomShare))
        };
        if (last.minimumBytes <= budgetBytes) return last;
    }
    return last as Attempt;
}

/** Memory that a query needs at least and could use at most, before it is admitted. */
export function memoryNeeds(query: PlanQuery): { minimumBytes: number; wantedBytes: number } {
    const policy = query.policy ?? defaultPolicy;
    const best = attempt(query, policy, query.budgetBytes);
    // The least memory is that of the last rung, whatever rung the whole budget allows.
    return { minimumBytes: leastBudget(query, policy), wantedBytes: best.wantedBytes };
}

/**
 * The smallest budget with which the query can run. Some decisions depend on the budget (a share of it goes to tables),
 * so it is approached from below, with a little more each time so that it ends.
 */
function leastBudget(query: PlanQuery, policy: Policy): number {
    let budget = attempt(query, policy, 0).minimumBytes;
    for (let i = 0; i < 32; i++) {
        const needed = attempt(query, policy, budget).minimumBytes;
        if (needed <= budget) break;
        budget = Math.ceil(needed * 1.01);
    }
    return budget;
}

export function budgetTooSmall(minimumBytes: number, freeBytes: number, why: string): SpillwayError {
    // Rounded up once, so that whichever of the two figures a reader copies is enough.
    const option = bytesOption(minimumBytes);
    const wantedBytes = parseBytes(option, "memory.host");
    return new SpillwayError(
        "BUDGET_TOO_SMALL",
        `The query needs at least ${formatBytes(wantedBytes)} of host memory but ${formatBytes(freeBytes)} ${why}; ` +
            `set \`memory.host\` to "${option}" or more`,
        { tier: "host", wantedBytes, freeBytes, option: "memory.host", smallest: option }
    );
}

function planInput(input: InputInfo): PlanInput {
    return {
        name: input.name,
        rows: input.rows,
        exact: !input.streamed,
        bytes: input.columnBytes.reduce((sum, bytes) => sum + bytes, 0),
        where: input.streamed ? "stream" : input.inMemory ? "memory" : "files"
    };
}

function finishSets(best: Attempt, poolBytes: readonly number[]): PartitionSet[] {
    return best.draft.sets.map((set, id) => ({
        id,
        role: set.role,
        spec: set.spec,
        estimatedRows: set.rows,
        rowBytes: set.width.fixed,
        estimatedBytes: Math.ceil(set.rows * (set.width.fixed + set.width.heap)),
        poolBytesMin: set.needs.min,
        poolBytesWanted: set.needs.wanted,
        poolBytes: poolBytes[id] ?? 0
    }));
}

function stageInputWidths(stage: StageDraft, best: Attempt): readonly ValueWidth[] | undefined {
    const index =
        stage.kind === "partition" || stage.kind === "hashGroup"
            ? stage.input
            : stage.kind === "streamingJoin"
              ? stage.probeInput
              : -1;
    const input = best.draft.request.inputs[index];
    if (input === undefined) return undefined;
    return best.draft.request.estimator.of({ kind: "input", input, columns: input.columns }).widths;
}

/** Plans a query: pure, from descriptions, statistics and the machine to a frozen plan. */
export function planQuery(query: PlanQuery): Plan {
    const policy = query.policy ?? defaultPolicy;
    const best = attempt(query, policy, query.budgetBytes);
    if (best.minimumBytes > query.budgetBytes) {
        throw budgetTooSmall(leastBudget(query, policy), query.budgetBytes, "are allowed");
    }
    const { draft, phases, fixedBytes } = best;
    const { root, sink } = query;
    const poolBytes = assignPools(
        query.budgetBytes - fixedBytes,
        phases,
        draft.sets.map((set) => set.needs)
    );
    const estimate = draft.request.estimator.of(root);
    const resultRowBytes = sink === "count" ? 0 : arrowRowBytes(estimate.widths);
    const context: CostContext = {
        sets: draft.sets,
        poolBytes,
        profile: query.profile,
        machine: query.machine,
        workers: draft.workers,
        sink,
        resultRowBytes
    };
    const stages = draft.stages.map((stage, i) => {
        const cost = stageCost(context, stage, stageInputWidths(stage, best));
        return {
            ...stage,
            live: phases[i]?.live ?? [],
            predictedMs: cost.ms,
            predictedSpillBytes: cost.spillBytes
        };
    });
    const outputColumns: readonly ColumnType[] = sink === "count" ? [] : root.columns.map((column) => column.type);
    return freezePlan<Plan>({
        inputs: draft.request.inputs.map(planInput),
        sets: finishSets(best, poolBytes),
        stages,
        sink,
        result: {
            columns: root.columns.map(({ name, field }) => ({
                name,
                type: String(field.type),
                nullable: field.nullable
            })),
            rows: estimate.rows,
            rowBytes: arrowRowBytes(estimate.widths)
        },
        outputColumns,
        batchRows: draft.output.batchRows,
        queuedBatches: draft.request.limits.queuedBatches,
        streamGroupBytes: draft.request.limits.streamGroupBytes,
        threads: draft.workers,
        memory: {
            budgetBytes: query.budgetBytes,
            minimumBytes: leastBudget(query, policy),
            wantedBytes: best.wantedBytes,
            fixedBytes
        },
        predictedMs: stages.reduce((sum, stage) => sum + stage.predictedMs, 0)
    });
}
