// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM where no query runs that would see them: a reader that stands still, the check of the demo.
import { spawn } from "node:child_process";
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import {
    Field,
    FixedSizeList,
    Int32,
    makeData,
    RecordBatch,
    RecordBatchFileWriter,
    Schema,
    Struct
} from "apache-arrow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Interruption } from "../../../src/cli/interruption.js";
import { startProgram } from "../../support/child.js";
import { Sandbox, until } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";
import { command } from "./in-process.js";

const fixture = (name: string) => join(repositoryRoot, "test/fixtures/tpch", `${name}.arrow`);
const joinWords = ["join", fixture("orders"), fixture("lineitem"), "--on", "o_orderkey=l_orderkey", "--json"];

let sandbox: Sandbox;
beforeAll(() => {
    sandbox = new Sandbox();
});
afterAll(() => sandbox[Symbol.dispose]());

describe("a reader of stdout that stands still", () => {
    test.each([
        ["rows", joinWords],
        ["an error", ["join", "--json"]],
        ["the help", ["--help"]]
    ])("does not keep a run alive that prints %s", async (_, words) => {
        const controller = new AbortController();
        const stdout = new Writable({
            write: () => void setTimeout(() => controller.abort(new Interruption("Interrupted", 130)), 10)
        });
        expect(await command(words, { stdout, signal: controller.signal })).toMatchObject({
            code: 130,
            stderr: expect.stringContaining("Interrupted") as string
        });
    });

    test.each([
        ["SIGINT", 130],
        ["SIGTERM", 143],
        ["SIGHUP", 129]
    ] as const)("does not keep the process alive after %s", async (signal, code) => {
        const words = [join(repositoryRoot, "dist/cli/main.js"), ...joinWords, "--quiet"];
        const child = spawn(process.execPath, [...words, "--spill-directory", sandbox.spill], {
            stdio: ["ignore", "pipe", "ignore"]
        });
        const ended = new Promise((resolve) => child.once("exit", (...how) => resolve(how)));
        await new Promise((resolve) => child.stdout.once("readable", resolve)); // and nothing is read
        await new Promise((resolve) => setTimeout(resolve, 300)); // until the pipe is full
        expect(child.exitCode).toBeNull();
        child.kill(signal);
        expect(await ended).toEqual([code, null]);
        child.stdout.destroy();
        expect(sandbox.leftovers()).toEqual([]);
    });
});

/** One row whose list has 2 x 10^8 items, in a file of 500 bytes. */
function writeEndless(path: string): string {
    const child = makeData({ type: new Struct([]), length: 2e8, nullCount: 0, children: [] });
    const type = new FixedSizeList(2e8, new Field("x", child.type, true));
    const list = makeData({ type, length: 1, nullCount: 0, child });
    const key = makeData({ type: new Int32(), length: 1, nullCount: 0, data: Int32Array.of(1) });
    const schema = new Schema([new Field("k", key.type, true), new Field("p", type, true)]);
    const data = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children: [key, list] });
    const writer = new RecordBatchFileWriter();
    writer.reset(undefined, schema);
    writer.write(new RecordBatch(schema, data));
    writer.finish();
    writeFileSync(path, writer.toUint8Array(true));
    return path;
}

// A file takes every write at once: nothing but the program itself lets the event loop see the signal.
test("a row without end is printed within bounds, and ends with the signal within a second", async () => {
    const file = writeEndless(sandbox.path("endless.arrow"));
    const hook = join(repositoryRoot, "test/support/children/report-peak.mjs");
    const words = ["--import", hook, join(repositoryRoot, "dist/cli/main.js"), "join", file, file, "--on", "k"];
    const options = ["--select", "p", "--memory", "16MiB", "--threads", "1", "--spill-directory", sandbox.spill];
    const peakOf = (stderr: string): number => Number(/^peak (\d+)$/m.exec(stderr)?.[1]) / 2 ** 20;
    const table = await startProgram(process.execPath, [...words, ...options]).result;
    expect([table.code, table.stdout.split("\n")[2]]).toEqual([0, "[{},{},{},{},{},{},… 199,999,994 more]"]);
    expect(peakOf(table.stderr)).toBeLessThan(16 + 128);

    const output = sandbox.path("endless.json");
    const shell = ["bash", "-c", `exec "$0" "$@" > ${output}`];
    const child = startProgram(process.execPath, [...words, ...options, "--json"], { wrapper: shell });
    await until(() => existsSync(output) && statSync(output).size > 2 ** 20, 60_000);
    const signalled = performance.now();
    child.process.kill("SIGINT");
    const stopped = await child.result;
    expect([stopped.code, performance.now() - signalled < 1000]).toEqual([130, true]);
    expect(peakOf(stopped.stderr)).toBeLessThan(16 + 128);
});

test.each([
    ["its check", "4. Check"],
    ["its last line", "rows with another date"]
])("the demo can be stopped at %s", async (_, text) => {
    const controller = new AbortController();
    const words = ["demo", "--scale", "0.01", "--folder", sandbox.folder, "--threads", "1"];
    const { code, stdout, stderr } = await command(words, {
        signal: controller.signal,
        onStderr: (said) => {
            if (said.includes(text)) controller.abort(new Interruption("Interrupted", 130));
        }
    });
    expect([code, stdout === "", stderr.includes("Next:")]).toEqual([130, false, false]);
    expect(stderr.includes("rows, one for each line item")).toBe(text !== "4. Check");
    expect(readdirSync(sandbox.folder).filter((name) => name.startsWith("spillway-demo"))).toEqual([]);
});
