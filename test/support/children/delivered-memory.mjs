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
const held = { result: await collect() };
const bytesOf = (batch) => batch.data.children.reduce((sum, column) => sum + column.byteLength, 0);
const heldBytes = held.result.reduce((sum, batch) => sum + bytesOf(batch), 0);
const during = await externalBytes();
held.result = await query.toTable();
const table = await externalBytes();
held.result = null;
for await (const batch of query.batches()) if (batch.numRows === 0) throw new Error("an empty batch");
const after = await externalBytes();
await runtime.close();
process.stdout.write(`result ${JSON.stringify({ heldBytes, before, during, table, after })}\n`);
