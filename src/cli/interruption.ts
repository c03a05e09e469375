// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import type { ExitCode } from "./exit-code.js";

/** Why a run was stopped from outside: the reason of the abort signal. */
export class Interruption extends Error {
    override readonly name = "Interruption";
    constructor(
        message: string,
        readonly exitCode: ExitCode
    ) {
        super(message);
    }
}

/** What `work` gives, unless the run is to stop before: for work that no signal reaches. */
export async function unlessStopped<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
    signal.throwIfAborted();
    let stop = (): void => undefined;
    const stopped = new Promise<never>((_, reject) => {
        stop = () => reject(signal.reason as Error);
        signal.addEventListener("abort", stop, { once: true });
    });
    try {
        return await Promise.race([work, stopped]);
    } finally {
        signal.removeEventListener("abort", stop);
    }
}

// Signals are seen between two turns of the event loop: a person does not notice this much.
const turnMs = 50;

/** For loops that wait for nothing: gives the event loop, where signals are seen, a turn when it had none for long. */
export class Turns {
    #last = performance.now();

    async next(signal: AbortSignal): Promise<void> {
        if (performance.now() - this.#last < turnMs) return;
        await setImmediate();
        this.#last = performance.now();
        signal.throwIfAborted();
    }
}
