// SPDX-License-Identifier: Apache-2.0
import { existsSync, readdirSync, type Dirent } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../usage-error.js";

const wildcard = /[*?[]/;

/** `*`, `?`, `[a-z]` and `[!a-z]` inside one path segment. */
function segmentPattern(segment: string): RegExp {
    const source = segment.replace(/\[!?[^\]]+\]|[*?]|[^*?[]+|\[/g, (part) => {
        if (part === "*") return "[^/]*";
        if (part === "?") return "[^/]";
        if (part.length > 2 && part.startsWith("[")) {
            return part.replace(/\\/g, "\\\\").replace(/^\[!/, "[^");
        }
        return part.replace(/[.+^${}()|[\]\\]/g, "\\$&");
    });
    return new RegExp(`^${source}$`, "u");
}

function entriesOf(folder: string): Dirent[] {
    try {
        return readdirSync(folder === "" ? "." : folder, { withFileTypes: true });
    } catch {
        return []; // a folder that cannot be read matches nothing; the caller reports a pattern without matches
    }
}

function expandFrom(folder: string, segments: readonly string[]): string[] {
    const [segment, ...rest] = segments;
    if (segment == null) return [folder];
    if (segment === "**") {
        const below = entriesOf(folder)
            .filter((entry) => entry.isDirectory() && !entry.name.startsWith("."))
            .flatMap((entry) => expandFrom(join(folder, entry.name), segments));
        return [...expandFrom(folder, rest), ...below];
    }
    if (!wildcard.test(segment)) {
        const path = folder === "" && segment === "" ? "/" : join(folder, segment);
        return existsSync(path) ? expandFrom(path, rest) : [];
    }
    const pattern = segmentPattern(segment);
    return entriesOf(folder)
        .filter((entry) => pattern.test(entry.name) && (segment.startsWith(".") || !entry.name.startsWith(".")))
        .flatMap((entry) => expandFrom(join(folder, entry.name), rest));
}

/** Paths that a shell pattern matches, sorted by name; for patterns that the shell did not expand (quoted ones). */
export function expandPattern(pattern: string): string[] {
    return expandFrom("", pattern.split("/")).sort((left, right) => (left < right ? -1 : left > right ? 1 : 0));
}

/**
 * Files of one relation: paths and patterns, each text perhaps several separated by commas. A path that exists under
 * its full text is taken as it is, so that names with commas or brackets work. Missing plain paths are passed on: the
 * engine reports them with its own code.
 */
export function parseFiles(side: string, texts: readonly string[]): string[] {
    const files = texts
        .flatMap((text) => (text !== "-" && existsSync(text) ? [text] : text.split(",")))
        .flatMap((item) => {
            if (item.trim() === "") throw new UsageError(`The ${side} has an empty file name in "${texts.join(",")}".`);
            if (item === "-") {
                throw new UsageError(
                    `The ${side} cannot be standard input ("-"), since files are read in pieces from any position; ` +
                        "save the data to a file and name that (./- for a file of that name)."
                );
            }
            if (existsSync(item) || !wildcard.test(item)) return [item];
            const matches = expandPattern(item);
            if (matches.length === 0) throw new UsageError(`No file matches the pattern "${item}" (${side}).`);
            return matches;
        });
    if (files.length === 0) throw new UsageError(`No file given for the ${side}.`);
    return files;
}
