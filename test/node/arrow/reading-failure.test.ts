// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { readingFailure } from "../../../src/arrow/reading-failure.js";

test("the text of Arrow JS for numbers beyond 2^53 is put in words, others stay", () => {
    const leaked = new TypeError("36028797018963970 is not safe to convert to a number.");
    expect(readingFailure(leaked)).toBe(
        "it states the length or offset 36028797018963970, which is beyond 2^53: its columns are damaged"
    );
    expect(readingFailure(new Error("another"))).toBe("another");
    expect(readingFailure("text")).toBe("text");
});
