// SPDX-License-Identifier: Apache-2.0
// Delay of the event loop while one big join runs, and before, while nothing runs.
// Argument: { runtime, left, right, output, rows, action }; the first two files are generated first.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout } from "node:timers/promises";
import { openRuntime } from "spillway";

const { left, right, output, rows, action, ...options } = JSON.parse(process.argv[2]);
const runtime = await openRuntime(options.runtime);
const query = runtime.join({
    left: await runtime.generate({ rows, key: { role: "primary", sparse: true } }, { path: left }),
    right: await runtime.generate({ rows, seed: 2, key: { role: "foreign", sparse: true } }, { path: right }),
    on: "key"
});
let found = 0;

async function run() {
    if (action === "count") found = await query.count();
    else if (action === "file") found = await query.toArrowFile(output);
    else if (action === "table") found = (await query.toTable()).numRows;
    else for await (const batch of query.batches()) found += batch.numRows;
}

/** Timer ticks and their delay beyond the 1 ms they are set to, in ms, while `work` runs. */
async function delayDuring(work) {
    const histogram = monitorEventLoopDelay({ resolution: 1 });
    histogram.enable();
    const start = performance.now();
    await work();
    const total = performance.now() - start;
    histogram.disable();
    const milliseconds = (nanoseconds) => nanoseconds / 1e6 - 1;
    const { count, max } = histogram;
    return { total, turns: count, p99: milliseconds(histogram.percentile(99)), max: milliseconds(max) };
}

const idle = await delayDuring(() => setTimeout(500));
const busy = await delayDuring(run);
await runtime.close();
process.stdout.write(`result ${JSON.stringify({ rows: found, ...busy, idleP99: idle.p99, idleMax: idle.max })}\n`);
