// SPDX-License-Identifier: Apache-2.0
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("worker.mjs", import.meta.url));

/** A process of worker.mjs: `ask` sends it a message and gives its answer. */
export class EngineProcess {
    #child;

    /** options: `engine`, and of Spillway's `inputs`: whether its relations are `files` or tables in its `memory`. */
    constructor(options) {
        this.engine = options.engine;
        this.inputs = options.inputs;
        this.#child = fork(program, [JSON.stringify(options)], { execArgv: ["--expose-gc"] });
    }

    async ask(action, message = {}) {
        const ended = new AbortController();
        const end = once(this.#child, "exit", ended).then(([code, signal]) => {
            throw new Error(`The process of ${this.engine} ended with ${signal ?? `code ${code}`}.`);
        });
        end.catch(() => undefined); // Aborted below.
        try {
            this.#child.send({ action, ...message });
            const [{ answer, error }] = await Promise.race([once(this.#child, "message", ended), end]);
            if (error === undefined) return answer;
            throw Object.assign(new Error(error.message), error);
        } finally {
            ended.abort();
        }
    }

    async close() {
        if (this.#child.exitCode !== null) return;
        await this.ask("close");
        if (this.#child.exitCode === null) await once(this.#child, "exit");
    }

    kill() {
        this.#child.kill("SIGKILL");
    }
}
