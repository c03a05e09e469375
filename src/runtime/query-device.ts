// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import type { DeviceTurn } from "../execute/device-run.js";
import type { Job } from "../execute/job.js";
import { cpuJoinAlgorithm, type OutOfCoreJoinAlgorithm } from "../model/algorithms.js";
import type { Knobs } from "../model/debug-knobs.js";
import { bytesOption, formatBytes, formatMs } from "../model/sizes.js";
import type { Binding, EngineHandle } from "../native/binding.js";
import type { LogicalNode } from "../plan/logical.js";
import { freezePlan, type Plan } from "../plan/plan.js";
import { firstRowsQuery } from "../planner/first-rows.js";
import { NotOnDevice } from "../planner/device-support.js";
import { leastHostBytes } from "../planner/host-shortage.js";
import { checkOneDevice, deviceName, namesCpu, outOfCoreName, refusedAlgorithm } from "../planner/named-algorithm.js";
import { besideBytes } from "../planner/streaming/host-memory.js";
import { outOfCoreHostBytes } from "../planner/plan-out-of-core.js";
import { planOnDevice, tablesHostBytes, type DevicePlan } from "../planner/plan-device.js";
import { isOutOfCore } from "../plan/device-stages.js";
import { queryStartMs, type QueryPlanner } from "../planner/plan-query.js";
import type { PlanQuery } from "../planner/plan-search.js";
import { DeviceAdmission } from "./device-admission.js";
import { GpuOpening, type GpuMemoryOptions, type Savings } from "./gpu-opening.js";
import { isCoherent, queryFor, usableGpu, type OpenedGpu } from "./opened-gpu.js";

/** Which device a runtime was opened for. */
export interface DeviceOptions extends GpuMemoryOptions {
    device: "auto" | "cpu" | "gpu";
    /** The caller gave the speeds of the GPU: those of its name that come with the package do not count. */
    isMeasured?: boolean;
    /** Does the machine show signs of a GPU? Without any, "auto" looks for none and speaks of none. */
    isPresent?: boolean;
}

/** Memory of another GPU, for rows that leave the first one's. */
export interface PeerMemory {
    limitBytes: number;
    /** How fast copies from it and to it were when it was opened; left out where it is too little for that. */
    readBytesPerMs?: number;
    writeBytesPerMs?: number;
}

/** A plan with the memory and the speeds of the GPU that is open; undefined: with no memory, and speeds of any. */
interface Draft {
    made: DevicePlan | NotOnDevice;
    opened: OpenedGpu | undefined;
}

/** The plan as it is, with why it does not run on a GPU. */
function onHost(plan: Plan, deviceReason: string): Plan {
    return freezePlan({ ...plan, deviceReason });
}

/** What a query on the GPU ends with when the GPU, and not the query, is the reason. */
export function deviceFailure(error: unknown): string | undefined {
    if (!(error instanceof SpillwayError)) return undefined;
    const { code, details, message } = error;
    const memory = code === "OUT_OF_MEMORY" || code === "BUDGET_TOO_SMALL";
    if (memory && (details["tier"] === "device" || sentNothing(error))) return message;
    if (code === "NO_DEVICE") return String(details["reason"] ?? message);
    return isRefusal(error) ? message : undefined;
}

/** GPU memory ran out with all tables in it, which is no end where the query can run out of core. */
export function lacksRoomForTables(plan: Plan, error: unknown): boolean {
    if (!(error instanceof SpillwayError) || plan.device !== "gpu" || hasOutOfCore(plan)) return false;
    const { code, details } = error;
    return (code === "OUT_OF_MEMORY" || code === "BUDGET_TOO_SMALL") && details["tier"] === "device";
}

/** A join or group-by out of core lacked memory, of whatever kind, or lost the GPU, before it gave rows to its sink. */
export function sentNothing(error: unknown): boolean {
    return error instanceof SpillwayError && error.details["delivered"] === "nothing";
}

/** The GPU will not do an operation this way: what a sample told of the keys was wrong. */
export function isRefusal(error: unknown): boolean {
    return error instanceof SpillwayError && error.details["reason"] === "deviceUnsupported";
}

/** Decides where the queries of one runtime run, and opens the GPU when that is worth it, or asked for. */
export class QueryDevice {
    readonly #opening: GpuOpening;
    readonly #admission = new DeviceAdmission();
    /** Plans of queries that the GPU, once it is open, would make faster; and what opening it takes. */
    readonly #waiting = new WeakMap<Plan, number>();

    public constructor(
        private readonly binding: Binding,
        private readonly engine: EngineHandle,
        private readonly options: DeviceOptions,
        private readonly hostBytes: number,
        savings?: Savings
    ) {
        this.#opening = new GpuOpening(binding, engine, options, hostBytes, savings);
    }

    public get isAutomatic(): boolean {
        return this.options.device === "auto";
    }

    /** Is the next query likely to run on the GPU? What only a plan for it needs is sampled then. */
    public isLikely(debug: Knobs, root?: LogicalNode): boolean {
        const { device } = this.options;
        if (device === "cpu" || (root !== undefined && namesCpu(root))) return false;
        if (device === "gpu" || this.#opening.opened !== undefined) return true;
        return isWanted(debug) || (root !== undefined && outOfCoreName(root) !== undefined);
    }

    /** Host memory that the query could use on the GPU; 0 where it is not expected to run there. */
    public wantedBytes(planner: QueryPlanner): number {
        const { query } = planner;
        const isLikely = this.isLikely(query.debug, query.root);
        if (!isLikely && !this.#mayWait(query)) return 0;
        const host = planner.plan(query.budgetBytes, false);
        if (!isLikely && host.predictedMs <= query.profile.deviceOpenMs) return 0;
        // Its path is decided before it is opened: that of kernels wants other memory than that of copy engines.
        const { opened } = this.#opening;
        const coherentDevice = opened?.isCoherent ?? (isLikely && isCoherent(usableGpu(this.binding.devices())));
        const limitBytes = opened === undefined ? this.options.memoryBytes : this.#freeBytes(opened);
        const bytes = outOfCoreHostBytes({ ...query, coherentDevice }, limitBytes);
        return Math.max(tablesHostBytes(query, host), bytes === 0 ? 0 : bytes + besideBytes(host));
    }

    /** Opens the GPU while the caller goes on, if there is one; queries say why where that fails. */
    public warm(): void {
        if (this.options.device === "cpu" || !this.#isPresent) return;
        this.#opening.begin();
    }

    /** Throws NO_DEVICE, with the reason, where there is no GPU that queries could run on. */
    public async requireGpu(): Promise<void> {
        await this.#opening.find();
    }

    /** No opening begins after this; resolves when one that is under way has ended. */
    public async close(): Promise<void> {
        await this.#opening.close();
    }

    /**
     * The plan of a query for the device that it is to run on. `host`: its plan for the CPU engine. `isRun`: the query
     * runs next, so what the GPU would save counts; else somebody only wants to know. Throws where the GPU was asked
     * for and cannot run the query.
     */
    public async choose(query: PlanQuery, host: Plan, isRun = true): Promise<Plan> {
        if (host.limit === 0) return host;
        const plan = await this.#choose(query, host, isRun);
        const { first } = plan;
        const tried = plan.device === "cpu" || first === undefined ? undefined : firstRowsQuery(query);
        if (first === undefined || tried === undefined || this.isAutomatic) return plan;
        // What cannot be tried there is not: whoever asks for the GPU wants nothing to run elsewhere.
        const onGpu = await this.#require(tried, first).catch(() => undefined);
        const { first: _, ...whole } = plan;
        return freezePlan(onGpu === undefined ? whole : { ...whole, first: onGpu });
    }

    async #choose(query: PlanQuery, host: Plan, isRun: boolean): Promise<Plan> {
        if (this.options.device === "cpu") return host;
        if (namesCpu(query.root)) return onHost(host, `"${cpuJoinAlgorithm}" was asked for, a join of the CPU engine`);
        const outOfCore = outOfCoreName(query.root);
        if (outOfCore !== undefined) return await this.#outOfCore(query, host, outOfCore);
        if (this.options.device === "gpu") return await this.#require(query, host);
        if (isWanted(query.debug)) return await this.#prefer(query, host);
        if (deviceName(query.root) !== undefined) return await this.#asNamed(query, host);
        if (!this.#isPresent) return host;
        return await this.#asPredicted(query, host, isRun);
    }

    get #isPresent(): boolean {
        return this.options.isPresent !== false;
    }

    /** Might the query wait for a GPU that is not open yet, because that is faster all the same? */
    #mayWait({ debug, root }: PlanQuery): boolean {
        if (!this.isAutomatic || !this.#isPresent || this.#opening.failure !== undefined) return false;
        return !isWanted(debug) && deviceName(root) === undefined && !namesCpu(root);
    }

    /**
     * The rule of renting skis: the GPU is opened in the background once the queries of this process would have saved
     * more time on it than opening it takes, so that never more than twice the least time is spent. Until it is open
     * queries run on the CPU, but for one that is predicted to be faster although it waits.
     */
    async #asPredicted(query: PlanQuery, host: Plan, isRun: boolean): Promise<Plan> {
        const { opened, failure } = this.#opening;
        if (failure !== undefined) return onHost(host, failure);
        const { deviceOpenMs, deviceInputStartMs } = query.profile;
        // No plan for a GPU takes less: there is nothing to save.
        const hostMs = comparedMs(host, query);
        if (hostMs <= deviceInputStartMs) return onHost(host, "the query is a small one");
        const draft = this.#draft(query, host);
        if (draft.made instanceof NotOnDevice) return onHost(host, this.#reasonOf(draft.made));
        const deviceMs = comparedMs(draft.made.plan, query);
        const savingMs = hostMs - deviceMs;
        if (savingMs <= 0) return onHost(host, slower(hostMs, deviceMs));
        if (opened !== undefined || savingMs > this.#opening.remainingMs(deviceOpenMs)) {
            return await this.#prefer(query, host, draft);
        }
        const isCounted = isRun && !this.#opening.isUnderWay;
        const promised = this.#opening.promise(savingMs, deviceOpenMs, isRun);
        const plan = onHost(host, `${slower(hostMs, deviceMs)}, but ${promised}`);
        if (isCounted) this.#waiting.set(plan, deviceOpenMs);
        return plan;
    }

    /** The query of a plan that `choose` gave has run. `elapsedMs`: without the time that it waited for a reader. */
    public ran(plan: Plan, elapsedMs: number): void {
        const openMs = this.#waiting.get(plan);
        if (openMs !== undefined) this.#opening.ran(plan.predictedMs, elapsedMs, openMs);
    }

    /**
     * Throws where the user asks for an algorithm of the GPU and keeps queries away from it, or for algorithms that no
     * device has together.
     */
    public checkAlgorithms(node: LogicalNode): void {
        checkOneDevice(node);
        const { device } = this.options;
        const algorithm = deviceName(node);
        if (algorithm === undefined || device !== "cpu") return;
        throw new SpillwayError(
            "INVALID_ARGUMENT",
            `\`algorithm\` "${algorithm}" runs on a GPU, and this runtime was opened with device "cpu"; ` +
                'open it with device "gpu" or "auto", or leave `algorithm` out',
            { option: "algorithm", algorithm, device }
        );
    }

    /** The user has named an algorithm of the GPU: no predicted time counts. One that does not fit is an error. */
    async #asNamed(query: PlanQuery, host: Plan): Promise<Plan> {
        const draft = this.#draft(query, host);
        return draft.made instanceof NotOnDevice
            ? onHost(host, this.#reasonOf(draft.made))
            : await this.#prefer(query, host, draft);
    }

    /** The user has named a join out of core: nothing else takes its place. Throws where it cannot be. */
    async #outOfCore(query: PlanQuery, host: Plan, algorithm: OutOfCoreJoinAlgorithm): Promise<Plan> {
        const opened = await this.#openFor(algorithm, query.profile.deviceOpenMs);
        const { made } = this.#draft(query, host, opened);
        const limitBytes = this.#freeBytes(opened);
        if (made instanceof NotOnDevice) {
            throw this.#refusal(made, query, host, opened, (reason) => refusedAlgorithm(algorithm, reason));
        }
        if (made.leastBytes > limitBytes) throw this.#admission.tooSmall(made.leastBytes, limitBytes, undefined);
        return made.plan;
    }

    async #openFor(algorithm: OutOfCoreJoinAlgorithm, openMs: number): Promise<OpenedGpu> {
        try {
            return await this.#opening.open(openMs);
        } catch (error) {
            if (!(error instanceof SpillwayError) || error.code !== "NO_DEVICE") throw error;
            const why = String(error.details["reason"] ?? error.message);
            const message = `\`algorithm\` "${algorithm}" runs on a GPU: ${why}; use "auto" or "${cpuJoinAlgorithm}"`;
            throw new SpillwayError("NO_DEVICE", message, { ...error.details, option: "algorithm", algorithm }, error);
        }
    }

    #reasonOf({ reason, leastBytes }: NotOnDevice): string {
        const { opened } = this.#opening;
        if (leastBytes === undefined || opened === undefined) return reason;
        return this.#admission.withReaders(reason, this.#freeBytes(opened));
    }

    /** The GPU if it can be opened. */
    async #prefer(query: PlanQuery, host: Plan, draft?: Draft): Promise<Plan> {
        try {
            const { made, limitBytes } = await this.#plan(query, host, draft);
            if (made instanceof NotOnDevice) return onHost(host, this.#reasonOf(made));
            const wanted = made.plan.deviceMemory?.estimatedBytes ?? 0;
            if (wanted > limitBytes && made.plan.deviceMemory?.elseOutOfCore !== true)
                return onHost(host, this.#admission.doesNotFit(wanted, limitBytes, made.notOutOfCore));
            const [hostMs, deviceMs] = [comparedMs(host, query), comparedMs(made.plan, query)];
            if (!hasOutOfCore(made.plan) || isWanted(query.debug) || deviceMs < hostMs) return made.plan;
            return onHost(host, slower(hostMs, deviceMs));
        } catch (error) {
            const reason = deviceFailure(error);
            if (reason === undefined) throw error;
            return onHost(host, reason);
        }
    }

    /** What there is to know of a plan before the GPU is opened for it: whether there is one. */
    #draft(query: PlanQuery, host: Plan, opened = this.#opening.opened): Draft {
        const own = opened === undefined ? query : this.#queryFor(opened, query);
        return { made: planOnDevice(own, host, opened === undefined ? 0 : this.#freeBytes(opened)), opened };
    }

    #queryFor(opened: OpenedGpu, query: PlanQuery): PlanQuery {
        return queryFor(opened, query, this.options.isMeasured === true);
    }

    /** The plan for the GPU as it is: the draft, if the GPU was open by then. */
    async #plan(
        query: PlanQuery,
        host: Plan,
        draft?: Draft
    ): Promise<{ made: DevicePlan | NotOnDevice; limitBytes: number; opened: OpenedGpu }> {
        const opened = await this.#opening.open(query.profile.deviceOpenMs);
        const { made } = draft?.opened === undefined ? this.#draft(query, host, opened) : draft;
        return { made, limitBytes: this.#freeBytes(opened), opened };
    }

    async #require(query: PlanQuery, host: Plan): Promise<Plan> {
        const draft = this.#draft(query, host);
        // Less memory than it takes at least is told as such once the GPU is open, and how much that is.
        if (draft.made instanceof NotOnDevice && draft.made.isFinal) throw cannotRun(draft.made.reason);
        const { made, limitBytes, opened } = await this.#plan(query, host, draft);
        if (made instanceof NotOnDevice) throw this.#refusal(made, query, host, opened, cannotRun);
        if (made.leastBytes > limitBytes) {
            throw this.#admission.tooSmall(made.leastBytes, limitBytes, made.notOutOfCore);
        }
        return made.plan;
    }

    /** What a query ends with that is to run on the GPU. `final`: where no memory would help. */
    #refusal(
        { reason, leastBytes, lacksHost }: NotOnDevice,
        query: PlanQuery,
        host: Plan,
        opened: OpenedGpu,
        final: (reason: string) => SpillwayError
    ): SpillwayError {
        const limitBytes = this.#freeBytes(opened);
        if (leastBytes !== undefined && leastBytes > limitBytes) {
            return this.#admission.tooSmall(leastBytes, limitBytes, undefined);
        }
        const { budgetBytes } = host.memory;
        const least = lacksHost ? leastHostBytes(this.#queryFor(opened, query), budgetBytes, limitBytes) : undefined;
        if (least === undefined) return final(reason);
        if (typeof least === "number") return lacksHostMemory(reason, least, budgetBytes, this.hostBytes);
        return least.lacksHost ? final(least.reason) : this.#refusal(least, query, host, opened, final);
    }

    /**
     * Waits until no other query computes on the GPU. Rejects with an error of `isMemoryTaken` where readers have taken
     * memory that the plan goes by.
     */
    public async takeTurn(job: Job, plan: Plan): Promise<DeviceTurn> {
        const limitBytes = this.#opening.opened?.limitBytes ?? Infinity;
        const turn = await this.#admission.takeTurn(job, plan, limitBytes);
        try {
            this.binding.resetDevicePeak(this.engine);
        } catch (error) {
            turn.end();
            throw error;
        }
        return turn;
    }

    /** What the readers of other queries leave; at least a byte, as none would mean that nothing is known. */
    #freeBytes({ limitBytes }: OpenedGpu): number {
        return Math.max(1, limitBytes - this.#admission.readersBytes);
    }

    /** Most GPU memory in use since the last turn began. */
    public peakBytes(): number {
        return this.#opening.opened === undefined ? 0 : this.binding.deviceMemory(this.engine).peakBytes;
    }

    /** The memory of another GPU; undefined: there is none, or the GPU is not open yet. */
    public peer(): PeerMemory | undefined {
        const { opened } = this.#opening;
        if (opened === undefined || opened.peerBytes === 0) return undefined;
        const { peerBytes: limitBytes, peerReadBytesPerMs, peerWriteBytesPerMs } = opened;
        if (peerReadBytesPerMs === 0 || peerWriteBytesPerMs === 0) return { limitBytes };
        return { limitBytes, readBytesPerMs: peerReadBytesPerMs, writeBytesPerMs: peerWriteBytesPerMs };
    }
}

function hasOutOfCore({ stages }: Plan): boolean {
    return stages.some(({ kind }) => isOutOfCore(kind));
}

/** Does the user want the GPU, whatever the predicted times? */
function isWanted(debug: Knobs): boolean {
    return debug.gpu === true || debug.outOfCore === true;
}

/** The time of a plan less what the query takes on either device before its stages begin. */
function comparedMs(plan: Plan, { profile }: PlanQuery): number {
    return plan.predictedMs - (plan.device === "gpu" ? profile.deviceQueryStartMs : queryStartMs(plan));
}

function slower(hostMs: number, deviceMs: number): string {
    return `predicted times are ${formatMs(hostMs)} on the CPU against ${formatMs(deviceMs)} on a GPU`;
}

/**
 * `grantedBytes`: what the query has of the `hostBytes` of the runtime, where it needs `leastBytes`. Readers of results
 * and streams have a share, so that the whole has to grow by as much.
 */
function lacksHostMemory(reason: string, leastBytes: number, grantedBytes: number, hostBytes: number): SpillwayError {
    const smallest = bytesOption((hostBytes * leastBytes) / grantedBytes);
    const needs = `${formatBytes(leastBytes)} of host memory`;
    const message =
        `The query needs about ${needs} to run on the GPU but ${formatBytes(grantedBytes)} are there for it ` +
        `(${reason}); set \`memory.host\` to "${smallest}" or more, or use device "auto" or "cpu"`;
    return new SpillwayError("BUDGET_TOO_SMALL", message, {
        ...{ tier: "host", wantedBytes: leastBytes, freeBytes: grantedBytes, limitBytes: hostBytes },
        ...{ option: "memory.host", smallest }
    });
}

function cannotRun(reason: string): SpillwayError {
    const message = `The GPU cannot run this query: ${reason}; use device "auto" or "cpu"`;
    return new SpillwayError("UNSUPPORTED_TYPE", message, { option: "device", reason });
}
