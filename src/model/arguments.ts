// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";

import { SpillwayError } from "../errors.js";

/** How a refused value is named in a message: strings quoted, objects by class, everything with its type. */
export function describeValue(value: unknown): string {
    if (value === undefined) return "undefined";
    if (value === null) return "null";
    if (typeof value === "string") return `"${value.length > 60 ? `${value.slice(0, 57)}...` : value}" (string)`;
    if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") {
        return `${String(value)} (${typeof value})`;
    }
    if (typeof value === "function") return "a function";
    if (Array.isArray(value)) return `an array of ${value.length} (array)`;
    if (typeof value === "object") return `${value.constructor?.name ?? "an object"} (object)`;
    return String(value);
}

export function invalidArgument(option: string, expected: string, received: unknown): SpillwayError {
    return new SpillwayError(
        "INVALID_ARGUMENT",
        `Expected ${expected} for \`${option}\` but received ${describeValue(received)}`,
        { option }
    );
}

/** What the caller's own code raises while an argument is read, in a getter or a proxy: the argument is at fault. */
export function readArgument<T>(option: string, read: () => T): T {
    try {
        return read();
    } catch (error) {
        if (error instanceof SpillwayError) throw error;
        const text = error instanceof Error ? `${error.name}: ${error.message}` : typeof error;
        const message = `Reading \`${option}\` raised an error of the caller's (${text}); give a plain value`;
        throw new SpillwayError("INVALID_ARGUMENT", message, { option }, error);
    }
}

// Matches lone surrogates: the two of a pair are one character of another category.
const loneSurrogate = /\p{Surrogate}/u;

/** Half of a surrogate pair cannot be written in UTF-8, as Arrow's names and the system's paths are. */
export function checkWellFormed(text: string, option: string, what = `\`${option}\``): string {
    if (!loneSurrogate.test(text)) return text;
    const shown = `${JSON.stringify(text)}, which has half of a surrogate pair`;
    throw new SpillwayError("INVALID_ARGUMENT", `Expected text that UTF-8 can hold for ${what} but received ${shown}`, {
        option
    });
}

/** Edit distance with adjacent swaps as one step (the commonest slip of the fingers). */
function editDistance(a: string, b: string): number {
    let beforeLast: number[] = [];
    let last = Array.from({ length: b.length + 1 }, (_, i) => i);
    for (let i = 1; i <= a.length; i++) {
        const row = [i];
        for (let j = 1; j <= b.length; j++) {
            const same = a[i - 1] === b[j - 1];
            let best = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1));
            if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
                best = Math.min(best, (beforeLast[j - 2] ?? 0) + 1);
            }
            row.push(best);
        }
        beforeLast = last;
        last = row;
    }
    return last[b.length] ?? 0;
}

/** The candidate that `name` most likely meant, or undefined when none is near. */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
    const wanted = name.toLowerCase();
    let best: string | undefined;
    let bestDistance = Math.max(1, Math.floor(name.length / 3)) + 1;
    for (const candidate of candidates) {
        const distance = editDistance(wanted, candidate.toLowerCase());
        if (distance < bestDistance) {
            bestDistance = distance;
            best = candidate;
        }
    }
    return best;
}

/** "; did you mean `x`?" or the whole list when nothing is near and the list is short. */
export function suggestion(name: string, candidates: readonly string[]): string {
    const nearest = nearestName(name, candidates);
    if (nearest !== undefined) return `; did you mean \`${nearest}\`?`;
    if (candidates.length === 0) return "; there is none";
    const shown = candidates.slice(0, 20).map((candidate) => `\`${candidate}\``);
    return `; there are ${shown.join(", ")}${candidates.length > shown.length ? ", ..." : ""}`;
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * An options object with known names only, each read once. `where` is the path of the object inside the options ("" =
 * the options themselves).
 */
export function checkOptions(value: unknown, where: string, known: readonly string[]): Record<string, unknown> {
    if (value === undefined) return {};
    const path = (name: string): string => (where ? `${where}.${name}` : name);
    return readArgument(where || "options", () => {
        if (!isPlainObject(value)) throw invalidArgument(where || "options", "an object", value);
        for (const name of Object.keys(value)) {
            if (known.includes(name)) continue;
            const option = path(name);
            throw new SpillwayError("INVALID_ARGUMENT", `There is no option \`${option}\`${suggestion(name, known)}`, {
                option
            });
        }
        return Object.fromEntries(known.map((name) => [name, readArgument(path(name), () => value[name])]));
    });
}

export function checkOneOf<const T extends string>(value: unknown, option: string, choices: readonly T[]): T {
    if (typeof value === "string" && (choices as readonly string[]).includes(value)) return value as T;
    const near = typeof value === "string" ? nearestName(value, choices) : undefined;
    const hint = near === undefined ? "" : `; did you mean "${near}"?`;
    const list = choices.map((choice) => `"${choice}"`).join(", ");
    const error = invalidArgument(option, `one of ${list}`, value);
    throw new SpillwayError("INVALID_ARGUMENT", error.message + hint, error.details);
}

/** A whole number in [min, max]; NaN, fractions and numeric text are refused. */
export function checkInteger(value: unknown, option: string, min: number, max = Number.MAX_SAFE_INTEGER): number {
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max) return value;
    const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
    throw invalidArgument(option, `a whole number ${range}`, value);
}

/** A finite number in [min, max]. */
export function checkNumber(value: unknown, option: string, min: number, max: number): number {
    if (typeof value === "number" && value >= min && value <= max) return value;
    throw invalidArgument(option, `a number from ${min} to ${max}`, value);
}

export function checkBoolean(value: unknown, option: string): boolean {
    if (typeof value === "boolean") return value;
    throw invalidArgument(option, "true or false", value);
}

export function checkText(value: unknown, option: string): string {
    if (typeof value === "string" && value !== "") return checkWellFormed(value, option);
    throw invalidArgument(option, "a non-empty string", value);
}

/** A path, or a URL of a file. */
export function checkPath(value: unknown, option: string, expected = "the path of a file"): string {
    if (typeof value === "string" && value !== "") return checkWellFormed(value, option);
    if (!readArgument(option, () => value instanceof URL)) throw invalidArgument(option, expected, value);
    try {
        return fileURLToPath(value as URL);
    } catch {
        throw invalidArgument(option, `${expected}, or a file: URL of this machine,`, (value as URL).href);
    }
}

/** The name of a column. */
export function checkName(value: unknown, option: string, expected = "a column name"): string {
    if (typeof value === "string") return checkWellFormed(value, option);
    throw invalidArgument(option, expected, value);
}

export function checkFunction(value: unknown, option: string): (...args: never[]) => unknown {
    if (typeof value === "function") return value as (...args: never[]) => unknown;
    throw invalidArgument(option, "a function", value);
}

export function checkSignal(value: unknown, option: string): AbortSignal {
    const isSignal = (): boolean =>
        isPlainObject(value) && "aborted" in value && typeof value["addEventListener"] === "function";
    if (readArgument(option, isSignal)) return value as AbortSignal;
    throw invalidArgument(option, "an AbortSignal", value);
}

export function unknownColumn(name: string, option: string, columns: readonly string[], what: string): SpillwayError {
    return new SpillwayError(
        "UNKNOWN_COLUMN",
        `Column \`${name}\` named in \`${option}\` is not in ${what}${suggestion(name, columns)}`,
        { option, column: name }
    );
}
