// SPDX-License-Identifier: Apache-2.0
// Many small joins in one runtime. Argument: { joins, warmUp, runtime }. Says how much the process grew.
import { setImmediate } from "node:timers/promises";
import { tableFromArrays } from "apache-arrow";
import { openRuntime } from "spillway";

const { joins, warmUp, runtime: options } = JSON.parse(process.argv[2]);
const runtime = await openRuntime(options);
const left = tableFromArrays({
    k: Int32Array.from({ length: 50 }, (_, i) => i % 20),
    a: Float64Array.from({ length: 50 }, (_, i) => i)
});
const right = tableFromArrays({
    k: Int32Array.from({ length: 30 }, (_, i) => i),
    b: Float64Array.from({ length: 30 }, (_, i) => -i)
});

async function run(count) {
    for (let i = 0; i < count; ++i) {
        const query = runtime.join({ left: runtime.fromTable(left), right: runtime.fromTable(right), on: "k" });
        // By turns all ways out, so that none of them leaks.
        const rows = i % 2 === 0 ? (await query.toTable()).numRows : await query.count();
        if (rows !== 50) throw new Error(`join ${i} has ${rows} rows`);
    }
    // Finalizers of native memory run after a turn of the event loop only.
    for (let turn = 0; turn < 5; ++turn) {
        globalThis.gc();
        await setImmediate();
    }
    return process.memoryUsage.rss();
}

const before = await run(warmUp);
const start = performance.now();
const after = await run(joins);
const milliseconds = performance.now() - start;
const { usedBytes } = runtime.memory().host;
await runtime.close();
process.stdout.write(`result ${JSON.stringify({ grownBytes: after - before, usedBytes, milliseconds })}\n`);
