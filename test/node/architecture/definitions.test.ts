// SPDX-License-Identifier: Apache-2.0
// The one-definition rule: no two files give one name of a namespace two meanings. The linker sees such a pair of
// functions; of two types, whose inline members it merges, it takes either without a word.
import { describe, expect, test } from "vitest";
import { definitions, type Definition } from "../../support/definitions.js";
import { sourceFiles, type SourceFile } from "../../support/source-tree.js";

function names(text: string): string[] {
    return definitions({ path: "a.hpp", text, language: "c++" }).map(({ name }) => name);
}

/** "name: path:line, path:line" of every name that several of the files define. */
function definedTwice(files: readonly SourceFile[]): string[] {
    const places = new Map<string, Definition[]>();
    for (const found of files.flatMap(definitions)) {
        places.set(found.name, [...(places.get(found.name) ?? []), found]);
    }
    return [...places]
        .filter(([, all]) => new Set(all.map(({ path }) => path)).size > 1)
        .map(([name, all]) => `${name}: ${all.map(({ path, line }) => `${path}:${line}`).join(", ")}`);
}

describe("the finder itself", () => {
    test("types, aliases and constants of named namespaces", () => {
        const source = [
            "namespace a::b {",
            "struct Plain { int x; struct Inner {}; };",
            "template <class T, int N> class Pattern : public Base<T> { using Own = T; };",
            "enum class Kind : uint8_t { kOne };",
            "using Row = Pattern<int, 3>;",
            "constexpr uint64_t kMost = 1ULL << 14;",
            "constexpr const char* kNames[] = {nullptr, nullptr};",
            "class Plain::Inner { int y; };",
            "inline int call(struct Plain plain) { constexpr int kLocal = 1; return kLocal; }",
            "namespace { struct Mine {}; }",
            "class Declared;",
            "}"
        ].join("\n");
        expect(names(source)).toEqual(
            ["Plain", "Pattern", "Kind", "Row", "kMost", "kNames"].map((name) => `a::b::${name}`)
        );
    });

    test("a name in two files is told, in two namespaces it is not", () => {
        const file = (path: string, text: string): SourceFile => ({ path, text, language: "cuda" });
        const one = file("one.hpp", "namespace a { struct Bits { int end = 0; }; }");
        const other = file("other.hpp", "namespace a { struct Bits { int end = 1; }; }");
        const apart = file("apart.hpp", "namespace b { struct Bits { int end = 1; }; }");
        expect(definedTwice([one, apart])).toEqual([]);
        expect(definedTwice([one, other])).toEqual(["a::Bits: one.hpp:1, other.hpp:1"]);
    });
});

test.each(["native", "cuda"])("no name of %s/ is defined by two files", (folder) => {
    const files = sourceFiles(folder);
    expect(files.flatMap(definitions).length).toBeGreaterThan(100);
    expect(definedTwice(files)).toEqual([]);
});

// Packages and sanitizers compile the sources of a folder as one unit (CMakeLists.txt), where constants of anonymous
// namespaces meet; everyday builds do not notice.
test("constants of one folder of native sources have different names", () => {
    const places = new Map<string, string[]>();
    for (const { path, text } of sourceFiles("native").filter(({ path }) => path.endsWith(".cpp"))) {
        const folder = path.slice(0, path.lastIndexOf("/"));
        for (const [, name] of text.matchAll(
            /^(?:alignas\(\d+\) )?(?:static )?(?:inline )?const(?:expr)? [^=({;]*?\b(k[A-Z]\w*)\b/gm
        )) {
            const key = `${folder}: ${name}`;
            places.set(key, [...(places.get(key) ?? []), path]);
        }
    }
    expect(places.size).toBeGreaterThan(50);
    const twice = [...places].filter(([, paths]) => new Set(paths).size > 1).map(([name, paths]) => ({ name, paths }));
    expect(twice).toEqual([]);
});
