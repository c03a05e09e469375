// SPDX-License-Identifier: Apache-2.0
import { afterEach, expect, test, vi } from "vitest";
import { openRuntime } from "spillway";
import { defaultSpillDirectory } from "../../../src/runtime/spill-directory.js";
import { Sandbox } from "../../support/sandbox.js";

afterEach(() => {
    vi.unstubAllEnvs();
});

test("a runtime opens where the temporary folder cannot be written", async () => {
    vi.stubEnv("TMPDIR", "/proc");
    await using runtime = await openRuntime();
    expect(runtime.machine().cores).toBeGreaterThan(0);
    expect(runtime.memory().spillDirectory).not.toBe("/proc");
});

test("without a name the first folder that takes files is used, or none", async () => {
    using sandbox = new Sandbox();
    expect(await defaultSpillDirectory(["/proc", sandbox.spill, sandbox.output])).toBe(sandbox.spill);
    expect(await defaultSpillDirectory(["/proc", sandbox.path("missing")])).toBe("");
    expect(sandbox.leftovers()).toEqual([]);
});
