// SPDX-License-Identifier: Apache-2.0
import { existsSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface LockModule {
    withLock: <T>(folder: string, work: () => Promise<T>) => Promise<T>;
}
const { withLock } = (await import(join(repositoryRoot, "scripts/steps/lock.mjs"))) as LockModule;

/** What the lock says while a build holds it that found this one. */
async function lockAfter(left: string, ageSeconds = 0): Promise<string> {
    using sandbox = new Sandbox();
    const file = sandbox.path("lock");
    writeFileSync(file, left);
    const written = Date.now() / 1000 - ageSeconds;
    utimesSync(file, written, written);
    const held = await withLock(sandbox.folder, async () => Promise.resolve(readFileSync(file, "utf8")));
    expect(existsSync(file)).toBe(false);
    return held;
}

// A build killed in a container; the next container gives its pid to this process, or to another one.
test.each([
    ["this process", String(process.pid)],
    ["a process that started later", `${process.ppid} 1`],
    ["a process that has ended", "4194304 1"]
])(
    "a lock with the pid of %s is taken over",
    async (_, left) => {
        const held = await lockAfter(left);
        expect(held).toMatch(new RegExp(`^${process.pid} \\d+$`));
    },
    5000
);

test("an empty lock is taken over when it is old", async () => {
    expect(await lockAfter("", 10)).not.toBe("");
}, 5000);

test("a lock of a living build is waited for", async () => {
    using sandbox = new Sandbox();
    const stat = readFileSync(`/proc/${process.ppid}/stat`, "utf8");
    const start = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
    const file = sandbox.path("lock");
    writeFileSync(file, `${process.ppid} ${start}`);
    let entered = false;
    const build = withLock(sandbox.folder, async () => Promise.resolve((entered = true)));
    await new Promise((resolve) => setTimeout(resolve, 1200));
    expect(entered).toBe(false);
    writeFileSync(file, String(process.pid)); // the builder has died, and its pid is taken
    await build;
    expect(entered).toBe(true);
}, 10_000);
