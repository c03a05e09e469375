// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { functionLengths } from "../../support/function-lengths.js";

describe("the function counter itself", () => {
    const lengths = (source: string, language: "ts" | "c++") =>
        functionLengths(source, language).map(({ line, lines }) => [line, lines]);

    test("C++ functions, methods, constructors, lambdas", () => {
        const source = [
            "namespace a {",
            "struct S {",
            "    S(int x) : x_(x), y_{1} {",
            "        if (x) {",
            "        }",
            "    }",
            "    int get() const noexcept {",
            "        return x_;",
            "    }",
            "};",
            'const char* text = "{ not a brace"; // nor this {',
            "void run() {",
            "    call(1, [&](int w) {",
            "        for (int i = 0; i < w; ++i) {",
            "        }",
            "    });",
            "}",
            "}"
        ].join("\n");
        expect(lengths(source, "c++")).toEqual([
            [3, 4],
            [7, 3],
            [13, 4],
            [12, 6]
        ]);
    });

    test("TypeScript functions, methods, arrows, templates", () => {
        const source = [
            'describe("group", () => {',
            '    test("one", async () => {',
            "        const text = `${1} {`;",
            "    });",
            "});",
            "class A {",
            "    async method(a: number): Promise<void> {",
            "        const value = { a: 1, b: [2] };",
            "    }",
            "}",
            "export const arrow = (x: number) => {",
            "    switch (x) {",
            "        default:",
            "    }",
            "};"
        ].join("\n");
        expect(lengths(source, "ts")).toEqual([
            [2, 3],
            [7, 3],
            [11, 5]
        ]);
    });
});
