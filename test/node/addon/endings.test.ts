// SPDX-License-Identifier: Apache-2.0
// A process or worker_thread may end at any moment: no crash, no hang, nothing left behind.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { addonPath } from "./support.js";

const folder = mkdtempSync(join(tmpdir(), "spillway-endings-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const program = fileURLToPath(new URL("programs/ending.mjs", import.meta.url));

interface End {
    code: number | null;
    signal: NodeJS.Signals | null;
    output: string;
    errors: string;
}

function run(way: string): Promise<End> {
    const child = spawn(process.execPath, [program, way, folder], {
        stdio: ["ignore", "pipe", "pipe"],
        env: { ...process.env, SPILLWAY_TEST_ADDON: addonPath },
        timeout: 50_000,
        killSignal: "SIGKILL"
    });
    const end: End = { code: null, signal: null, output: "", errors: "" };
    child.stdout.on("data", (text) => (end.output += String(text)));
    child.stderr.on("data", (text) => (end.errors += String(text)));
    return new Promise((resolve, reject) => {
        child.on("error", reject);
        child.on("close", (code, signal) => resolve({ ...end, code, signal }));
    });
}

describe("a process", () => {
    test("with an idle engine ends by itself", async () => {
        expect(await run("idle")).toEqual({ code: 0, signal: null, output: "", errors: "" });
    });

    test("lives until its last job has ended", async () => {
        expect(await run("pending")).toEqual({ code: 0, signal: null, output: "rows 3000000\n", errors: "" });
    });

    test("does not wait for a job that nobody waits for", async () => {
        expect(await run("unwaited")).toEqual({ code: 3, signal: null, output: "", errors: "" });
    });

    test("ends after a shutdown in the middle of jobs", async () => {
        expect(await run("shutdown")).toEqual({ code: 0, signal: null, output: "", errors: "" });
    });

    test("may call process.exit in the middle of jobs", async () => {
        expect(await run("exit")).toEqual({ code: 7, signal: null, output: "", errors: "" });
    });

    test("starts no job after the shutdown at its exit", async () => {
        expect(await run("exitAfterShutdown")).toMatchObject({ code: 7, signal: null, errors: "" });
    });

    test("may die of an uncaught error in the middle of jobs", async () => {
        expect(await run("throw")).toMatchObject({
            code: 1,
            signal: null,
            errors: expect.stringContaining("on purpose")
        });
    });

    test("may end while blocks of dropped batches are freed in the background", async () => {
        expect(await run("droppedExit")).toEqual({ code: 7, signal: null, output: "", errors: "" });
        expect(await run("droppedIdle")).toEqual({ code: 0, signal: null, output: "", errors: "" });
    });

    test("may drop batches after their engine was closed and after the shutdown", async () => {
        expect(await run("droppedLate")).toEqual({ code: 0, signal: null, output: "", errors: "" });
    });

    test("leaves no unfinished file behind", async () => {
        expect(await run("partialFile")).toEqual({ code: 0, signal: null, output: "false 0\n", errors: "" });
        expect(readdirSync(folder)).toEqual([]);
    });
});

describe("a worker thread", () => {
    test("may be terminated in the middle of jobs, again and again", async () => {
        expect(await run("terminate")).toEqual({ code: 0, signal: null, output: "terminated\n", errors: "" });
    });

    test("may be terminated at any point of its jobs", async () => {
        expect(await run("terminateAnywhere")).toEqual({ code: 0, signal: null, output: "terminated\n", errors: "" });
    });

    test("may be terminated while blocks of dropped batches are freed in the background", async () => {
        expect(await run("terminateDropped")).toEqual({ code: 0, signal: null, output: "terminated\n", errors: "" });
    });

    test("may exit by itself or by an error in the middle of jobs", async () => {
        expect(await run("workerExit")).toEqual({ code: 0, signal: null, output: "exited\n", errors: "" });
    });

    test("ends without touching the jobs of another thread", async () => {
        expect(await run("neighbours")).toEqual({ code: 0, signal: null, output: "rows 5000000\n", errors: "" });
    });
});
