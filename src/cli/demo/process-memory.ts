// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";

/** Most memory the process has had resident so far (VmHWM), or null where the kernel does not tell. */
export function peakResidentBytes(): number | null {
    try {
        const match = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
        return match == null ? null : Number(match[1]) * 1024;
    } catch {
        return null;
    }
}
