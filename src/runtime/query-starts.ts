// SPDX-License-Identifier: Apache-2.0
import { setImmediate as nextTurn } from "node:timers/promises";

import { SpillwayError } from "../errors.js";

/**
 * Queries that are planned before the event loop turns. What has been planned lives until its query ends: of 2,000
 * counts that were planned in one go V8 copied the plans of most from its young objects to its old ones, which took
 * more than twice the time of all else. Between turns the queries before end, and timers and aborts come through.
 */
const plannedInTurn = 16;

/** Queries that run on this thread leave the event loop waiting for so long, and for the one that runs, at most. */
const turnMs = 1;

interface Waiting {
    go: () => void;
}

/**
 * Who may plan a query, first come, first served: as long as few queries are under way everybody, then some in each
 * turn of the event loop, and nobody while queries wait for memory, who would only wait behind them.
 */
export class QueryStarts {
    readonly #line: Waiting[] = [];
    #planned = 0;
    #turns = false;
    /** When queries began to run on this thread, if the event loop has had no turn since. */
    #ranSinceMs: number | undefined;

    public constructor(
        private readonly underWay: () => number,
        private readonly waitForMemory: () => boolean
    ) {}

    /** `onCancel` registers what is to happen when the query is cancelled while it waits. Undefined: it need not. */
    public wait(onCancel: (cancel: () => void) => void): Promise<void> | undefined {
        if (this.#line.length === 0 && this.#mayPlan()) {
            this.#plan();
            return undefined;
        }
        return new Promise<void>((resolve, reject) => {
            const waiting = { go: resolve };
            this.#line.push(waiting);
            this.#turn();
            onCancel(() => {
                const index = this.#line.indexOf(waiting);
                if (index < 0) return;
                this.#line.splice(index, 1);
                reject(new SpillwayError("ABORTED", "The query was aborted before it was planned"));
            });
        });
    }

    /**
     * Before a query runs on this thread: waits for the event loop, if it had no turn for a while. Who awaits one such
     * query after the other would hold up all else.
     */
    public turn(): Promise<void> | undefined {
        const now = performance.now();
        if (this.#ranSinceMs === undefined) {
            this.#ranSinceMs = now;
            setImmediate(() => (this.#ranSinceMs = undefined));
        }
        return now - this.#ranSinceMs < turnMs ? undefined : nextTurn();
    }

    /** Nobody waits for memory any more. */
    public goOn(): void {
        if (this.#line.length > 0) this.#turn();
    }

    #mayPlan(): boolean {
        return (this.underWay() < plannedInTurn || this.#planned < plannedInTurn) && !this.waitForMemory();
    }

    #plan(): void {
        if (this.underWay() < plannedInTurn) return;
        this.#planned++;
        this.#turn();
    }

    /** After the next turn of the event loop as many may plan again. Those who wait keep the process alive. */
    #turn(): void {
        if (this.#turns) return;
        this.#turns = true;
        setImmediate(() => {
            this.#turns = false;
            this.#planned = 0;
            while (this.#line.length > 0 && this.#mayPlan()) {
                this.#plan();
                this.#line.shift()?.go();
            }
        });
    }
}
