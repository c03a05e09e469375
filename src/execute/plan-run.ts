// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import type {
    NativeJoined,
    NativeJoinSpec,
    NativePartitionSpec,
    PartitionsHandle,
    SinkHandle,
    SourceHandle
} from "../native/binding.js";
import type { Decisions, PartitionSizes } from "../plan/decisions.js";
import type { InputInfo } from "../plan/logical.js";
import type {
    ArrayJoinStage,
    GroupStage,
    HashGroupStage,
    JoinStage,
    PartitionSet,
    PartitionStage,
    PipelineStage,
    Plan,
    PlanStage,
    StageOutput,
    StreamingJoinStage
} from "../plan/plan.js";
import { DeviceRun, type DeviceTurn } from "./device-run.js";
import type { InnerOperators } from "./held-rows.js";
import type { Job } from "./job.js";
import {
    nativeArrayJoinSpec,
    nativeGroupBySpec,
    nativeJoinSpec,
    nativePartitionSpec,
    nativePipelineSpec
} from "./native-spec.js";
import type { ProgressTracker } from "./progress-tracker.js";
import { partitionStream, StreamFeeds, type StreamObserver } from "./stream-input.js";

interface LiveSet {
    handle: PartitionsHandle;
    poolBytes: number;
    sizes: PartitionSizes | undefined;
    open: boolean;
}

export interface PlanRunParts {
    job: Job;
    plan: Plan;
    inputs: readonly InputInfo[];
    /** Sources of the inputs that have a layout; those of streams are added as they come. */
    sources: Map<InputInfo, SourceHandle>;
    tracker: ProgressTracker;
    decisions: Decisions;
    /** Called once, when all dictionaries are known and before the first result row: the sink of the query. */
    openSink: () => Promise<SinkHandle>;
    /** Joins and group-bys whose rows may stay in host memory between stages. */
    inner: InnerOperators;
    /** Is told of streams that are read while a stage runs. */
    streams: StreamObserver;
    /** Plans for the GPU: waits until no other query computes there. */
    deviceTurn?: () => Promise<DeviceTurn>;
}

const wrongEstimates = ["tableFull", "setFull", "notDense", "longText"] as const;
export type WrongEstimate = (typeof wrongEstimates)[number];

/**
 * The engine asks for another plan: the groups did not fit the tables of a hash group-by, the rows of a set that does
 * not spill were longer than estimated, or the keys of an array join were not as dense or unique as their sample. No
 * result row was sent yet, but where a text was longer than the longest one that was there when the query began.
 */
export function wrongEstimate(error: unknown): WrongEstimate | undefined {
    const reason = (error as { details?: { reason?: unknown } } | null)?.details?.reason;
    return wrongEstimates.find((known) => known === reason);
}

function streamingSpecs({ spec, probeSpec }: StreamingJoinStage): [NativeJoinSpec, NativePartitionSpec] {
    const { tableBytes, buildChunkBytes, probeSplitRows } = spec;
    const decision = { schedule: [], tableBytes, buildChunkBytes, probeSplitRows };
    return [nativeJoinSpec(spec, decision), nativePartitionSpec(probeSpec, probeSpec.pageBytes)];
}

/** Runs the stages of a plan one after the other; decides from true sizes what the plan left open. */
export class PlanRun {
    readonly #sets = new Map<number, LiveSet>();
    readonly #device: DeviceRun;

    public constructor(private readonly parts: PlanRunParts) {
        this.#device = new DeviceRun(parts, (index) => this.#source(index));
    }

    /** Resolves with the number of result rows. */
    public async run(): Promise<number> {
        const { plan, job, tracker } = this.parts;
        tracker.begin(plan);
        let rows = 0;
        try {
            for (let at = 0; at < plan.stages.length; at++) {
                const stage = plan.stages[at] as PlanStage;
                const fills = tracker.isWatched ? 0 : this.parts.decisions.fillsAtOnce(plan, at);
                if (fills > 0) {
                    const first = plan.stages.slice(at, at + fills) as PartitionStage[];
                    const next = plan.stages[at + fills];
                    at += fills - 1;
                    if (next?.kind === "pipeline" && next.builds.length === fills) {
                        rows = await this.#fillAndJoin(first, next);
                        at++;
                    } else await this.#fillAtOnce(first);
                    continue;
                }
                const join = this.#joinAtOnce(stage, plan.stages[at + 1]);
                job.check();
                tracker.stageBegins(stage);
                if (join === undefined) {
                    rows = await this.#stage(stage);
                    tracker.stageEnds(rows);
                } else {
                    rows = await this.#partitionAndJoin(stage as PartitionStage, join);
                    at++;
                }
            }
        } finally {
            for (const id of this.#sets.keys()) this.#closeSet(id);
            this.#device.close();
        }
        return rows;
    }

    async #stage(stage: PlanStage): Promise<number> {
        switch (stage.kind) {
            case "partition":
                return await this.#partition(stage);
            case "join":
                return await this.#join(stage);
            case "streamingJoin":
                return await this.#streamingJoin(stage);
            case "arrayJoin":
                return await this.#arrayJoin(stage);
            case "pipeline":
                return await this.#pipeline(stage);
            case "group":
                return await this.#group(stage);
            case "hashGroup":
                return await this.#hashGroup(stage);
            case "upload":
            case "deviceJoin":
            case "deviceGroup":
            case "deliver":
            case "deviceOutOfCoreJoin":
            case "deviceOutOfCoreGroupBy":
            case "deviceOutOfCoreTree":
                return await this.#device.stage(stage);
        }
    }

    #createSet(id: number): LiveSet {
        const { job, plan, decisions } = this.parts;
        const set = this.#description(id);
        const poolBytes = decisions.poolBytesFor(plan, id, this.#residents());
        const handle = job.binding.createPartitions(job.handle, nativePartitionSpec(set.spec, poolBytes));
        const live = { handle, poolBytes, sizes: undefined, open: true };
        this.#sets.set(id, live);
        return live;
    }

    #description(id: number): PartitionSet {
        const set = this.parts.plan.sets[id];
        if (set === undefined) throw new SpillwayError("INTERNAL", `The plan has no partition set ${id}`);
        return set;
    }

    #live(id: number): LiveSet & { sizes: PartitionSizes } {
        const live = this.#sets.get(id);
        if (live?.sizes === undefined) throw new SpillwayError("INTERNAL", `Partition set ${id} is not filled`);
        return live as LiveSet & { sizes: PartitionSizes };
    }

    /** Pages that finished sets hold. */
    #residents(): Map<number, number> {
        const resident = new Map<number, number>();
        for (const [id, { sizes }] of this.#sets) if (sizes !== undefined) resident.set(id, sizes.heldBytes);
        return resident;
    }

    /** The same, with the whole pool of a set that is being filled. */
    #pages(): Map<number, number> {
        const pages = this.#residents();
        for (const [id, { poolBytes, sizes }] of this.#sets) if (sizes === undefined) pages.set(id, poolBytes);
        return pages;
    }

    async #finishSet(live: LiveSet): Promise<PartitionSizes> {
        const { job } = this.parts;
        live.sizes = await job.binding.finishPartitions(job.handle, live.handle);
        return live.sizes;
    }

    #closeSet(id: number): void {
        const live = this.#sets.get(id);
        if (live === undefined || !live.open) return;
        live.open = false;
        this.parts.job.binding.closePartitions(live.handle);
    }

    #source(index: number): SourceHandle {
        const input = this.parts.inputs[index];
        const source = input === undefined ? undefined : this.parts.sources.get(input);
        if (source === undefined) throw new SpillwayError("INTERNAL", `Input ${index} of the plan is not open`);
        return source;
    }

    async #partition(stage: PartitionStage): Promise<number> {
        const { job, inputs, sources, plan } = this.parts;
        const live = this.#createSet(stage.set);
        const input = inputs[stage.input];
        if (input?.streamed) {
            this.parts.streams.began(input);
            const last = await partitionStream(job, input, live.handle, plan.streamGroupBytes);
            if (last !== undefined) sources.set(input, last);
        } else {
            await job.binding.partitionSource(job.handle, live.handle, this.#source(stage.input));
        }
        return (await this.#finishSet(live)).totalRows;
    }

    async #fillAtOnce(stages: readonly PartitionStage[]): Promise<void> {
        const { job, tracker } = this.parts;
        job.check();
        tracker.stageBegins(stages[0] as PartitionStage);
        const sets = stages.map(({ set }) => this.#createSet(set));
        const sources = stages.map(({ input }) => this.#source(input));
        const handles = sets.map(({ handle }) => handle);
        const filled = await job.binding.fillPartitions(job.handle, handles, sources);
        for (const [i, { sizes }] of filled.entries()) (sets[i] as LiveSet).sizes = sizes;
        tracker.fillsEnd(stages, filled);
    }

    /** Runs a producing stage into its output: the query's sink, or the set of a later stage. */
    async #produce(output: StageOutput, run: (sink: SinkHandle) => Promise<number>): Promise<number> {
        const { job } = this.parts;
        if (output.to === "sink") return await run(await this.parts.openSink());
        const live = this.#createSet(output.set);
        const sink = job.binding.createPartitionSink(job.handle, live.handle, this.#description(output.set).batchBytes);
        if (output.limit !== undefined) job.binding.limitSink(sink, output.limit.rows, false);
        let rows: number;
        try {
            rows = await run(sink);
        } finally {
            job.binding.closeSink(sink);
        }
        await this.#finishSet(live);
        return rows;
    }

    async #join(stage: JoinStage): Promise<number> {
        const { job, plan, tracker, decisions } = this.parts;
        const build = this.#live(stage.build);
        const probe = this.#live(stage.probe);
        const schedule = decisions.joinSchedule(build.sizes, probe.sizes);
        tracker.stageVisits(schedule.length);
        const rows = await this.#produce(stage.output, async (sink) => {
            const tableBytes = decisions.tableBytesFor(plan, stage, this.#pages());
            const chunk = stage.spec.buildChunkBytes < stage.spec.tableBytes ? stage.spec.buildChunkBytes : tableBytes;
            const spec = nativeJoinSpec(stage.spec, {
                schedule,
                tableBytes,
                buildChunkBytes: chunk,
                probeSplitRows: decisions.probeSplitRows(stage, probe.sizes)
            });
            return await job.binding.joinPartitions(job.handle, build.handle, probe.handle, spec, sink);
        });
        this.#closeSet(stage.build);
        this.#closeSet(stage.probe);
        return rows;
    }

    async #streamingJoin(stage: StreamingJoinStage): Promise<number> {
        const { job } = this.parts;
        const build = this.#live(stage.build);
        const [spec, probeSpec] = streamingSpecs(stage);
        const { inputs, plan, streams } = this.parts;
        const input = inputs[stage.probeInput];
        const feeds = new StreamFeeds(job, plan.streamGroupBytes, streams);
        const probe = input?.streamed === true ? feeds.open(input) : this.#source(stage.probeInput);
        const rows = await this.#produce(stage.output, (sink) =>
            feeds.whileFed(() => job.binding.joinStreaming(job.handle, build.handle, probe, probeSpec, spec, sink))
        );
        this.#closeSet(stage.build);
        return rows;
    }

    /** The join that runs in one call with the stage before it; undefined: none, or somebody watches the stages. */
    #joinAtOnce(stage: PlanStage, next: PlanStage | undefined): StreamingJoinStage | undefined {
        const { plan, tracker, decisions } = this.parts;
        if (stage.kind !== "partition" || next?.kind !== "streamingJoin" || tracker.isWatched) return undefined;
        return decisions.joinsAtOnce(plan, stage, next) ? next : undefined;
    }

    async #partitionAndJoin(stage: PartitionStage, join: StreamingJoinStage): Promise<number> {
        const { job, tracker } = this.parts;
        const { handle: build } = this.#createSet(stage.set);
        const source = this.#source(stage.input);
        const probe = this.#source(join.probeInput);
        const [spec, probeSpec] = streamingSpecs(join);
        let told: NativeJoined | undefined;
        const rows = await this.#produce(join.output, async (sink) => {
            told = await job.binding.partitionAndJoin(job.handle, build, source, probe, probeSpec, spec, sink);
            return told.rows;
        });
        if (told !== undefined) tracker.joinEnds([stage], join, told, rows);
        this.#closeSet(stage.set);
        return rows;
    }

    async #arrayJoin(stage: ArrayJoinStage): Promise<number> {
        const { job } = this.parts;
        const build = this.#source(stage.buildInput);
        const probe = this.#source(stage.probeInput);
        const buildSpec = nativePartitionSpec(stage.buildSpec, stage.buildSpec.pageBytes);
        const probeSpec = nativePartitionSpec(stage.probeSpec, stage.probeSpec.pageBytes);
        const spec = nativeArrayJoinSpec(stage.spec);
        return await this.#produce(stage.output, (sink) =>
            job.binding.joinArray(job.handle, build, buildSpec, probe, probeSpec, spec, sink)
        );
    }

    async #pipeline(stage: PipelineStage): Promise<number> {
        const { passes } = stage.spec;
        const builds = stage.builds.map((build, join) =>
            join === passes?.join ? this.#createSet(build).handle : this.#live(build).handle
        );
        const fills = passes === undefined ? [] : [this.#source(passes.input)];
        return (await this.#joinPipeline(stage, builds, fills)).rows;
    }

    /** A pipeline, all of whose build sides are of few rows: one call fills them and joins. */
    async #fillAndJoin(fills: readonly PartitionStage[], stage: PipelineStage): Promise<number> {
        const { job, tracker } = this.parts;
        job.check();
        tracker.stageBegins(fills[0] as PartitionStage);
        const builds = stage.builds.map((build) => this.#createSet(build).handle);
        // In the order in which they are filled.
        const filled = stage.builds.map((build) => fills.find(({ set }) => set === build) as PartitionStage);
        const sources = filled.map(({ input }) => this.#source(input));
        const { told, rows } = await this.#joinPipeline(stage, builds, sources);
        if (told !== undefined) tracker.joinEnds(filled, stage, told, rows);
        return rows;
    }

    async #joinPipeline(
        stage: PipelineStage,
        builds: PartitionsHandle[],
        fills: SourceHandle[]
    ): Promise<{ told: NativeJoined | undefined; rows: number }> {
        const { job } = this.parts;
        const source = this.#source(stage.input);
        const spec = nativePipelineSpec(stage.spec);
        const { group } = stage;
        let told: NativeJoined | undefined;
        const rows = await this.#produce(stage.output, async (sink) => {
            if (group === undefined) {
                told = await job.binding.joinPipeline(job.handle, builds, source, spec, sink, fills);
            } else {
                const inputSpec = nativePartitionSpec(group.inputSpec, group.inputSpec.pageBytes);
                const groupSpec = nativeGroupBySpec(group.spec, [], group.spec.tableBytes);
                const { binding, handle } = job;
                told = await binding.groupPipeline(handle, builds, source, spec, inputSpec, groupSpec, sink, fills);
            }
            return told.rows;
        });
        for (const build of stage.builds) this.#closeSet(build);
        return { told, rows };
    }

    async #group(stage: GroupStage): Promise<number> {
        const { job, plan, tracker, decisions } = this.parts;
        const live = this.#live(stage.set);
        const schedule = decisions.groupSchedule(this.#description(stage.set), live.sizes);
        tracker.stageVisits(schedule.length);
        const rows = await this.#produce(stage.output, (sink) => {
            const tableBytes = decisions.tableBytesFor(plan, stage, this.#pages());
            const spec = nativeGroupBySpec(stage.spec, schedule, tableBytes);
            return job.binding.groupPartitions(job.handle, live.handle, spec, sink);
        });
        this.#closeSet(stage.set);
        return rows;
    }

    async #hashGroup(stage: HashGroupStage): Promise<number> {
        const { job } = this.parts;
        const inputSpec = nativePartitionSpec(stage.inputSpec, stage.inputSpec.pageBytes);
        const spec = nativeGroupBySpec(stage.spec, [], stage.spec.tableBytes);
        return await this.#produce(stage.output, (sink) =>
            job.binding.groupSource(job.handle, this.#source(stage.input), inputSpec, spec, sink)
        );
    }
}
