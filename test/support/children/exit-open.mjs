// SPDX-License-Identifier: Apache-2.0
// Ends in ways that leave something open. Argument: { way, runtime, left, right, on }.
//   idle: an open runtime and nothing to do    running: a query nobody waits for    exit: process.exit in mid-query
//   throw: an uncaught error in mid-query      iterator: a result that is not read to its end
import { openRuntime } from "spillway";

const { way, ...options } = JSON.parse(process.argv[2]);
const runtime = await openRuntime(options.runtime);
const query = runtime.join({
    left: await runtime.fromArrowFile(options.left),
    right: await runtime.fromArrowFile(options.right),
    on: options.on
});
const started = new Promise((resolve) => {
    if (way === "idle") resolve();
    else if (way === "iterator") {
        const batches = query.batches();
        void batches.next().then(resolve);
    } else query.toArrowFile(options.output, { onProgress: resolve }).catch(() => {});
});
await started;
process.stdout.write("started\n");
if (way === "exit") process.exit(7);
if (way === "throw") throw new Error("on purpose");
