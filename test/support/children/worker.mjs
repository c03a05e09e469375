// SPDX-License-Identifier: Apache-2.0
// A worker thread that joins. workerData: { runtime, left, right, on, times }. Posts "started", then { rows }.
import { parentPort, workerData } from "node:worker_threads";
import { openRuntime } from "spillway";

const runtime = await openRuntime(workerData.runtime);
parentPort.postMessage("started");
let rows = 0;
for (let i = 0; i < workerData.times; ++i) {
    const left = await runtime.fromArrowFile(workerData.left);
    const right = await runtime.fromArrowFile(workerData.right);
    rows += await runtime.join({ left, right, on: workerData.on }).count();
}
await runtime.close();
parentPort.postMessage({ rows });
