// SPDX-License-Identifier: Apache-2.0
// Delay of the event loop while joins run, and before, while nothing runs.
// Argument: { runtime, left, right, on, action }.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout } from "node:timers/promises";
import { openRuntime } from "spillway";

const options = JSON.parse(process.argv[2]);
const runtime = await openRuntime(options.runtime);
const query = runtime.join({
    left: await runtime.fromArrowFile(options.left),
    right: await runtime.fromArrowFile(options.right),
    on: options.on
});
let rows = 0;

async function run() {
    if (options.action === "count") rows = await query.count();
    else for await (const batch of query.batches()) rows += batch.numRows;
}

/** Timer ticks and their delay beyond the 1 ms they are set to, in ms, while `work` runs. */
async function delayDuring(work) {
    const histogram = monitorEventLoopDelay({ resolution: 1 });
    histogram.enable();
    await work();
    histogram.disable();
    const milliseconds = (nanoseconds) => nanoseconds / 1e6 - 1;
    const { count, max } = histogram;
    return { turns: count, p99: milliseconds(histogram.percentile(99)), max: milliseconds(max) };
}

await run(); // code is compiled and files are cached
const idle = await delayDuring(() => setTimeout(500));
const start = performance.now();
const busy = await delayDuring(async () => {
    while (performance.now() - start < 1000) await run();
});
const milliseconds = performance.now() - start;
await runtime.close();
process.stdout.write(
    `result ${JSON.stringify({ rows, milliseconds, ...busy, idleP99: idle.p99, idleMax: idle.max })}\n`
);
