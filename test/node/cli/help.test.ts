// SPDX-License-Identifier: Apache-2.0
// Texts that people copy into a shell.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";
import { command } from "./in-process.js";

const commands = [
    [],
    ["join"],
    ["groupby"],
    ["explain"],
    ["explain", "join"],
    ["explain", "groupby"],
    ["generate"],
    ["generate", "relations"],
    ["generate", "tpch"],
    ["generate", "ssb"],
    ["machine"],
    ["machine", "calibrate"],
    ["demo"],
    ["build"]
];

/** Lines with a `count:*` in which a shell may put names of files in place of the star. */
function unquoted(text: string): string[] {
    return text.split("\n").filter((line) => /count:\*/.test(line.replace(/'[^']*'|"[^"]*"/g, "")));
}

test("the star of count:* is quoted in the help of every command", async () => {
    const texts = await Promise.all(commands.map(async (words) => (await command([...words, "--help"])).stdout));
    expect(texts.join("")).toContain("'n=count:*'");
    expect(texts.flatMap(unquoted)).toEqual([]);
    expect(unquoted("spillway groupby a --aggregate n=count:*")).toHaveLength(1);
});

test("and in the documents", () => {
    const docs = readdirSync(join(repositoryRoot, "docs")).filter((name) => name.endsWith(".md"));
    const texts = ["README.md", ...docs.map((name) => join("docs", name))].map((name) =>
        readFileSync(join(repositoryRoot, name), "utf8")
    );
    expect(texts.join("")).toContain("count:*");
    expect(texts.flatMap(unquoted)).toEqual([]);
});

test("and in what a wrong command line is answered with", async () => {
    for (const words of [[], ["--aggregate", "nonsense"], ["--aggregate", "n=cont:*"]]) {
        const { code, stderr } = await command(["groupby", "none.arrow", ...words]);
        expect([code, unquoted(stderr)]).toEqual([2, []]);
    }
});
