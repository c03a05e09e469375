// SPDX-License-Identifier: Apache-2.0
import type { MachineInfo } from "../machine/machine.js";
import type { MachineProfile } from "../machine/profile.js";
import type { Knobs } from "../model/debug-knobs.js";
import { clamp } from "../model/sizes.js";
import { inputsOf, type InputInfo, type LogicalNode } from "../plan/logical.js";
import type { SinkKind } from "../plan/plan.js";
import { compileGroup } from "./compile-group.js";
import { compileJoin } from "./compile-join.js";
import { PlanDraft, type CompileNode, type StageDraft } from "./compile.js";
import { Estimator } from "./estimates.js";
import { InlineTexts, type TextLengths } from "./inline-texts.js";
import { leftDeep } from "./left-deep.js";
import { limitLadder, type PlanLimits } from "./limits.js";
import { defaultPolicy, type Policy } from "./policy.js";
import { leastMemory, mostMemory, type Phase } from "./pools.js";
import { predictedStagesMs, type Attempt } from "./predict.js";
import type { StatisticsById, ValueSamples } from "./statistics.js";
import type { DeviceMemory } from "./streaming/device-memory.js";

export interface PlanQuery {
    root: LogicalNode;
    sink: SinkKind;
    statistics: StatisticsById;
    /** By a sample of values; left out: nothing is known. */
    valueSamples?: ValueSamples;
    /** Of the longest texts; left out: nothing is known. */
    textLengths?: TextLengths;
    machine: MachineInfo;
    profile: MachineProfile;
    /** What operators beyond GPU memory take of it. */
    deviceMemory: DeviceMemory;
    budgetBytes: number;
    threads: number;
    debug: Knobs;
    /** The tables of a hash group-by overflowed: plan for as many groups as rows. */
    tableFull?: boolean;
    /** A set of rows that was to stay in memory overflowed: plan sets that can spill. */
    setFull?: boolean;
    /** Keys were not as dense or unique as their sample: plan no array join. */
    notDense?: boolean;
    /** A text was longer than the longest one is known to be: plan references to all of them. */
    longText?: boolean;
    /** The GPU refused what was chosen for it, or found sums of more than 64 bits: plan what it takes in any case. */
    plainDevice?: boolean;
    /** GPU memory ran out with all tables in it: plan out of core. */
    deviceFull?: boolean;
    /** Held rows that host memory has no room for go to disk: of streams, or of all; left out: there is no folder. */
    heldOnDisk?: "streams" | "all";
    /** Share of host memory for held rows, so that the rest goes to disk; left out: as much as they may have. */
    heldShare?: number;
    /** Its rows are held for other parts of a query: nobody reads them before the last one has come. */
    isHeld?: boolean;
    /** Kernels of the GPU that is open use the host's page tables. */
    coherentDevice?: boolean;
    /** Speeds of the profile are those of the GPU that is open, and not of another one. */
    measuredDevice?: boolean;
    /** Multiprocessors of that GPU. */
    multiprocessors?: number;
    /** Its compute capability begins with it. */
    computeMajor?: number;
    /** Memory of another GPU for rows that leave this one's. */
    peerBytes?: number;
    /** Most rows of a result batch that the user allows. */
    batchRows?: number;
    policy?: Policy;
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
            if (stage.kind === "join" || stage.kind === "streamingJoin") died.set(stage.build, i);
            if (stage.kind === "join") died.set(stage.probe, i);
            if (stage.kind === "pipeline") {
                for (const build of stage.builds) died.set(build, i);
                const parted = stage.builds[stage.spec.passes?.join ?? -1];
                if (parted !== undefined) born.set(parted, i);
            }
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
function constantBytes(inputs: readonly InputInfo[], workers: number, policy: Policy, budgetBytes: number): number {
    const perThread = clamp(budgetBytes * policy.threadBudgetShare, policy.threadBytes, policy.threadBytesMax);
    const threads = Math.ceil(Math.max(0, workers - 2) * perThread);
    return dictionaryBytes(inputs, policy) + policy.overheadBytes + workers * policy.overheadBytesPerWorker + threads;
}

function neededColumns(root: LogicalNode, sink: SinkKind): number[] {
    return sink === "count" ? [] : root.columns.map((_, i) => i);
}

/** From full speed down to the least memory; relations of few rows do not pay for all threads. */
function ladderOf(query: PlanQuery, policy: Policy, inputs: readonly InputInfo[]): readonly PlanLimits[] {
    const { sink, debug } = query;
    const threads = debug.workers ?? query.threads;
    const rows = inputs.reduce((most, input) => Math.max(most, input.rows), 0);
    const useful = debug.workers ?? clamp(Math.ceil(rows / policy.rowsPerWorkerMin), 1, threads);
    const usual = limitLadder(policy, useful, sink);
    const { passes } = debug;
    const ladder = passes === undefined ? usual : usual.map((limits) => ({ ...limits, passes }));
    return query.setFull === true ? ladder.filter(({ streaming }) => !streaming) : ladder;
}

/**
 * Rungs that may need the least memory, the likeliest first: the last one of each fan-out, with and without streaming.
 * Nearly always it is the very last; for 3 queries in 1,000 it is another one, because fewer partitions want larger
 * tables.
 */
function leastRungs(ladder: readonly PlanLimits[]): PlanLimits[] {
    const lastOfKind = new Map<string, PlanLimits>();
    for (const limits of ladder) lastOfKind.set(`${limits.radixBitsMax}/${limits.streaming}`, limits);
    return [...lastOfKind.values()].reverse();
}

const compileNode: CompileNode = (draft, node, needed, to) => {
    const output = draft.limited(node, to);
    if (node.kind === "join") compileJoin(draft, node, needed, output, compileNode);
    else if (node.kind === "group") compileGroup(draft, node, needed, output, compileNode);
};

function streams({ draft }: Attempt): boolean {
    return draft.stages.some(({ kind }) => ["streamingJoin", "arrayJoin", "pipeline"].includes(kind));
}

/** The same limits with and without streaming; the first ones are missing where nothing may stream. */
interface Rung {
    readonly streaming: PlanLimits | undefined;
    readonly apart: PlanLimits;
}

function pairsOf(ladder: readonly PlanLimits[]): Rung[] {
    return ladder.flatMap((apart, i) => {
        if (apart.streaming) return [];
        const before = ladder[i - 1];
        return [{ streaming: before?.streaming === true ? before : undefined, apart }];
    });
}

/** What was found on a rung; `streams`: rows do where limits let them. */
interface OnRung {
    readonly fitting: Attempt | undefined;
    readonly streams: boolean;
}

/**
 * The first rung for which that holds, where it holds for all behind it as well, by halves: going down one by one made
 * 26 plans, in 25 ms, of four joins in 52 MiB. The first rung is tried first, as budgets are mostly ample. Undefined:
 * it does not hold for the last one.
 */
function firstThat<R>(rungs: readonly R[], holds: (rung: R) => boolean): R | undefined {
    const at = (i: number): boolean => holds(rungs[i] as R);
    if (rungs.length === 0 || at(0)) return rungs[0];
    if (!at(rungs.length - 1)) return undefined;
    let [no, yes] = [0, rungs.length - 1];
    while (yes - no > 1) {
        const middle = Math.floor((no + yes) / 2);
        if (at(middle)) yes = middle;
        else no = middle;
    }
    return rungs[yes];
}

/** Compiles one query for budgets of any size. Estimates and limits, which depend on no budget, are made once. */
export class PlanSearch {
    public readonly policy: Policy;
    readonly #query: PlanQuery;
    readonly #inputs: readonly InputInfo[];
    readonly #needed: readonly number[];
    readonly #estimator: Estimator;
    readonly #texts: InlineTexts;
    readonly #ladder: readonly PlanLimits[];
    readonly #rungs: readonly Rung[];
    #leftDeep: LogicalNode | undefined;
    #passLadders: readonly (readonly PlanLimits[])[] | undefined;
    #leastBudget: number | undefined;
    #whole: Attempt | undefined;
    #last: { budgetBytes: number; attempt: Attempt } | undefined;
    /** What was compiled for the budget that is searched, with usual and with large batches. */
    #tried: { budgetBytes: number; attempts: readonly Map<PlanLimits, Attempt>[] } | undefined;

    public constructor(query: PlanQuery) {
        this.#query = query;
        this.policy = query.policy ?? defaultPolicy;
        this.#inputs = inputsOf(query.root);
        this.#needed = neededColumns(query.root, query.sink);
        this.#estimator = new Estimator(query.root, query.statistics, this.policy, query.tableFull);
        const lengths = query.longText === true ? undefined : query.textLengths;
        this.#texts = new InlineTexts(lengths ?? new Map(), this.policy);
        this.#ladder = ladderOf(query, this.policy, this.#inputs);
        this.#rungs = pairsOf(this.#ladder);
    }

    /**
     * The plan at the first rung of the ladder that the budget can hold. Sizes that are powers of two jump as the
     * budget grows, so a budget may hold no plan made for it but hold the one for the least budget. If it does not
     * hold that either, the plan needs more than the budget.
     */
    public at(budgetBytes: number): Attempt {
        const { budgetBytes: wholeBytes } = this.#query;
        // Admission asks for the whole budget, and mostly grants what the plan for it could use at most.
        if (budgetBytes <= wholeBytes) {
            const whole = (this.#whole ??= this.#at(wholeBytes));
            if (budgetBytes === wholeBytes) return whole;
            if (whole.wantedBytes <= budgetBytes) return { ...whole, fixedBytes: this.#fixedBytes(whole, budgetBytes) };
        }
        if (this.#last?.budgetBytes !== budgetBytes) this.#last = { budgetBytes, attempt: this.#at(budgetBytes) };
        return this.#last.attempt;
    }

    #fixedBytes({ draft }: Attempt, budgetBytes: number): number {
        const constant = constantBytes(this.#inputs, draft.workers, this.policy, budgetBytes);
        return Math.ceil(budgetBytes * this.policy.headroomShare) + constant;
    }

    #at(budgetBytes: number): Attempt {
        const fitting = this.#firstFitting(budgetBytes);
        if (fitting !== undefined) return fitting;
        const least = this.leastBudget();
        const smaller = least < budgetBytes ? this.#firstFitting(least) : undefined;
        return smaller ?? this.#attempt(this.#ladder[this.#ladder.length - 1] as PlanLimits, budgetBytes);
    }

    /** The fastest plan that the budget holds, as far as limits tell it; undefined: it holds none of these. */
    #firstFitting(budgetBytes: number): Attempt | undefined {
        const fits = (rung: Rung): boolean => this.#onRung(rung, budgetBytes).fitting !== undefined;
        // Nearly always the last rung takes the least; where it does not, any other one may be it.
        const rung = firstThat(this.#rungs, fits) ?? this.#rungs.find(fits);
        if (rung === undefined) return undefined;
        const { fitting, streams } = this.#onRung(rung, budgetBytes);
        if (fitting === undefined || fitting.wantedBytes <= budgetBytes) return fitting;
        const { workers } = fitting.draft;
        const streamed = streams ? this.#streamedInMemory(this.#ladder, workers, budgetBytes) : undefined;
        return streamed ?? this.#streamedInPasses(fitting, budgetBytes);
    }

    /**
     * In place of a plan whose rows go to disk, one that reads its largest input several times, where that is expected
     * to take less time.
     */
    #streamedInPasses(spilling: Attempt, budgetBytes: number): Attempt {
        if (this.#query.setFull === true || this.#query.debug.passes !== undefined) return spilling;
        const ladders = (this.#passLadders ??= this.#makePassLadders());
        // Mostly either some number of passes is enough, or the most of them are not: a plan takes 1 ms to make.
        const least = this.#attempt(ladders.at(-1)?.at(-1) as PlanLimits, budgetBytes);
        if (!streams(least) || least.wantedBytes > budgetBytes) return spilling;
        const { profile } = this.#query;
        let best = spilling;
        let bestMs = predictedStagesMs(profile, spilling, budgetBytes);
        for (const ladder of ladders) {
            const found = this.#streamedInMemory(ladder, spilling.draft.workers, budgetBytes);
            if (found === undefined) continue;
            const ms = predictedStagesMs(profile, found, budgetBytes);
            // Fewer passes may be left with half of the workers; more of them only read more.
            if (ms < bestMs) [best, bestMs] = [found, ms];
            if (found.draft.workers === spilling.draft.workers) break;
        }
        return best;
    }

    /**
     * Without the smallest buffers: another pass costs less than they do. Orders x lineitem, 4 columns as batches, two
     * cores, CPU time: 597 ms in three passes with the smallest ones, 387 in six with larger ones.
     */
    #makePassLadders(): readonly PlanLimits[][] {
        const { morselBytes, pipelinePasses } = this.policy;
        const ladder = this.#ladder.filter((limits) => limits.streaming && limits.morselBytes >= morselBytes / 4);
        return pipelinePasses.map((passes) => ladder.map((limits) => ({ ...limits, passes })));
    }

    /**
     * Each rung comes with streaming and then without: the same plan when nothing in the first one streams. `streams`:
     * something in it does.
     */
    #onRung({ streaming, apart }: Rung, budgetBytes: number): OnRung {
        const fitting = (attempt: Attempt): Attempt | undefined =>
            attempt.minimumBytes <= budgetBytes ? attempt : undefined;
        if (streaming === undefined) return { fitting: fitting(this.#largest(apart, budgetBytes)), streams: false };
        const attempt = this.#largest(streaming, budgetBytes);
        const found = fitting(attempt);
        if (found !== undefined || !streams(attempt)) return { fitting: found, streams: streams(attempt) };
        return { fitting: fitting(this.#largest(apart, budgetBytes)), streams: true };
    }

    /** The attempt with the largest batches that are asked for, or are worth it, and that fit. */
    #largest(limits: PlanLimits, budgetBytes: number): Attempt {
        // They are not worth slower limits, let alone no plan at all.
        if (this.#query.batchRows !== undefined) {
            const large = this.#attempt(limits, budgetBytes, true);
            if (large.minimumBytes <= budgetBytes) return large;
        } else if (this.#query.sink === "batches" && limits.batchBytes === this.policy.batchBytes) {
            const large = this.#attempt(limits, budgetBytes, true);
            if (this.#hasRoomFor(large, budgetBytes)) return large;
        }
        return this.#attempt(limits, budgetBytes);
    }

    /**
     * In place of a plan of so many workers whose rows go to disk, the one in which rows stream past tables in smaller
     * buffers, or with half of the workers, where that keeps everything in memory. SSB Q2.3 in 34 MiB on two cores: 80
     * ms where 126 MB are spilled, 27 with smaller buffers.
     */
    #streamedInMemory(ladder: readonly PlanLimits[], workers: number, budgetBytes: number): Attempt | undefined {
        const rungs = ladder.filter((limits) => limits.streaming && 2 * limits.workers >= workers);
        const rung = firstThat(rungs, (limits) => this.#attempt(limits, budgetBytes).wantedBytes <= budgetBytes);
        if (rung === undefined) return undefined;
        const found = this.#attempt(rung, budgetBytes);
        return found.minimumBytes <= budgetBytes && streams(found) ? found : undefined;
    }

    /** Larger batches for a reader must take nothing from what keeps rows in memory, or little of the budget. */
    #hasRoomFor({ draft, minimumBytes, wantedBytes }: Attempt, budgetBytes: number): boolean {
        if (wantedBytes <= budgetBytes) return true;
        return minimumBytes <= budgetBytes && draft.output.bytes <= budgetBytes * this.policy.readShare;
    }

    /**
     * The smallest budget in bytes with which the query can run. Some decisions depend on the budget (a share of it
     * goes to tables), so it is approached from below, with a little more each time so that it ends.
     */
    public leastBudget(): number {
        this.#leastBudget ??= this.#approach();
        return this.#leastBudget;
    }

    #approach(): number {
        const [last, ...others] = leastRungs(this.#ladder) as [PlanLimits, ...PlanLimits[]];
        let budget = this.#attempt(last, 0).minimumBytes;
        const budgets = [budget];
        for (let i = 0; i < 32; i++) {
            const needed = this.#attempt(last, budget).minimumBytes;
            if (needed <= budget) break;
            budget = Math.ceil(needed * 1.01);
            budgets.push(budget);
        }
        const fits = (bytes: number): boolean =>
            others.some((limits) => this.#attempt(limits, bytes).minimumBytes <= bytes);
        // What does not fit the largest budget that was too small for the last rung fits no smaller one.
        const tooSmall = budgets.at(-2);
        if (tooSmall === undefined || !fits(tooSmall)) return budget;
        return budgets.find(fits) ?? budget;
    }

    #attempt(limits: PlanLimits, budgetBytes: number, largeBatches = false): Attempt {
        if (this.#tried?.budgetBytes !== budgetBytes) this.#tried = { budgetBytes, attempts: [new Map(), new Map()] };
        const attempts = this.#tried.attempts[largeBatches ? 1 : 0] as Map<PlanLimits, Attempt>;
        const known = attempts.get(limits) ?? this.#compile(limits, budgetBytes, largeBatches);
        attempts.set(limits, known);
        return known;
    }

    #compile(limits: PlanLimits, budgetBytes: number, largeBatches: boolean): Attempt {
        const { sink, machine, debug, batchRows, tableFull = false, notDense = false } = this.#query;
        const root = limits.passes === 1 ? this.#query.root : (this.#leftDeep ??= leftDeep(this.#query.root));
        const policy = this.policy;
        const context = { limits, policy, machine, debug, budgetBytes };
        const [inputs, estimator, texts] = [this.#inputs, this.#estimator, this.#texts];
        const output = { sink, batchRows, largeBatches };
        const draft = new PlanDraft({ ...context, root, estimator, texts, inputs, ...output, tableFull, notDense });
        compileNode(draft, root, this.#needed, { to: "sink" });
        const phases = livePhases(draft.stages);
        const needs = draft.sets.map((set) => set.needs);
        const constant = constantBytes(inputs, limits.workers, policy, budgetBytes);
        return {
            draft,
            phases,
            fixedBytes: Math.ceil(budgetBytes * policy.headroomShare) + constant,
            minimumBytes: Math.ceil((leastMemory(phases, needs) + constant) / (1 - policy.headroomShare)),
            wantedBytes: Math.ceil((mostMemory(phases, needs) + constant) / (1 - policy.headroomShare))
        };
    }
}
