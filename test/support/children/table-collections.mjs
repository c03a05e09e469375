// SPDX-License-Identifier: Apache-2.0
// How often V8 collects its whole heap for a large table. Argument: { runtime, left, right, rows }.
import { PerformanceObserver, constants } from "node:perf_hooks";
import { setTimeout } from "node:timers/promises";
import { openRuntime } from "spillway";

const { left, right, rows, ...options } = JSON.parse(process.argv[2]);
const runtime = await openRuntime(options.runtime);
const key = { name: "l_key" };
await runtime.generate({ rows, seed: 1, key, payload: [{ name: "a" }] }, { path: left });
const foreign = { name: "r_key", role: "foreign", domainRows: rows };
await runtime.generate({ rows, seed: 2, key: foreign, payload: [{ name: "b" }] }, { path: right });

let collections = 0;
const observer = new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries()) if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections++;
});
const [warmUp, tables] = [3, 5];
const held = { table: null }; // one at a time, as a variable of the user's
for (let i = -warmUp; i < tables; i++) {
    if (i === 0) observer.observe({ entryTypes: ["gc"] });
    held.table = null;
    const inputs = { left: await runtime.fromArrowFile(left), right: await runtime.fromArrowFile(right) };
    held.table = await runtime.join({ ...inputs, on: { l_key: "r_key" }, select: ["a", "b"] }).toTable();
    if (held.table.numRows !== rows) throw new Error(`${held.table.numRows} rows`);
}
await setTimeout(50); // entries come with a turn of the event loop
observer.disconnect();
await runtime.close();
process.stdout.write(`result ${JSON.stringify({ collectionsPerTable: collections / tables })}\n`);
