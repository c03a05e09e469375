// SPDX-License-Identifier: Apache-2.0
import { expect } from "vitest";

/** What `action`, of src/, throws; `undefined` where it throws nothing. */
function thrownBy(action: () => unknown): unknown {
    try {
        action();
    } catch (error) {
        return error;
    }
    return undefined;
}

/**
 * Runs `action`, which must refuse an argument with these very details. An error with a cause is none: then something
 * broke on the value that was to be refused.
 */
export function expectRefused(
    action: () => unknown,
    details: Readonly<Record<string, unknown>>,
    { code = "INVALID_ARGUMENT", words = [] }: { code?: string; words?: readonly RegExp[] } = {}
): void {
    const error = thrownBy(action) as Error;
    expect(error).toMatchObject({ code });
    expect((error as Error & { details: unknown }).details).toEqual(details);
    expect(error.cause).toBeUndefined();
    for (const word of words) expect(error.message).toMatch(word);
}
