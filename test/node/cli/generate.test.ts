// SPDX-License-Identifier: Apache-2.0
// What `generate` and `demo` do with folders and files, above all when something goes wrong.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { folderError } from "../../../src/cli/folders.js";
import { Interruption } from "../../../src/cli/interruption.js";
import { Sandbox } from "../../support/sandbox.js";
import { command } from "./in-process.js";

let sandbox: Sandbox;
let folder: string;
let count = 0;
beforeAll(() => {
    sandbox = new Sandbox();
});
afterAll(() => sandbox[Symbol.dispose]());
beforeEach(() => {
    folder = sandbox.path(`folder-${count++}`);
});

const small = ["--rows", "1000", "--threads", "1", "--memory", "64MiB"];
const relations = (...words: string[]) => command(["generate", "relations", folder, ...small, ...words]);

describe("a folder that cannot be used is OUTPUT_FAILED", () => {
    test.each([
        ["generate", (path: string) => ["generate", "tpch", path, "--scale", "0.001"]],
        ["demo", (path: string) => ["demo", "--folder", path, "--scale", "0.001"]]
    ])("by %s", async (_, words) => {
        const file = sandbox.path("a-file");
        writeFileSync(file, "");
        for (const path of [file, join(file, "below"), "/proc/nowhere"]) {
            const { code, stderr } = await command(words(path));
            expect(code).toBe(1);
            expect(stderr).toContain("OUTPUT_FAILED");
            expect(stderr).toContain(`"${path}"`);
            expect(stderr).toMatch(/name a folder|name another/);
            expect(stderr).not.toMatch(/--output|INTERNAL|\n\s+at /);
            const json = await command([...words(path), "--json"]);
            expect(JSON.parse(json.stdout)).toMatchObject({ error: { code: "OUTPUT_FAILED", details: { path } } });
        }
    });

    test("whatever the system says", () => {
        const failed = (code: string) => folderError("/f", "files", Object.assign(new Error("no"), { code }));
        expect(failed("EACCES")).toMatchObject({ code: "OUTPUT_FAILED", details: { errno: "EACCES", path: "/f" } });
        expect(failed("ENOSPC")).toMatchObject({ code: "DISK_FULL" });
        const other = new Error("something else");
        expect(folderError("/f", "files", other)).toBe(other);
    });
});

describe("nothing is written", () => {
    test.each([
        [["--rows", "100", "--duplicates", "1000"], /--rows 100 is less than --duplicates 1000/],
        [["--rows", "0", "--right-rows", "5"], /--rows 0 is less than --duplicates 1/],
        [["--sparse", "--sorted"], /exclude each other/],
        [["--payload", "a,a"], /--payload: "a" is the name of two columns/],
        [["--right-payload", "key"], /--right-payload: "key" is the name of the key column/],
        [["--right-payload", "t:utf8(0)"], /width of 1 to 16384/]
    ])("by %j", async (words, message) => {
        // The last one given counts for --rows, which may be given once.
        const all = words.includes("--rows") ? small.slice(2) : small;
        const { code, stderr } = await command(["generate", "relations", folder, ...all, ...words, "--overwrite"]);
        expect([code, existsSync(folder)]).toEqual([2, false]);
        expect(stderr).toMatch(message);
        expect(stderr).not.toContain("domainRows");
    });

    test("when the second file exists", async () => {
        mkdirSync(folder);
        writeFileSync(join(folder, "right.arrow"), "old");
        const { code, stderr } = await relations();
        expect([code, readdirSync(folder)]).toEqual([1, ["right.arrow"]]);
        expect(stderr).toMatch(/OUTPUT_EXISTS: .*right\.arrow.*\nGive --overwrite to replace it, or another folder\./);
    });
});

test("every seed of 64 bits makes files", async () => {
    const { code, stderr } = await relations("--seed", "18446744073709551615");
    expect([code, readdirSync(folder)], stderr).toEqual([0, ["left.arrow", "right.arrow"]]);
});

describe("a run that ends in its second file", () => {
    async function interrupted(...words: string[]) {
        const controller = new AbortController();
        return command(["generate", "relations", folder, ...small, ...words], {
            signal: controller.signal,
            onStderr: (text) => {
                if (text.includes("left.arrow:")) controller.abort(new Interruption("Interrupted", 130));
            }
        });
    }

    test("removes the first and the folder it made", async () => {
        const { code, stderr } = await interrupted();
        expect([code, existsSync(folder)]).toEqual([130, false]);
        expect(stderr).toContain("left.arrow was complete and is removed again.");
        mkdirSync(folder);
        await interrupted();
        expect(readdirSync(folder)).toEqual([]);
    });

    test("keeps what has replaced an older file, and says so", async () => {
        mkdirSync(folder);
        writeFileSync(join(folder, "left.arrow"), "old");
        const { code, stderr } = await interrupted("--overwrite");
        expect([code, readdirSync(folder)]).toEqual([130, ["left.arrow"]]);
        expect(stderr).toContain("left.arrow is complete and has replaced an older file, so it stays.");
        expect(readFileSync(join(folder, "left.arrow")).subarray(0, 6).toString()).toBe("ARROW1");
    });

    test("by a failure removes the first too", async () => {
        mkdirSync(join(folder, "right.arrow"), { recursive: true });
        const { code, stderr } = await relations("--overwrite");
        expect([code, readdirSync(folder)]).toEqual([1, ["right.arrow"]]);
        expect(stderr).toContain("OUTPUT_FAILED");
    });
});
