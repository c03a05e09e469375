// SPDX-License-Identifier: Apache-2.0
// The check for machines with a GPU and nothing but Node runs, and finds nothing.
import { expect, test } from "vitest";
import { startProgram } from "../../support/child.js";
import { useGpu } from "../../support/gpu.js";

useGpu();

// It takes two and a half minutes of two cores, most of them for processes whose resident memory is watched, and more
// where others want them.
test("test/gpu-queries/run.mjs passes", { timeout: 480_000 }, async () => {
    const words = ["test/gpu-queries/run.mjs", "--small"];
    const { code, stdout, stderr } = await startProgram(process.execPath, words).result;
    // A reason can have several lines.
    const failed = stdout.split(/\n(?=passed|FAILED)/).filter((check) => check.startsWith("FAILED"));
    expect({ code, stderr, failed }).toEqual({ code: 0, stderr: "", failed: [] });
    expect(stdout).toMatch(/\n[1-9]\d+ passed, 0 failed$/);
});
