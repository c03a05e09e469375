// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { withoutLiterals } from "../../support/function-lengths.js";
import { repositoryRoot, sourceFiles, type SourceFile } from "../../support/source-tree.js";

const product = sourceFiles("src", "native", "cuda", "scripts");
const everything = [...product, ...sourceFiles("test", "configs")];

/** "path:line: text" of every line of code (comments and literals left out) that matches. */
function linesMatching(files: readonly SourceFile[], pattern: RegExp): string[] {
    return files.flatMap((file) => {
        const language = file.language === "ts" || file.language === "mjs" ? "ts" : "c++";
        return withoutLiterals(file.text, language)
            .split("\n")
            .flatMap((line, index) => (pattern.test(line) ? [`${file.path}:${index + 1}: ${line.trim()}`] : []));
    });
}

test("every file starts with the licence", () => {
    const header =
        /^(?:#![^\n]*\n)?(?:\/\/ SPDX-License-Identifier: Apache-2\.0|\/\* SPDX-License-Identifier: Apache-2\.0)/;
    expect(everything.filter((file) => !header.test(file.text)).map((file) => file.path)).toEqual([]);
});

test("nothing is left to do", () => {
    // Spelt in two parts so that this file does not find itself.
    const leftover = new RegExp(`\\b(?:${["TO" + "DO", "FIX" + "ME", "HA" + "CK", "XX" + "X"].join("|")})\\b`);
    const found = everything.filter((file) => leftover.test(file.text)).map((file) => file.path);
    expect(found).toEqual([]);
});

test("rows are counted in 64 bits", () => {
    // Rows inside one page, morsel or block are bounded by its size and may be counted in 32; `int` says neither.
    const vague = /\b(?:int|unsigned|long|short)\s+(?:\w*_)?(?:rows?|row_count)\b/;
    const narrow = /\bu?int(?:8|16|32)_t\s+(?:(?:total|build|probe|source|result)_rows|rows_(?:in|out)|row_count)\b/;
    const native = product.filter((file) => file.language === "c++" || file.language === "cuda");
    expect([...linesMatching(native, vague), ...linesMatching(native, narrow)]).toEqual([]);
});

test("the engine neither prints nor ends the process", () => {
    const native = product.filter((file) => /^(native|cuda)\//.test(file.path));
    const banned =
        /\b(?:std::cout|std::cerr|printf|puts|fprintf|std::abort|abort|exit|_exit|std::terminate)\s*(?:<<|\()/;
    expect(linesMatching(native, banned)).toEqual([]);
});

test("only the program's main file ends the process", () => {
    const source = product.filter((file) => file.path.startsWith("src/"));
    const users = linesMatching(source, /\bprocess\.(?:exit|abort|kill)\(/);
    expect(users.filter((line) => !line.startsWith("src/cli/main.ts:"))).toEqual([]);
});

test("error codes are the same on both sides", () => {
    const errors = readFileSync(join(repositoryRoot, "native/base/error.cpp"), "utf8");
    const enumeration = readFileSync(join(repositoryRoot, "native/base/error.hpp"), "utf8");
    const typescript = readFileSync(join(repositoryRoot, "src/errors.ts"), "utf8");
    const names = [...errors.matchAll(/case ErrorCode::(k\w+):\s*return "(\w+)"/g)];
    const declared = /enum class ErrorCode[^{]*\{([^}]*)\}/.exec(enumeration)?.[1] ?? "";
    expect(names.map(([, name]) => name)).toEqual([...declared.matchAll(/\bk\w+/g)].map(([name]) => name));
    const list = /\[([^\]]*)\]/.exec(typescript.slice(typescript.search(/errorCodes|ERROR_CODES/)))?.[1] ?? "";
    expect([...list.matchAll(/"(\w+)"/g)].map(([, name]) => name)).toEqual(names.map(([, , text]) => text));
});

test("every room of the engine has a unit test", () => {
    const roomOf = (path: string): string => path.split("/").slice(1, -1).join("/");
    const tests = sourceFiles("test/native").filter((file) => file.path.endsWith("_test.cpp"));
    const tested = new Set(
        tests.flatMap((file) => [...file.text.matchAll(/#include "([^"]+)\/[^"/]+"/g)].map(([, room]) => room))
    );
    const rooms = new Set(
        sourceFiles("native")
            .filter((file) => file.path.endsWith(".cpp") && !file.path.startsWith("native/addon/"))
            .map((file) => roomOf(file.path))
    );
    expect([...rooms].filter((room) => !tested.has(room))).toEqual([]);
});
