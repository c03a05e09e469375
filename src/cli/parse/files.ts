// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import type { Dirent } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../usage-error.js";
import { segmentMatcher, wildcard } from "./wildcards.js";

async function entriesOf(folder: string, signal: AbortSignal): Promise<Dirent[]> {
    signal.throwIfAborted(); // ** over a whole disk takes minutes
    try {
        return await readdir(folder === "" ? "." : folder, { withFileTypes: true });
    } catch {
        return []; // a folder that cannot be read matches nothing; the caller reports a pattern without matches
    }
}

/** Each path once: a pattern with several ** leads to it in as many ways as the folders between can be shared out. */
async function expandFrom(
    folder: string,
    segments: readonly string[],
    found: Set<string>,
    seen: Set<string>,
    signal: AbortSignal
): Promise<void> {
    const [segment, ...rest] = segments;
    if (segment == null) return void found.add(folder);
    const state = `${segments.length}/${folder}`;
    if (seen.has(state)) return;
    seen.add(state);
    if (segment === "**") {
        await expandFrom(folder, rest, found, seen, signal);
        for (const entry of await entriesOf(folder, signal)) {
            if (!entry.isDirectory() || entry.name.startsWith(".")) continue;
            await expandFrom(join(folder, entry.name), segments, found, seen, signal);
        }
    } else if (!wildcard.test(segment)) {
        const path = folder === "" && segment === "" ? "/" : join(folder, segment);
        if (existsSync(path)) await expandFrom(path, rest, found, seen, signal);
    } else {
        const matches = segmentMatcher(segment);
        for (const { name } of await entriesOf(folder, signal)) {
            if (!matches(name) || (name.startsWith(".") && !segment.startsWith("."))) continue;
            await expandFrom(join(folder, name), rest, found, seen, signal);
        }
    }
}

/** Paths that a shell pattern matches, sorted by name; for patterns that the shell did not expand (quoted ones). */
export async function expandPattern(pattern: string, signal: AbortSignal): Promise<string[]> {
    const found = new Set<string>();
    await expandFrom("", pattern.split("/"), found, new Set(), signal);
    return [...found].sort((left, right) => (left < right ? -1 : left > right ? 1 : 0));
}

/**
 * Files of one relation: paths and patterns, each text perhaps several separated by commas. A path that exists under
 * its full text is taken as it is, so that names with commas or brackets work. Missing plain paths are passed on: the
 * engine reports them with its own code.
 */
export async function parseFiles(side: string, texts: readonly string[], signal: AbortSignal): Promise<string[]> {
    const items = texts.flatMap((text) => (text !== "-" && existsSync(text) ? [text] : text.split(",")));
    const files: string[] = [];
    for (const item of items) {
        if (item.trim() === "") throw new UsageError(`The ${side} has an empty file name in "${texts.join(",")}".`);
        if (item === "-") {
            throw new UsageError(
                `The ${side} cannot be standard input ("-"), since files are read in pieces from any position; ` +
                    "save the data to a file and name that (./- for a file of that name)."
            );
        }
        const isPattern = wildcard.test(item) && !existsSync(item);
        const matches = isPattern ? await expandPattern(item, signal) : [item];
        if (matches.length === 0) throw new UsageError(`No file matches the pattern "${item}" (${side}).`);
        for (const match of matches) files.push(match);
    }
    if (files.length === 0) throw new UsageError(`No file given for the ${side}.`);
    return files;
}
