// SPDX-License-Identifier: Apache-2.0
// What the benchmark program says to a choice of no case; with any case it would run for minutes.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";

test.each(["nope", "count 10M"])('--quick --only "%s" is refused with the names of all cases', (only) => {
    const program = join(repositoryRoot, "test/bench/run.mjs");
    const words = [program, "--quick", "--only", only];
    const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(`--only "${only}" names no case of this run`);
    for (const name of ["count 1M dense", "table 1M sparse", "file 1M sparse"]) expect(stderr).toContain(`"${name}"`);
});
