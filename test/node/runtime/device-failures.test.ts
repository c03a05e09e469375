// SPDX-License-Identifier: Apache-2.0
// Errors for which the GPU, and not the query, is the reason.
import { describe, expect, test } from "vitest";
import type { ErrorCode, ErrorDetails } from "../../../src/errors.js";
import { deviceFailure, isRefusal, sentNothing } from "../../../src/runtime/query-device.js";
import { failureOf } from "../../support/made-up-gpu.js";

/** What any object may say, which is no error of the package. */
const foreign = { code: "NO_DEVICE", message: "no", details: { delivered: "nothing", reason: "deviceUnsupported" } };

describe("a query on the GPU that ends with", () => {
    test.each<[ErrorCode, ErrorDetails]>([
        ["OUT_OF_MEMORY", { tier: "device" }],
        ["BUDGET_TOO_SMALL", { tier: "device" }],
        ["OUT_OF_MEMORY", { tier: "host", delivered: "nothing" }],
        ["BUDGET_TOO_SMALL", { delivered: "nothing" }],
        ["UNSUPPORTED_TYPE", { reason: "deviceUnsupported" }],
        ["NO_DEVICE", {}]
    ])("%s %o failed because of the GPU", (code, details) => {
        const error = failureOf(code, details);
        expect(deviceFailure(error)).toBe(error.message);
    });

    test("a lost GPU names what is wrong with it, if that is known", () => {
        expect(deviceFailure(failureOf("NO_DEVICE", { reason: "it is gone" }))).toBe("it is gone");
    });

    test.each<[ErrorCode, ErrorDetails]>([
        ["OUT_OF_MEMORY", { tier: "host" }],
        ["BUDGET_TOO_SMALL", { tier: "host", delivered: "rows" }],
        ["BUDGET_TOO_SMALL", {}],
        ["DISK_FULL", { tier: "device" }],
        ["DISK_FULL", { delivered: "nothing" }],
        ["UNSUPPORTED_TYPE", { reason: "nested" }]
    ])("%s %o failed for itself", (code, details) => {
        expect(deviceFailure(failureOf(code, details))).toBeUndefined();
    });

    test("what is no error of the package failed for itself", () => {
        for (const error of [foreign, new Error("oh"), undefined, null, "NO_DEVICE"]) {
            expect([deviceFailure(error), sentNothing(error), isRefusal(error)]).toEqual([undefined, false, false]);
        }
    });
});

test("an operation tells whether rows of it are with the reader already", () => {
    const of = (details: ErrorDetails): boolean => sentNothing(failureOf("OUT_OF_MEMORY", details));
    expect([of({ delivered: "nothing" }), of({ delivered: "rows" }), of({})]).toEqual([true, false, false]);
});

test("a refusal names the algorithm's reason and no other", () => {
    const of = (details: ErrorDetails): boolean => isRefusal(failureOf("UNSUPPORTED_TYPE", details));
    expect([of({ reason: "deviceUnsupported" }), of({ reason: "tableFull" }), of({})]).toEqual([true, false, false]);
});
