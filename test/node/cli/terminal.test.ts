// SPDX-License-Identifier: Apache-2.0
// Names, values and paths come from anybody: what a terminal would obey or hide leaves the program only as an escape.
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { Field, Int32, Struct, Table, tableToIPC, Utf8, vectorFromArray } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { errorLines } from "../../../src/cli/render/errors.js";
import { lineProgress, terminalProgress } from "../../../src/cli/render/progress.js";
import { SpillwayError } from "../../../src/errors.js";
import { printable, printableJson } from "../../../src/printable.js";
import { Sandbox } from "../../support/sandbox.js";
import { command, type CommandResult } from "./in-process.js";

// A title, a colour, a bell, a line of its own, a return over what stands there, C1's own escape, DEL, a line and a
// paragraph separator, overrides and isolates, marks, and characters without width.
const path = "\x1b]0;title\x07\x1b[31mred\nINJECTED\rover\x7f\u009b31m\u0085\u2028\u2029\u202e\u2066\u200f\u200b\ufeff";
const hostile = `${path}\0\u{e0041}end`;
// All that is not to come out, but for the line feeds between lines.
const forbidden = /(?!\n)[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\u200b\u2060\ufeff\u{e0041}]/u;

/** Both streams are clean, and the hostile text was shown, with escapes. */
function expectClean({ code, stdout, stderr }: CommandResult, wantedCode: number): void {
    const text = `${stdout}\n${stderr}`;
    expect([code, forbidden.exec(text)?.[0]], text).toEqual([wantedCode, undefined]);
    expect(text.split("\n").filter((line) => line.startsWith("INJECTED"))).toEqual([]);
    expect(text).toContain("\\u001b");
}

let sandbox: Sandbox;
let file: string;
beforeAll(() => {
    sandbox = new Sandbox();
    const nested = new Struct([new Field(hostile, new Utf8(), true)]);
    const table = new Table({
        k: vectorFromArray([1, 2], new Int32()),
        [hostile]: vectorFromArray([hostile, "x"], new Utf8()),
        s: vectorFromArray([{ [hostile]: hostile }, null], nested)
    });
    file = sandbox.path(`${path}.arrow`);
    writeFileSync(file, tableToIPC(table, "file"));
});
afterAll(() => sandbox[Symbol.dispose]());

const engine = (): string[] => ["--threads", "1", "--spill-directory", sandbox.spill];
const join = (...words: string[]): Promise<CommandResult> => command(["join", file, file, ...words, ...engine()]);

describe("what a terminal would obey is escaped", () => {
    test("in tables of rows", async () => {
        expectClean(await join("--on", "k"), 0);
        expectClean(await command(["groupby", file, "--keys", hostile.replaceAll("\0", ""), ...engine()]), 1);
        expectClean(await command(["groupby", file, "--aggregate", `${path}=count:*`, ...engine()]), 0);
    });

    test("in plans", async () => {
        const plan = await command(["explain", "join", file, file, "--on", "k", ...engine()]);
        expectClean(plan, 0);
        expect(plan.stdout).toContain(
            "red\\nINJECTED\\rover\\u007f\\u009b31m\\u0085\\u2028\\u2029\\u202e\\u2066\\u200f"
        );
    });

    test.each([
        ["a column that is not there", ["--on", `k=${path}`], 1],
        ["an unknown option", ["--on", "k", `--${path}=1`], 2],
        ["relations given twice", ["--on", "k", "--left", path], 2],
        ["a choice", ["--on", "k", "--type", path], 2],
        ["a number", ["--on", "k", "--rows", path], 2],
        ["a size", ["--on", "k", "--memory", path], 2],
        ["a machine profile", ["--on", "k", "--machine", path], 1],
        ["a missing folder", ["--on", "k", "--output", `${path}/x.arrow`], 1],
        ["an aggregate", [], 2]
    ])("in errors about %s", async (_, words, code) => {
        expectClean(
            words.length === 0 ? await command(["groupby", file, "--aggregate", path]) : await join(...words),
            code
        );
    });

    test("in errors about commands, files and patterns", async () => {
        expectClean(await command([path]), 2);
        expectClean(await command(["explain", path]), 2);
        expectClean(await command(["groupby", `${path}*`, "--keys", "k"]), 2);
        expectClean(await command(["groupby", `${path.replace("[", "").replace("[", "")}.missing`, "--keys", "k"]), 1);
        const damaged = sandbox.path(`${path}.damaged`);
        writeFileSync(damaged, "no Arrow file");
        expectClean(await command(["groupby", damaged, "--keys", "k"]), 1);
        const profile = sandbox.path(`${path}.yaml`);
        writeFileSync(profile, `name: "${JSON.stringify(path).slice(1, -1)}"\n${JSON.stringify(path)}: 1\n`);
        expectClean(await join("--on", "k", "--machine", profile), 2);
    });

    test("in what is said of files that are written", async () => {
        const output = sandbox.path(`${path}.out`);
        expect((await join("--on", "k", "--output", output)).code).toBe(0);
        expectClean(await join("--on", "k", "--output", output), 1);
        const folder = sandbox.path(`${path}.folder`);
        const generate = ["generate", "tpch", folder, "--tables", "orders,lineitem", "--scale", "0.001"];
        expectClean(await command([...generate, ...engine()]), 0);
        expectClean(await command([...generate, ...engine()]), 1);
        expect(readdirSync(folder).sort()).toEqual(["lineitem.arrow", "orders.arrow"]);
        const profile = sandbox.path(`${path}.profile`);
        writeFileSync(profile, "");
        expectClean(await command(["machine", "calibrate", "--output", profile]), 1);
    });

    test("in the demo", async () => {
        const folder = sandbox.path(`${path}.demo`);
        mkdirSync(folder);
        const words = ["demo", "--scale", "0.001", "--folder", folder, "--threads", "1"];
        const result = await command([...words, "--spill-directory", sandbox.spill]);
        expectClean({ ...result, stdout: `${result.stdout}\\u001b` }, 0);
        expectClean(await command([...words, "--spill-directory", `${folder}/missing`]), 2);
        expect(existsSync(folder) && readdirSync(folder)).toEqual([]);
    });
});

describe("--json", () => {
    test("says the same with escapes", async () => {
        const rows = await join("--on", "k", "--json");
        expectClean(rows, 0);
        const [first, second] = rows.stdout
            .split("\n")
            .map((line) => (line === "" ? null : (JSON.parse(line) as object)));
        const members = { [hostile]: hostile };
        const row = { k: 1, [hostile]: hostile, s: members, [`${hostile}_right`]: hostile, s_right: members };
        expect(first).toEqual(row);
        expect(second).toMatchObject({ k: 2, [hostile]: "x", s: null });
    });

    test("of plans, counts, files and errors too", async () => {
        const plan = await command(["explain", "join", file, file, "--on", "k", "--json", ...engine()]);
        expectClean(plan, 0);
        expect(plan.stdout.trimEnd()).not.toContain("\n");
        expect(JSON.stringify(JSON.parse(plan.stdout))).toContain(JSON.stringify(hostile).slice(1, -1));
        const output = sandbox.path(`${path}.json-out`);
        const written = await join("--on", "k", "--output", output, "--json");
        expectClean(written, 0);
        expect(JSON.parse(written.stdout)).toMatchObject({ path: output });
        const failed = await join("--on", `k=${path}`, "--json");
        expectClean(failed, 1);
        expect(JSON.parse(failed.stdout)).toMatchObject({ error: { code: "UNKNOWN_COLUMN" } });
        const usage = await join("--on", "k", "--json", "--rows", path);
        expectClean(usage, 2);
        expect(JSON.parse(usage.stdout)).toMatchObject({ error: { message: expect.stringContaining(path) as string } });
    });
});

test("no code point is both shown and obeyed or hidden", () => {
    for (let code = 0; code <= 0x10ffff; code++) {
        const character = String.fromCodePoint(code);
        const shown = printable(`a${character}b`);
        if (/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\p{Bidi_Control}]/u.test(character)) expect(shown).toMatch(/^a\\[nrtbfu]/);
        const json = `"a${character === '"' || character === "\\" || code < 0x20 ? "" : character}b"`;
        if (code === 0x7f || (code > 0x7f && shown.startsWith("a\\u"))) {
            expect(JSON.parse(String(printableJson(json)))).toBe(JSON.parse(json));
            expect(String(printableJson(json))).toMatch(/^[ -~]*$/);
        }
    }
});

test("joiners stay where they join", () => {
    const words = ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u{1f468}\u200d\u{1f469}", "Grün · 東京"];
    expect(words.map(printable)).toEqual(words);
    expect(["na\u200dme", "\u200cname"].map(printable)).toEqual(["na\\u200dme", "\\u200cname"]);
});

test("progress and defects are one line each", () => {
    const event = { phase: hostile, fraction: 1, rows: 0, rowsOut: 0, spilledBytes: 0, etaMs: null };
    let text = "";
    const stream = { columns: 500, write: (part: string) => (text += part) };
    lineProgress(stream).update(event);
    terminalProgress(stream).update(event);
    expect(text.replace("\r\x1b[2K", "")).not.toMatch(forbidden);
    expect(text.match(/\n/g)).toHaveLength(1);
    for (const error of [new Error(hostile), new SpillwayError("INTERNAL", hostile), hostile]) {
        const lines = errorLines(error).map(printable);
        expect(lines[0]).toContain("\\nINJECTED");
        expect(lines.join("")).not.toMatch(forbidden);
    }
});
