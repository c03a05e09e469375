// SPDX-License-Identifier: Apache-2.0
// Where the rows of a join or group-by go, and which options of that go together.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { tableFromArrays } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";
import { command } from "./in-process.js";

const fixture = (name: string) => join(repositoryRoot, "test/fixtures/tpch", `${name}.arrow`);
const lineitem = fixture("lineitem");
const files = [fixture("orders"), lineitem];
const joinWords = ["join", ...files, "--on", "o_orderkey=l_orderkey", "--select", "o_orderkey", "--threads", "1"];
const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");

describe("--rows", () => {
    test.each([1, 3, 7964, 10_000])("%d limits the JSON lines", async (rows) => {
        const { code, stdout, stderr } = await command([...joinWords, "--json", "--rows", String(rows)]);
        expect([code, lines(stdout).length]).toEqual([0, Math.min(rows, 7964)]);
        // The engine was asked for no more, so that the figures are those of the rows that were printed.
        expect(stderr).toMatch(new RegExp(`^${[1, 3].includes(rows) ? rows : "7,964"} rows? in `, "m"));
    });

    test("ends the run as soon as it has the rows", async () => {
        using sandbox = new Sandbox();
        const key = Int32Array.from({ length: 600_000 }, (_, i) => i);
        const path = sandbox.write(tableFromArrays({ key, value: key.slice() }));
        const words = ["join", path, path, "--on", "key", "--device", "cpu"];
        const { code, stdout, stderr } = await command([...words, "--json", "--rows", "2"]);
        expect([code, lines(stdout).length]).toEqual([0, 2]);
        const [, ms, rate, unit] = /^2 rows in ([\d.]+) ms \(([\d.]+) ([kM]) input rows/m.exec(stderr) ?? [];
        const rowsIn = (Number(rate) * (unit === "M" ? 1e6 : 1e3) * Number(ms)) / 1000;
        expect(rowsIn).toBeGreaterThan(1000);
        expect(rowsIn).toBeLessThan(300_000);
        const table = await command([...words, "--rows", "2"]);
        expect(lines(table.stdout)).toHaveLength(4);
        expect(table.stderr).toContain("More rows follow");
        expect(lines((await command([...words, "--rows", "600000"])).stdout)).toHaveLength(600_002);
    });

    test("is 10 in a table and all as JSON", async () => {
        expect(lines((await command(joinWords)).stdout)).toHaveLength(12);
        expect(lines((await command([...joinWords, "--json"])).stdout)).toHaveLength(7964);
    });

    test.each([["--count"], ["--explain"], ["--output=x.arrow"]])("is refused where %s prints none", async (way) => {
        const { code, stderr } = await command([...joinWords, "--rows", "3", way]);
        expect([code, stderr]).toEqual([2, expect.stringMatching(/^--rows limits the rows that are printed and --/)]);
    });

    test("is checked with --json too", async () => {
        const { code, stdout } = await command([...joinWords, "--rows", "abc", "--json"]);
        expect([code, stdout]).toEqual([2, expect.stringContaining("--rows needs a whole number")]);
    });
});

describe("--output", () => {
    test.each([
        ["-", /standard output cannot be.*--json/],
        ["", /^--output needs the path/]
    ])('cannot be "%s"', async (path, message) => {
        for (const words of [joinWords, ["groupby", lineitem, "--aggregate", "count:*"]]) {
            const { code, stderr } = await command([...words, "--output", path]);
            expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
        }
    });

    // Neither file is there: refused before they are looked at.
    test.each([
        [
            "x.parquet",
            /^--output writes Arrow files, but "x\.parquet" .* of Parquet files; name it "x\.arrow" and convert/
        ],
        ["a.b/x.CSV", /of CSV files; name it "a\.b\/x\.arrow" and convert .*TO 'x\.csv'/],
        ["x.ndjson", /of JSON files; .*--json in place of --output/],
        ["x.arrow.gz", /of compressed files; name it "x\.arrow\.arrow"/]
    ])("is no file of another format: %s", async (path, message) => {
        const { code, stdout, stderr } = await command(["join", "none", "none", "--on", "k", "-o", path]);
        expect([code, stdout, stderr]).toEqual([2, "", expect.stringMatching(message)]);
        const grouped = await command(["groupby", "none", "--keys", "k", "--explain", "-o", path]);
        expect([grouped.code, grouped.stderr]).toEqual([2, expect.stringMatching(message)]);
    });

    test.each(["x.arrow", "x.arrows", "x.ipc", "x.feather", "x", ".csv", "x.parquet.new", "parquet"])(
        "may be %s",
        async (name) => {
            using sandbox = new Sandbox();
            const path = join(sandbox.output, name);
            const words = ["groupby", lineitem, "--aggregate", "count:*", "--threads", "1", "-o", path];
            expect((await command(words)).code).toBe(0);
            expect(readdirSync(sandbox.output)).toEqual([name]);
        }
    );
});

test("groupby names the options that it needs", async () => {
    const { code, stderr } = await command(["groupby", lineitem]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/--keys, --aggregate or both/)]);
});

test("--quiet leaves nothing but the rows", async () => {
    expect((await command(joinWords)).stderr).toContain("More rows follow");
    expect((await command([...joinWords, "--quiet"])).stderr).toBe("");
});

test("the summary says that the budget is what this query was granted", async () => {
    const { stderr } = await command([...joinWords, "--json", "--memory", "64MiB"]);
    expect(stderr).toMatch(/engine peak \S+ MiB of \S+ MiB granted\n$/);
});

describe("explain", () => {
    test("offers no option that says what becomes of the rows", async () => {
        for (const name of ["join", "groupby"]) {
            const { stdout } = await command(["explain", name, "--help"]);
            expect(stdout).toMatch(/--memory[\s\S]*--json/);
            expect(stdout).not.toMatch(/--(count|output|overwrite|rows|explain|quiet)\b/);
        }
    });

    test("prints the plan", async () => {
        const { code, stdout } = await command(["explain", ...joinWords, "--json"]);
        expect([code, typeof JSON.parse(stdout)]).toEqual([0, "object"]);
        const groups = await command(["explain", "groupby", lineitem, "--keys", "l_tax"]);
        expect([groups.code, groups.stdout]).toEqual([0, expect.stringMatching(/group/i)]);
    });
});
