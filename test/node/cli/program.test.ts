// SPDX-License-Identifier: Apache-2.0
// The built program as a user runs it: exit codes, what goes to stdout and what to stderr, --json, Ctrl-C.
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startProgram, type ChildResult } from "../../support/child.js";
import { writeNumeric } from "../../support/numeric-files.js";
import { Sandbox, until } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

const program = join(repositoryRoot, "dist/cli/main.js");
const tpch = (name: string) => join(repositoryRoot, "test/fixtures/tpch", `${name}.arrow`);
const spillway = (...words: string[]): Promise<ChildResult> =>
    startProgram(process.execPath, [program, ...words]).result;
const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");

/** Runs a command that must succeed. */
async function succeed(...words: string[]): Promise<ChildResult> {
    const result = await spillway(...words);
    expect(result.code, `spillway ${words.join(" ")}\n${result.stderr}`).toBe(0);
    return result;
}

let sandbox: Sandbox;
beforeAll(() => {
    sandbox = new Sandbox();
});
afterAll(() => sandbox[Symbol.dispose]());

const orders = tpch("orders");
const lineitem = tpch("lineitem");
const joinWords = ["join", orders, lineitem, "--on", "o_orderkey=l_orderkey"];

describe("join", () => {
    test("--count prints the number alone", async () => {
        const { stdout } = await succeed(...joinWords, "--count");
        expect(stdout.trim()).toBe("7964");
        expect(JSON.parse((await succeed(...joinWords, "--count", "--json")).stdout)).toMatchObject({
            ...{ rows: 7964, report: { rowsOut: 7964 } }
        });
    });

    test("--output writes an Arrow file, once", async () => {
        const path = join(sandbox.output, "joined.arrow");
        await succeed(...joinWords, "--output", path, "--select", "o_orderdate,l_extendedprice");
        const table = tableFromIPC(readFileSync(path));
        expect([table.numRows, table.schema.fields.map((field) => field.name)]).toEqual([
            7964,
            ["o_orderdate", "l_extendedprice"]
        ]);
        const again = await spillway(...joinWords, "--output", path);
        expect(again.code).toBe(1);
        expect(again.stderr).toContain("--overwrite");
        await succeed(...joinWords, "--output", path, "--overwrite");
        rmSync(path);
    });

    test("--json prints every row as a line", async () => {
        const { stdout } = await succeed(...joinWords, "--json", "--select", "o_orderkey,l_linenumber", "--quiet");
        const rows = lines(stdout).map((line) => JSON.parse(line) as Record<string, unknown>);
        expect(rows.length).toBe(7964);
        expect(Object.keys(rows[0]!)).toEqual(["o_orderkey", "l_linenumber"]);
    });

    test("without an output option prints the first rows", async () => {
        const { stdout } = await succeed(...joinWords, "--select", "o_orderkey,o_orderstatus", "--rows", "3");
        expect(stdout).toContain("o_orderkey");
        expect(lines(stdout).length).toBeGreaterThanOrEqual(4);
        expect(lines(stdout).length).toBeLessThan(12);
    });

    test("takes several files, types, keys, a budget and threads", async () => {
        const pairs = [
            "join",
            tpch("partsupp"),
            lineitem,
            "--on",
            "ps_partkey=l_partkey,ps_suppkey=l_suppkey",
            "--count"
        ];
        const limits = ["--memory", "64MiB", "--threads", "1", "--spill-directory", sandbox.spill];
        const inner = Number((await succeed(...pairs, ...limits)).stdout);
        const semi = Number((await succeed(...pairs, "--type", "semi")).stdout);
        const anti = Number((await succeed(...pairs, "--type", "anti")).stdout);
        expect(inner).toBeGreaterThan(0);
        expect(semi + anti).toBe(2000);
        const twice = await succeed(
            "join",
            `${orders},${orders}`,
            lineitem,
            "--on",
            "o_orderkey=l_orderkey",
            "--count"
        );
        expect(twice.stdout.trim()).toBe(String(2 * 7964));
    });
});

test("groupby aggregates", async () => {
    const words = [
        "groupby",
        lineitem,
        "--keys",
        "l_returnflag",
        "--aggregate",
        "n=count:*,q=max:l_quantity",
        "--json"
    ];
    const rows = lines((await succeed(...words, "--quiet")).stdout).map((line) => JSON.parse(line) as { n: unknown });
    expect(rows.length).toBe(3);
    expect(rows.reduce((sum, row) => sum + Number(row.n), 0)).toBe(7964);
});

test("explain says what will be done and does nothing", async () => {
    const { stdout } = await succeed("explain", ...joinWords);
    expect(stdout).toMatch(/partition|build|probe/i);
    const plan = JSON.parse((await succeed("explain", ...joinWords, "--json")).stdout) as Record<string, unknown>;
    expect(Object.keys(plan).length).toBeGreaterThan(2);
    const sinkOf = async (...more: string[]): Promise<unknown> =>
        (JSON.parse((await succeed(...joinWords, "--explain", "--json", ...more)).stdout) as { sink: unknown }).sink;
    expect(await sinkOf()).toBe("batches");
    expect(await sinkOf("--count")).toBe("count");
    expect(await sinkOf("--output", "never-written.arrow")).toBe("file");
});

test("machine names the cores and why no GPU is used", async () => {
    const { stdout } = await succeed("machine", "--json");
    interface Devices {
        machine: { cores: number };
        devices: { kind: string; used: boolean; reason: string | null }[];
    }
    const { machine, devices } = JSON.parse(stdout) as Devices;
    expect(machine.cores).toBeGreaterThan(0);
    expect(devices.filter(({ kind, used }) => kind === "cpu" && used)).toHaveLength(1);
    const gpus = devices.filter(({ kind }) => kind === "gpu");
    expect(gpus.length).toBeGreaterThan(0);
    const text = (await succeed("machine")).stdout;
    expect(text).toMatch(/Cores/);
    for (const { used, reason } of gpus) {
        if (used) continue;
        expect(reason).toMatch(/\S/);
        expect(text).toContain(`not used: ${reason}`);
    }
});

test("generate makes relations that join as promised", async () => {
    const folder = join(sandbox.folder, "generated");
    const sizes = ["--rows", "20k", "--right-rows", "50k", "--match-ratio", "0.5", "--zipf", "0.8"];
    await succeed("generate", "relations", folder, ...sizes, "--quiet");
    const files = [join(folder, "left.arrow"), join(folder, "right.arrow")];
    const { stdout } = await succeed("join", ...files, "--on", "key", "--count");
    expect(Number(stdout)).toBeGreaterThan(20_000);
    expect(Number(stdout)).toBeLessThan(30_000);
    await succeed("generate", "tpch", join(sandbox.folder, "tpch"), "--scale", "0.01", "--quiet");
});

describe("exit codes", () => {
    test.each([
        ["no command", []],
        ["an unknown command", ["jion", orders, lineitem]],
        ["an unknown option", [...joinWords, "--memroy", "1GiB"]],
        ["a missing option", ["join", orders, lineitem]],
        ["an unknown join type", [...joinWords, "--type", "outer"]],
        ["outputs that exclude each other", [...joinWords, "--count", "--output", "x.arrow"]],
        ["threads that are no number", [...joinWords, "--threads", "many"]]
    ])("2 for %s", async (_, words) => {
        const { code, stderr, stdout } = await spillway(...words);
        expect(code).toBe(2);
        expect(stderr.length).toBeGreaterThan(10);
        expect(stderr).not.toMatch(/\n\s+at /);
        expect(stdout).toBe("");
    });

    test.each([
        ["a missing file", ["join", "nowhere.arrow", lineitem, "--on", "a"], "FILE_NOT_FOUND"],
        ["an unknown column", ["join", orders, lineitem, "--on", "o_orderkei=l_orderkey", "--count"], "UNKNOWN_COLUMN"],
        [
            "keys of two kinds",
            ["join", orders, lineitem, "--on", "o_orderkey=l_comment", "--count"],
            "KEY_TYPE_MISMATCH"
        ]
    ])("1 for %s", async (_, words, errorCode) => {
        const text = await spillway(...words);
        expect([text.code, text.stdout]).toEqual([1, ""]);
        expect(text.stderr).toContain(errorCode);
        const json = await spillway(...words, "--json");
        expect(json.code).toBe(1);
        expect(JSON.parse(json.stdout)).toMatchObject({ error: { code: errorCode } });
    });

    test("0 for help and version", async () => {
        expect((await succeed("--help")).stdout).toContain("join");
        expect((await succeed("join", "--help")).stdout).toContain("--on");
        const { version } = JSON.parse(readFileSync(join(repositoryRoot, "package.json"), "utf8")) as {
            version: string;
        };
        expect((await succeed("--version")).stdout.trim()).toBe(version);
    });

    test("0 when the reader of stdout goes away", async () => {
        const script = `"$0" "$@" | head -n 1`;
        const command = [process.execPath, program, ...joinWords, "--json"];
        const { code, stderr, stdout } = await startProgram("bash", ["-o", "pipefail", "-c", script, ...command])
            .result;
        expect([code, lines(stdout).length], stderr).toEqual([0, 1]);
    });

    test.each([
        ["SIGINT", 130],
        ["SIGTERM", 143]
    ] as const)("%s stops a join and leaves nothing", async (signal, code) => {
        const rows = 3_000_000;
        const left = writeNumeric(sandbox.path("big-left.arrow"), { rows, keys: rows, prefix: "l" });
        const right = writeNumeric(sandbox.path("big-right.arrow"), { rows, keys: rows, prefix: "r" });
        const output = join(sandbox.output, "big.arrow");
        const words = ["join", left, right, "--on", "lkey=rkey", "--output", output, "--memory", "64MiB"];
        const child = startProgram(process.execPath, [program, ...words, "--spill-directory", sandbox.spill]);
        // The join has begun when its input is open; the handlers of signals are set long before.
        await until(() => sandbox.openFiles(child.process.pid).includes(left), 30_000);
        child.process.kill(signal);
        const result = await child.result;
        expect([result.code, result.signal], result.stderr).toEqual([code, null]);
        expect(existsSync(output)).toBe(false);
        expect(sandbox.leftovers()).toEqual([]);
    });
});
