// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import type { DeviceTurn } from "../execute/device-run.js";
import { bytesOption, formatBytes, parseBytes } from "../model/sizes.js";
import type { Job } from "../execute/job.js";
import type { Plan } from "../plan/plan.js";

/** GPU memory of a query that has left its turn. */
interface Holder {
    bytes: number;
    waitsForUser: boolean;
}

function bytesOf(holders: Iterable<Holder>): number {
    let sum = 0;
    for (const { bytes } of holders) sum += bytes;
    return sum;
}

const taken = "deviceMemoryTaken";

/** Other readers have taken memory since the query was planned: it is to be planned with what they leave. */
export function isMemoryTaken(error: unknown): boolean {
    return error instanceof SpillwayError && error.details["reason"] === taken;
}

/**
 * Shares the GPU of a runtime among its queries: one has the turn and computes, others that have left their turn hold
 * memory while their rows are delivered. What a query holds whose reader is the user's code counts as taken until it
 * ends: queries are planned with the rest, and nobody waits for it, since that code may be waiting for the one that
 * would. The others end by themselves, and a query that needs their memory keeps its turn until they have.
 */
export class DeviceAdmission {
    /** Ends when nobody computes on the GPU. */
    #turn: Promise<void> = Promise.resolve();
    readonly #holders = new Set<Holder>();
    /** Wakes the one that has the turn and waits for memory: there is no second one. */
    #wake: () => void = () => undefined;

    /** What open results keep. */
    public get readersBytes(): number {
        return bytesOf(this.#readers());
    }

    /**
     * Waits until no other query computes on the GPU and the memory that the plan goes by is there. Rejects with an
     * error of `isMemoryTaken` where that can be never, as readers have taken it. `limitBytes`: of all queries.
     */
    public async takeTurn(job: Job, plan: Plan, limitBytes: number): Promise<DeviceTurn> {
        const before = this.#turn;
        let next = (): void => undefined;
        this.#turn = new Promise<void>((resolve) => (next = resolve));
        try {
            await job.unlessCancelled(before);
        } catch (error) {
            void before.then(next);
            throw error;
        }
        try {
            await this.#waitForMemory(job, plan, limitBytes);
        } catch (error) {
            next();
            throw error;
        }
        return this.#turnOf(plan, next);
    }

    /** Why a query runs on the CPU. */
    public doesNotFit(wantedBytes: number, freeBytes: number, notOutOfCore: string | undefined): string {
        const needs = `the query needs ${formatBytes(wantedBytes)} of GPU memory, ${this.#freeText(freeBytes)}`;
        return notOutOfCore === undefined ? needs : `${needs}, and out of core: ${notOutOfCore}`;
    }

    /** The reason that it takes too much, with those that leave too little. */
    public withReaders(reason: string, freeBytes: number): string {
        return this.readersBytes === 0 ? reason : `${reason}, ${this.#freeText(freeBytes)}`;
    }

    /** What a query ends with that is to run on the GPU. */
    public tooSmall(leastBytes: number, freeBytes: number, notOutOfCore: string | undefined): SpillwayError {
        const option = bytesOption(leastBytes);
        const wantedBytes = parseBytes(option, "memory.device");
        const needs =
            `The query needs at least ${formatBytes(wantedBytes)} of GPU memory but ${this.#freeText(freeBytes)}` +
            (notOutOfCore === undefined ? "" : ` (out of core: ${notOutOfCore})`);
        const details = { tier: "device", wantedBytes, freeBytes, option: "memory.device" };
        if (this.readersBytes > 0) {
            const message = `${needs}; read open results to their end first, or use device "auto" or "cpu"`;
            return new SpillwayError("BUDGET_TOO_SMALL", message, { ...details, heldBytes: this.readersBytes });
        }
        const message = `${needs}; set \`memory.device\` to "${option}" or more, or use device "auto" or "cpu"`;
        const limitBytes = freeBytes;
        return new SpillwayError("BUDGET_TOO_SMALL", message, { ...details, limitBytes, smallest: option });
    }

    #freeText(freeBytes: number): string {
        if (this.readersBytes === 0) return `${formatBytes(freeBytes)} are allowed`;
        const readers = this.#readers().length;
        const which = readers === 1 ? "the open result of another query holds" : `${readers} open results hold`;
        const left = freeBytes > 1 ? `${formatBytes(freeBytes)} are left` : "nothing is left";
        return `${left}: ${which} ${formatBytes(this.readersBytes)}`;
    }

    async #waitForMemory(job: Job, { deviceMemory }: Plan, limitBytes: number): Promise<void> {
        if (deviceMemory === null) return;
        // One that was planned with more than there is takes what there is.
        const wanted = Math.min(deviceMemory.estimatedBytes, deviceMemory.limitBytes);
        while (wanted > limitBytes - bytesOf(this.#holders)) {
            if (wanted > limitBytes - this.readersBytes) {
                const message = "GPU memory that the query was planned with has been taken by the reader of another";
                throw new SpillwayError("BUDGET_TOO_SMALL", message, { tier: "device", reason: taken });
            }
            await job.unlessCancelled(new Promise<void>((resolve) => (this.#wake = resolve)));
        }
    }

    #turnOf({ deviceMemory, sink }: Plan, next: () => void): DeviceTurn {
        const planned = Math.min(deviceMemory?.estimatedBytes ?? 0, deviceMemory?.limitBytes ?? 0);
        let holder: Holder | undefined;
        let ended = false;
        return {
            leave: (keptBytes = planned) => {
                if (ended || holder !== undefined) return;
                holder = { bytes: keptBytes, waitsForUser: sink === "batches" };
                this.#holders.add(holder);
                next();
            },
            end: () => {
                if (ended) return;
                ended = true;
                if (holder !== undefined) this.#holders.delete(holder);
                next();
                this.#wake();
            }
        };
    }

    #readers(): Holder[] {
        return [...this.#holders].filter(({ waitsForUser }) => waitsForUser);
    }
}
