// SPDX-License-Identifier: Apache-2.0
// What V8 believes of delivered batches. Run with --expose-gc. Argument: { runtime, left, right, on }.
// Says the external bytes that V8 counts before, with a result in hand, and after everything was dropped.
import { setTimeout } from "node:timers/promises";
import { openRuntime } from "spillway";

const { left, right, on, ...options } = JSON.parse(process.argv[2]);
const runtime = await openRuntime(options.runtime);
const query = runtime.join({ left: await runtime.fromArrowFile(left), right: await runtime.fromArrowFile(right), on });

async function externalBytes() {
    // Finalizers run in turns of the event loop after the collection.
    for (let i = 0; i < 3; i++) {
        globalThis.gc();
        await setTimeout(20);
    }
    return process.memoryUsage().external;
}

async function collect() {
    const batches = [];
    for await (const batch of query.batches()) batches.push(batch);
    return batches;
}

const before = await externalBytes();
let held = await collect();
const heldBytes = held.reduce((sum, batch) => sum + batch.data.children.reduce((s, c) => s + c.byteLength, 0), 0);
const during = await externalBytes();
held = await query.toTable();
const table = await externalBytes();
held = null;
for await (const batch of query.batches()) if (batch.numRows === 0) throw new Error("an empty batch");
const after = await externalBytes();
await runtime.close();
process.stdout.write(`result ${JSON.stringify({ heldBytes, before, during, table, after })}\n`);
