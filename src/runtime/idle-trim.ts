// SPDX-License-Identifier: Apache-2.0

/**
 * Between queries in quick succession the engine keeps its memory, since fresh memory costs more than most uses of it.
 * After this long without one it is worth more to others.
 */
const idleMs = 3000;

/** Gives memory that no query uses back to the system once the runtime has been idle for a while. */
export class IdleTrim {
    #timer: NodeJS.Timeout | undefined;
    #trimming: Promise<void> = Promise.resolve();

    public constructor(private readonly trim: () => Promise<void>) {}

    /** A query begins. */
    public stop(): void {
        clearTimeout(this.#timer);
        this.#timer = undefined;
    }

    /** The last running query has ended. */
    public start(): void {
        this.stop();
        this.#timer = setTimeout(() => {
            // What cannot be given back stays; nobody waits for it.
            this.#trimming = this.trim().catch(() => undefined);
        }, idleMs);
        this.#timer.unref();
    }

    /** No trim begins after this; resolves when one that runs has ended. */
    public async close(): Promise<void> {
        this.stop();
        await this.#trimming;
    }
}
