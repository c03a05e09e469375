// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { note } from "./step.mjs";

const pollMs = 500;

function isAlive(pid) {
    try {
        process.kill(pid, 0);
        return true;
    } catch (error) {
        return error.code === "EPERM";
    }
}

/** Process that holds the lock; 0 when that cannot be told (being written or just released). */
function holderOf(file) {
    try {
        return Number(readFileSync(file, "utf8"));
    } catch {
        return 0;
    }
}

function tryLock(file) {
    try {
        writeFileSync(file, String(process.pid), { flag: "wx" });
        return true;
    } catch (error) {
        if (error.code !== "EEXIST") throw error;
    }
    const holder = holderOf(file);
    if (holder !== 0 && !isAlive(holder)) rmSync(file, { force: true }); // it was killed; the next try takes over
    return false;
}

/** Two builds in one folder (say `npm test` in two terminals) would destroy each other's files: the second waits. */
export async function withLock(folder, work) {
    mkdirSync(folder, { recursive: true });
    const file = join(folder, "lock");
    for (let waited = 0; !tryLock(file); waited += pollMs) {
        if (waited === 2 * pollMs) note("  ... waiting for another build to end");
        await sleep(pollMs);
    }
    const unlock = () => rmSync(file, { force: true });
    process.once("exit", unlock);
    try {
        return await work();
    } finally {
        unlock();
        process.removeListener("exit", unlock);
    }
}
