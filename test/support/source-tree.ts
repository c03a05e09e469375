// SPDX-License-Identifier: Apache-2.0
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, extname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

export const repositoryRoot = fileURLToPath(new URL("../..", import.meta.url));

export interface SourceFile {
    /** From the repository root, with forward slashes. */
    readonly path: string;
    readonly text: string;
    readonly language: "ts" | "mjs" | "c++" | "cuda";
}

const languages: Record<string, SourceFile["language"]> = {
    ".ts": "ts",
    ".mjs": "mjs",
    ".cpp": "c++",
    ".hpp": "c++",
    ".h": "c++",
    ".cu": "cuda",
    ".cuh": "cuda"
};

/** Source files below these folders, sorted by path; a folder that does not exist has none. */
export function sourceFiles(...folders: string[]): SourceFile[] {
    const files: SourceFile[] = [];
    for (const folder of folders) {
        const absolute = join(repositoryRoot, folder);
        if (!existsSync(absolute)) continue;
        for (const entry of readdirSync(absolute, { recursive: true, withFileTypes: true })) {
            const language = languages[extname(entry.name)];
            if (!entry.isFile() || language === undefined || entry.name.endsWith(".d.ts")) continue;
            const path = join(entry.parentPath, entry.name);
            files.push({ path: relative(repositoryRoot, path), text: readFileSync(path, "utf8"), language });
        }
    }
    return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

export interface Import {
    readonly from: string;
    readonly to: string;
    readonly line: number;
}

function lineAt(text: string, index: number): number {
    return text.slice(0, index).split("\n").length;
}

/** Relative imports of TypeScript files, resolved to repository paths of the .ts files; `export ... from` included. */
export function typescriptImports(files: readonly SourceFile[]): Import[] {
    const pattern = /(?:\bfrom\s+|\bimport\s+|\bimport\(\s*)"(\.[^"]*)"/g;
    return files.flatMap((file) =>
        [...file.text.matchAll(pattern)].map((match) => ({
            from: file.path,
            to: join(dirname(file.path), match[1]!.replace(/\.js$/, ".ts")),
            line: lineAt(file.text, match.index)
        }))
    );
}

/** `#include "..."` of C++ and CUDA files, resolved against the including folder, its own plane and then the others. */
export function includes(files: readonly SourceFile[]): Import[] {
    const known = new Set(files.map((file) => file.path));
    return files.flatMap((file) =>
        [...file.text.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)].map((match) => {
            const name = match[1]!;
            // Both planes have a folder "device".
            const planes = file.path.startsWith("native/") ? ["native", "cuda"] : ["cuda", "native"];
            const roots = file.path.startsWith("test/gpu/") ? ["test/gpu", ...planes] : planes;
            const places = [dirname(file.path), ...(file.path.startsWith("test/native/") ? ["native"] : []), ...roots];
            const candidates = [...places.map((place) => join(place, name)), name];
            const to = candidates.find((candidate) => known.has(candidate)) ?? name;
            return { from: file.path, to, line: lineAt(file.text, match.index) };
        })
    );
}
