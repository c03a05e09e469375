// SPDX-License-Identifier: Apache-2.0

/** What Arrow JS could not read, in words; its own text for numbers that no float holds names no cause. */
export function readingFailure(error: unknown): string {
    const text = error instanceof Error ? error.message : String(error);
    const unsafe = /^(-?\d+) is not safe to convert to a number/.exec(text);
    if (unsafe === null) return text;
    return `it states the length or offset ${unsafe[1]}, which is beyond 2^53: its columns are damaged`;
}
