// SPDX-License-Identifier: Apache-2.0
import type { RecordBatch, Schema } from "apache-arrow";

import type { DebugKnobs } from "../model/debug-knobs.js";
import { logicalSchema, type LogicalNode } from "../plan/logical.js";
import type { Plan } from "../plan/plan.js";
import type { SinkHandle } from "../native/binding.js";
import type { Job } from "../execute/job.js";
import { QueryRun } from "./query-run.js";
import type { QueryRunner, RunRequest } from "./query-runner.js";
import type { SourceOf } from "../execute/result-dictionaries.js";
import { QueueSink, type ResultSink } from "../execute/result-sink.js";
import type { RunReport } from "../execute/run-report.js";

/** Tells when the queue exists: until then there is nothing to read from. */
class OpeningSink implements ResultSink {
    public readonly opened: Promise<void>;
    #resolve: () => void = () => undefined;

    public constructor(public readonly queue: QueueSink) {
        this.opened = new Promise((resolve) => {
            this.#resolve = resolve;
        });
    }

    public async open(plan: Plan, sourceOf: SourceOf): Promise<SinkHandle> {
        const handle = await this.queue.open(plan, sourceOf);
        this.#resolve();
        return handle;
    }

    public async finish(): Promise<void> {
        await this.queue.finish();
    }
}

/**
 * Result batches of a running query. The query starts with the first `next()` and runs by itself from then on: it waits
 * when the queue is full, and cleans up when the reader leaves, the signal aborts or the runtime closes.
 */
export class BatchStream implements AsyncIterableIterator<RecordBatch> {
    #job: Job | undefined;
    #sink: OpeningSink | undefined;
    /** Settles when the query has ended and all its handles but the queue are closed. */
    #running: Promise<unknown> | undefined;
    #failure: { error: unknown } | undefined;
    #ended = false;
    /** Calls of next() wait for each other. */
    #turn: Promise<unknown> = Promise.resolve();
    #pending = 0;

    public constructor(
        private readonly runner: QueryRunner,
        private readonly node: LogicalNode,
        private readonly debug: DebugKnobs,
        private readonly kind: "batches" | "table",
        private readonly request: RunRequest,
        private readonly report: (report: RunReport) => void
    ) {}

    public get schema(): Schema {
        return this.#sink?.queue.schema ?? logicalSchema(this.node);
    }

    public get deliveredBytes(): number {
        return this.#sink?.queue.deliveredBytes ?? 0;
    }

    public [Symbol.asyncIterator](): this {
        return this;
    }

    public async next(): Promise<IteratorResult<RecordBatch>> {
        return await this.#inTurn(async () => await this.#next());
    }

    /** Leaving the loop early cancels the query and waits until its memory and files are gone. */
    public async return(): Promise<IteratorResult<RecordBatch>> {
        this.#job?.cancel();
        return await this.#inTurn(async () => {
            await this.#end();
            return { done: true, value: undefined };
        });
    }

    public async throw(error?: unknown): Promise<IteratorResult<RecordBatch>> {
        await this.return();
        throw error;
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
        const started = new Promise<OpeningSink>((resolve, reject) => {
            const work = async (job: Job): Promise<void> => {
                this.#job = job;
                const sink = new OpeningSink(new QueueSink(job, this.node));
                this.#sink = sink;
                resolve(sink);
                const run = new QueryRun(this.runner, job, this.node, this.debug, this.kind, this.request);
                await run.run(sink, this.report);
            };
            this.#running = this.runner.runJob(this.request.signal, work).catch((error: unknown) => {
                this.#failure = { error };
                // A stage that was cancelled before it began, or that was to run again, has not ended the queue; a
                // reader that waits for a batch would wait for ever.
                this.#sink?.queue.close();
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
            const batch = this.#failure === undefined ? await sink.queue.next() : null;
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
        this.#sink?.queue.close();
        await this.#running;
    }
}
