// SPDX-License-Identifier: Apache-2.0
import type { FileReader } from "../arrow/ipc-messages.js";
import type { OpenedFiles } from "../arrow/open-files.js";
import { OpenedFilesCache } from "../arrow/opened-files-cache.js";
import { SpillwayError, toSpillwayError } from "../errors.js";
import type { MachineInfo } from "../machine/machine.js";
import type { MachineProfile } from "../machine/profile.js";
import { readArgument } from "../model/arguments.js";
import type { Knobs } from "../model/debug-knobs.js";
import type { FileBatches, KeptMemory } from "../model/column-type.js";
import type { FileBatchesSpec, OpenedFileBatches } from "../model/files.js";
import type { Binding, EngineHandle, NativeDelivered, NativeMemory } from "../native/binding.js";
import { inputsOf, type LogicalNode } from "../plan/logical.js";
import { Explanation } from "../plan/plan-text.js";
import type { SinkKind } from "../plan/plan.js";
import { QueryPlanner, type PlanQuery } from "../planner/plan-query.js";
import { DeviceMemory } from "../planner/streaming/device-memory.js";
import { defaultPolicy, type Policy } from "../planner/policy.js";
import { samplingPolicy } from "../planner/statistics.js";
import { Admission, type MemoryRequest } from "./admission.js";
import { QueryDevice, type DeviceOptions } from "./query-device.js";
import { IdleTrim } from "./idle-trim.js";
import { collectGarbage, droppedBatches } from "../execute/dropped-batches.js";
import { Job } from "../execute/job.js";
import { KnownPlans } from "./known-plans.js";
import { OpenSources } from "./open-sources.js";
import { QueryStarts } from "./query-starts.js";
import { StatisticsCache } from "./statistics-cache.js";

export interface RunnerParts {
    binding: Binding;
    machine: MachineInfo;
    profile: MachineProfile;
    memoryBytes: number;
    spillDirectory: string;
    threads: number;
    debug: Knobs;
    policy?: Policy;
    /** Where queries run; the CPU engine if left out. */
    device?: DeviceOptions;
}

/** This share of the budget is for relations of many batches that are kept in case their files are opened again. */
const keptRelationsShare = 1 / 32;

/** What a query is planned with. */
type Found = Pick<PlanQuery, "statistics" | "valueSamples" | "textLengths">;

const lookUpKey = Symbol("lookUp");

interface LookedUpLater {
    readonly [lookUpKey]: () => Found;
}

const foundProperties: PropertyDescriptorMap & ThisType<LookedUpLater> = {
    statistics: {
        enumerable: true,
        get() {
            return this[lookUpKey]().statistics;
        }
    },
    valueSamples: {
        enumerable: true,
        get() {
            return this[lookUpKey]().valueSamples;
        }
    },
    textLengths: {
        enumerable: true,
        get() {
            return this[lookUpKey]().textLengths;
        }
    }
};

/**
 * The query of a plan that is known: what it was planned with is looked up where it has to be planned anew. The getters
 * are the same functions for all queries: an object literal with getters makes new ones each time, and with them a
 * hidden class, which V8 keeps with the whole query until it collects old objects. So does a property that follows a
 * spread (7 us; 0.5 before it).
 */
function lookedUpLater({ statistics: _, ...request }: PlanQuery, lookUp: () => Found): PlanQuery {
    return Object.defineProperties({ [lookUpKey]: lookUp, ...request }, foundProperties) as unknown as PlanQuery;
}

interface EngineNet {
    binding: Binding;
    engine: EngineHandle;
}

// The net under a runtime that nobody closed: no query, relation or running job refers to its runner any more.
const forgotten = new FinalizationRegistry<EngineNet>(({ binding, engine }) => {
    try {
        binding.closeEngine(engine);
    } catch {
        return; // a job still unwinds; the process exit frees what is left
    }
});

/** Do rows of the query come from an iterator of the caller's? */
export function readsStream(node: LogicalNode): boolean {
    return inputsOf(node).some((input) => input.streamed);
}

/** The engine of one runtime, and what its queries share: jobs, admission, planning, statistics, opened files. */
export class QueryRunner {
    public readonly parts: RunnerParts;
    public readonly policy: Policy;
    public readonly admission: Admission;
    public readonly starts = new QueryStarts(
        () => this.#running.size,
        () => this.admission.waiting > 0
    );
    public readonly statistics = new StatisticsCache();
    readonly #plans = new KnownPlans((layout) => this.statistics.versionOf(layout));
    public readonly sources = new OpenSources();
    public readonly device: QueryDevice;
    readonly #engine: EngineHandle;
    readonly #running = new Map<Job, Promise<unknown>>();
    readonly #idle: IdleTrim;
    readonly #opened = new Set<Promise<unknown>>();
    readonly #files: OpenedFilesCache;
    /** Those that hold memory of the budget. */
    #relations: WeakRef<FileBatches>[] = [];
    #closing: Promise<void> | undefined;
    #keptMemory: KeptMemory | undefined;

    public constructor(parts: RunnerParts) {
        this.parts = parts;
        this.policy = parts.policy ?? defaultPolicy;
        const { binding, memoryBytes, spillDirectory, threads } = parts;
        try {
            this.#engine = binding.createEngine({ memoryBytes, spillDirectory, threads });
        } catch (error) {
            throw toSpillwayError(error);
        }
        const engine = this.#engine;
        const relationBytes = (): number => binding.engineMemory(engine).relationBytes;
        this.admission = new Admission(memoryBytes, relationBytes, () => this.starts.goOn());
        const device = parts.device ?? { device: "cpu", memoryBytes: undefined };
        this.device = new QueryDevice(binding, engine, device, memoryBytes);
        const reader: FileReader = {
            ends: async (...wanted) => await this.#opening(() => binding.readEnds(engine, ...wanted)),
            ranges: async (...wanted) => await this.#opening(() => binding.readRanges(engine, ...wanted)),
            footer: async (path) => await this.#opening(() => binding.readFooter(engine, path)),
            batches: async (spec) => await this.#opening(() => this.#openBatches(spec))
        };
        this.#files = new OpenedFilesCache(reader, memoryBytes * keptRelationsShare);
        this.#idle = new IdleTrim(async () => await binding.trimEngine(engine));
        forgotten.register(this, { binding, engine: this.#engine }, this);
    }

    /** Whether tables in memory can be read where they lie. */
    public get keptMemory(): KeptMemory {
        return (this.#keptMemory ??= this.parts.binding.keptMemory());
    }

    public get threads(): number {
        return this.parts.threads;
    }

    public get closed(): boolean {
        return this.#closing !== undefined;
    }

    public checkOpen(): void {
        if (this.closed) throw new SpillwayError("CLOSED", "The runtime is closed; open a new one with openRuntime()");
    }

    public memory(): NativeMemory {
        this.checkOpen();
        return this.parts.binding.engineMemory(this.#engine);
    }

    /** Engine calls that make a relation; close() waits for them. */
    async #opening<T>(work: () => Promise<T>): Promise<T> {
        this.checkOpen();
        const done = work();
        this.#opened.add(done);
        try {
            return await done;
        } catch (error) {
            throw toSpillwayError(error);
        } finally {
            this.#opened.delete(done);
        }
    }

    async #openBatches(spec: FileBatchesSpec): Promise<OpenedFileBatches> {
        const opened = await this.parts.binding.openFileBatches(this.#engine, spec);
        if (opened.heldBytes > 0) {
            this.#relations = this.#relations.filter((relation) => relation.deref() !== undefined);
            this.#relations.push(new WeakRef(opened.batches));
        }
        return opened;
    }

    /** Opens files that become a relation. Where the budget has no room, relations that were dropped go first. */
    public async openFiles(path: unknown): Promise<OpenedFiles> {
        try {
            return await this.#files.open(path);
        } catch (error) {
            if (!(error instanceof SpillwayError && error.code === "BUDGET_TOO_SMALL")) throw error;
            this.#files.forgetAll();
            await collectGarbage();
            await this.#opening(() => this.parts.binding.drainEngine(this.#engine));
            return await this.#files.open(path);
        }
    }

    /** Cancels what runs, waits for it and frees the engine. */
    public async close(): Promise<void> {
        this.#closing ??= this.#close();
        await this.#closing;
    }

    async #close(): Promise<void> {
        this.admission.close(new SpillwayError("CLOSED", "The runtime was closed while the query waited"));
        const running = [...this.#running];
        for (const [job] of running) job.close();
        await Promise.allSettled([...running.map(([, done]) => done), ...this.#opened]);
        forgotten.unregister(this);
        await this.#idle.close();
        await this.device.close();
        const { binding } = this.parts;
        this.#files.forgetAll();
        this.sources.close(binding);
        for (const relation of this.#relations) {
            const batches = relation.deref();
            if (batches !== undefined) binding.closeFileBatches(batches);
        }
        await binding.drainEngine(this.#engine);
        // Handles that wait for the garbage collector keep the engine alive, but not its memory and spill files.
        await binding.trimEngine(this.#engine);
        binding.closeEngine(this.#engine);
    }

    /** Runs `work` as a job: cancellable, waited for by close(), cleaned up whatever happens. */
    public async runJob<T>(signal: AbortSignal | undefined, work: (job: Job) => Promise<T>): Promise<T> {
        this.checkOpen();
        if (signal !== undefined && readArgument("signal", () => signal.aborted)) throw signal.reason;
        const job = new Job(this.parts.binding, this.#engine, signal);
        const run = async (): Promise<T> => {
            try {
                return await work(job);
            } catch (error) {
                throw job.outcome(error);
            } finally {
                job.end();
                // Who awaits a query may count on its memory and files being gone.
                await this.parts.binding.drainEngine(this.#engine);
            }
        };
        this.#idle.stop();
        const done = run();
        this.#running.set(job, done);
        try {
            return await done;
        } finally {
            this.#running.delete(job);
            if (this.#running.size === 0 && !this.closed) this.#idle.start();
        }
    }

    /** What is sampled for a query. */
    public samplingPolicy(debug: Knobs, node: LogicalNode): Policy {
        return samplingPolicy(this.policy, debug, this.device.isLikely(debug, node));
    }

    /** What the planner is asked; the budget is the whole one until a part of it is granted. */
    public planRequest(node: LogicalNode, sink: SinkKind, debug: Knobs, batchRows?: number): PlanQuery {
        const { machine, profile, binding, memoryBytes, threads, debug: runtimeDebug } = this.parts;
        const { relationBytes } = this.memory();
        const query: PlanQuery = {
            root: node,
            sink,
            statistics: new Map(),
            machine,
            profile,
            deviceMemory: new DeviceMemory(binding),
            budgetBytes: memoryBytes - relationBytes,
            threads,
            debug: { ...runtimeDebug, ...debug },
            policy: this.policy
        };
        if (this.parts.spillDirectory !== "") query.heldOnDisk = "streams";
        return batchRows === undefined ? query : { ...query, batchRows };
    }

    /** A planner of a query, if nothing has to be sampled for it first. */
    public plannerOf(request: PlanQuery, policy: Policy): QueryPlanner | undefined {
        const { root, sink, debug } = request;
        const { statistics: cache } = this;
        // Samples for a GPU are other ones.
        const known = this.device.isLikely(debug, root) ? undefined : this.#plans.of(request);
        if (known?.plan !== undefined) {
            let found: Found | undefined;
            const lookUp = (): Found => (found ??= { statistics: cache.sampled(root, policy), ...cache.found(root) });
            return new QueryPlanner(lookedUpLater(request, lookUp), true, known);
        }
        const statistics = cache.known(root, policy, sink);
        if (statistics === undefined) return undefined;
        return new QueryPlanner({ ...request, statistics, ...cache.found(root) }, true, known);
    }

    #memoryRequest(planner: QueryPlanner): MemoryRequest {
        const { query } = planner;
        return {
            wantedBytes: Math.max(planner.wantedBytes(), this.device.wantedBytes(planner)),
            minimumBytes: () => planner.minimumBytes(),
            fits: (bytes) => planner.fits(bytes),
            waitsForUser: query.sink === "batches" || readsStream(query.root)
        };
    }

    /** Part of the budget for a query, once it is free; given back when the job ends, or by `release`. */
    public async admit(job: Job, planner: QueryPlanner): Promise<{ bytes: number; release: () => void }> {
        return await this.admitRequest(job, this.#memoryRequest(planner));
    }

    /** The same for what has no plan. */
    public async admitRequest(job: Job, request: MemoryRequest): Promise<{ bytes: number; release: () => void }> {
        const grant = await this.admission.admit(request, (cancel) => job.onCancel(cancel));
        let ownBytes = grant.bytes;
        const release = (): void => {
            ownBytes = 0;
            grant.release();
        };
        job.onEnd(release);
        job.grantableBytes = () => Math.max(0, this.admission.freeBytes + ownBytes);
        // Batches of earlier queries that their readers have dropped take the room that the budget had then.
        const memory = (): NativeDelivered => this.#delivered();
        if (droppedBatches.wantRoom(memory)) await droppedBatches.makeRoom(memory);
        job.check();
        return { bytes: grant.bytes, release };
    }

    /** What is delivered, and what the budget leaves when all queries have taken what they were granted. */
    #delivered(): NativeDelivered {
        const { aliveBytes, unusedBytes } = this.parts.binding.deliveredMemory(this.#engine);
        const left = Math.min(unusedBytes, this.admission.freeBytes);
        return { aliveBytes: droppedBatches.withoutTables(aliveBytes), unusedBytes: Math.max(0, left) };
    }

    public async explain(node: LogicalNode, sink: SinkKind, debug: Knobs): Promise<Explanation> {
        return await this.runJob(undefined, async (job) => {
            const query = this.planRequest(node, sink, debug);
            const policy = this.samplingPolicy(query.debug, node);
            const statistics = await this.statistics.collect(job, node, policy, this.threads, { sink });
            const planned = { ...query, statistics, ...this.statistics.found(node) };
            const planner = new QueryPlanner(planned);
            const host = planner.plan(this.admission.grantedAlone(this.#memoryRequest(planner)));
            return new Explanation(await this.device.choose(planned, host, false));
        });
    }
}
