// SPDX-License-Identifier: Apache-2.0
import { invalidArgument } from "../model/arguments.js";
import type { Job } from "./job.js";

async function* oneByOne(values: Iterable<unknown>): AsyncGenerator<unknown, void, undefined> {
    yield* values;
}

function iteratorOf(iterable: unknown): AsyncIterator<unknown> {
    if (typeof iterable === "object" && iterable !== null) {
        if (Symbol.asyncIterator in iterable) return (iterable as AsyncIterable<unknown>)[Symbol.asyncIterator]();
        if (Symbol.iterator in iterable) return oneByOne(iterable as Iterable<unknown>);
    }
    throw invalidArgument("open", "a function that returns an async iterable of record batches", iterable);
}

/**
 * Takes values from an iterable of the caller's as `for await` does, but no wait for his code outlasts the query: a
 * message that does not come must not hold up an abort, or the closing of the runtime.
 */
export class CallersIterator {
    readonly #iterator: AsyncIterator<unknown>;
    #ended = false;
    /** Ends the wait for the next value. */
    #wake: (() => void) | undefined;

    public constructor(
        private readonly job: Job,
        iterable: unknown
    ) {
        this.#iterator = iteratorOf(iterable);
    }

    /**
     * Rejects at once when the query is cancelled, and has no more values once they were enough; one that comes later
     * is dropped.
     */
    public async next(): Promise<IteratorResult<unknown>> {
        this.job.check();
        const value = new Promise<IteratorResult<unknown>>((resolve, reject) => {
            this.#wake = (): void => {
                resolve({ done: true, value: undefined });
            };
            this.#take().then(resolve, reject);
        });
        return await this.job.unlessCancelled(value);
    }

    async #take(): Promise<IteratorResult<unknown>> {
        try {
            const result = await this.#iterator.next();
            if (result.done === true) this.#ended = true;
            return result;
        } catch (error) {
            this.#ended = true;
            throw error;
        }
    }

    /** Its values are enough. It is told, but not waited for: the next of them may never come. */
    public abandon(): void {
        this.#wake?.();
        void this.leave();
    }

    /**
     * Tells an iterator that is left before its end. It is waited for as long as the query is not cancelled, but not
     * longer: return() of a generator waits for its pending next(). What it throws is dropped, because the query ends
     * with the error that it was left for.
     */
    public async leave(): Promise<void> {
        if (this.#ended) return;
        this.#ended = true;
        try {
            await this.job.unlessCancelled(this.#iterator.return?.());
        } catch {
            return;
        }
    }
}
