// SPDX-License-Identifier: Apache-2.0
// What an error says and advises, and what the process ends with.
import { closeSync, openSync, readFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { tableFromIPC } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { SpillwayError } from "../../../src/errors.js";
import { errorJson, errorLines } from "../../../src/cli/render/errors.js";
import { useGpu } from "../../support/gpu.js";
import { repositoryRoot } from "../../support/source-tree.js";
import { command } from "./in-process.js";

useGpu();

const errorText = (...of: Parameters<typeof errorLines>): string => errorLines(...of).join("\n");
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
        expect(suffix.stderr).toContain("Give another --suffix for the right side, or --select only columns");
        const left = await command(["join", lineitem, lineitem, "--on", "l_tax=l_orderkey,l_tax=l_partkey"]);
        expect(left).toMatchObject({ code: 2, stderr: '--on names the left column "l_tax" twice.\n' });
    });

    test("not for a right key of two left ones", async () => {
        const words = ["join", lineitem, fixture("orders"), "--on", "l_orderkey=o_orderkey,l_linenumber=o_orderkey"];
        const { code, stdout } = await command([...words, "--count", "--threads", "1"]);
        const table = tableFromIPC(readFileSync(lineitem));
        const [orders, numbers] = [table.getChild("l_orderkey")!, table.getChild("l_linenumber")!];
        const rows = Array.from(orders).filter((key, row) => Number(key) === Number(numbers.get(row))).length;
        expect(rows).toBeGreaterThan(0);
        expect([code, stdout]).toEqual([0, `${rows}\n`]);
    });

    test("for a function that does not take the column", async () => {
        const { code, stderr } = await groupBy("--aggregate", "sum:l_comment");
        expect(code).toBe(1);
        expect(stderr).toMatch(/only numbers add up\.\nName another column in --aggregate, or another function/);
        expect(stderr).not.toContain("Write the file again");
    });

    test("for memory of the GPU", async () => {
        const words = [
            "join",
            lineitem,
            lineitem,
            "--on",
            "l_orderkey",
            "--count",
            "--threads",
            "1",
            "--device",
            "gpu"
        ];
        const { code, stderr } = await command([...words, "--device-memory", "1MiB"]);
        expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) as string });
        const device = { tier: "device", option: "memory.device" };
        const small = new SpillwayError("BUDGET_TOO_SMALL", "no room", { ...device, smallest: "2GiB" });
        expect(errorText(small)).toBe("BUDGET_TOO_SMALL: no room.\nGive --device-memory 2GiB or more.");
        const full = new SpillwayError("BUDGET_TOO_SMALL", "no room", device);
        expect(errorText(full)).toContain("Give more with --device-memory");
        expect(errorText(new SpillwayError("OUT_OF_MEMORY", "no room", device))).toContain("--device-memory allows");
    });

    test("for a GPU that is not there: no remedy that a name would refuse", () => {
        const none = new SpillwayError("NO_DEVICE", "no GPU", { option: "device" });
        expect(errorText(none)).toContain("Give --device cpu, and no --algorithm that runs on a GPU");
        const named = new SpillwayError("NO_DEVICE", "no GPU", { option: "algorithm", algorithm: "triton" });
        expect(errorText(named)).toContain("Leave --algorithm out, or run this where a GPU is");
        expect(errorText(named)).not.toContain("--device cpu");
    });

    test("for a file that may not grow: no space is missing", () => {
        const text = (errno: string) =>
            errorText(new SpillwayError("DISK_FULL", "too large", { errno }), { DISK_FULL: "Free space." });
        expect(text("27")).toBe(
            "DISK_FULL: too large.\nRaise the limit with ulimit -f, or name another file system with --spill-directory."
        );
        expect(text("28")).toBe("DISK_FULL: too large.\nFree space.");
    });

    test("for a key of a type that no key has", () => {
        const key = new SpillwayError("UNSUPPORTED_TYPE", "`l` cannot be a key; use its fields", { column: "l" });
        expect(errorText(key)).toBe("UNSUPPORTED_TYPE: `l` cannot be a key; use its fields.");
        const file = new SpillwayError("UNSUPPORTED_TYPE", "cannot be read", { path: "x.arrow" });
        expect(errorText(file)).toContain("docs/troubleshooting.md");
    });

    test("for what is no file, or is not there", async () => {
        const folder = await command(["groupby", join(repositoryRoot, "test"), "--keys", "a"]);
        expect(folder.stderr).toMatch(/is a folder; name the Arrow files inside it\.\n$/);
        const missing = await command(["groupby", join(repositoryRoot, "nowhere.arrow"), "--keys", "a"]);
        expect(missing.stderr.match(/check the path/gi)).toHaveLength(1);
    });
});

describe("an error says once what to do", () => {
    const join = (...files: string[]) => command(["join", ...files, "--on", "l_orderkey", "--threads", "1"]);

    test("about a file that is none", async () => {
        const folder = await join(".", lineitem);
        expect(folder.stderr).toBe("FILE_UNREADABLE: '.' is a folder; name the Arrow files inside it.\n");
        const missing = await join("missing.arrow", lineitem);
        expect(missing.stderr.match(/check the path/gi)).toHaveLength(1);
        const output = await command(["join", lineitem, lineitem, "--on", "l_orderkey", "-o", "no-folder/x.arrow"]);
        expect(output.stderr).toMatch(/^OUTPUT_FAILED: .*create it or name another\.\n$/);
    });

    test("about a column that cannot be a key", () => {
        const key = new SpillwayError("UNSUPPORTED_TYPE", "no key", { column: "c", type: "List<Int32>" });
        expect(errorText(key)).toBe("UNSUPPORTED_TYPE: no key.");
        const file = new SpillwayError("UNSUPPORTED_TYPE", "compressed", { path: "a.arrow" });
        expect(errorText(file)).toContain("docs/troubleshooting.md");
    });

    test("about the budget of the demo, with the step", async () => {
        const { code, stderr } = await command(["demo", "--memory", "1MiB", "--scale", "0.01"]);
        expect(code).toBe(1);
        expect(stderr).toMatch(
            /The demo needs at least \S+ MiB of memory to generate its relations \(step 1\) but has 1 MiB/
        );
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
