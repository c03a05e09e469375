// SPDX-License-Identifier: Apache-2.0
// The most memory that a process has had resident (VmHWM), where JavaScript reads the rows under small budgets: there
// batches that were dropped and the strings made of them take more than the engine, until V8 collects them.
import { join } from "node:path";
import { openRuntime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { resultOf, runChild, startProgram } from "../../support/child.js";
import { writeNumeric } from "../../support/numeric-files.js";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

const mebibyte = 1024 * 1024;
const besideBudget = 128;
const on = { lkey: "rkey" };
let sandbox: Sandbox;
let files: { left: string; right: string };
let small: { left: string; right: string };

function writePair(name: string, rows: number, payloads: number): { left: string; right: string } {
    const side = (prefix: string): string =>
        writeNumeric(sandbox.path(`${name}-${prefix}.arrow`), { rows, keys: rows / 2, prefix, payloads });
    return { left: side("l"), right: side("r") };
}

beforeAll(() => {
    sandbox = new Sandbox();
    files = writePair("narrow", 3_000_000, 1); // 6 million rows of 32 bytes come out
    small = writePair("small", 600_000, 1);
});
afterAll(() => sandbox[Symbol.dispose]());

async function peakOfQuery(action: string, budget: number, threads: number, pair: typeof files): Promise<number> {
    const runtime = { threads, memory: { host: `${budget}MiB`, spillDirectory: sandbox.spill } };
    const measured = resultOf<{ rows: number; peakBytes: number }>(
        await runChild("query", { runtime, ...pair, on, action })
    );
    expect(measured.rows).toBeGreaterThan(pair === small ? 1_000_000 : 5_000_000);
    return measured.peakBytes / mebibyte;
}

async function peakOfPrinting(pair: typeof files, budget: number, options: readonly string[]): Promise<number> {
    const program = join(repositoryRoot, "dist/cli/main.js");
    const hook = join(repositoryRoot, "test/support/children/report-peak.mjs");
    const words = ["join", pair.left, pair.right, "--on", "lkey=rkey", "--memory", `${budget}MiB`, "--quiet"];
    const common = ["--threads", "2", "--spill-directory", sandbox.spill];
    const wrapper = ["bash", "-c", 'exec "$0" "$@" > /dev/null'];
    const line = ["--import", hook, program, ...words, ...common, ...options];
    const child = startProgram(process.execPath, line, { wrapper });
    const { code, stderr } = await child.result;
    expect(code, stderr).toBe(0);
    return Number(/^peak (\d+)$/m.exec(stderr)?.[1]) / mebibyte;
}

describe("resident memory stays within the budget and 128 MiB", () => {
    test.each([
        ["batches", 4, 2],
        ["batches", 8, 2],
        ["batches", 32, 16],
        ["batches", 128, 2], // batches are collected ahead where the budget leaves as much as here
        ["values", 8, 2],
        ["values", 16, 2]
    ])("for %s in %i MiB with %i threads", async (action, budget, threads) => {
        expect(await peakOfQuery(action, budget, threads, files)).toBeLessThanOrEqual(budget + besideBudget);
    });

    test("for rows as objects in 8 MiB", async () => {
        expect(await peakOfQuery("objects", 8, 2, small)).toBeLessThanOrEqual(8 + besideBudget);
    });

    test("for a table that fits", async () => {
        expect(await peakOfQuery("table", 80, 2, small)).toBeLessThanOrEqual(80 + besideBudget);
    });

    test.each([
        ["--json", 4],
        ["--json", 16]
    ])("for rows printed with %s in %i MiB", async (way, budget) => {
        const options = ["--rows", "1000000", way];
        expect(await peakOfPrinting(files, budget, options)).toBeLessThanOrEqual(budget + besideBudget);
    });

    // A row is 30 KB of JSON, and a batch of 64 rows has 2,000 buffers.
    test.each([32, 64])("for rows of 2,001 columns printed as JSON in %i MiB", async (budget) => {
        const wide = writePair("wide", 3000, 1000);
        expect(await peakOfPrinting(wide, budget, ["--json"])).toBeLessThanOrEqual(budget + besideBudget);
    });
});

test.each([1, 2])("... for queries that are aborted, side by side in 24 MiB, seed %i", async (seed) => {
    const runtime = await openRuntime({ device: "cpu" });
    const paths = { left: sandbox.path("aborted-left.arrow"), right: sandbox.path("aborted-right.arrow") };
    const text = (name: string) => ({ name, type: "utf8" as const, width: 24 });
    const rows = 600_000;
    const foreign = { role: "foreign", domainRows: 400_000 } as const;
    await runtime.generate({ rows, payload: [{ name: "value" }, text("text")] }, { path: paths.left, overwrite: true });
    await runtime.generate(
        { rows, seed: 2, key: foreign, payload: [{ name: "other" }, text("words")] },
        { path: paths.right, overwrite: true }
    );
    await runtime.close();
    const way = { seed, queries: 120, sideBySide: 3, threads: 8, budget: "24MiB", folder: sandbox.output };
    const child = resultOf<{ peakBytes: number; whole: number; aborted: number; others: string[] }>(
        await runChild("random-aborts", { ...way, ...paths })
    );
    expect(child.others).toEqual([]);
    expect(child.whole).toBeGreaterThan(5);
    expect(child.aborted).toBeGreaterThan(20);
    expect(child.peakBytes / mebibyte).toBeLessThanOrEqual(24 + besideBudget);
});
