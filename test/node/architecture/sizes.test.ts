// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { functionLengths } from "../../support/function-lengths.js";
import { sourceFiles } from "../../support/source-tree.js";

const fileLinesMax = 500;
const functionLinesMax = 70;
const columnsMax = 120;

/** Files or "file: function header" that may be longer, each with a reason. */
const exceptions: Record<string, string> = {};

const files = sourceFiles("src", "native", "cuda", "scripts", "test", "configs");
const lineCount = (text: string): number => text.trimEnd().split("\n").length;

test(`no file is longer than ${fileLinesMax} lines`, () => {
    const long = files
        .map((file) => ({ path: file.path, lines: lineCount(file.text) }))
        .filter(({ path, lines }) => lines > fileLinesMax && !Object.hasOwn(exceptions, path));
    expect(long).toEqual([]);
});

test(`no function is longer than ${functionLinesMax} lines`, () => {
    const long = files.flatMap((file) => {
        const language = file.language === "ts" || file.language === "mjs" ? "ts" : "c++";
        return functionLengths(file.text, language)
            .filter(({ lines }) => lines > functionLinesMax)
            .map(({ header, line, lines }) => ({ name: `${file.path}: ${header.split("\n")[0]}`, line, lines }))
            .filter(({ name }) => !Object.hasOwn(exceptions, name));
    });
    expect(long).toEqual([]);
});

test(`no line is longer than ${columnsMax} columns`, () => {
    const long = files.flatMap((file) =>
        file.text
            .split("\n")
            .flatMap((line, index) => ([...line].length > columnsMax ? [`${file.path}:${index + 1}`] : []))
    );
    expect(long).toEqual([]);
});
