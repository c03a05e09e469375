// SPDX-License-Identifier: Apache-2.0
import { linkDictionaries, type LinkedColumn } from "../arrow/linked-dictionaries.js";
import { SpillwayError, toSpillwayError } from "../errors.js";
import { keyWordColumn, type KeySpec, type SourceLayout } from "../model/column-type.js";
import type { Knobs } from "../model/debug-knobs.js";
import type { Progress } from "../model/progress.js";
import type { SourceHandle } from "../native/binding.js";
import { dictionaryLinks } from "../plan/dictionary-links.js";
import { inParts } from "../plan/group-parts.js";
import { prunedTree } from "../plan/inner-operators.js";
import { inputsOf, limitOf, logicalSchema, type InputInfo, type LogicalNode, type Origin } from "../plan/logical.js";
import { hasShortSums } from "../plan/out-of-core-group-stage.js";
import { freezePlan, type Plan, type SinkKind } from "../plan/plan.js";
import { decisions } from "../planner/decide.js";
import { outOfCoreName } from "../planner/named-algorithm.js";
import { QueryPlanner } from "../planner/plan-query.js";
import type { PlanQuery } from "../planner/plan-search.js";
import { InnerOperators, isHeldFull } from "../execute/held-rows.js";
import type { Job } from "../execute/job.js";
import { PlanRun, wrongEstimate } from "../execute/plan-run.js";
import { ProgressTracker } from "../execute/progress-tracker.js";
import { dictionaryNodes, inputsOfDictionaries, type SourceOf } from "../execute/result-dictionaries.js";
import { isMemoryTaken } from "./device-admission.js";
import { deviceFailure, isRefusal, lacksRoomForTables, sentNothing } from "./query-device.js";
import type { QueryRunner } from "./query-runner.js";
import { FileSink, type ResultSink } from "../execute/result-sink.js";
import type { RunReport } from "../execute/run-report.js";
import { settleAll } from "./settle-all.js";

/** Checked options of a run. */
export interface RunRequest {
    signal?: AbortSignal;
    onProgress?: (progress: Progress) => void;
    batchRows?: number;
    overwrite?: boolean;
}

/** A query, and how it is to run once. */
export interface QueryRequest {
    readonly runner: QueryRunner;
    readonly node: LogicalNode;
    readonly debug: Knobs;
    readonly kind: SinkKind;
    readonly request: RunRequest;
    /** Called when the run has ended well. */
    readonly report: (report: RunReport) => void;
}

/** The layout of an input, with dictionaries that agree with those of the columns it shares a result column with. */
function linkedLayout(input: InputInfo, layout: SourceLayout, groups: readonly Origin[][]): SourceLayout {
    const links = new Map<number, LinkedColumn[]>();
    for (const group of groups) {
        const members = group.flatMap(({ input: { source }, column }) =>
            source.kind === "layout" ? [{ layout: source.layout, column }] : []
        );
        for (const member of group) if (member.input === input) links.set(member.column, members);
    }
    return links.size === 0 ? layout : linkDictionaries(layout, links);
}

/** The first rows of an input. */
function firstRowsOf(layout: SourceLayout, rowsMax: number): SourceLayout {
    let rows = 0;
    const batches = layout.batches.filter((batch) => {
        const isWanted = rows < rowsMax;
        rows += batch.rows;
        return isWanted;
    });
    return { ...layout, batches, rowsMax };
}

/** There was less memory than was planned for. */
function isShortage(error: unknown): boolean {
    const { code } = toSpillwayError(error);
    return code === "BUDGET_TOO_SMALL" || code === "OUT_OF_MEMORY";
}

/** A planner and the memory that its query may use. */
interface Granted {
    planner: QueryPlanner;
    bytes: number;
    release: () => void;
}

/** Where memory was too little for a plan, the next one is made for this share of what that was made for. */
const smallerPlanShare = 1 / 4;

/** A stage of the CPU engine found less memory than it needed, but no more than there is. */
function lacksHostMemory(error: unknown): boolean {
    const { code, details } = toSpillwayError(error);
    const { tier, wantedBytes, limitBytes } = details;
    return code === "BUDGET_TOO_SMALL" && tier === "host" && !(Number(wantedBytes) > Number(limitBytes));
}

/** A stage had more batches than its queue takes, and ran where their reader waited for its end. */
function isQueueFull(error: unknown): boolean {
    return toSpillwayError(error).details.reason === "queueFull";
}

/** Did the plan rely on what a sample told of the keys, or on hashes of wide ones? */
function mayBeRefused({ stages }: Plan): boolean {
    return stages.some((stage) => {
        if (stage.kind === "deviceOutOfCoreGroupBy") return stage.layout.side.columns.some(isKeyWord);
        return stage.kind === "deviceJoin" && stage.chosenBy === "planner" && stage.choice.algorithm !== "phj-tr";
    });
}

/** Its sums have 64 bits, as a sample says that they fit. */
function mayOverflow({ stages }: Plan): boolean {
    return stages.some((stage) => {
        if (stage.kind === "deviceOutOfCoreGroupBy") return hasShortSums(stage.layout.group);
        if (stage.kind !== "deviceOutOfCoreTree") return false;
        return stage.operators.some((one) => one.kind === "group" && hasShortSums(one.group));
    });
}

const isOverflow = (error: unknown): boolean => error instanceof SpillwayError && error.code === "INTEGER_OVERFLOW";

const isKeyWord = ({ column }: { readonly column: number }): boolean => column === keyWordColumn;

/** One run of one query: admission, sources, statistics, plan, stages, report. */
export class QueryRun {
    readonly #sources = new Map<InputInfo, SourceHandle>();
    readonly #tracker: ProgressTracker;
    /** Result rows may have gone to the sink. */
    #sent = false;
    /** Stages of few rows may run on this thread. */
    #mayRunHere = true;
    /** Batches of a stream were asked for, which come once only: there is no other plan after this one. */
    #isConsumed = false;

    public constructor(
        private readonly job: Job,
        private readonly query: QueryRequest
    ) {
        this.#tracker = new ProgressTracker(() => job.progress(), query.request.onProgress);
        job.onEnd(() => this.#tracker.end(false));
    }

    /** Resolves with the number of result rows. */
    public async run(sink: ResultSink): Promise<number> {
        const { runner, kind, report } = this.query;
        const { granted, opening } = await this.#plannerWithMemory();
        // What is known already is planned while sources are opened.
        const planning = this.#deviceFor(granted);
        await settleAll<unknown>([planning, opening]);
        const plan = await planning;
        if (sink instanceof FileSink) sink.prepare(plan);
        const startMs = performance.now();
        const { rows, ran } = (await this.#tryFirst(plan, sink)) ?? (await this.#runPlan(plan, granted, sink));
        // Rows of memory that was transferred while they were read may be anything: they are no result.
        for (const source of this.#sources.values()) this.job.binding.checkMemory(source);
        await sink.finish();
        // Batches wait for the caller's code, whatever the device.
        if (ran === plan && kind !== "batches") runner.device.ran(plan, performance.now() - startMs);
        const peakBytes = runner.closed ? 0 : runner.memory().peakBytes;
        this.#tracker.end(true);
        const devicePeakBytes = ran.device === "gpu" && !runner.closed ? runner.device.peakBytes() : 0;
        report(this.#tracker.runReport(ran, rows, peakBytes, devicePeakBytes));
        return rows;
    }

    /** The plan, for the device that the query is to run on. */
    async #deviceFor({ planner, bytes }: Granted): Promise<Plan> {
        const plan = await this.query.runner.device.choose(planner.query, planner.plan(bytes, false));
        this.job.check();
        return plan;
    }

    /** A planner with all statistics and the memory it may use, and the sources that are being opened. */
    async #plannerWithMemory(): Promise<{ granted: Granted; opening: Promise<void> }> {
        const { job } = this;
        const { runner, node, debug, kind, request: asked } = this.query;
        await runner.starts.wait((cancel) => job.onCancel(cancel));
        job.check();
        const request = runner.planRequest(node, kind, debug, asked.batchRows);
        const policy = runner.samplingPolicy(request.debug, node);
        const known = runner.plannerOf(request, policy);
        const granted = await this.#admit(known ?? new QueryPlanner(request));
        const opening = this.#openSources();
        if (known !== undefined) return { granted, opening };
        await opening;
        const options = { open: this.#sources, sink: kind };
        const statistics = await runner.statistics.collect(job, node, policy, runner.threads, options);
        job.check();
        const found = runner.statistics.found(node);
        if (statistics.size === 0 && found.valueSamples.size === 0 && found.textLengths.size === 0) {
            return { granted, opening };
        }
        // The first grant was for estimates without a sample; the sample may tell that more, or less, will do.
        granted.release();
        return { granted: await this.#admit(new QueryPlanner({ ...request, statistics, ...found })), opening };
    }

    async #admit(planner: QueryPlanner): Promise<Granted> {
        return { planner, ...(await this.query.runner.admit(this.job, planner)) };
    }

    async #openSources(): Promise<void> {
        const { node } = this.query;
        const links = dictionaryLinks(node);
        const all = { sources: this.#sources };
        await settleAll(inputsOf(node).map((input) => this.#openSource(input, links, all)));
        this.job.check();
    }

    /** Opens an input, or its first rows. */
    async #openSource(
        input: InputInfo,
        links: readonly Origin[][],
        { sources, rowsMax }: { sources: Map<InputInfo, SourceHandle>; rowsMax?: number }
    ): Promise<void> {
        const { job } = this;
        if (input.source.kind !== "layout") return;
        const layout = linkedLayout(input, input.source.layout, links);
        const wanted = rowsMax === undefined ? layout : firstRowsOf(layout, rowsMax);
        const isWhole = wanted === input.source.layout;
        const { runner, debug, node } = this.query;
        sources.set(input, await runner.sources.open(job, wanted, isWhole, !runner.device.isLikely(debug, node)));
    }

    /**
     * Each kind of estimate can be found wrong once: the next plan does not rely on it. Where memory runs short, the
     * next plan is made for less of it.
     */
    async #runPlan(plan: Plan, granted: Granted, sink: ResultSink): Promise<{ rows: number; ran: Plan }> {
        const { query } = granted.planner;
        try {
            return { rows: await this.#stages(plan, sink), ran: plan };
        } catch (error) {
            if (this.#isConsumed) throw error;
            if (this.#mayRunHere && isQueueFull(error) && sink.restart()) {
                this.#sent = false;
                this.#mayRunHere = false;
                return await this.#runPlan(plan, granted, sink);
            }
            if (isMemoryTaken(error)) return await this.#runPlan(await this.#deviceFor(granted), granted, sink);
            const isWrong = (isRefusal(error) && mayBeRefused(plan)) || (isOverflow(error) && mayOverflow(plan));
            const isUnsure = isWrong && query.plainDevice !== true;
            if (isUnsure && (!this.#sent || sink.restart())) {
                this.#sent = false;
                this.#forgetSamples(plan);
                if (isOverflow(error)) this.#forgetMagnitudes();
                // Exact sums, and numbers of keys, may take more memory.
                granted.release();
                const retry = await this.#admit(new QueryPlanner({ ...query, plainDevice: true }));
                return await this.#runPlan(await this.#deviceFor(retry), retry, sink);
            }
            if (!this.#sent && query.deviceFull !== true && lacksRoomForTables(plan, error)) {
                return await this.#runAgain(granted, sink, error, { deviceFull: true });
            }
            if (!this.#sent && query.heldOnDisk === "streams" && isHeldFull(error)) {
                return await this.#runAgain(granted, sink, error, { heldOnDisk: "all" });
            }
            const untouched = !this.#sent || sentNothing(error);
            const failure = plan.device === "gpu" && untouched ? deviceFailure(error) : undefined;
            // Nothing takes the place of a join out of core that the user has named.
            const isReplaceable = outOfCoreName(this.query.node) === undefined;
            if (failure !== undefined && isReplaceable && this.query.runner.device.isAutomatic) {
                const host = freezePlan({ ...granted.planner.plan(granted.bytes, false), deviceReason: failure });
                return await this.#runPlan(host, granted, sink);
            }
            const wrong = wrongEstimate(error);
            if (wrong === undefined || query[wrong] === true) return await this.#runSmaller(plan, granted, sink, error);
            if (wrong === "notDense") this.#forgetSamples(plan);
            if (wrong === "longText") {
                for (const input of inputsOf(this.query.node)) this.query.runner.statistics.forgetTexts(input);
                if (this.#sent && !sink.restart()) throw error;
                this.#sent = false;
            }
            // What was granted is as wrong as the estimate: for a few groups, say, where there is one for each row.
            granted.release();
            const again = await this.#admit(new QueryPlanner({ ...query, [wrong]: true }));
            // It stays on the device that it was on, for the same reason.
            const { deviceReason } = plan;
            const next = freezePlan({ ...again.planner.plan(again.bytes, false), deviceReason });
            return await this.#runPlan(next, again, sink);
        }
    }

    /**
     * GPU memory ran out with all tables in it, or host memory with rows held there, and no row is gone: out of core,
     * by way of disk, or on the CPU engine where that is allowed. Throws `error` where none of it can be.
     */
    async #runAgain(
        granted: Granted,
        sink: ResultSink,
        error: unknown,
        changed: Pick<PlanQuery, "deviceFull" | "heldOnDisk">
    ): Promise<{ rows: number; ran: Plan }> {
        // Tables in GPU memory want less host memory than chunks and spilled rows do.
        granted.release();
        const again = await this.#admit(new QueryPlanner({ ...granted.planner.query, ...changed }));
        const next = await this.#deviceFor(again).catch((refusal: unknown) => {
            this.job.check();
            throw refusal instanceof SpillwayError ? error : refusal;
        });
        const deviceReason = toSpillwayError(error).message;
        return await this.#runPlan(freezePlan({ ...next, deviceReason }), again, sink);
    }

    /**
     * Memory ran short: with a plan for less of it, what that leaves of the grant is room for what no estimate foresaw.
     * The last one is for the least that the query can run with, so that a budget never fails where a smaller one does
     * not, and keeps no tables that have to stay in memory. Throws `error` where there is no such plan, or where rows
     * are gone.
     */
    async #runSmaller(
        plan: Plan,
        granted: Granted,
        sink: ResultSink,
        error: unknown
    ): Promise<{ rows: number; ran: Plan }> {
        const { planner } = granted;
        const { deviceReason, memory } = plan;
        const isLeast = (): boolean => memory.budgetBytes <= planner.minimumBytes();
        const mayStream = planner.query.setFull !== true;
        if (plan.device !== "cpu" || !lacksHostMemory(error) || (isLeast() && !mayStream)) throw error;
        if (this.#sent && !sink.restart()) throw error;
        this.#sent = false;
        const less = isLeast() ? new QueryPlanner({ ...planner.query, setFull: true }) : planner;
        const bytes = Math.max(less.minimumBytes(), Math.floor(memory.budgetBytes * smallerPlanShare));
        if (bytes > memory.budgetBytes) throw error;
        const next = freezePlan({ ...less.plan(bytes, false), deviceReason });
        return await this.#runPlan(next, { ...granted, planner: less }, sink);
    }

    /** Forgets how large values are, which short sums relied on. */
    #forgetMagnitudes(): void {
        const { runner, node } = this.query;
        for (const input of inputsOf(node)) runner.statistics.outgrow(input);
    }

    /** Forgets the samples of the keys that arrays relied on. */
    #forgetSamples(plan: Plan): void {
        const { runner, node } = this.query;
        const inputs = inputsOf(node);
        const disprove = (at: number, keys: readonly KeySpec[]): void => {
            runner.statistics.disprove(inputs[at] as InputInfo, keys);
        };
        for (const stage of plan.stages) {
            if (stage.kind === "arrayJoin") {
                disprove(stage.buildInput, stage.buildSpec.keys);
            } else if (stage.kind === "deviceJoin" && stage.choice.algorithm === "npj-perfect") {
                if (stage.sampled !== null) disprove(stage.sampled.input, stage.sampled.keys);
            }
        }
    }

    /**
     * Runs what the plan tries first, the query of the first rows of its inputs. Undefined: there is no such thing, or
     * it gave fewer rows than are wanted, of which nobody has got any.
     */
    async #tryFirst({ first }: Plan, sink: ResultSink): Promise<{ rows: number; ran: Plan } | undefined> {
        if (first === undefined) return undefined;
        const inputs = inputsOf(this.query.node);
        const links = dictionaryLinks(this.query.node);
        const sources = new Map<InputInfo, SourceHandle>();
        await settleAll(
            inputs.map((input, at) => this.#openSource(input, links, { sources, rowsMax: first.inputs[at]?.rows ?? 0 }))
        );
        this.job.check();
        try {
            const rows = await this.#stages(first, sink, { sources, allOrNone: true });
            if (rows === limitOf(this.query.node)) {
                for (const source of sources.values()) this.job.binding.checkMemory(source);
                return { rows, ran: first };
            }
        } catch (error) {
            this.job.check();
            const isWrong = wrongEstimate(error) !== undefined || isRefusal(error) || isQueueFull(error);
            const isExpected = isWrong || isShortage(error);
            // A worker that fails may leave rows of others half delivered.
            if (!isExpected || !sink.restart()) throw error;
        }
        sink.restart();
        this.#sent = false;
        return undefined;
    }

    async #stages(
        plan: Plan,
        sink: ResultSink,
        { sources, allOrNone }: { sources: Map<InputInfo, SourceHandle>; allOrNone: boolean } = {
            sources: this.#sources,
            allOrNone: false
        }
    ): Promise<number> {
        const { job } = this;
        const { runner, node } = this.query;
        const sourceOf: SourceOf = (input) => sources.get(input);
        const limit = limitOf(node);
        const here = this.#mayRunHere && !this.#tracker.isWatched && decisions.runsHere(plan, inputsOf(node));
        if (here) {
            await runner.starts.turn();
            job.check();
        }
        job.runsHere(here);
        // Nothing runs for no rows, but a file has its dictionaries all the same.
        if (plan.stages.length === 0 && sink instanceof FileSink) await sink.open(plan, sourceOf);
        // A stage that is fed by streams has its sink before their dictionaries are known.
        const unknown = plan.device === "gpu" ? this.#streamsWithDictionaries() : new Set<InputInfo>();
        const run = new PlanRun({
            job,
            plan,
            inputs: inputsOf(node),
            sources,
            tracker: this.#tracker,
            decisions,
            openSink: async () => {
                this.#sent = true;
                const handle = await sink.open(plan, sourceOf, unknown.size > 0);
                if (limit < Infinity) job.binding.limitSink(handle, limit, allOrNone);
                return handle;
            },
            inner: new InnerOperators(() => this.#operators(plan), sourceOf),
            streams: {
                began: () => {
                    this.#isConsumed = true;
                },
                ended: async (input, last) => {
                    if (last !== undefined) sources.set(input, last);
                    if (unknown.delete(input) && unknown.size === 0) await sink.learn(sourceOf);
                }
            },
            deviceTurn: () => runner.device.takeTurn(job, plan)
        });
        // Operations on the GPU count all rows.
        return Math.min(await run.run(), limit);
    }

    /** The query as plans beyond GPU memory make it. */
    #operators({ groupParts = [] }: Plan): LogicalNode {
        const counted = this.query.kind === "count";
        return prunedTree(inParts(prunedTree(this.query.node, counted), groupParts), counted);
    }

    /** Streams of which dictionaries of the result come. */
    #streamsWithDictionaries(): Set<InputInfo> {
        const { node, kind } = this.query;
        if (kind === "count") return new Set();
        const inputs = inputsOfDictionaries(dictionaryNodes(logicalSchema(node), node.columns));
        return new Set([...inputs].filter(({ streamed }) => streamed));
    }
}

/** Runs a query as a job of its own; its rows go to the sink. Resolves with their number. */
export async function runQuery(query: QueryRequest, sinkOf: (job: Job) => ResultSink): Promise<number> {
    return await query.runner.runJob(query.request.signal, async (job) => {
        return await new QueryRun(job, query).run(sinkOf(job));
    });
}
