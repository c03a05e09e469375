// SPDX-License-Identifier: Apache-2.0
// Loaded before a program: at its end it says "peak N" on stderr, the most bytes that the process had resident.
import { readFileSync, writeSync } from "node:fs";

process.on("exit", () => {
    const [, kibibytes] = /VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"));
    writeSync(2, `peak ${Number(kibibytes) * 1024}\n`);
});
