// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { bytesOption, formatBytes, parseBytes, powerOfTwoAtLeast, powerOfTwoAtMost } from "../../../src/model/sizes.js";

describe("sizes as options", () => {
    test.each([
        [4096, 4096],
        ["4096", 4096],
        ["64k", 64_000],
        ["64 KiB", 65_536],
        ["512MB", 512_000_000],
        ["16GiB", 16 * 2 ** 30],
        ["1.5g", 1_500_000_000],
        ["0.5 TiB", 2 ** 39],
        [" 2mib ", 2 ** 21],
        ["7B", 7]
    ])("%j is %i bytes", (value, bytes) => {
        expect(parseBytes(value, "memory.host")).toBe(bytes);
    });

    test.each([
        NaN,
        -1,
        0,
        1.5,
        Infinity,
        2 ** 60,
        "",
        "16 gigs",
        "1e9",
        "-5MB",
        "NaN",
        "iB",
        "5i",
        null,
        {},
        [],
        true,
        5n
    ])("%s is refused with its value and the option", (value) => {
        expect(() => parseBytes(value, "memory.host")).toThrow(/`memory\.host`.*received/);
    });

    test("a least size is stated", () => {
        expect(() => parseBytes("1k", "memory.host", 2048)).toThrow(/at least 2 KiB/);
    });
});

test("a size that is named to be set is enough, however it is copied", () => {
    for (const bytes of [1, 1023, 1024, 5_000_000, 2 ** 30 - 1, 2 ** 30, 1_234_567_890, 17_179_869_185, 5e12]) {
        const option = bytesOption(bytes);
        const rounded = parseBytes(option, "x");
        expect(rounded).toBeGreaterThanOrEqual(bytes);
        expect(parseBytes(formatBytes(rounded), "x"), option).toBeGreaterThanOrEqual(bytes);
    }
});

test("powers of two", () => {
    expect([1, 3, 4, 1000].map(powerOfTwoAtMost)).toEqual([1, 2, 4, 512]);
    expect([0, 3, 4, 1000].map(powerOfTwoAtLeast)).toEqual([1, 4, 4, 1024]);
});
