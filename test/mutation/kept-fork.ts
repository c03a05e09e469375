// SPDX-License-Identifier: Apache-2.0
import { fork, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import type { PoolOptions, PoolWorker, WorkerRequest } from "vitest/node";

type Listener = (arg: unknown) => void;

/** A process with vitest's worker of forks in it, and how many runs it has seen. */
interface Kept {
    child: ChildProcess;
    runs: number;
}

/** Of a call to vitest's main process: [task, its result, ...] of tests that have ended. */
function tellsFailure(data: unknown): boolean {
    const { m: method, a: args } = data as { m?: string; a?: unknown[] };
    if (method === "onUnhandledError") return true;
    if (method !== "onTaskUpdate") return false;
    return (args?.[0] as [string, { state?: string } | undefined][]).some(([, result]) => result?.state === "fail");
}

/**
 * Runs tests in a process that outlives the run, so that the next mutant finds all modules loaded: to start a process
 * and load them takes 0.7 s of a core, and most tests of the planner take a few milliseconds. Right only for mutants
 * that are no part of loading a module (`ignoreStatic`), and for code that keeps no state from test to test.
 */
export class KeptFork implements PoolWorker {
    public static readonly poolName = "kept forks";
    static readonly #idle = new Map<string, Kept>();

    public readonly name = KeptFork.poolName;
    public readonly cacheFs = true;
    readonly #listeners: [string, Listener][] = [];
    readonly #project: string;
    #kept: Kept | undefined;
    #finished = false;
    #failed = false;

    public constructor(
        private readonly options: PoolOptions,
        private readonly runsMax: number,
        /** Also after a run in which a test failed, and may have left something behind. */
        private readonly keepFailed: boolean
    ) {
        this.#project = options.project.name;
    }

    public async start(): Promise<void> {
        const idle = KeptFork.#idle.get(this.#project);
        KeptFork.#idle.delete(this.#project);
        if (idle?.child.connected === true) {
            this.#kept = idle;
            return;
        }
        const { distPath, env, execArgv } = this.options;
        const child = fork(join(distPath, "workers/forks.js"), [], {
            ...{ env, execArgv, serialization: "advanced" },
            stdio: ["ignore", "ignore", "ignore", "ipc"]
        });
        this.#kept = { child, runs: 0 };
    }

    public on(event: string, callback: Listener): void {
        this.#listeners.push([event, callback]);
        this.#kept?.child.on(event, callback);
    }

    public off(event: string, callback: Listener): void {
        this.#kept?.child.off(event, callback);
    }

    public send(message: WorkerRequest): void {
        // The process would take leave and hear no more.
        if (message.type !== "stop") {
            this.#kept?.child.send(message);
            return;
        }
        this.#finished = true;
        const stopped = { type: "stopped", __vitest_worker_response__: true };
        for (const [event, callback] of this.#listeners) if (event === "message") callback(stopped);
    }

    public deserialize(data: unknown): unknown {
        this.#failed ||= tellsFailure(data);
        return data;
    }

    public async stop(): Promise<void> {
        const kept = this.#kept;
        this.#kept = undefined;
        if (kept === undefined) return;
        for (const [event, callback] of this.#listeners) kept.child.off(event, callback);
        kept.runs += 1;
        if (this.#finished && (this.keepFailed || !this.#failed) && kept.runs < this.runsMax && kept.child.connected) {
            KeptFork.#idle.set(this.#project, kept);
            return;
        }
        if (kept.child.exitCode !== null || kept.child.signalCode !== null) return;
        const ended = new Promise((resolve) => kept.child.once("exit", resolve));
        kept.child.kill("SIGKILL");
        await ended;
    }
}
