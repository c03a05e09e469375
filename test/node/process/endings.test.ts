// SPDX-License-Identifier: Apache-2.0
// However a process ends, nothing is left behind and nothing hangs.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { openRuntime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startChild } from "../../support/child.js";
import { writeNumeric } from "../../support/numeric-files.js";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

const rows = 2_000_000;
const on = { lkey: "rkey" };
let sandbox: Sandbox;
let left: string;
let right: string;
const output = () => join(sandbox.output, "result.arrow");
const runtime = () => ({
    threads: 2,
    memory: { host: "64MiB", spillDirectory: sandbox.spill },
    debug: { forceSpill: true }
});

beforeAll(() => {
    sandbox = new Sandbox();
    left = writeNumeric(sandbox.path("left.arrow"), { rows, keys: rows, prefix: "l" });
    right = writeNumeric(sandbox.path("right.arrow"), { rows, keys: rows, prefix: "r", payloads: 2 });
});
afterAll(() => sandbox[Symbol.dispose]());

describe("SIGKILL", () => {
    // The first state of the process in which to kill it.
    const states: Record<string, (progress: { spilledBytes: number; rowsOut: number }) => boolean> = {
        "while partitions spill": ({ spilledBytes }) => spilledBytes > 0,
        "while results are written": ({ rowsOut }) => rowsOut > 0
    };
    test.each(Object.entries(states))("%s leaves neither spill nor output files", async (_, reached) => {
        const child = startChild("query", { runtime: runtime(), left, right, on, action: "file", output: output() });
        let killed = false;
        child.process.stdout!.on("data", (text: Buffer) => {
            for (const line of text.toString().split("\n")) {
                if (!line.startsWith("progress {") || !line.endsWith("}") || killed) continue;
                killed = reached(
                    JSON.parse(line.slice("progress ".length)) as { spilledBytes: number; rowsOut: number }
                );
                if (killed) child.process.kill("SIGKILL");
            }
        });
        const result = await child.result;
        expect(killed, "the query ended before it could be killed").toBe(true);
        expect(result.signal).toBe("SIGKILL");
        // The next runtime in the same folder removes what a file system without unnamed files may have kept.
        await (await openRuntime(runtime())).close();
        expect(sandbox.leftovers()).toEqual([]);
    });
});

test("spill files of dead processes are removed, all other files stay", async () => {
    const dead = spawnSync(process.execPath, ["--version"]).pid;
    const names = {
        stale: `spillway-spill-${dead}-1-0`,
        own: `spillway-spill-${process.pid}-${startTime()}-0`,
        foreign: "spillway-spill-notes.txt",
        other: "data.arrow"
    };
    for (const name of Object.values(names)) writeFileSync(join(sandbox.spill, name), "x");
    await (await openRuntime(runtime())).close();
    const { stale: _, ...kept } = names;
    expect(readdirSync(sandbox.spill).sort()).toEqual(Object.values(kept).sort());
    for (const name of Object.values(kept)) rmSync(join(sandbox.spill, name));
});

/** When this process started, in clock ticks since boot: what tells it from an earlier one with the same number. */
function startTime(): string {
    const text = readFileSync("/proc/self/stat", "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19]!;
}

describe("a process that ends with an open runtime", () => {
    const endings = { idle: 0, iterator: 0, running: 0, exit: 7, throw: 1 };
    test.each(Object.entries(endings))("%s", async (way, code) => {
        const child = startChild("exit-open", { way, runtime: runtime(), left, right, on, output: output() });
        const patience = setTimeout(() => child.process.kill("SIGKILL"), 20_000);
        const result = await child.result;
        clearTimeout(patience);
        expect(result, result.stderr).toMatchObject({ code, signal: null });
        if (way === "throw") expect(result.stderr).toContain("on purpose");
        // A query that nobody waits for still runs to its end.
        expect(sandbox.leftovers(way === "running" ? [output()] : [])).toEqual([]);
        rmSync(output(), { force: true });
    });
});

describe("worker threads", () => {
    const script = join(repositoryRoot, "test/support/children/worker.mjs");
    const start = (times: number) =>
        new Worker(script, { workerData: { runtime: { ...runtime(), debug: {} }, left, right, on, times } });
    const finished = (worker: Worker) =>
        new Promise<number>((resolve, reject) => {
            worker.on("message", (message: "started" | { rows: number }) => {
                if (message !== "started") resolve(message.rows);
            });
            worker.on("error", reject);
            worker.on("exit", (code) => reject(new Error(`the worker ended with ${code} before it was done`)));
        });

    test("join at the same time as the main thread", async () => {
        const own = await openRuntime(runtime());
        const query = own.join({ left: await own.fromArrowFile(left), right: await own.fromArrowFile(right), on });
        const counts = await Promise.all([query.count(), finished(start(1)), finished(start(1))]);
        await own.close();
        expect(new Set(counts).size).toBe(1);
        await sandbox.expectClean();
    });

    test("can be terminated in the middle of a join", async () => {
        const worker = start(1000);
        await new Promise((resolve) => worker.once("message", resolve));
        await new Promise((resolve) => setTimeout(resolve, 200));
        expect(await worker.terminate()).toBe(1);
        await sandbox.expectClean();
    });
});
