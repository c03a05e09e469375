// SPDX-License-Identifier: Apache-2.0
// Reads very many small batches. Argument: { runtime, batchRows, rows, way, keptEvery }; way: "releases" or "drops".
// Each of `rows` rows has a hundred partners; each `keptEvery`-th batch is kept. Says how much the process grew after a
// fifth of the batches, how often V8 collected its whole heap, a sum over all values that does not depend on their
// order, and how many of the batches that were kept have other values at the end.
import { PerformanceObserver, constants } from "node:perf_hooks";
import { setTimeout } from "node:timers/promises";
import { tableFromArrays } from "apache-arrow";
import { openRuntime, releaseBatch } from "spillway";

const { batchRows, rows: inputRows, way, keptEvery, ...options } = JSON.parse(process.argv[2]);
const partners = 100;

const runtime = await openRuntime(options.runtime);
const numbers = Int32Array.from({ length: inputRows }, (_, i) => i);
const k = numbers.map((i) => Math.floor(i / partners));
const left = runtime.fromTable(tableFromArrays({ k, a: Float64Array.from(numbers), b: Float64Array.from(numbers) }));
const right = runtime.fromTable(tableFromArrays({ k, c: Float64Array.from(numbers) }));

function sumOf(batch) {
    const [keys, ...payloads] = batch.data.children.map(({ values }) => values);
    let sum = 0;
    for (let row = 0; row < batch.numRows; row++) {
        let hash = keys[row];
        for (const values of payloads) hash = Math.imul(hash ^ values[row], 0x85ebca6b);
        sum = (sum + (hash ^ (hash >>> 13))) | 0;
    }
    return sum;
}

let collections = 0;
const observer = new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries()) if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections++;
});
observer.observe({ entryTypes: ["gc"] });

const batchCount = (inputRows * partners) / batchRows;
const sampledEvery = Math.ceil(batchCount / 50);
const kept = [];
let [batches, rows, sum] = [0, 0, 0];
let [before, most] = [0, 0];
for await (const batch of runtime.join({ left, right, on: "k" }).batches({ batchRows })) {
    const ownSum = sumOf(batch);
    batches++;
    rows += batch.numRows;
    sum = (sum + ownSum) | 0;
    if (batches % keptEvery === 0) kept.push({ batch, ownSum });
    else if (way === "releases") releaseBatch(batch);
    if (batches % sampledEvery !== 0) continue;
    const residentBytes = process.memoryUsage.rss();
    if (batches <= batchCount / 5) before = Math.max(before, residentBytes);
    else most = Math.max(most, residentBytes);
}
const changed = kept.filter(({ batch, ownSum }) => sumOf(batch) !== ownSum).length;
await setTimeout(50); // entries come with a turn of the event loop
observer.disconnect();
const { usedBytes } = runtime.memory().host;
await runtime.close();
const result = { batches, rows, sum, kept: kept.length, changed, grownBytes: most - before, collections, usedBytes };
process.stdout.write(`result ${JSON.stringify(result)}\n`);
