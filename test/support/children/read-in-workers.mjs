// SPDX-License-Identifier: Apache-2.0
// Worker threads that read batches, keep some and release the others. Argument: { runtime, rows, rounds, keptBytes }.
// First a worker reads a whole result, then `rounds` workers are terminated, one after the other, in the middle of a
// result while they hold `keptBytes` of batches. The main thread holds a batch of its own all the time. Run with
// --expose-gc. Says what the main thread and the first worker read, and the memory that is resident while each of the
// others holds its batches and after it has ended.
import { setTimeout } from "node:timers/promises";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { tableFromArrays } from "apache-arrow";
import { openRuntime, releaseBatch } from "spillway";

async function open({ runtime: options, rows }) {
    const runtime = await openRuntime(options);
    const numbers = Int32Array.from({ length: rows }, (_, i) => i);
    const relation = (name, partners) => {
        const k = numbers.map((i) => Math.floor(i / partners));
        return runtime.fromTable(tableFromArrays({ k, [name]: Float64Array.from(numbers) }));
    };
    return { runtime, joined: (partners) => relation("a", partners).join(relation("b", partners), { on: "k" }) };
}

const sumOf = (batch) => batch.getChild("b").data[0].values.reduce((sum, value) => sum + value, 0);
const bytesOf = (batch) => batch.data.byteLength;

/** Reads all of a result; the batches that are kept for some time are released behind those that come later. */
async function readWhole(options) {
    const { runtime, joined } = await open(options);
    const kept = [];
    let [rows, sum, keptSum] = [0, 0, 0];
    for await (const batch of joined(10).batches()) {
        if (rows === 0) parentPort?.postMessage({ copied: batch.getChild("a").data[0].values }); // released later
        rows += batch.numRows;
        sum += sumOf(batch);
        kept.push(batch);
        if (kept.length <= 3) continue;
        const oldest = kept.shift();
        keptSum += sumOf(oldest);
        releaseBatch(oldest);
    }
    for (const batch of kept) {
        keptSum += sumOf(batch);
        releaseBatch(batch);
    }
    await runtime.close();
    return { rows, sum, keptSum };
}

/** Reads a result that never ends within this test. */
async function readOn(options) {
    const { joined } = await open(options);
    const kept = [];
    let heldBytes = 0;
    let read = 0;
    for await (const batch of joined(options.rows / 10).batches()) {
        if (heldBytes < options.keptBytes) {
            heldBytes += bytesOf(batch);
            kept.push(batch);
            if (heldBytes >= options.keptBytes) parentPort.postMessage({ held: kept.length });
        } else if (++read % 2 === 0) {
            releaseBatch(batch);
        }
    }
    throw new Error(`read to the end, with ${kept.length} batches held`);
}

function start(way, options) {
    const worker = new Worker(new URL(import.meta.url), { workerData: { way, options } });
    const messages = {};
    const told = (name) =>
        new Promise((resolve, reject) => {
            worker.on("message", (message) => {
                Object.assign(messages, message);
                if (name in messages) resolve(messages);
            });
            worker.on("error", reject);
            worker.on("exit", (code) => reject(new Error(`the worker ended with ${code}`)));
        });
    return { worker, told };
}

/** Finalizers of native memory run after a turn of the event loop, and threads end a moment later. */
async function residentBytes() {
    for (let turn = 0; turn < 3; turn++) {
        globalThis.gc();
        await setTimeout(20);
    }
    return process.memoryUsage.rss();
}

async function main(options) {
    const { runtime, joined } = await open(options);
    const stream = joined(10).batches();
    const { value: own } = await stream.next();
    const ownSum = sumOf(own);
    const expected = await readWhole(options);
    const { copied, whole } = await start("whole", options).told("whole");
    const rounds = [];
    for (let round = 0; round < options.rounds; round++) {
        const { worker, told } = start("on", options);
        await told("held");
        await setTimeout(5 * round);
        const holding = process.memoryUsage.rss();
        const code = await worker.terminate();
        rounds.push({ code, holding, after: await residentBytes() });
    }
    let rest = own.numRows;
    for await (const batch of stream) rest += batch.numRows;
    const ownUnchanged = sumOf(own) === ownSum;
    const { usedBytes } = runtime.memory().host;
    await runtime.close();
    const copiedValues = copied.filter(Number.isInteger).length;
    const result = { expected, whole, copiedValues, rest, ownUnchanged, usedBytes, rounds };
    process.stdout.write(`result ${JSON.stringify(result)}\n`);
}

if (isMainThread) await main(JSON.parse(process.argv[2]));
else if (workerData.way === "whole") parentPort.postMessage({ whole: await readWhole(workerData.options) });
else await readOn(workerData.options);
