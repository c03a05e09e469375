// SPDX-License-Identifier: Apache-2.0
// Some seconds of the hostile files that run under the sanitizers for longer: test/hostile.
import { expect, test } from "vitest";
import { startProgram } from "../../support/child.js";

/** The same files each time; `npm run test:sanitize` and `node scripts/test.mjs hostile` take others. */
const seed = process.env["SPILLWAY_SEED"] ?? "1";

test("hostile files are read or refused, in bounded time and memory", async () => {
    const options = ["--seconds", "8", "--shards", "1", "--seed", seed];
    const { stdout, stderr, code } = await startProgram(process.execPath, ["test/hostile/run.mjs", ...options]).result;
    expect(stdout.split("\n").filter((line) => line.startsWith("FAILED "))).toEqual([]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/\n\d+ passed, 0 failed$/);
});
