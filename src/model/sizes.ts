// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import { invalidArgument } from "./arguments.js";

export const kibibyte = 1024;
export const mebibyte = 1024 * kibibyte;
export const nsPerMs = 1e6;

/** Bytes as a number, or text such as "16GiB", "512MB", "64k" (k, M, G, T with or without B are powers of 1000). */
export type ByteSize = number | string;

const powers: Readonly<Record<string, number>> = { "": 0, k: 1, m: 2, g: 3, t: 4 };
const pattern = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*$/i;

/** Whole bytes of a size option. `min` is the smallest value that makes sense for it. */
export function parseBytes(value: unknown, option: string, min = 1): number {
    const expected = 'a size in bytes or text such as "16GiB" or "512MB"';
    let bytes: number;
    if (typeof value === "number") {
        bytes = value;
    } else if (typeof value === "string") {
        const match = pattern.exec(value);
        const power = powers[match?.[2]?.toLowerCase() ?? ""];
        if (match === null || power === undefined || (match[3] !== "" && power === 0)) {
            throw invalidArgument(option, expected, value);
        }
        bytes = Math.floor(Number(match[1]) * (match[3] === "" ? 1000 : 1024) ** power);
    } else {
        throw invalidArgument(option, expected, value);
    }
    if (!Number.isSafeInteger(bytes)) throw invalidArgument(option, expected, value);
    if (bytes < min) throw invalidArgument(option, `a size of at least ${formatBytes(min)}`, value);
    return bytes;
}

/**
 * Sums and products of sizes that a file, a schema or a caller states. JavaScript's numbers do not wrap, but beyond
 * 2^53 they are no longer exact: from there on they are refused. `what`: "rows of the table".
 */
function checkedSize(size: number, what: string): number {
    if (Number.isSafeInteger(size)) return size;
    throw new SpillwayError(
        "UNSUPPORTED_TYPE",
        `There are more ${what} than can be counted (2^53); read fewer at a time`
    );
}

export function checkedSum(a: number, b: number, what: string): number {
    return checkedSize(a + b, what);
}

export function checkedProduct(a: number, b: number, what: string): number {
    return checkedSize(a * b, what);
}

/** Bytes of a bitmap of so many bits; shifts would make them 32 bits wide. */
export function bitmapBytes(bits: number): number {
    return Math.ceil(bits / 8);
}

/** "1.5 GiB"; exact below 1 KiB. */
export function formatBytes(bytes: number): string {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let value = bytes;
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < units.length - 1) {
        value /= 1024;
        unit++;
    }
    const digits = unit === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return `${Number(value.toFixed(digits))} ${units[unit]}`;
}

/** Text that parseBytes reads back to at least `bytes`: for messages that name a value to set. */
export function bytesOption(bytes: number): string {
    const gibibyte = 1024 * mebibyte;
    if (bytes < mebibyte) return `${Math.ceil(bytes / kibibyte)}KiB`;
    // From 1000 MiB on, three digits are shown: a figure must survive being shown.
    if (bytes < 1000 * mebibyte) return `${Math.ceil(bytes / mebibyte)}MiB`;
    return `${Math.ceil((bytes / gibibyte) * 10) / 10}GiB`;
}

/** "1 234 567" with thin grouping that survives any terminal. */
export function formatCount(count: number): string {
    return Math.round(count)
        .toString()
        .replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function formatMs(ms: number): string {
    if (ms < 1) return `${ms.toFixed(2)} ms`;
    if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
    if (ms < 120_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
    return `${(ms / 60_000).toFixed(1)} min`;
}

export function powerOfTwoAtMost(value: number): number {
    return 2 ** Math.floor(Math.log2(Math.max(1, value)));
}

export function powerOfTwoAtLeast(value: number): number {
    return 2 ** Math.ceil(Math.log2(Math.max(1, value)));
}

export function clamp(value: number, min: number, max: number): number {
    return Math.min(Math.max(value, min), max);
}

export function sumOf(values: readonly number[]): number {
    return values.reduce((sum, value) => sum + value, 0);
}
