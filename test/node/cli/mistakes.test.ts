// SPDX-License-Identifier: Apache-2.0
// Misspelt commands, options and values, and values written next to their letter.
import { describe, expect, test } from "vitest";
import { splitShortOptions } from "../../../src/cli/short-options.js";
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
    [[...join, "--memroy", "1GiB"], /Unknown option --memroy; did you mean --memory\?/],
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
