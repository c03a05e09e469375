// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { BuildFailure, note } from "./step.mjs";

const pollMs = 500;
// Between making the file and writing into it lie microseconds; one that stays empty was left by a killed build.
const emptyMs = 3000;

function isAlive(pid) {
    try {
        process.kill(pid, 0);
        return true;
    } catch (error) {
        return error.code === "EPERM";
    }
}

/** When a process started, in ticks since the system did; empty where there is no /proc or no such process. */
function startOf(pid) {
    try {
        const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
        // Field 22; the name in field 2 may hold spaces and brackets, so that counting begins behind it.
        return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
    } catch {
        return "";
    }
}

/** Whether the lock was left by a killed build. In a container its pid is soon taken again, even by this process. */
function isStale(file) {
    try {
        const [pid = "", start = ""] = readFileSync(file, "utf8").trim().split(" ");
        if (!(Number(pid) > 0)) return Date.now() - statSync(file).mtimeMs > emptyMs;
        if (Number(pid) === process.pid || !isAlive(Number(pid))) return true;
        return start !== "" && start !== startOf(pid);
    } catch {
        return false; // just released
    }
}

function tryLock(file) {
    try {
        writeFileSync(file, `${process.pid} ${startOf(process.pid)}`, { flag: "wx" });
        return true;
    } catch (error) {
        if (error.code !== "EEXIST") {
            rmSync(file, { force: true }); // a full disk leaves it empty
            const reason = error.code ?? error.message;
            throw new BuildFailure(
                `Expected to write the lock '${file}' but that failed (${reason}); mend that first.`
            );
        }
    }
    if (isStale(file)) rmSync(file, { force: true }); // the next try takes over
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
