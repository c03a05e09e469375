// SPDX-License-Identifier: Apache-2.0
// Which rooms of cuda/ the GPU tests reach, and which of them racecheck watches. No GPU is needed to tell.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { includes, repositoryRoot, sourceFiles } from "../../support/source-tree.js";

const tests = sourceFiles("test/gpu");
const kernels = sourceFiles("cuda");
const imports = includes([...tests, ...kernels]);

const pluginHeader = "cuda/api/plugin.h";

/** Beginnings of names, see test/gpu/watched.hpp. */
const watched = [
    ...readFileSync(join(repositoryRoot, "test/gpu/watched.hpp"), "utf8").matchAll(/^ {4}"([^"]+)",$/gm)
].map(([, name]) => name!);

function testNames(text: string): string[] {
    return [...text.matchAll(/^GPU_TEST\("([^"]+)"\)/gm)].map(([, name]) => name!);
}

/** The files of cuda/ and test/gpu/ that a file includes, itself among them. */
function reached(path: string, found = new Set<string>()): Set<string> {
    if (found.has(path)) return found;
    found.add(path);
    for (const { from, to } of imports) if (from === path) reached(to, found);
    return found;
}

/** The rooms whose headers a test or its support includes; not what those headers include in turn. */
function testedRooms(path: string): string[] {
    const own = [...reached(path)].filter((name) => name.startsWith("test/gpu/"));
    const targets = imports.filter(({ from, to }) => own.includes(from) && to.startsWith("cuda/")).map(({ to }) => to);
    return targets.map((name) => name.split("/")[1]!);
}

const roomOf = (path: string): string => path.split("/")[1]!;
const roomsWith = (pattern: RegExp): string[] => [
    ...new Set(kernels.filter(({ text }) => pattern.test(text)).map(({ path }) => roomOf(path)))
];

test("every room of cuda/ has a GPU test", () => {
    const tested = new Set(
        tests.filter(({ path }) => path.endsWith("_test.cu")).flatMap(({ path }) => testedRooms(path))
    );
    // Nothing includes the plugin's insides: its tests call it through the C header, as native/ does.
    const throughHeader = tests.filter(({ path }) =>
        imports.some(({ from, to }) => from === path && to === pluginHeader)
    );
    expect(throughHeader.filter(({ path }) => path.startsWith("test/gpu/plugin_"))).not.toEqual([]);
    expect(roomsWith(/./).filter((room) => room !== "plugin" && !tested.has(room))).toEqual([]);
});

test("every name that racecheck watches is that of a test", () => {
    const names = tests.flatMap(({ text }) => testNames(text));
    expect(watched.length).toBeGreaterThan(0);
    expect(watched.filter((begin) => !names.some((name) => name.startsWith(begin)))).toEqual([]);
});

test("racecheck watches every room whose kernels share memory", () => {
    const isWatched = (text: string): boolean =>
        testNames(text).some((name) => watched.some((begin) => name.startsWith(begin)));
    const rooms = new Set(tests.filter(({ text }) => isWatched(text)).flatMap(({ path }) => testedRooms(path)));
    expect(roomsWith(/__shared__/).filter((room) => !rooms.has(room))).toEqual([]);
});
