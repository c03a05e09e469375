// SPDX-License-Identifier: Apache-2.0
// A process that gets no more threads: each call that needs one says so by a SpillwayError, and the runtime can be
// closed.
import { spawnSync } from "node:child_process";
import { chmodSync } from "node:fs";
import { tableFromArrays } from "apache-arrow";
import { afterAll, beforeAll, expect, test } from "vitest";
import { resultOf, runChild } from "../../support/child.js";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

// The limit counts all processes of a user and does not hold for root: only root can become a user without any.
const user = "61234";
const become = ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups", "--bounding-set=-all"];
const readable = ["--", process.execPath, "-e", `fs.accessSync("${repositoryRoot}/dist/index.js")`];
const possible =
    process.getuid?.() === 0 &&
    spawnSync(become[0]!, [...become.slice(1), ...readable]).status === 0 &&
    spawnSync("prlimit", ["--version"]).status === 0;

let sandbox: Sandbox;
beforeAll(() => {
    sandbox = new Sandbox();
    for (const folder of [sandbox.folder, sandbox.spill, sandbox.output]) chmodSync(folder, 0o777);
});
afterAll(() => sandbox[Symbol.dispose]());

test.skipIf(!possible)(
    "every call of more than a few rows fails with OUT_OF_MEMORY, and close() does not fail",
    async () => {
        const file = sandbox.write(tableFromArrays({ key: Int32Array.of(1) }));
        const runtime = { threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } };
        const argument = { file, output: `${sandbox.output}/out.arrow`, runtime };
        const outcomes = resultOf<Record<string, string>>(await runChild("no-threads", argument, { wrapper: become }));
        const { close, few, ...calls } = outcomes;
        expect([few, close]).toEqual(["done", "done"]);
        expect(calls).toEqual(Object.fromEntries(Object.keys(calls).map((name) => [name, "OUT_OF_MEMORY"])));
        await sandbox.expectClean();
    }
);
