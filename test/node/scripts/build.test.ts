// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

test("a missing compiler of TypeScript is told with an installation that brings it in production too", () => {
    using sandbox = new Sandbox();
    cpSync(join(repositoryRoot, "scripts"), sandbox.path("scripts"), { recursive: true });
    mkdirSync(sandbox.path("build/Release"), { recursive: true });
    writeFileSync(sandbox.path("build/Release/spillway.node"), "");
    const noSources = createHash("sha256").digest("hex"); // the engine counts as built
    writeFileSync(sandbox.path("build/stamps.json"), JSON.stringify({ "Release, cuda auto": noSources }));

    const script = sandbox.path("scripts/build.mjs");
    const built = spawnSync(process.execPath, [script, "--if-needed"], { encoding: "utf8" });
    expect(built.status).toBe(1);
    expect(built.stderr).toMatch(/^TypeScript is not installed; run `npm ci --include=dev` first\.\n$/);
});
