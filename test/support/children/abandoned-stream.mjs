// SPDX-License-Identifier: Apache-2.0
// Streams of batches whose reader called next() once and dropped them. Run with --expose-gc. Argument: { streams }.
// Says the bytes in use while they are alive and after they were collected, and how many rows a stream had that was
// kept by nothing but its loop.
import { setTimeout } from "node:timers/promises";
import { tableFromArrays } from "apache-arrow";
import { openRuntime } from "spillway";

const { streams } = JSON.parse(process.argv[2]);
const rows = 400_000;
const runtime = await openRuntime({ device: "cpu", threads: 2, memory: { host: "16MiB" } });
const table = tableFromArrays({ k: Int32Array.from({ length: rows }, (_, i) => i), v: new Float64Array(rows).fill(1) });
const query = () => runtime.join({ left: runtime.fromTable(table), right: runtime.fromTable(table), on: "k" });
const usedBytes = () => runtime.memory().host.usedBytes;
const batchesOf = () => query().batches({ batchRows: 1024 });

async function begin() {
    const batches = batchesOf();
    await batches.next();
    return batches;
}

/** One whose query waits for its reader all the time. */
async function slowRows() {
    let read = 0;
    for await (const batch of batchesOf()) {
        read += batch.numRows;
        if (read % (64 * 1024) === 0) {
            globalThis.gc();
            await setTimeout(1);
        }
    }
    return read;
}

async function hold() {
    const held = [];
    for (let i = 0; i < streams; i++) held.push(await begin());
    globalThis.gc();
    await setTimeout(100);
    return { bytes: usedBytes(), held: held.length };
}

const { bytes: holding } = await hold();
let left = holding;
for (let i = 0; i < 100 && left > holding / 8; i++) {
    globalThis.gc();
    await setTimeout(50);
    left = usedBytes();
}
const slow = await slowRows();
await runtime.close();
process.stdout.write(`result ${JSON.stringify({ holding, left, slow, rows })}\n`);
