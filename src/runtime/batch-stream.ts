// SPDX-License-Identifier: Apache-2.0
import type { RecordBatch, Schema } from "apache-arrow";

import { logicalSchema } from "../plan/logical.js";
import type { Plan } from "../plan/plan.js";
import type { SinkHandle } from "../native/binding.js";
import type { Job } from "../execute/job.js";
import { QueryRun, type QueryRequest } from "./query-run.js";
import type { SourceOf } from "../execute/result-dictionaries.js";
import { QueueSink } from "../execute/result-sink.js";

/** Tells when the queue exists: until then there is nothing to read from. */
class OpeningSink extends QueueSink {
    #resolve: () => void = () => undefined;
    public readonly opened = new Promise<void>((resolve) => {
        this.#resolve = resolve;
    });

    public override async open(plan: Plan, sourceOf: SourceOf, later = false): Promise<SinkHandle> {
        const handle = await super.open(plan, sourceOf, later);
        this.#resolve();
        return handle;
    }
}

/** The query behind a stream. It refers to no stream, so that one that the reader has dropped can be collected. */
class StreamRun {
    #job: Job | undefined;
    #sink: OpeningSink | undefined;
    /** Settles when the query has ended and all its handles but the queue are closed. */
    #running: Promise<unknown> | undefined;
    #failure: { error: unknown } | undefined;
    #ended = false;
    /** Calls of next() wait for each other. */
    #turn: Promise<unknown> = Promise.resolve();
    #pending = 0;

    public constructor(private readonly query: QueryRequest) {}

    public get schema(): Schema {
        return logicalSchema(this.query.node);
    }

    public get deliveredBytes(): number {
        return this.#sink?.deliveredBytes ?? 0;
    }

    public get ended(): boolean {
        return this.#ended;
    }

    public async next(): Promise<IteratorResult<RecordBatch>> {
        return await this.#inTurn(async () => await this.#next());
    }

    public async leave(): Promise<IteratorResult<RecordBatch>> {
        this.#job?.cancel();
        return await this.#inTurn(async () => {
            await this.#end();
            return { done: true, value: undefined };
        });
    }

    async #inTurn<T>(work: () => Promise<T>): Promise<T> {
        const mine = this.#turn.then(work);
        this.#turn = mine.catch(() => undefined);
        this.#pending++;
        this.#job?.waitedFor(true);
        try {
            return await mine;
        } finally {
            // A reader that stops reading leaves a query that waits for ever: the process may end regardless.
            if (--this.#pending === 0) this.#job?.waitedFor(false);
        }
    }

    async #start(): Promise<OpeningSink> {
        const { runner, node, request } = this.query;
        const started = new Promise<OpeningSink>((resolve, reject) => {
            const work = async (job: Job): Promise<void> => {
                this.#job = job;
                const sink = new OpeningSink(job, node);
                this.#sink = sink;
                resolve(sink);
                await new QueryRun(job, this.query).run(sink);
            };
            this.#running = runner.runJob(request.signal, work).catch((error: unknown) => {
                this.#failure ??= { error }; // or it ended because its rows could not be delivered
                // A stage that was cancelled before it began, or that was to run again, has not ended the queue; a
                // reader that waits for a batch would wait for ever.
                this.#sink?.close();
                reject(error);
            });
        });
        const sink = await started;
        // The query may also end before it has opened its queue.
        await Promise.race([sink.opened, this.#running]);
        return sink;
    }

    async #next(): Promise<IteratorResult<RecordBatch>> {
        if (this.#ended) return { done: true, value: undefined };
        try {
            const sink = this.#sink ?? (await this.#start());
            const batch = await sink.next(); // none where the query has failed: its queue is closed
            if (batch !== null) return { done: false, value: batch };
            await this.#running;
        } catch (error) {
            // What the query itself ended with is there already; else it is the delivery that failed.
            this.#failure ??= { error: this.#job?.outcome(error) ?? error };
        }
        await this.#end();
        if (this.#failure !== undefined) throw this.#failure.error;
        return { done: true, value: undefined };
    }

    async #end(): Promise<void> {
        this.#ended = true;
        this.#sink?.close();
        await this.#running;
    }
}

// The net under a stream that its reader dropped without return(): whoever calls next() once and throws the stream away
// would leave a query that holds its memory until the runtime is closed.
const abandoned = new FinalizationRegistry<StreamRun>((run) => {
    run.leave().catch(() => undefined);
});

/**
 * Result batches of a running query. The query starts with the first `next()` and runs by itself from then on: it waits
 * when the queue is full, and cleans up when the reader leaves, the signal aborts, the runtime closes or the stream is
 * collected as garbage.
 */
export class BatchStream implements AsyncIterableIterator<RecordBatch> {
    readonly #run: StreamRun;

    /**
     * `mayBeDropped`: nobody else makes sure that the reader comes to its end. What a registry of finalizers knows V8
     * keeps, with all it refers to, until it collects old objects, also when it is unregistered.
     */
    public constructor(
        query: QueryRequest,
        private readonly mayBeDropped = true
    ) {
        this.#run = new StreamRun(query);
        if (mayBeDropped) abandoned.register(this, this.#run, this);
    }

    public get schema(): Schema {
        return this.#run.schema;
    }

    public get deliveredBytes(): number {
        return this.#run.deliveredBytes;
    }

    public [Symbol.asyncIterator](): this {
        return this;
    }

    // This call refers to the stream until it settles: a reader who waits for a batch keeps the stream.
    public async next(): Promise<IteratorResult<RecordBatch>> {
        try {
            return await this.#run.next();
        } finally {
            this.#forgetEnded();
        }
    }

    /** Leaving the loop early cancels the query and waits until its memory and files are gone. */
    public async return(): Promise<IteratorResult<RecordBatch>> {
        try {
            return await this.#run.leave();
        } finally {
            this.#forgetEnded();
        }
    }

    public async throw(error?: unknown): Promise<IteratorResult<RecordBatch>> {
        await this.return();
        throw error;
    }

    #forgetEnded(): void {
        if (this.mayBeDropped && this.#run.ended) abandoned.unregister(this);
    }
}
