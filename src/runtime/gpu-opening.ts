// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import { formatMs, mebibyte } from "../model/sizes.js";
import type { Binding, EngineHandle, NativeDevice } from "../native/binding.js";
import { deviceConstants } from "../model/device-constants.js";
import { openedGpu, requireGpu, type OpenedGpu } from "./opened-gpu.js";

/**
 * Pinned memory that is beside the budget: the plugin's own blocks for copies of ordinary memory, and segments that
 * small blocks share. What queries take, and what stays pinned for the next ones, counts in the budget.
 */
const besideBudgetBytes = deviceConstants.stagingBytes + 16 * mebibyte;

/**
 * A query's time on the CPU counts as no more than this many times the predicted one: a query that waited for its
 * files, or for others, would have waited with a GPU as well.
 */
const elapsedTimesMax = 2;

/** Time that queries would have saved on a GPU, less the openings that it has paid for. */
export class Savings {
    #ms = 0;

    public get ms(): number {
        return this.#ms;
    }

    /** `ms`: less than nothing where a query was faster on the CPU than predicted. */
    public add(ms: number): void {
        this.#ms = Math.max(0, this.#ms + ms);
    }

    /** An opening begins that takes so long. */
    public spend(ms: number): void {
        this.#ms = Math.max(0, this.#ms - ms);
    }
}

/** Those of all runtimes: many short ones together have paid for an opening as well as a long one has. */
const savingsOfProcess = new Savings();

export interface GpuMemoryOptions {
    /** GPU memory that queries may use; undefined: what is free when the first one needs it. */
    readonly memoryBytes: number | undefined;
    /** Memory of another GPU for what they spill; undefined: none. */
    readonly peerBytes?: number | undefined;
    /** Which GPU that is; undefined: the first that this one reaches. */
    readonly peerOrdinal?: number | undefined;
}

/** Opens the GPU of one runtime, once, and knows when that is worth it. */
export class GpuOpening {
    #opening: Promise<OpenedGpu> | undefined;
    #opened: OpenedGpu | undefined;
    #beganMs = 0;
    #failure: string | undefined;
    #closed = false;

    public constructor(
        private readonly binding: Binding,
        private readonly engine: EngineHandle,
        private readonly memory: GpuMemoryOptions,
        private readonly hostBytes: number,
        private readonly savings: Savings = savingsOfProcess
    ) {}

    public get opened(): OpenedGpu | undefined {
        return this.#opened;
    }

    public get isUnderWay(): boolean {
        return this.#opening !== undefined && this.#opened === undefined;
    }

    /** Why there is no GPU to open, once that is known. A GPU whose memory others hold may be tried again. */
    public get failure(): string | undefined {
        return this.#failure;
    }

    /** What an opening that takes `openMs` still takes from now on. */
    public remainingMs(openMs: number): number {
        return this.#opening === undefined ? openMs : Math.max(0, openMs - (performance.now() - this.#beganMs));
    }

    /**
     * A query would have saved so much. Begins to open the GPU in the background if all of them together would have
     * saved more than that takes. Says in words what comes of it. `isRun` false: nothing counts and nothing begins.
     */
    public promise(savingMs: number, openMs: number, isRun: boolean): string {
        if (this.#opening !== undefined) return "the GPU is still being opened";
        const savedMs = this.savings.ms + savingMs;
        if (isRun) this.savings.add(savingMs);
        const soFar = `queries of this process would have saved ${formatMs(savedMs)} on it so far`;
        if (savedMs <= openMs) return `to open it takes ${formatMs(openMs)}, and ${soFar}`;
        if (isRun) this.begin(openMs);
        return isRun
            ? `it is being opened in the background from now on: ${soFar}`
            : `it is opened by the next run: ${soFar}`;
    }

    /**
     * A query for which a saving was promised has run on the CPU. What it took there counts from now on, in place of
     * what was predicted: profiles of processors are of common ones. Begins to open the GPU where that is worth it now.
     */
    public ran(predictedMs: number, elapsedMs: number, openMs: number): void {
        this.savings.add(Math.min(elapsedMs, elapsedTimesMax * predictedMs) - predictedMs);
        if (this.#opening === undefined && this.#failure === undefined && this.savings.ms > openMs) this.begin(openMs);
    }

    /** Opens it while the caller goes on. `openMs`: paid for by savings; left out: somebody asked for it. */
    public begin(openMs = 0): void {
        if (this.#closed) return;
        // Whoever asks for it later is told why it failed.
        this.open(openMs).catch(() => undefined);
    }

    /** The GPU, once it is open. Throws NO_DEVICE where there is none, OUT_OF_MEMORY where others hold its memory. */
    public async open(openMs: number): Promise<OpenedGpu> {
        if (this.#opening === undefined) {
            this.savings.spend(openMs);
            this.#beganMs = performance.now();
            this.#opening = this.#open();
        }
        try {
            return await this.#opening;
        } catch (error) {
            if (error instanceof SpillwayError && error.code === "NO_DEVICE") {
                this.#failure = String(error.details["reason"] ?? error.message);
            }
            // Its memory may be free for a later query.
            this.#opening = undefined;
            throw error;
        }
    }

    /** The GPU that queries run on; looks for it on a thread, as a driver may take its time to answer. */
    public async find(): Promise<NativeDevice> {
        await this.binding.lookForDevices(this.engine);
        return requireGpu(this.binding);
    }

    public async close(): Promise<void> {
        this.#closed = true;
        await this.#opening?.catch(() => undefined);
    }

    async #open(): Promise<OpenedGpu> {
        const gpu = await this.find();
        if (this.#closed) throw new SpillwayError("CLOSED", "The runtime was closed while its GPU was being opened");
        const opened = await this.binding.openDevice(this.engine, {
            ordinal: gpu.ordinal,
            memoryBytes: this.memory.memoryBytes ?? 0,
            pinnedBytes: this.hostBytes + besideBudgetBytes,
            keptPinnedBytes: besideBudgetBytes,
            peerBytes: this.memory.peerBytes ?? 0,
            peerOrdinal: this.memory.peerOrdinal ?? -1
        });
        this.#opened = openedGpu(gpu, opened);
        return this.#opened;
    }
}
