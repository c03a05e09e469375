// SPDX-License-Identifier: Apache-2.0
// Delay of the event loop while a big join runs. Argument: { runtime, left, right, on, action }.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { openRuntime } from "spillway";

const options = JSON.parse(process.argv[2]);
const runtime = await openRuntime(options.runtime);
const query = runtime.join({
    left: await runtime.fromArrowFile(options.left),
    right: await runtime.fromArrowFile(options.right),
    on: options.on
});
await query.count(); // code is compiled and files are cached
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();
const start = performance.now();
let rows = 0;
if (options.action === "count") rows = await query.count();
else for await (const batch of query.batches()) rows += batch.numRows;
const milliseconds = performance.now() - start;
delays.disable();
await runtime.close();
// The histogram holds nanoseconds between timer ticks of 1 ms: what is above that is delay.
const delay = (nanoseconds) => nanoseconds / 1e6 - 1;
const result = {
    rows,
    milliseconds,
    p50: delay(delays.percentile(50)),
    p99: delay(delays.percentile(99)),
    max: delay(delays.max)
};
process.stdout.write(`result ${JSON.stringify(result)}\n`);
