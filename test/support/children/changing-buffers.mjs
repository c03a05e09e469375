// SPDX-License-Identifier: Apache-2.0
// Changes the memory below a table in mid-query: after the first batch of a result whose other rows are still unread.
// Run with --expose-gc. Argument: { change, rounds }. Says how each round ended: rows, or the code of an error.
import { setTimeout } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import * as arrow from "apache-arrow";
import { openRuntime } from "spillway";

const { Field, Float64, Int32, RecordBatch, Schema, Struct, Table, Utf8, makeData } = arrow;
const rows = 400_000;
const width = 8;

const { change, rounds } = JSON.parse(process.argv[2]);
const runtime = await openRuntime({ device: "cpu", threads: 2, memory: { host: "16MiB" } });

const plain = (bytes) => new ArrayBuffer(bytes);
const wasm = (bytes) => {
    const memory = new globalThis.WebAssembly.Memory({ initial: Math.ceil(bytes / 65_536), maximum: 65_536 });
    memories.push(memory);
    return memory.buffer;
};
let memories = [];

/** Tables of equal rows: a key, a text of 8 bytes, a value. `make` makes the memory of each column. */
function tableIn(make) {
    const keys = new Int32Array(make(rows * 4), 0, rows);
    const offsets = new Int32Array(make((rows + 1) * 4), 0, rows + 1);
    const text = new Uint8Array(make(rows * width), 0, rows * width).fill(97);
    const values = new Float64Array(make(rows * 8), 0, rows).fill(1);
    for (let row = 0; row < rows; row++) {
        keys[row] = row % 1000;
        offsets[row + 1] = (row + 1) * width;
    }
    const children = [
        makeData({ type: new Int32(), length: rows, nullCount: 0, data: keys }),
        makeData({ type: new Utf8(), length: rows, nullCount: 0, valueOffsets: offsets, data: text }),
        makeData({ type: new Float64(), length: rows, nullCount: 0, data: values })
    ];
    const schema = new Schema(["key", "text", "value"].map((name, i) => new Field(name, children[i].type)));
    const data = makeData({ type: new Struct(schema.fields), length: rows, nullCount: 0, children });
    const buffers = [keys, offsets, text, values].map(({ buffer }) => buffer);
    return { table: new Table([new RecordBatch(schema, data)]), buffers, offsets };
}

const workerOf = (code) => new Worker(code, { eval: true });
const endsAtOnce = 'require("node:worker_threads").parentPort.once("message", () => process.exit());';
const writes = `require("node:worker_threads").parentPort.once("message", (buffers) => {
    for (;;) for (const buffer of buffers) new Int32Array(buffer).fill(Math.random() < 0.5 ? -1 : 2 ** 30);
});`;
const rewrites = `const { parentPort } = require("node:worker_threads");
parentPort.once("message", (buffer) => {
    const offsets = new Int32Array(buffer);
    for (;;) for (let row = 1; row < ${rows}; row += 997) {
        offsets[row] = row * ${width} + 4000;
        offsets[row] = row * ${width};
    }
});`;

async function passTo(code, buffers) {
    const worker = workerOf(code);
    worker.postMessage(buffers, buffers);
    if (code === endsAtOnce) await new Promise((resolve) => worker.once("exit", resolve));
    return worker;
}

/** How the memory is made, and what happens to it. */
const changes = {
    shrunk: [
        (bytes) => new ArrayBuffer(bytes, { maxByteLength: bytes }),
        ({ buffers }) => buffers.map((b) => b.resize(0))
    ],
    transferred: [plain, ({ buffers }) => void structuredClone(buffers, { transfer: buffers })],
    toWorkerThatEnds: [plain, ({ buffers }) => passTo(endsAtOnce, buffers)],
    toWorkerThatWrites: [plain, ({ buffers }) => passTo(writes, buffers.slice(0, 2))],
    transferredLonger: [plain, ({ buffers }) => void buffers.map((b) => b.transfer(b.byteLength * 2))],
    transferredShorter: [plain, ({ buffers }) => void buffers.map((b) => b.transferToFixedLength(16))],
    wasmGrown: [wasm, () => memories.map((memory) => memory.grow(1000))],
    sharedGrown: [
        (bytes) => new SharedArrayBuffer(bytes, { maxByteLength: 4 * bytes }),
        ({ buffers }) => buffers.map((b) => b.grow(b.byteLength * 2))
    ],
    sharedRewritten: [
        (bytes) => new SharedArrayBuffer(bytes),
        ({ offsets }) => {
            const worker = workerOf(rewrites);
            worker.postMessage(offsets.buffer);
            return worker;
        }
    ]
};

const other = runtime.fromTable(arrow.tableFromArrays({ key: Int32Array.from({ length: 1000 }, (_, i) => i) }));

async function round() {
    const [make, apply] = changes[change];
    const parts = tableIn(make);
    const relation = runtime.fromTable(parts.table);
    const query = runtime.join({ left: relation, right: other, on: "key", select: ["text", "value"] });
    const batches = query.batches({ batchRows: 4096 });
    const seen = { rows: 0, sum: 0, wrongTexts: 0 };
    const read = (batch) => {
        seen.rows += batch.numRows;
        for (const value of batch.getChild("value")) seen.sum += value;
        for (const { length } of batch.getChild("text")) if (length !== width) seen.wrongTexts++;
    };
    read((await batches.next()).value);
    const first = seen.rows;
    const worker = await apply(parts);
    parts.buffers.length = 0;
    memories = [];
    globalThis.gc();
    globalThis.gc();
    await setTimeout(20);
    try {
        for await (const batch of batches) read(batch);
        return { first, ...seen };
    } catch (error) {
        return { first, code: error.code, message: error.message, wrongTexts: seen.wrongTexts };
    } finally {
        await worker?.terminate?.();
    }
}

const ends = [];
for (let i = 0; i < rounds; i++) ends.push(await round());
await runtime.close();
process.stdout.write(`result ${JSON.stringify({ rows, ends })}\n`);
