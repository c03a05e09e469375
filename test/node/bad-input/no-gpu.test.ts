// SPDX-License-Identifier: Apache-2.0
// Apart from the other options: its process needs the built package, which the mutated copy of the sources lacks.
import { expect, test } from "vitest";
import { errorOf, runChild } from "../../support/child.js";
import { Sandbox } from "../../support/sandbox.js";

test("a GPU where there is none is refused with the reason", async () => {
    using sandbox = new Sandbox();
    // In a process that finds no plugin, as this one may have opened one already.
    const env = { SPILLWAY_GPU_FOLDER: sandbox.folder };
    const { code, message } = errorOf(await runChild("query", { runtime: { device: "gpu" } }, { env }));
    expect(code).toBe("NO_DEVICE");
    expect(message).toMatch(/no GPU.*; use device "auto" or "cpu"$/);
});
