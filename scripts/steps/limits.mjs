// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { availableParallelism, freemem } from "node:os";
import { dirname, join } from "node:path";

function textOf(file) {
    try {
        return readFileSync(file, "utf8").trim();
    } catch {
        return "";
    }
}

/** The folders of the own control groups of one controller ("" for version 2) and of their parents. */
function groupFolders(system, controller) {
    const mount = join(system, "sys/fs/cgroup", controller);
    const entries = textOf(join(system, "proc/self/cgroup")).split("\n");
    const entry = entries.find((line) => line.split(":")[1]?.split(",").includes(controller));
    const folders = [mount];
    // In a container the path may be the one on the host, of which only the parents that exist count.
    for (let path = entry?.split(":")[2] ?? "/"; path !== "/" && path !== "."; path = dirname(path)) {
        folders.push(join(mount, path));
    }
    return folders;
}

/** What is left below a limit; files in the page cache that are not in use make room. */
function memoryLeft(folder, limitFile, usedFile) {
    const limit = Number.parseInt(textOf(join(folder, limitFile)), 10); // "max" is NaN: no limit
    if (Number.isNaN(limit)) return Infinity;
    // Version 1 tells the group alone first and the one with its children ("total_") later.
    const cached = [...textOf(join(folder, "memory.stat")).matchAll(/^(?:total_)?inactive_file (\d+)$/gm)].at(-1);
    return limit - Number(textOf(join(folder, usedFile))) + Number(cached?.[1] ?? 0);
}

function coresOf(quota, period) {
    return Number(quota) > 0 && Number(period) > 0 ? Math.ceil(Number(quota) / Number(period)) : Infinity;
}

/** Memory and cores that the control groups (containers) leave to this process; Infinity where they do not limit it. */
export function groupLimits(system = "/") {
    const unified = groupFolders(system, "");
    const memory = [
        ...unified.map((folder) => memoryLeft(folder, "memory.max", "memory.current")),
        ...groupFolders(system, "memory").map((folder) =>
            memoryLeft(folder, "memory.limit_in_bytes", "memory.usage_in_bytes")
        )
    ];
    const cores = [
        ...unified.map((folder) => coresOf(...textOf(join(folder, "cpu.max")).split(" "))),
        ...groupFolders(system, "cpu").map((folder) =>
            coresOf(textOf(join(folder, "cpu.cfs_quota_us")), textOf(join(folder, "cpu.cfs_period_us")))
        )
    ];
    return { memoryBytes: Math.min(...memory), cores: Math.min(...cores) };
}

/** How many compilers may run at once when each takes this much memory; at least one. */
export function parallelJobs(bytesPerJob) {
    const { memoryBytes, cores } = groupLimits();
    const fitting = Math.floor(Math.min(freemem(), memoryBytes) / bytesPerJob);
    return Math.max(1, Math.min(availableParallelism(), cores, fitting));
}
