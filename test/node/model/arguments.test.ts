// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { errorCodes, SpillwayError, toSpillwayError } from "../../../src/errors.js";
import {
    checkInteger,
    checkNumber,
    checkOneOf,
    checkOptions,
    nearestName,
    suggestion
} from "../../../src/model/arguments.js";
import { checkDebugKnobs } from "../../../src/model/debug-knobs.js";

describe("names", () => {
    test.each([
        ["memmory", ["memory", "threads"], "memory"],
        ["treads", ["memory", "threads"], "threads"],
        ["ON", ["on", "type"], "on"],
        ["tpye", ["on", "type"], "type"],
        ["colour", ["memory", "threads"], undefined],
        ["o_orderkye", ["o_orderdate", "o_orderkey", "o_custkey"], "o_orderkey"]
    ])("%s of %j is near to %s", (name, candidates, nearest) => {
        expect(nearestName(name, candidates)).toBe(nearest);
    });

    test("what is there is listed when nothing is near", () => {
        expect(suggestion("zzz", ["a", "b"])).toBe("; there are `a`, `b`");
        expect(suggestion("zzz", [])).toBe("; there is none");
        expect(
            suggestion(
                "zzz",
                Array.from({ length: 50 }, (_, i) => `column${i}`)
            )
        ).toMatch(/, \.\.\.$/);
    });
});

describe("checks", () => {
    test("an unknown option is named with its path and the right name", () => {
        expect(() => checkOptions({ hots: 1 }, "memory", ["host", "device"])).toThrow(
            "There is no option `memory.hots`; did you mean `host`?"
        );
        expect(checkOptions(undefined, "memory", ["host"])).toEqual({});
    });

    test.each([NaN, -1, 1.5, Infinity, "3", 3n, null, 2 ** 53])("%s is no count", (value) => {
        expect(() => checkInteger(value, "rows", 0)).toThrow(/whole number.*`rows`.*received/);
    });

    test("ranges and choices are stated", () => {
        expect(() => checkInteger(7, "bits", 0, 6)).toThrow(/from 0 to 6/);
        expect(() => checkNumber(NaN, "ratio", 0, 1)).toThrow(/number from 0 to 1.*NaN \(number\)/);
        expect(() => checkOneOf("iner", "type", ["inner", "left"])).toThrow(/"inner", "left".*did you mean "inner"/);
    });

    test("knobs are whole and in range", () => {
        const good = { hashMask: 0n, pageBytes: 4096, forceSpill: true };
        expect(checkDebugKnobs(good, "debug")).toEqual(good);
        for (const bad of [
            { hashMask: 0 },
            { hashMask: -1n },
            { pageBytes: 5000 },
            { scheme: "x" },
            { radixBits: 3 }
        ]) {
            expect(() => checkDebugKnobs(bad, "debug")).toThrow(SpillwayError);
        }
    });

    test("the knob of packed transfers is on, off, or left to the planner", () => {
        for (const packLink of [true, false]) expect(checkDebugKnobs({ packLink }, "debug")).toEqual({ packLink });
        expect(checkDebugKnobs({ packLink: undefined }, "debug")).toEqual({});
        for (const packLink of [0, 1, "true", null, {}]) {
            expect(() => checkDebugKnobs({ packLink }, "debug")).toThrow(/`debug\.packLink`/);
        }
    });
});

describe("errors", () => {
    test("native ones keep code and details, with numbers as numbers", () => {
        const native = Object.assign(new Error("too much"), {
            code: "BUDGET_TOO_SMALL",
            details: { wantedBytes: "123", tier: "host", path: "7" }
        });
        const error = toSpillwayError(native);
        expect(error).toMatchObject({ code: "BUDGET_TOO_SMALL", message: "too much", cause: native });
        expect(error.details).toEqual({ wantedBytes: 123, tier: "host", path: "7" });
        expect(toSpillwayError(error)).toBe(error);
    });

    test.each([
        ["ENOENT", "FILE_NOT_FOUND"],
        ["ENOSPC", "DISK_FULL"],
        ["EACCES", "FILE_UNREADABLE"],
        ["EISDIR", "FILE_UNREADABLE"]
    ])("system error %s is %s", (code, expected) => {
        const error = toSpillwayError(Object.assign(new Error("open"), { code, path: "/x" }));
        expect(error).toMatchObject({ code: expected, details: { errno: code, path: "/x" } });
    });

    test("anything else that was thrown is INTERNAL", () => {
        // Node's own codes begin with E as well, and tell of no system call.
        const ofNode = Object.assign(new TypeError("x"), { code: "ERR_INVALID_ARG_TYPE" });
        for (const thrown of [new TypeError("x"), ofNode, "text", undefined, null, 5]) {
            expect(toSpillwayError(thrown).code).toBe("INTERNAL");
        }
        expect(new Set(errorCodes).size).toBe(errorCodes.length);
    });
});
