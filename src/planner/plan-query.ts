// SPDX-License-Identifier: Apache-2.0
import type { DataType } from "apache-arrow";
import { SpillwayError } from "../errors.js";
import type { ColumnType } from "../model/column-type.js";
import { bytesOption, formatBytes, parseBytes, sumOf } from "../model/sizes.js";
import { limitOf, type InputInfo } from "../plan/logical.js";
import { typeText } from "../arrow/type-text.js";
import { freezePlan, type PartitionSet, type Plan, type PlanInput } from "../plan/plan.js";
import type { SetDraft } from "./compile.js";
import { arrowRowBytes, Estimator } from "./estimates.js";
import { firstRowsQuery } from "./first-rows.js";
import { defaultPolicy } from "./policy.js";
import { PlanSearch, type PlanQuery } from "./plan-search.js";
import { predict, type Attempt } from "./predict.js";
import { runBytesInChunk, runBytesInPool } from "./partitioning.js";

export type { PlanQuery } from "./plan-search.js";

/** Bytes that a query needs at least, and could use at most. */
export interface MemoryNeeds {
    minimumBytes: number;
    wantedBytes: number;
}

/** What can be told of a query before it has run. */
export interface Expectations {
    /** Rows of the result. */
    rows: number;
    /** Memory that it could use, the result not counted. */
    wantedBytes: number;
}

/** `what` needs the memory: "The query", or what else is refused before it starts. */
export function budgetTooSmall(
    minimumBytes: number,
    freeBytes: number,
    why: string,
    what = "The query"
): SpillwayError {
    // Rounded up once, so that whichever of the two figures a reader copies is enough.
    const option = bytesOption(minimumBytes);
    const wantedBytes = parseBytes(option, "memory.host");
    return new SpillwayError(
        "BUDGET_TOO_SMALL",
        `${what} needs at least ${formatBytes(wantedBytes)} of host memory but ${formatBytes(freeBytes)} ${why}; ` +
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

function spillRunBytes({ draft }: Attempt, id: number, poolBytes: number): number {
    const { spec, rows, width } = draft.sets[id] as SetDraft;
    const inPool = runBytesInPool(spec, rows, poolBytes);
    const join = draft.stages.find((stage) => stage.kind === "join" && stage.build === id);
    if (join === undefined) return inPool;
    return Math.min(inPool, runBytesInChunk(spec, width.fixed, join.memory.tableBytes, draft.request.policy));
}

function finishSets(best: Attempt, poolBytes: readonly number[]): PartitionSet[] {
    return best.draft.sets.map((set, id) => ({
        id,
        role: set.role,
        spec: { ...set.spec, spillRunBytes: spillRunBytes(best, id, poolBytes[id] ?? 0) },
        estimatedRows: set.rows,
        rowBytes: set.width.fixed,
        estimatedBytes: Math.ceil(set.rows * (set.width.fixed + set.width.heap)),
        batchBytes: set.batchBytes,
        poolBytesMin: set.needs.min,
        poolBytesWanted: set.needs.wanted,
        poolBytes: poolBytes[id] ?? 0
    }));
}

/**
 * What a query takes beside its stages: planning, samples, opening of files, turns of the event loop, and where rows
 * come out the columns that are made of them. With one worker, of queries that were asked for 50 times: counts of 10
 * and 1,000 rows took 0.3 ms on two cores, tables 0.45 to 0.6. What runs once takes more, as its JavaScript is not
 * compiled.
 */
export function queryStartMs({ threads, sink }: Pick<Plan, "threads" | "sink">): number {
    const [startMs, resultMs] = threads === 1 ? [0, 0.15] : [1.3, 1.7];
    return sink === "count" ? startMs : startMs + resultMs;
}

function finishPlan(query: PlanQuery, best: Attempt, budgetBytes: number, minimumBytes: number | null): Plan {
    const { draft, phases, fixedBytes } = best;
    const { root, sink } = query;
    const { estimator } = draft.request;
    const estimate = estimator.of(root);
    const limit = limitOf(root);
    const outputColumns: readonly ColumnType[] = sink === "count" ? [] : root.columns.map((column) => column.type);
    const { poolBytes, costs } = predict(query.profile, best, budgetBytes);
    // Of no rows none has to be found.
    const drafts = limit === 0 ? [] : draft.stages;
    const stages = drafts.map((stage, i) => ({
        ...stage,
        live: phases[i]?.live ?? [],
        predictedMs: costs[i]?.ms ?? 0,
        predictedSpillBytes: costs[i]?.spillBytes ?? 0
    }));
    const stagesMs = sumOf(stages.map((stage) => stage.predictedMs));
    const plan: Plan = {
        device: "cpu",
        deviceReason: null,
        deviceMemory: null,
        inputs: draft.request.inputs.map(planInput),
        sets: limit === 0 ? [] : finishSets(best, poolBytes),
        stages,
        sink,
        result: {
            columns: root.columns.map(({ name, field }) => ({
                name,
                type: typeText(field.type as DataType),
                nullable: field.nullable
            })),
            rows: estimator.givenRows(root),
            rowBytes: arrowRowBytes(estimate.widths)
        },
        outputColumns,
        batchRows: draft.output.batchRows,
        batchBytes: draft.output.batchBytes,
        queuedBatches: draft.request.limits.queuedBatches,
        streamGroupBytes: draft.request.limits.streamGroupBytes,
        threads: draft.workers,
        memory: {
            budgetBytes,
            minimumBytes,
            wantedBytes: best.wantedBytes,
            fixedBytes
        },
        predictedMs: stages.length === 0 ? 0 : queryStartMs({ threads: draft.workers, sink }) + stagesMs,
        ...(limit === Infinity ? {} : { limit })
    };
    // Nobody but the engine sees the plan of a run.
    return minimumBytes === null ? plan : freezePlan(plan);
}

/** The first rows are tried where that takes a fraction of what the stages do. */
const triedMsShare = 1 / 4;
/** Share of the tries that are expected to give too few rows. */
const missedShare = 1 / 16;

function withFirst(plan: Plan, first: Plan): Plan {
    const startMs = queryStartMs(plan);
    const stagesMs = plan.predictedMs - startMs;
    if (first.predictedMs - queryStartMs(first) > stagesMs * triedMsShare) return plan;
    // Both are planned before the first one runs.
    const firstMs = startMs + first.predictedMs;
    return { ...plan, first: { ...first, predictedMs: firstMs }, predictedMs: firstMs + stagesMs * missedShare };
}

/** What was found of an equal query before: what it could use at most, and its last plan for a run. */
export interface KnownPlan {
    wantedBytes?: number;
    plan?: Plan;
}

/** Plans one query: pure, from descriptions, statistics and the machine to a frozen plan. */
export class QueryPlanner {
    #made: PlanSearch | undefined;
    #first: QueryPlanner | null | undefined;

    /**
     * `mayTry`: its plan may begin with a try of the first rows of its inputs. `known`: what is found is added to it.
     */
    public constructor(
        public readonly query: PlanQuery,
        private readonly mayTry = true,
        private readonly known: KnownPlan = {}
    ) {}

    get #search(): PlanSearch {
        return (this.#made ??= new PlanSearch(this.query));
    }

    /** The planner of the query that is tried before this one; undefined: none is. */
    public get first(): QueryPlanner | undefined {
        if (this.#first === undefined) {
            const query = this.mayTry ? firstRowsQuery(this.query) : undefined;
            this.#first = query === undefined ? null : new QueryPlanner(query, false);
        }
        return this.#first ?? undefined;
    }

    /** Memory that the query could use at most. */
    public wantedBytes(): number {
        return (this.known.wantedBytes ??= this.#search.at(this.query.budgetBytes).wantedBytes);
    }

    /** Is the budget, in bytes, enough for a plan? */
    public fits(budgetBytes: number): boolean {
        return this.#search.at(budgetBytes).minimumBytes <= budgetBytes;
    }

    /** Memory that the query needs at least: that of the last rung, whatever rung the whole budget allows. */
    public minimumBytes(): number {
        return this.#search.leastBudget();
    }

    /**
     * The plan for a budget in bytes. Throws BUDGET_TOO_SMALL when the query cannot run with it. `forReading`: somebody
     * will look at it; the plan of a run does not say how little memory would have done.
     */
    public plan(budgetBytes: number, forReading = true): Plan {
        if (forReading) return this.#plan(budgetBytes, true);
        const { plan } = this.known;
        if (plan?.memory.budgetBytes === budgetBytes) return plan;
        return (this.known.plan = this.#plan(budgetBytes, false));
    }

    #plan(budgetBytes: number, forReading: boolean): Plan {
        const best = this.#search.at(budgetBytes);
        if (best.minimumBytes > budgetBytes) throw budgetTooSmall(this.minimumBytes(), budgetBytes, "are allowed");
        const plan = finishPlan(this.query, best, budgetBytes, forReading ? this.minimumBytes() : null);
        const { first } = this;
        if (first?.fits(budgetBytes) !== true) return plan;
        const both = withFirst(plan, first.plan(budgetBytes, forReading));
        return forReading ? freezePlan(both) : both;
    }
}

/** What a query needs, without a plan. */
export function memoryNeeds(query: PlanQuery): MemoryNeeds {
    const planner = new QueryPlanner(query);
    return { minimumBytes: planner.minimumBytes(), wantedBytes: planner.wantedBytes() };
}

/** What is expected of a query that runs. */
export function expectations(query: PlanQuery): Expectations {
    const { root, statistics, policy = defaultPolicy } = query;
    const rows = new Estimator(root, statistics, policy).givenRows(root);
    return { rows, wantedBytes: new QueryPlanner(query).wantedBytes() };
}

/** QueryPlanner.plan with the budget that the query states. */
export function planQuery(query: PlanQuery): Plan {
    return new QueryPlanner(query).plan(query.budgetBytes);
}
