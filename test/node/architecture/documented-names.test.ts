// SPDX-License-Identifier: Apache-2.0
// Knobs and figures that the documents name exist, and what they say of packed transfers is what the code calls so.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { debugKnobNames } from "../../../src/model/debug-knobs.js";
import { repositoryRoot } from "../../support/source-tree.js";

const read = (path: string): string => readFileSync(join(repositoryRoot, path), "utf8");
const documents = [
    "README.md",
    ...readdirSync(join(repositoryRoot, "docs"))
        .filter((name) => name.endsWith(".md"))
        .map((name) => `docs/${name}`)
];
const api = read("docs/api.md");

/** From the line that begins so to the one before that. */
function section(text: string, begin: string, end: string): string {
    const [from, to] = [text.indexOf(`\n${begin}`), text.indexOf(`\n${end}`)];
    if (from < 0 || to < from) throw new Error(`docs/api.md has no such part: ${begin}`);
    return text.slice(from, to);
}

/** Names in backticks, without values such as `"cpu"`, numbers and expressions. */
const namesIn = (text: string): string[] =>
    [...text.matchAll(/`(?:\w+\.)?([a-z]\w*)(?:\(\))?`/g)].map(([, name]) => name!);

describe("knobs", () => {
    test.each(documents)("that %s names exist", (path) => {
        const named = [...read(path).matchAll(/\bdebug\.(\w+)/g)].map(([, name]) => name!);
        const known: readonly string[] = debugKnobNames;
        expect(named.filter((name) => !known.includes(name))).toEqual([]);
    });

    // The comment of a knob of the GPU alone begins with that word.
    test("of the GPU alone are all in the table of docs/api.md", () => {
        const declared = [...read("src/model/debug-knobs.ts").matchAll(/\/\*\* GPU: [^\n]*\*\/\n\s+(\w+)\?:/g)];
        const table = section(api, "For tests the option `debug`", "## Query");
        const missing = declared.map(([, name]) => name!).filter((name) => !table.includes(`\`debug.${name}\``));
        expect(declared.length).toBeGreaterThan(2);
        expect(missing).toEqual([]);
    });
});

describe("figures of reports", () => {
    const reports = section(api, "`report()` is `undefined`", "The memory of delivered batches");
    const declared = [
        "src/execute/run-report.ts",
        "src/plan/out-of-core-stage.ts",
        "src/plan/out-of-core-tree-stage.ts",
        "src/plan/out-of-core-group-stage.ts"
    ].flatMap((path) => [...read(path).matchAll(/^\s+(?:readonly )?(\w+)\??:/gm)].map(([, name]) => name!));

    test("that docs/api.md names exist", () => {
        const others = ["undefined", "null", "report", "host", "limit", "hgb"];
        const named = namesIn(reports).filter((name) => !others.includes(name));
        expect(named.length).toBeGreaterThan(40);
        expect(named.filter((name) => !declared.includes(name))).toEqual([]);
    });

    test("of packed transfers are named beside what they are compared with", () => {
        const transfers = section(reports, "Values of fixed width", "Stages on the GPU have");
        expect(namesIn(transfers)).toEqual(
            expect.arrayContaining(["sentBytes", "movedBytes", "savedBytes", "h2dBytes"])
        );
    });

    test("of a block are those that the engine has", () => {
        const values = /kPackedValues = (\d+)/.exec(read("cuda/api/packed_block.hpp"))?.[1];
        expect(reports).toContain(`each block of ${Number(values).toLocaleString("en")} of them`);
    });
});
