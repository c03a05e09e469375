// SPDX-License-Identifier: Apache-2.0
import { readFileSync, writeFileSync } from "node:fs";

/** Most memory this process has had resident since it started or since `resetPeak`: VmHWM. */
export function peakResidentBytes() {
    const match = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
    if (match == null) throw new Error("This kernel does not report VmHWM in /proc/self/status.");
    return Number(match[1]) * 1024;
}

/** Forgets the peak so far, so that loading inputs does not count. Where the kernel refuses, the peak includes it. */
export function resetPeak() {
    try {
        writeFileSync("/proc/self/clear_refs", "5");
    } catch {
        // needs CONFIG_PROC_PAGE_MONITOR
    }
}
