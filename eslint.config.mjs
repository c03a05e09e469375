// SPDX-License-Identifier: Apache-2.0
import eslint from "@eslint/js";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

const nodeGlobals = Object.fromEntries(
    [
        "AbortController",
        "AbortSignal",
        "Buffer",
        "URL",
        "clearInterval",
        "clearTimeout",
        "console",
        "performance",
        "process",
        "setImmediate",
        "setInterval",
        "setTimeout",
        "structuredClone"
    ].map((name) => [name, "readonly"])
);

export default defineConfig(
    { ignores: ["dist/", "build/", "build-*/", "node_modules/", "coverage/"] },
    eslint.configs.recommended,
    {
        files: ["**/*.ts"],
        extends: [tseslint.configs.recommendedTypeChecked],
        languageOptions: {
            parserOptions: {
                projectService: { allowDefaultProject: ["vitest.config.ts"] },
                tsconfigRootDir: import.meta.dirname
            }
        },
        rules: {
            // A forgotten await on a native job is a leaked handle: these two are why the lint is typed at all.
            "@typescript-eslint/no-floating-promises": "error",
            "@typescript-eslint/no-misused-promises": "error",
            "@typescript-eslint/consistent-type-imports": "error",
            "@typescript-eslint/no-explicit-any": "error",
            "@typescript-eslint/prefer-promise-reject-errors": "off",
            "@typescript-eslint/require-await": "off",
            "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
            eqeqeq: ["error", "always", { null: "ignore" }],
            "no-console": "error",
            "prefer-const": "error",
            // Arrow's type classes declare their enum fields as plain numbers and inherit no typed toString().
            "@typescript-eslint/no-unsafe-enum-comparison": "off",
            "@typescript-eslint/no-base-to-string": "off"
        }
    },
    {
        files: ["src/arrow/**/*.ts", "test/**/*.ts"],
        rules: {
            // Children, dictionaries and cells of Arrow data are `any` in its declarations.
            "@typescript-eslint/no-unsafe-argument": "off",
            "@typescript-eslint/no-unsafe-assignment": "off",
            "@typescript-eslint/no-unsafe-call": "off",
            "@typescript-eslint/no-unsafe-member-access": "off",
            "@typescript-eslint/no-unsafe-return": "off"
        }
    },
    // What a person reads on a terminal is the command line's whole purpose.
    { files: ["src/cli/**/*.ts", "test/benchmark/**/*.ts"], rules: { "no-console": "off" } },
    { files: ["**/*.mjs"], languageOptions: { globals: nodeGlobals } }
);
