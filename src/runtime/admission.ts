// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import { bytesOption, formatBytes } from "../model/sizes.js";
import { budgetTooSmall } from "../planner/plan-query.js";

export interface MemoryRequest {
    /** At most wantedBytes. Asked only when memory is short: working it out takes the planner as long as many plans. */
    minimumBytes: () => number;
    /** Is so much enough? By a plan for it, which is needed then; left out: what is no less than `minimumBytes`. */
    fits?: (bytes: number) => boolean;
    wantedBytes: number;
    /**
     * The query may wait for user code: its reader, or the iterator of a stream it reads. That code may run queries of
     * its own, so such a query leaves memory for others and nobody waits for it.
     */
    waitsForUser: boolean;
}

/** What is taken of the budget, by a query or by a table that is collected. */
interface Holder {
    bytes: number;
    waitsForUser: boolean;
}

interface Grant extends Holder {
    /** What it could not do without, and what it would have liked. */
    minimumBytes: () => number;
    wishedBytes: number;
}

type Request = Omit<MemoryRequest, "minimumBytes" | "fits"> & { minimumBytes: number };
type Asked = Required<MemoryRequest>;

interface Waiter {
    asked: Asked;
    resolve: (grant: Grant) => void;
    reject: (error: SpillwayError) => void;
}

/** With estimates that may be wrong, more than wanted is better than spilling next to free memory. */
function wishedBytes(wantedBytes: number): number {
    return wantedBytes * 2;
}

/** With less than this, but for what it needs at least, a query rather waits for others to end. */
function leastOffer(wantedBytes: number, minimumBytes: number): number {
    return (minimumBytes + wantedBytes) / 2;
}

/**
 * What a query that may wait for user code gets at most: half of what is free when it is the only one, else less, so
 * that many (a stream per request of a server, say) find room.
 */
function shareOf(freeBytes: number, others: number): number {
    return freeBytes / (others === 0 ? 2 : 8);
}

/** What a query would like of so much that is free, and what it can have of it: what it needs, in any case. */
function offer(request: Request, freeBytes: number, others: number): { wished: number; most: number } {
    const { minimumBytes, wantedBytes, waitsForUser } = request;
    return {
        wished: Math.max(minimumBytes, wishedBytes(wantedBytes)),
        most: waitsForUser ? Math.max(minimumBytes, shareOf(freeBytes, others)) : freeBytes
    };
}

function askedOnce(asked: MemoryRequest): Asked {
    let known: number | undefined;
    const minimumBytes = (): number => (known ??= asked.minimumBytes());
    return { fits: (bytes) => bytes >= minimumBytes(), ...asked, minimumBytes };
}

/**
 * Shares the memory budget of a runtime among its queries. A query gets what it wants if that is free, less if it can
 * do with less, else it waits for queries that end by themselves, first come, first served. It never waits for one
 * that itself may wait for user code: that could be a deadlock, and is an error instead.
 */
export class Admission {
    readonly #waiting: Waiter[] = [];
    /** Tables that are being collected, which no plan has counted. */
    readonly #tables = new Map<object, Holder>();
    /** Queries that nobody waits for. */
    readonly #readers = new Set<Grant>();
    #running = 0;
    /** What queries and tables hold; of that, what ends by itself. */
    #heldBytes = 0;
    #endingBytes = 0;

    public constructor(
        private readonly budgetBytes: number,
        /** What no query can have, because open relations of files hold it. */
        private readonly relationBytes: () => number = () => 0,
        /** Called whenever nobody waits (any more). */
        private readonly nobodyWaits: () => void = () => undefined
    ) {}

    public get waiting(): number {
        return this.#waiting.length;
    }

    public get running(): number {
        return this.#running;
    }

    /** What no query has been granted. */
    public get freeBytes(): number {
        return this.#limitBytes() - this.#heldBytes;
    }

    /** What a table that is being collected takes by now: later queries find so much less, until `dropTable`. */
    public holdTable(owner: object, table: Holder): void {
        this.#count(this.#tables.get(owner), -1);
        this.#tables.set(owner, table);
        this.#count(table, 1);
    }

    public dropTable(owner: object): void {
        const table = this.#tables.get(owner);
        if (table === undefined) return;
        this.#tables.delete(owner);
        this.#count(table, -1);
        this.#serve();
    }

    #count(holder: Holder | undefined, sign: 1 | -1): void {
        if (holder === undefined) return;
        const { bytes, waitsForUser } = holder;
        this.#heldBytes += sign * bytes;
        if (!waitsForUser) this.#endingBytes += sign * bytes;
    }

    #grant(grant: Grant): Grant {
        this.#running++;
        this.#count(grant, 1);
        if (grant.waitsForUser) this.#readers.add(grant);
        return grant;
    }

    /** What a query is granted that runs alone; all there is where it needs more. */
    public grantedAlone(asked: MemoryRequest): number {
        const limitBytes = this.#limitBytes();
        const { wished, most } = offer({ ...asked, minimumBytes: asked.minimumBytes() }, limitBytes, 0);
        return Math.floor(Math.min(wished, most, limitBytes));
    }

    /** `onCancel` registers what is to happen when the query is cancelled while it waits. */
    public async admit(
        request: MemoryRequest,
        onCancel: (cancel: () => void) => void
    ): Promise<{ bytes: number; release: () => void }> {
        const first = this.#waiting.length === 0;
        const plenty = first ? this.#grantPlenty(request) : undefined;
        const grant = plenty ?? (await this.#waitFor(request, onCancel));
        let isHeld = true;
        return {
            bytes: grant.bytes,
            release: () => {
                if (!isHeld) return;
                isHeld = false;
                this.#running--;
                this.#count(grant, -1);
                this.#readers.delete(grant);
                this.#serve();
            }
        };
    }

    /** When memory is free for all that the query could use. */
    #grantPlenty({ wantedBytes, waitsForUser }: MemoryRequest): Grant | undefined {
        const free = this.freeBytes;
        const wished = wishedBytes(wantedBytes);
        if (wished > (waitsForUser ? this.#share(free) : free)) return undefined;
        return this.#grant({ bytes: Math.floor(wished), waitsForUser, minimumBytes: () => 0, wishedBytes: wished });
    }

    async #waitFor(request: MemoryRequest, onCancel: (cancel: () => void) => void): Promise<Grant> {
        const asked = askedOnce(request);
        this.#checkFits(asked);
        return await new Promise<Grant>((resolve, reject) => {
            const waiter = { asked, resolve, reject };
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

    /** Throws where the whole budget is too little. What could use no more than that needs no more. */
    #checkFits({ wantedBytes, minimumBytes, fits }: Asked): void {
        const relationBytes = this.relationBytes();
        if (wantedBytes + relationBytes <= this.budgetBytes || fits(this.budgetBytes - relationBytes)) return;
        const leastBytes = minimumBytes() + relationBytes;
        if (leastBytes <= this.budgetBytes) return;
        const what = relationBytes === 0 ? "The query" : "The query, with the batches of its files,";
        throw budgetTooSmall(leastBytes, this.budgetBytes, "are allowed", what);
    }

    /** Refuses everybody who still waits. */
    public close(error: SpillwayError): void {
        for (const waiter of this.#waiting.splice(0)) waiter.reject(error);
    }

    #limitBytes(): number {
        return this.budgetBytes - this.relationBytes();
    }

    #share(freeBytes: number): number {
        return shareOf(freeBytes, this.#readers.size);
    }

    /**
     * Must it wait, whatever it needs at least? Working that out took two thirds of 2,000 counts of 1,000 rows that
     * were started at once.
     */
    #mustWait({ wantedBytes }: MemoryRequest): boolean {
        const free = this.freeBytes;
        const others = this.#endingBytes;
        return others > 0 && free < leastOffer(wantedBytes, 0) && free + others >= wantedBytes;
    }

    #serve(): void {
        this.#serveInTurn();
        if (this.#waiting.length === 0) this.nobodyWaits();
    }

    #serveInTurn(): void {
        for (let waiter = this.#waiting[0]; waiter !== undefined; waiter = this.#waiting[0]) {
            const { asked } = waiter;
            const plenty = this.#grantPlenty(asked);
            if (plenty !== undefined) {
                this.#waiting.shift();
                waiter.resolve(plenty);
                continue;
            }
            if (this.#mustWait(asked)) return;
            if (this.#grantShare(waiter)) continue;
            const request = { ...asked, minimumBytes: asked.minimumBytes() };
            const free = this.freeBytes;
            const { wished, most } = offer(request, free, this.#readers.size);
            const others = this.#endingBytes;
            const enough = Math.min(wished, leastOffer(request.wantedBytes, request.minimumBytes));
            if (free >= request.minimumBytes && (Math.min(free, most) >= enough || others === 0)) {
                this.#waiting.shift();
                const { waitsForUser } = request;
                const { minimumBytes } = asked;
                const bytes = Math.floor(Math.min(wished, most));
                waiter.resolve(this.#grant({ bytes, waitsForUser, minimumBytes, wishedBytes: wished }));
                continue;
            }
            if (free + others >= request.minimumBytes) return; // enough will be free when those have ended
            this.#waiting.shift();
            waiter.reject(this.#refuse(request, free + others));
        }
    }

    /**
     * The first one that waits gets its share, less than it wishes, where nothing ends by itself and a plan for the
     * share shows that it is enough: what it needs at least is not worked out then.
     */
    #grantShare({ asked, resolve }: Waiter): boolean {
        const { waitsForUser, minimumBytes, wantedBytes } = asked;
        const free = this.freeBytes;
        const share = Math.floor(waitsForUser ? this.#share(free) : free);
        if (this.#endingBytes > 0 || !asked.fits(share)) return false;
        this.#waiting.shift();
        resolve(this.#grant({ bytes: share, waitsForUser, minimumBytes, wishedBytes: wishedBytes(wantedBytes) }));
        return true;
    }

    #refuse(request: Request, freeBytes: number): SpillwayError {
        const readers = [...this.#readers];
        const option = bytesOption(this.#limitFor(request, readers));
        const which = readers.length === 1 ? "one query" : `${readers.length} queries`;
        return new SpillwayError(
            "BUDGET_TOO_SMALL",
            `The query needs at least ${formatBytes(request.minimumBytes)} of host memory, but of the ` +
                `${formatBytes(this.budgetBytes)} of this runtime only ${formatBytes(freeBytes)} are free; the rest ` +
                `is held by ${which} with an open result or a stream as input. Let them end first (read open results ` +
                `to their end), or set \`memory.host\` to "${option}" or more`,
            { tier: "host", wantedBytes: request.minimumBytes, freeBytes, option: "memory.host", smallest: option }
        );
    }

    /** The least limit with which the query would have got its memory after the same others. */
    #limitFor(request: Request, readers: readonly Grant[]): number {
        const fits = (limit: number): boolean => {
            let free = limit;
            readers.forEach(({ minimumBytes, wishedBytes }, i) => {
                free -= Math.min(wishedBytes, Math.max(minimumBytes(), shareOf(free, i)));
            });
            return free >= request.minimumBytes;
        };
        let limit = this.#limitBytes();
        while (!fits(limit)) limit *= 1.05;
        return limit + this.relationBytes();
    }
}
