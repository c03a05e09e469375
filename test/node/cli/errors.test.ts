// SPDX-License-Identifier: Apache-2.0
// What an error says and advises, and what the process ends with.
import { closeSync, openSync, readFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { SpillwayError } from "../../../src/errors.js";
import { errorJson, errorText } from "../../../src/cli/render/errors.js";
import { repositoryRoot } from "../../support/source-tree.js";
import { command } from "./in-process.js";

const fixture = (name: string) => join(repositoryRoot, "test/fixtures/tpch", `${name}.arrow`);
const lineitem = fixture("lineitem");

describe("the advice fits the command", () => {
    const groupBy = (...words: string[]) => command(["groupby", lineitem, "--threads", "1", ...words]);

    test("for names that occur twice", async () => {
        const keys = await groupBy("--keys", "l_tax,l_tax", "--aggregate", "count:*");
        expect(keys).toMatchObject({ code: 2, stderr: '--keys names "l_tax" twice; name it once.\n' });
        const alias = await groupBy("--keys", "l_tax", "--aggregate", "l_tax=count:*");
        expect(alias.code).toBe(2);
        expect(alias.stderr).toMatch(/--aggregate NAME=FUNCTION:COLUMN/);
        const words = ["join", lineitem, lineitem, "--on", "l_orderkey", "--count", "--threads", "1"];
        const select = await command([...words, "--select", "l_tax,l_tax"]);
        expect(select).toMatchObject({ code: 2, stderr: '--select names "l_tax" twice; name it once.\n' });
        const suffix = await command([...words, "--suffix", ""]);
        expect(suffix.stderr).toContain("Choose columns with --select, or another --suffix");
        const right = await command(["join", lineitem, lineitem, "--on", "l_orderkey=l_tax,l_partkey=l_tax"]);
        expect(right.stderr).not.toMatch(/--select|--suffix/);
    });

    test("for a function that does not take the column", async () => {
        const { code, stderr } = await groupBy("--aggregate", "sum:l_comment");
        expect(code).toBe(1);
        expect(stderr).toMatch(/only numbers add up\.\nName another column in --aggregate, or another function/);
        expect(stderr).not.toContain("Write the file again");
    });
});

describe("an error during clean-up", () => {
    const original = new SpillwayError("DISK_FULL", "no room");
    const suppressed = (error: unknown): Error =>
        Object.assign(new Error("An error was suppressed during disposal."), {
            name: "SuppressedError",
            error: new Error("closing failed"),
            suppressed: error
        });

    test("does not hide the one before", () => {
        for (const error of [suppressed(original), suppressed(suppressed(original))]) {
            expect(errorText(error)).toBe(errorText(original));
            expect(errorJson(error)).toBe(errorJson(original));
        }
        expect(errorText(original)).toContain("DISK_FULL: no room.");
    });
});

test.runIf(process.arch === "x64")("machine names the instructions that the processor has", async () => {
    const flags = /^flags\s*:(.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1]?.split(" ") ?? [];
    const both = flags.includes("avx512f") && flags.includes("avx512dq");
    const wanted = ["sse2", ...flags.filter((flag) => flag === "avx2"), ...(both ? ["avx512f", "avx512dq"] : [])];
    const { stdout } = await command(["machine", "--json"]);
    expect((JSON.parse(stdout) as { machine: { simd: string[] } }).machine.simd).toEqual(wanted);
    expect((await command(["machine"])).stdout).toContain(`with ${wanted.join(", ")}\n`);
});

test("a full disk under stdout hides no error and ends with 1", () => {
    const full = openSync("/dev/full", "w");
    try {
        for (const words of [["join", "--json"], ["join", "a", "b", "--on", "x", "--json"], ["machine"]]) {
            const { status, stderr } = spawnSync(
                process.execPath,
                [join(repositoryRoot, "dist/cli/main.js"), ...words],
                {
                    stdio: ["ignore", full, "pipe"],
                    encoding: "utf8"
                }
            );
            expect([status, stderr.split("\n").filter((line) => line.startsWith("    at "))]).toEqual([1, []]);
            expect(stderr).toContain("Cannot write to standard output");
        }
    } finally {
        closeSync(full);
    }
});
