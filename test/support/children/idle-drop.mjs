// SPDX-License-Identifier: Apache-2.0
// A table dropped while the runtime is idle. Run with --expose-gc. Argument: { runtime, left, right, on, idleMs }.
// Says the resident bytes while the table is held and after it was dropped, a file having been opened in between.
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { openRuntime } from "spillway";

const { left, right, on, idleMs, ...options } = JSON.parse(process.argv[2]);
const runtime = await openRuntime(options.runtime);
const residentBytes = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024;
const open = async () => ({ left: await runtime.fromArrowFile(left), right: await runtime.fromArrowFile(right) });

const held = { table: await runtime.join({ ...(await open()), on }).toTable() };
await setTimeout(idleMs);
await open();
globalThis.gc();
const holding = residentBytes();
held.table = null;
let dropped = holding;
for (let i = 0; i < 30 && holding - dropped < 60 * 2 ** 20; i++) {
    globalThis.gc();
    await setTimeout(100);
    dropped = residentBytes();
}
await runtime.close();
process.stdout.write(`result ${JSON.stringify({ holding, dropped })}\n`);
