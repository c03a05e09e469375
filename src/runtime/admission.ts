// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import { budgetTooSmall } from "../planner/plan-query.js";

export interface MemoryRequest {
    /** At most wantedBytes. Asked only when memory is short: working it out takes the planner as long as a plan. */
    minimumBytes: () => number;
    wantedBytes: number;
    /**
     * The query may wait for user code: its reader, or the iterator of a stream it reads. That code may run queries of
     * its own, so such a query leaves memory for others and nobody waits for it.
     */
    waitsForUser: boolean;
}

interface Grant {
    bytes: number;
    waitsForUser: boolean;
}

interface Waiter {
    request: Omit<MemoryRequest, "minimumBytes"> & { minimumBytes: number };
    resolve: (grant: Grant) => void;
    reject: (error: SpillwayError) => void;
}

/** With estimates that may be wrong, more than wanted is better than spilling next to free memory. */
function wishedBytes(wantedBytes: number): number {
    return wantedBytes * 2;
}

/**
 * Shares the memory budget of a runtime among its queries. A query gets what it wants if that is free, less if it can
 * do with less, else it waits for queries that end by themselves, first come, first served. It never waits for one
 * that itself may wait for user code: that could be a deadlock, and is an error instead.
 */
export class Admission {
    readonly #grants = new Set<Grant>();
    readonly #waiting: Waiter[] = [];

    public constructor(private readonly limitBytes: number) {}

    public get running(): number {
        return this.#grants.size;
    }

    /** `onCancel` registers what is to happen when the query is cancelled while it waits. */
    public async admit(
        request: MemoryRequest,
        onCancel: (cancel: () => void) => void
    ): Promise<{ bytes: number; release: () => void }> {
        const grant = this.#grantPlenty(request) ?? (await this.#waitFor(request, onCancel));
        return {
            bytes: grant.bytes,
            release: () => {
                this.#grants.delete(grant);
                this.#serve();
            }
        };
    }

    /** When memory is free for all that the query could use. */
    #grantPlenty({ wantedBytes, waitsForUser }: MemoryRequest): Grant | undefined {
        const free = this.limitBytes - this.#held(() => true);
        const wished = wishedBytes(wantedBytes);
        if (this.#waiting.length > 0 || wished > (waitsForUser ? free / 2 : free)) return undefined;
        const grant = { bytes: Math.floor(wished), waitsForUser };
        this.#grants.add(grant);
        return grant;
    }

    async #waitFor(asked: MemoryRequest, onCancel: (cancel: () => void) => void): Promise<Grant> {
        const request = { ...asked, minimumBytes: asked.minimumBytes() };
        if (request.minimumBytes > this.limitBytes) {
            throw budgetTooSmall(request.minimumBytes, this.limitBytes, "are allowed");
        }
        return await new Promise<Grant>((resolve, reject) => {
            const waiter = { request, resolve, reject };
            this.#waiting.push(waiter);
            this.#serve();
            onCancel(() => {
                const index = this.#waiting.indexOf(waiter);
                if (index < 0) return;
                this.#waiting.splice(index, 1);
                reject(new SpillwayError("ABORTED", "The query was aborted while it waited for memory"));
                this.#serve();
            });
        });
    }

    /** Refuses everybody who still waits. */
    public close(error: SpillwayError): void {
        for (const waiter of this.#waiting.splice(0)) waiter.reject(error);
    }

    #held(filter: (grant: Grant) => boolean): number {
        let bytes = 0;
        for (const grant of this.#grants) if (filter(grant)) bytes += grant.bytes;
        return bytes;
    }

    #serve(): void {
        for (let waiter = this.#waiting[0]; waiter !== undefined; waiter = this.#waiting[0]) {
            const { request } = waiter;
            const free = this.limitBytes - this.#held(() => true);
            const wished = Math.max(request.minimumBytes, wishedBytes(request.wantedBytes));
            const most = request.waitsForUser ? Math.max(request.minimumBytes, free / 2) : free;
            const others = this.#held((grant) => !grant.waitsForUser);
            const enough = Math.min(wished, (request.minimumBytes + request.wantedBytes) / 2);
            if (free >= request.minimumBytes && (Math.min(free, most) >= enough || others === 0)) {
                this.#waiting.shift();
                const grant = { bytes: Math.floor(Math.min(wished, most)), waitsForUser: request.waitsForUser };
                this.#grants.add(grant);
                waiter.resolve(grant);
                continue;
            }
            if (free + others >= request.minimumBytes) return; // enough will be free when those have ended
            this.#waiting.shift();
            waiter.reject(this.#refuse(request, free + others));
        }
    }

    #refuse(request: Waiter["request"], freeBytes: number): SpillwayError {
        const error = budgetTooSmall(
            request.minimumBytes + this.limitBytes - freeBytes,
            this.limitBytes,
            "are allowed"
        );
        const plural = this.#grants.size === 1 ? "" : "s";
        const open = `${this.#grants.size} open result${plural} of this runtime hold memory`;
        return new SpillwayError(
            "BUDGET_TOO_SMALL",
            `${error.message}, or read ${open} to the end first`,
            error.details
        );
    }
}
