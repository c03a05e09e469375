// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM where no query runs that would see them: a reader that stands still, the check of the demo.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Interruption } from "../../../src/cli/interruption.js";
import { Sandbox } from "../../support/sandbox.js";
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
        ["SIGTERM", 143]
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
