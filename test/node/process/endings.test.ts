// SPDX-License-Identifier: Apache-2.0
// However a process ends, nothing is left behind and nothing hangs.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { openRuntime } from "spillway";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { resultOf, runChild, startChild } from "../../support/child.js";
import { writeNumeric } from "../../support/numeric-files.js";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

const rows = 2_000_000;
// Every key has eight partners: writing the result takes several intervals of progress.
const keys = rows / 8;
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
    left = writeNumeric(sandbox.path("left.arrow"), { rows, keys, prefix: "l" });
    right = writeNumeric(sandbox.path("right.arrow"), { rows, keys, prefix: "r", payloads: 2 });
});
afterAll(() => sandbox[Symbol.dispose]());
// One failure is one failure: the next test starts without its result.
afterEach(() => rmSync(output(), { force: true }));

describe("SIGKILL", () => {
    test.each(["spilling", "writing"])("while %s leaves neither spill nor output files", async (killAt) => {
        // One thread, small pages and everything through the disk: slow enough to be met in both states.
        const slow = { ...runtime(), threads: 1, debug: { forceSpill: true, pageBytes: 4096, morselRows: 512 } };
        const argument = { runtime: slow, left, right, on, action: "file", output: output(), killAt };
        const result = await runChild("query", argument);
        expect(result.signal, "the query ended before it could be killed").toBe("SIGKILL");
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
    });
});

/** Resident bytes while a worker holds batches, and after it was terminated with `code`. */
interface Round {
    code: number;
    holding: number;
    after: number;
}

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

    test("read batches, keep and release them, and give all memory back when they are terminated", async () => {
        const keptBytes = 40 * 2 ** 20;
        const argument = { runtime: { ...runtime(), debug: {} }, rows: 30_000, rounds: 3, keptBytes };
        const child = await runChild("read-in-workers", argument, { nodeOptions: ["--expose-gc"] });
        const result = resultOf<Record<string, unknown> & { rounds: Round[] }>(child);
        const { expected, whole, rounds, ...others } = result;
        expect(expected).toMatchObject({ rows: 300_000 });
        expect(whole).toEqual(expected);
        expect(others).toMatchObject({ rest: 300_000, ownUnchanged: true, usedBytes: 0 });
        expect(others["copiedValues"]).toBeGreaterThan(1000);
        for (const { code, holding, after } of rounds) {
            expect(code).toBe(1);
            expect(holding - after).toBeGreaterThan(keptBytes);
        }
        // What one of the workers held would be twice as much.
        expect(rounds.at(-1)!.after - rounds[0]!.after).toBeLessThan(keptBytes / 2);
        await sandbox.expectClean();
    });
});
