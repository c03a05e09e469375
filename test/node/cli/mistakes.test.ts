// SPDX-License-Identifier: Apache-2.0
// Misspelt commands, options and values, and values written next to their letter.
import { describe, expect, test } from "vitest";
import { splitShortOptions } from "../../../src/cli/command-words.js";
import { joinOptions } from "../../../src/cli/commands/join.js";
import { command } from "./in-process.js";

const join = ["join", "missing-a.arrow", "missing-b.arrow", "--on", "x"];

test.each([
    [["--hlep"], /Unknown option --hlep; did you mean --help\?/],
    [["--memroy=1GiB"], /Unknown option --memroy; did you mean --memory\?/],
    [["explain", "--quite"], /Unknown option --quite; did you mean --quiet\?/],
    [["--memory", "1GiB"], /^Name a command/],
    [["explain"], /"explain" needs one of its commands/],
    [["jion"], /Unknown command "jion"; did you mean join\?/],
    [["explain", "jion"], /Unknown command "jion"; did you mean join\?/],
    [["joni", "a", "b", "--on", "k", "--count"], /^Unknown command "joni"; did you mean join\?\nSee "spillway --help"/],
    [["group-by", "a", "--keys", "k"], /^Unknown command "group-by"; did you mean groupby\?/],
    [["generate", "tcph", "a", "--scale", "1"], /^Unknown command "tcph"; did you mean tpch\?\nSee "spillway generate/],
    [["explain", "joni", "a", "--on", "k"], /^Unknown command "joni"; did you mean join\?/],
    [["--quiet", "joni", "a"], /^Unknown command "joni"/],
    [["--memroy", "1GiB", ...join], /^Unknown option --memroy; did you mean --memory\?/],
    [["machine", "--quiet"], /^"machine" has no option --quiet; "join", .*"generate ssb" have it\./],
    [["explain", ...join, "--count"], /^"explain join" has no option --count; "join", "groupby" have it\./],
    [[...join, "--type", "-"], /--type cannot be "-"/],
    [["generate", "tpch", "a", "--", "--b"], /^Unexpected "--b"\./],
    // A file behind -- is no option's value: as that of --output it would be overwritten.
    [["groupby", "a.arrow", "--keys", "k", "--overwrite", "-o", "--", "b.arrow"], /^-o needs a value\./],
    [["groupby", "a.arrow", "--keys", "--", "b.arrow"], /^--keys needs a value\./],
    [[...join, "--memory", "--"], /^--memory needs a value\./],
    [["--count", "--", "join", "a", "b"], /^Name a command\.\nSee "spillway --help"/],
    [["join", "a", "b", "--onn", "x"], /^Unknown option --onn; did you mean --on\?\nSee "spillway join --help"/],
    [["join", "--onn", "x", "a", "b"], /^Unknown option --onn; did you mean --on\?\nSee/],
    [["explain", "join", "--onn", "x", "a", "b"], /^Unknown option --onn; did you mean --on\?\nSee/],
    [["join", "a", "b", "--join-keys", "x"], /^Unknown option --join-keys\.\n--on must be given\.\nSee/],
    [["join", "a", "b", "-on", "x"], /^--on must be given; -o is short for --output\.\n/],
    [["join", "a", "b", "--o", "x"], /^--on must be given; -o is short for --output\.\n/],
    [["join", "a", "b", "-o", "x.arrow"], /^--on must be given\.\n/],
    [["groupby", "a", "--keyz", "x"], /^Unknown option --keyz; did you mean --keys\?/],
    [["generate", "tpch", "--scael", "1"], /^Unknown option --scael; did you mean --scale\?\nUsage: spillway generate/],
    [["generate", "tpch", "--folder", "x"], /^"generate tpch" has no option --folder; .*\nUsage: .* tpch FOLDER/],
    [["generate", "tpch", "none.parquet"], /^generate writes Arrow files into a folder, but "none\.parquet"/],
    [["machine", "calibrte"], /^Unknown command "calibrte"; did you mean calibrate\?/],
    [["demo", "--scal", "1"], /^Unknown option --scal; did you mean --scale\?/],
    [["join", "a", "b", "--overwrite"], /^--on must be given\.\n/],
    [[...join, "--memroy", "1GiB"], /Unknown option --memroy; did you mean --memory\?/],
    [[...join, "--spill-dir", "/tmp"], /Unknown option --spill-dir; did you mean --spill-directory\?/],
    [["--spill-dir=/tmp", ...join], /Unknown option --spill-dir; did you mean --spill-directory\?/],
    [[...join, "-qz"], /^Unknown option -z\.\n/],
    [[...join, "-z64"], /^Unknown option -z\.\n/],
    [[...join, "--type", "lefft"], /--type cannot be "lefft"; did you mean left\?/],
    [[...join, "--type", "outer"], /known are inner, left, right, full, semi, anti/],
    [[...join, "--device", "gpuu"], /did you mean gpu\?/]
])("%j", async (words, message) => {
    const { code, stderr, stdout } = await command(words);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(message);
});

describe("options that are on or off", () => {
    test.each([
        ["before the command", ["--quiet", ...join]],
        ["before the command with a value", ["--quiet", "true", ...join]],
        ["before the second word of a command", ["explain", "--json", ...join]],
        ["with others that take values", ["-m", "64MiB", "-qt1", "--output", "join", ...join]]
    ])("may stand %s", async (_, words) => {
        const { code, stdout, stderr } = await command(words);
        expect([code, stdout + stderr]).toEqual([1, expect.stringContaining("FILE_NOT_FOUND")]);
    });

    test("count for errors too, but not behind --", async () => {
        const behind = await command(["join", "--on", "k", "--", "--json"]);
        expect([behind.code, behind.stdout]).toEqual([2, ""]);
        const { code, stdout } = await command(["--json", "join"]);
        expect([code, stdout]).toEqual([2, expect.stringContaining("--on must be given")]);
    });
});

describe("words behind --", () => {
    test.each([
        [["groupby", "--aggregate", "count:*", "--", "--missing.arrow"], /'--missing\.arrow'/],
        [["join", "--on", "k", "--", "missing.arrow", "other.arrow"], /'missing\.arrow'/],
        [["join", "missing.arrow", "--on", "k", "--", "other.arrow"], /'missing\.arrow'/]
    ])("are files: %j", async (words, message) => {
        const { code, stderr } = await command(words);
        expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
    });
});

test.each([
    [["join", "-", "b.arrow", "--on", "k"], /^The left relation cannot be standard input/],
    [["groupby", "a.arrow,-", "--keys", "k"], /^The input cannot be standard input/],
    [["groupby", "--keys", "k", "--", "-"], /^The input cannot be standard input/],
    [["generate", "tpch", "-"], /^generate writes several files/]
])("- is no file: %j", async (words, message) => {
    const { code, stdout, stderr } = await command(words);
    expect([code, stdout, stderr]).toEqual([2, "", expect.stringMatching(message)]);
});

describe("a value next to its letter", () => {
    test.each([
        ["-m64MiB", ["-m=64MiB"]],
        ["-m=64MiB", ["-m=64MiB"]],
        ["-t2", ["-t=2"]],
        ["-qt2", ["-q", "-t=2"]],
        ["-qm", ["-q", "-m"]],
        ["-q", ["-q"]],
        ["-qz5", ["-qz5"]],
        ["--memory", ["--memory"]],
        ["-5", ["-5"]],
        ["name", ["name"]]
    ])("%s is %j", (word, expected) => {
        expect(splitShortOptions([word], joinOptions)).toEqual(expected);
        expect(splitShortOptions(["--", word], joinOptions)).toEqual(["--", word]);
    });

    test("is its value", async () => {
        const { stderr } = await command([...join, "-qm12xB"]);
        expect(stderr).toContain('received "12xB"');
    });
});
