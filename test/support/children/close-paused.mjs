// SPDX-License-Identifier: Apache-2.0
// Looks at the first batch of a result and closes the runtime; says "closed" when that has ended.
// Argument: { worker }: in a worker thread or not.
import { tableFromArrays } from "apache-arrow";
import { isMainThread, Worker } from "node:worker_threads";
import { openRuntime } from "spillway";

async function peekAndClose() {
    const k = Int32Array.from({ length: 300_000 }, (_, i) => i);
    const runtime = await openRuntime({ threads: 1, memory: { host: "8MiB" } });
    const table = runtime.fromTable(tableFromArrays({ k }));
    await table.join(table, { on: "k" }).batches({ batchRows: 100 }).next();
    await runtime.close();
    console.log("closed");
}

// Nothing but the runtime keeps this process alive.
if (isMainThread && JSON.parse(process.argv[2]).worker) new Worker(new URL(import.meta.url));
else void peekAndClose();
