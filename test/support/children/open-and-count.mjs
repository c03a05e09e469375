// SPDX-License-Identifier: Apache-2.0
// Opens one relation of files and counts its groups by a key in a process of its own. Argument: { runtime, path, key }.
// Says "result {...}" with what each step took and the peak memory of the process, or "error {...}".
import { readFileSync } from "node:fs";
import { openRuntime } from "spillway";

const { runtime: options, path, key } = JSON.parse(process.argv[2]);
const say = (word, value) => process.stdout.write(`${word} ${JSON.stringify(value)}\n`);
const peakBytes = () => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024;

try {
    const runtime = await openRuntime(options);
    const started = performance.now();
    const relation = await runtime.fromArrowFile(path);
    const openMs = performance.now() - started;
    const openedBytes = runtime.memory().host.usedBytes;
    const openPeakBytes = peakBytes();
    const groups = await relation.groupBy({ keys: [key] }).count();
    const countMs = performance.now() - started - openMs;
    const { rows } = relation;
    await runtime.close();
    say("result", { rows, groups, openMs, countMs, openedBytes, openPeakBytes, peakBytes: peakBytes() });
} catch (error) {
    say("error", { name: error.name, code: error.code, message: error.message, details: error.details });
    process.exitCode = 1;
}
