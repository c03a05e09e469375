// SPDX-License-Identifier: Apache-2.0
import { SpillwayError, type ErrorCode } from "spillway";
import { expect } from "vitest";

/**
 * Runs `action`, which must throw or reject with one SpillwayError of one of these codes whose message holds every
 * word: what was wanted, what was there, what to change.
 */
export async function expectError(
    action: () => unknown,
    codes: ErrorCode | readonly ErrorCode[],
    ...words: readonly (string | RegExp)[]
): Promise<SpillwayError> {
    let error: unknown;
    try {
        const value = await action();
        throw new Error(`expected ${String(codes)}, but it returned ${String(value)}`);
    } catch (thrown) {
        error = thrown;
    }
    if (!(error instanceof SpillwayError)) throw error;
    const text = `${error.code}: ${error.message}`;
    expect([codes].flat(), text).toContain(error.code);
    for (const word of words) expect(error.message, text).toMatch(word);
    expect(error.message.length, text).toBeGreaterThan(20);
    expect(error.message, text).not.toMatch(/\[object Object\]|^undefined|\bnull pointer\b/);
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({ name: "SpillwayError", code: error.code });
    return error;
}
