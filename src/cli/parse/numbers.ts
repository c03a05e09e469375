// SPDX-License-Identifier: Apache-2.0
import { UsageError } from "../usage-error.js";

const multipliers: Record<string, number> = { "": 1, k: 1e3, m: 1e6, g: 1e9 };

/** `10000000`, `10_000_000`, `1e7` or `10M`: a count of rows or of something else with a limit of its own. */
export function parseCount(option: string, text: string, minimum = 0, maximum = Number.MAX_SAFE_INTEGER): number {
    const match = /^([0-9][0-9_]*(?:\.[0-9]+)?(?:e[0-9]+)?)([kmg]?)$/i.exec(text.trim());
    const value = match == null ? NaN : Number(match[1]!.replaceAll("_", "")) * multipliers[match[2]!.toLowerCase()]!;
    if (!Number.isSafeInteger(value) || value < minimum || value > maximum) {
        // The limit of all counts is of interest to those who are beyond it only.
        const wanted =
            maximum < Number.MAX_SAFE_INTEGER || value > maximum
                ? `a whole number from ${minimum} to ${maximum}`
                : `a whole number of at least ${minimum}, such as 1000000, 1e6 or 1M`;
        throw new UsageError(`--${option} needs ${wanted}, not "${text}".`);
    }
    return value;
}

const seedMax = 2n ** 64n - 1n;

/** A whole number of 64 bits, all of them digits, or written as a count. */
export function parseSeed(option: string, text: string): bigint {
    const digits = text.trim().replaceAll("_", "");
    const value = BigInt(/^[0-9]+$/.test(digits) ? digits : parseCount(option, text));
    if (value <= seedMax) return value;
    throw new UsageError(`--${option} needs a whole number from 0 to ${seedMax}, not "${text}".`);
}

/** A finite decimal number inside [minimum, maximum]. */
export function parseNumber(option: string, text: string, minimum: number, maximum: number): number {
    const value = text.trim() === "" ? NaN : Number(text);
    if (!(value >= minimum && value <= maximum)) {
        const range = maximum === Infinity ? `of at least ${minimum}` : `from ${minimum} to ${maximum}`;
        throw new UsageError(`--${option} needs a number ${range}, not "${text}".`);
    }
    return value;
}
