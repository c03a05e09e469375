// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import type { Job } from "../execute/job.js";
import type { DeviceGroupAlgorithm, DeviceJoinAlgorithm } from "../model/algorithms.js";
import type { DebugKnobs } from "../model/debug-knobs.js";
import { clamp, bytesOption, formatBytes, formatMs, parseBytes } from "../model/sizes.js";
import type { Binding, EngineHandle } from "../native/binding.js";
import { freezePlan, type Plan } from "../plan/plan.js";
import { NotOnDevice } from "../planner/device-support.js";
import { namedAlgorithm } from "../planner/device-algorithms.js";
import { besideBytes } from "../planner/out-of-core/host-memory.js";
import { outOfCoreHostBytes } from "../planner/out-of-core/plan.js";
import { planOnDevice, type DevicePlan } from "../planner/plan-device.js";
import type { QueryPlanner } from "../planner/plan-query.js";
import type { PlanQuery } from "../planner/plan-search.js";
import { defaultPolicy } from "../planner/policy.js";
import { isCoherent, openedGpu, queryFor, requireGpu, usableGpu, type OpenedGpu } from "./opened-gpu.js";

const mebibyte = 1024 * 1024;

/** Which device a runtime was opened for. */
export interface DeviceOptions {
    device: "auto" | "cpu" | "gpu";
    /** GPU memory that queries may use; undefined: what is free when the first one needs it. */
    memoryBytes: number | undefined;
    /** The caller gave the speeds of the GPU: those of its name that come with the package do not count. */
    isMeasured?: boolean;
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

/** A join or group-by out of core lacked memory, of whatever kind, or lost the GPU, before it gave rows to its sink. */
export function sentNothing(error: unknown): boolean {
    return error instanceof SpillwayError && error.details["delivered"] === "nothing";
}

/** The GPU will not do an operation this way: what a sample told of the keys was wrong. */
export function isRefusal(error: unknown): boolean {
    return error instanceof SpillwayError && error.details["reason"] === "deviceUnsupported";
}

/** Decides where the queries of one runtime run, and opens the GPU when the first one is to run there. */
export class QueryDevice {
    #opened: Promise<OpenedGpu> | undefined;
    #usable: OpenedGpu | undefined;
    /** Ends when nobody computes on the GPU. */
    #turn: Promise<void> = Promise.resolve();

    public constructor(
        private readonly binding: Binding,
        private readonly engine: EngineHandle,
        private readonly options: DeviceOptions,
        private readonly hostBytes: number
    ) {}

    get #isOpen(): boolean {
        return this.#usable !== undefined;
    }

    public get isAutomatic(): boolean {
        return this.options.device === "auto";
    }

    /** Is the next query likely to run on the GPU? What only a plan for it needs is sampled then. */
    public isLikely(debug: DebugKnobs): boolean {
        const { device } = this.options;
        return device !== "cpu" && (device === "gpu" || this.#isOpen || isWanted(debug));
    }

    /** Host memory that the query could use out of core; 0 where none is to be expected. */
    public wantedBytes(planner: QueryPlanner): number {
        const { query } = planner;
        const { memoryBytes } = this.options;
        if (!this.isLikely(query.debug)) return 0;
        // Its path is decided before it is opened: that of kernels wants other memory than that of copy engines.
        const coherentDevice = this.#usable?.isCoherent ?? isCoherent(usableGpu(this.binding.devices()));
        const bytes = outOfCoreHostBytes({ ...query, coherentDevice }, this.#usable?.limitBytes ?? memoryBytes);
        return bytes === 0 ? 0 : bytes + besideBytes(planner.plan(query.budgetBytes, false));
    }

    /**
     * The plan of a query for the device that it is to run on. `host`: its plan for the CPU engine. Throws where the
     * GPU was asked for and cannot run the query.
     */
    public async choose(query: PlanQuery, host: Plan): Promise<Plan> {
        if (this.options.device === "cpu") return host;
        if (this.options.device === "gpu") return await this.#require(query, host);
        if (isWanted(query.debug)) return await this.#prefer(query, host);
        if (namedAlgorithm(query.root) !== undefined) return await this.#asNamed(query, host);
        const profile = query.profile;
        const policy = query.policy ?? defaultPolicy;
        if (!this.#isOpen && host.predictedMs < policy.deviceWorthMs) return onHost(host, "the query is a small one");
        const draft = this.#draft(query, host);
        if (draft.made instanceof NotOnDevice) return onHost(host, draft.made.reason);
        const ms = draft.made.plan.predictedMs + (this.#isOpen ? 0 : profile.deviceOpenMs);
        if (ms >= host.predictedMs) {
            const looked = this.#isOpen ? "" : ", so none was looked for"; // which takes some 100 ms
            return onHost(host, `${slower(host.predictedMs, ms)}${looked}`);
        }
        return await this.#prefer(query, host, draft);
    }

    /** Throws where the user asks for an algorithm of the GPU and keeps queries away from it. */
    public checkAlgorithm(algorithm: DeviceJoinAlgorithm | DeviceGroupAlgorithm | undefined): void {
        const { device } = this.options;
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
            ? onHost(host, draft.made.reason)
            : await this.#prefer(query, host, draft);
    }

    /** The GPU if it can be had. */
    async #prefer(query: PlanQuery, host: Plan, draft?: Draft): Promise<Plan> {
        try {
            const { made, limitBytes } = await this.#plan(query, host, draft);
            if (made instanceof NotOnDevice) return onHost(host, made.reason);
            const wanted = made.plan.deviceMemory?.estimatedBytes ?? 0;
            if (wanted > limitBytes) return onHost(host, doesNotFit(wanted, limitBytes, made.notOutOfCore));
            if (!isOutOfCore(made.plan) || isWanted(query.debug) || made.plan.predictedMs < host.predictedMs) {
                return made.plan;
            }
            return onHost(host, slower(host.predictedMs, made.plan.predictedMs));
        } catch (error) {
            const reason = deviceFailure(error);
            if (reason === undefined) throw error;
            return onHost(host, reason);
        }
    }

    /** What there is to know of a plan before the GPU is opened for it: whether there is one. */
    #draft(query: PlanQuery, host: Plan, opened = this.#usable): Draft {
        const own = opened === undefined ? query : queryFor(opened, query, this.options.isMeasured === true);
        return { made: planOnDevice(own, host, opened?.limitBytes ?? 0), opened };
    }

    /** The plan for the GPU as it is: the draft, if the GPU was open by then. */
    async #plan(
        query: PlanQuery,
        host: Plan,
        draft?: Draft
    ): Promise<{ made: DevicePlan | NotOnDevice; limitBytes: number }> {
        const opened = await this.#open();
        const { made } = draft?.opened === undefined ? this.#draft(query, host, opened) : draft;
        return { made, limitBytes: opened.limitBytes };
    }

    async #require(query: PlanQuery, host: Plan): Promise<Plan> {
        const draft = this.#draft(query, host);
        if (draft.made instanceof NotOnDevice) throw cannotRun(draft.made.reason);
        const { made, limitBytes } = await this.#plan(query, host, draft);
        if (made instanceof NotOnDevice) {
            const { leastBytes, reason } = made;
            throw leastBytes === undefined ? cannotRun(reason) : tooSmall(leastBytes, limitBytes, undefined);
        }
        if (made.leastBytes > limitBytes) throw tooSmall(made.leastBytes, limitBytes, made.notOutOfCore);
        return made.plan;
    }

    async #open(): Promise<OpenedGpu> {
        this.#opened ??= this.#openUsable();
        try {
            return await this.#opened;
        } catch (error) {
            // Its memory may be free for a later query.
            this.#opened = undefined;
            throw error;
        }
    }

    async #openUsable(): Promise<OpenedGpu> {
        const gpu = requireGpu(this.binding);
        const { limitBytes } = await this.binding.openDevice(this.engine, {
            ordinal: gpu.ordinal,
            memoryBytes: this.options.memoryBytes ?? 0,
            pinnedBytes: this.hostBytes + keptPinnedBytes(this.hostBytes),
            keptPinnedBytes: keptPinnedBytes(this.hostBytes)
        });
        this.#usable = openedGpu(gpu, limitBytes);
        return this.#usable;
    }

    /** Waits until no other query computes on the GPU; the function ends the turn, and may be called again. */
    public async takeTurn(job: Job): Promise<() => void> {
        const before = this.#turn;
        let end = (): void => undefined;
        this.#turn = new Promise<void>((resolve) => (end = resolve));
        try {
            await job.unlessCancelled(before);
            this.binding.resetDevicePeak(this.engine);
        } catch (error) {
            void before.then(end);
            throw error;
        }
        return end;
    }

    /** Most GPU memory in use since the last turn began. */
    public peakBytes(): number {
        return this.#isOpen ? this.binding.deviceMemory(this.engine).peakBytes : 0;
    }
}

/**
 * Pinned memory that is cached between queries beside their budget; what queries take counts in it, and so does what a
 * join out of core leaves in the cache. The plugin's own blocks, for copies of ordinary memory, are 32 MiB
 * (cuda/device/device_policy.hpp).
 */
function keptPinnedBytes(hostBytes: number): number {
    return Math.floor(clamp(hostBytes / 8, 48 * mebibyte, 1024 * mebibyte));
}

function isOutOfCore({ stages }: Plan): boolean {
    return stages.some(({ kind }) => kind === "deviceOutOfCoreJoin" || kind === "deviceOutOfCoreGroupBy");
}

/** Does the user want the GPU, whatever the predicted times? */
function isWanted(debug: DebugKnobs): boolean {
    return debug.gpu === true || debug.outOfCore === true;
}

function slower(hostMs: number, deviceMs: number): string {
    return `predicted times are ${formatMs(hostMs)} on the CPU against ${formatMs(deviceMs)} on a GPU`;
}

function doesNotFit(wantedBytes: number, limitBytes: number, notOutOfCore: string | undefined): string {
    const needs = `the query needs ${formatBytes(wantedBytes)} of GPU memory, ${formatBytes(limitBytes)} are allowed`;
    return notOutOfCore === undefined ? needs : `${needs}, and out of core: ${notOutOfCore}`;
}

function cannotRun(reason: string): SpillwayError {
    const message = `The GPU cannot run this query: ${reason}; use device "auto" or "cpu"`;
    return new SpillwayError("UNSUPPORTED_TYPE", message, { option: "device", reason });
}

function tooSmall(leastBytes: number, limitBytes: number, notOutOfCore: string | undefined): SpillwayError {
    const option = bytesOption(leastBytes);
    const wantedBytes = parseBytes(option, "memory.device");
    return new SpillwayError(
        "BUDGET_TOO_SMALL",
        `The query needs at least ${formatBytes(wantedBytes)} of GPU memory but ${formatBytes(limitBytes)} are ` +
            `allowed${notOutOfCore === undefined ? "" : ` (out of core: ${notOutOfCore})`}; ` +
            `set \`memory.device\` to "${option}" or more, or use device "auto" or "cpu"`,
        { tier: "device", wantedBytes, freeBytes: limitBytes, limitBytes, option: "memory.device", smallest: option }
    );
}
