// SPDX-License-Identifier: Apache-2.0
import { SpillwayError, toSpillwayError } from "../errors.js";
import { readArgument } from "../model/arguments.js";
import type { Binding, EngineHandle, JobHandle, NativeProgress } from "../native/binding.js";

/** Cancellation and clean-up of one query. Native handles are closed in the reverse order of their making. */
export class Job {
    public readonly handle: JobHandle;
    /** What of the budget no other query was granted; set when this one is admitted. */
    public grantableBytes: () => number = () => Infinity;
    readonly #cleanups: (() => void)[] = [];
    readonly #cancelListeners = new Set<() => void>();
    readonly #signal: AbortSignal | undefined;
    #cancelled = false;
    #here = false;
    #closed: SpillwayError | undefined;
    #failure: { error: unknown } | undefined;

    public constructor(
        public readonly binding: Binding,
        public readonly engine: EngineHandle,
        signal: AbortSignal | undefined
    ) {
        this.#signal = signal;
        this.handle = binding.createJob(engine);
        if (signal === undefined) return;
        const abort = (): void => this.cancel();
        readArgument("signal", () => signal.addEventListener("abort", abort, { once: true }));
        this.#cleanups.push(() => signal.removeEventListener("abort", abort));
        if (signal.aborted) this.cancel();
    }

    /** Stops the stages that run; their promises reject soon. */
    public cancel(): void {
        this.#cancelled = true;
        this.binding.cancelJob(this.handle);
        // Whoever cancelled may wait for the end, which is near: the process must not end before it (see waitedFor).
        this.binding.waitForJob(this.handle, true);
        const listeners = [...this.#cancelListeners];
        this.#cancelListeners.clear();
        for (const listener of listeners) listener();
    }

    /**
     * Calls back when the query is cancelled, at once if it was before; for waits that are not the engine's. Returns
     * what forgets the listener.
     */
    public onCancel(listener: () => void): () => void {
        if (this.#cancelled) listener();
        else this.#cancelListeners.add(listener);
        return () => {
            this.#cancelListeners.delete(listener);
        };
    }

    /**
     * Settles as `work` does, but rejects as soon as the query is cancelled: code of the caller's may never settle.
     * What `work` brings after that is dropped.
     */
    public async unlessCancelled<T>(work: PromiseLike<T> | T): Promise<T> {
        let forget = (): void => undefined;
        try {
            return await new Promise<T>((resolve, reject) => {
                Promise.resolve(work).then(resolve, reject);
                forget = this.onCancel(() => reject(this.#reason()));
            });
        } finally {
            forget();
        }
    }

    /** Cancels because the runtime is closing. */
    public close(): void {
        this.#closed = new SpillwayError("CLOSED", "The runtime was closed while the query ran");
        this.cancel();
    }

    /** Cancels because of an error outside of the engine (a stream's iterator, for instance), which is what counts. */
    public fail(error: unknown): void {
        // What a query was cancelled for comes first: a stream that was cut off then fails as well.
        if (this.#closed === undefined) this.#failure ??= { error };
        this.cancel();
    }

    /** Throws if the query is not to go on. */
    public check(): void {
        if (this.#cancelled || this.#signal?.aborted) throw this.#reason();
    }

    /** Why the query was cancelled. */
    #reason(): unknown {
        return this.outcome(new SpillwayError("ABORTED", "The query was cancelled: its result is no longer read"));
    }

    /** Runs when the query has ended, whatever the outcome; the last one registered runs first. */
    public onEnd(cleanup: () => void): void {
        this.#cleanups.push(cleanup);
    }

    public end(): void {
        for (let cleanup = this.#cleanups.pop(); cleanup !== undefined; cleanup = this.#cleanups.pop()) cleanup();
    }

    /** While nobody waits for its stages (a reader that pauses), the query does not keep the process alive. */
    public waitedFor(waited: boolean): void {
        this.binding.waitForJob(this.handle, waited || this.#cancelled);
    }

    /** Do its stages run on this thread? Not before it is said. */
    public runsHere(here: boolean): void {
        if (here !== this.#here) this.binding.runStagesHere(this.handle, here);
        this.#here = here;
    }

    public progress(): NativeProgress {
        return this.binding.jobProgress(this.handle);
    }

    /** The error to report for a query that ended with `error`: why it was cancelled, if it was. */
    public outcome(error: unknown): unknown {
        if (this.#signal?.aborted) return this.#signal.reason;
        if (this.#failure !== undefined) return this.#failure.error;
        return this.#closed ?? toSpillwayError(error);
    }
}
