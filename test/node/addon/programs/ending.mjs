// SPDX-License-Identifier: Apache-2.0
// ending.mjs WAY: a process that ends with open engines and running jobs.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Worker, isMainThread, parentPort, threadId, workerData } from "node:worker_threads";
import { fileURLToPath } from "node:url";
import { binding, collect, columns, dropBatches, generate, makeBusy, openEngine } from "./busy.mjs";

const folder = process.argv[3];

/** Runs this file in a worker and ends that as soon as it says that its jobs run. */
async function runWorker(way, end) {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: way, argv: [way, folder] });
    const exited = new Promise((resolve) => worker.once("exit", resolve));
    await new Promise((resolve, reject) => {
        worker.once("message", resolve);
        worker.once("error", reject);
    });
    await end(worker);
    await exited;
}

const ways = {
    // Nothing runs: open handles must not keep the process alive.
    async idle() {
        const engine = openEngine();
        const job = binding.createJob(engine);
        binding.createQueueSink(job, columns, { batchRows: 1, batchBytes: 2 ** 30, maxBatches: 1, kept: false });
        await generate(job, binding.createCountSink(job), 1000);
    },
    // A running job keeps it alive until its promise is settled.
    async pending() {
        const job = binding.createJob(openEngine());
        void generate(job, binding.createCountSink(job), 3e6).then((rows) => console.log(`rows ${rows}`));
    },
    // A job that nobody waits for any more (its reader has paused for good) does not.
    async unwaited() {
        const job = binding.createJob(openEngine());
        const queue = binding.createQueueSink(job, columns, {
            batchRows: 2 ** 14,
            batchBytes: 2 ** 30,
            maxBatches: 1,
            kept: false
        });
        void generate(job, queue, 1e8);
        await binding.nextBatch(queue);
        for (const waited of [false, false, true, false]) binding.waitForJob(job, waited);
        process.exitCode = 3;
    },
    // After the shutdown nothing is answered any more, and nothing keeps the process.
    async shutdown() {
        await makeBusy();
        binding.shutdown();
    },
    async exit() {
        await makeBusy();
        process.exit(7);
    },
    async exitAfterShutdown() {
        const { engine } = await makeBusy();
        process.once("exit", () => {
            binding.shutdown();
            binding.shutdown();
            try {
                generate(binding.createJob(engine), null, 1).catch(() => {});
            } catch (error) {
                console.log(error.code);
            }
        });
        process.exit(7);
    },
    async throw() {
        await makeBusy();
        throw new Error("on purpose");
    },
    // Blocks of dropped batches are being freed in the background, one batch is still held.
    async droppedExit() {
        const held = await dropBatches();
        process.exit(held.last.rows > 0 ? 7 : 1);
    },
    async droppedIdle() {
        await dropBatches();
    },
    // Blocks that are dropped after their engine was closed, and after the shutdown.
    async droppedLate() {
        const first = await dropBatches(1e5);
        const second = await dropBatches(1e5);
        binding.closeEngine(first.engine);
        first.last = null;
        await collect();
        binding.shutdown();
        second.last = null;
        await collect();
    },
    async partialFile() {
        const job = binding.createJob(openEngine());
        const schemaMessage = new Uint8Array(Int32Array.of(-1, 8, 0, 0).buffer); // the file is never finished
        const options = { path: join(folder, "x.arrow"), schemaMessage, overwrite: false };
        const sink = binding.createFileSink(job, columns, { ...options, batchRows: 2 ** 14, batchBytes: 2 ** 30 });
        void generate(job, sink, 1e9);
        while (binding.jobProgress(job).rowsOut < 1e6) await new Promise((resolve) => setTimeout(resolve, 5));
        process.once("exit", () => {
            binding.shutdown();
            console.log(existsSync(options.path), readdirSync(folder).length);
        });
        process.exit(0);
    },
    async terminate() {
        for (let round = 0; round < 8; ++round) {
            await runWorker("busy", (worker) => worker.terminate());
        }
        console.log("terminated");
    },
    // At whatever point of start, job or end the moment happens to fall.
    async terminateAnywhere() {
        for (let round = 0; round < 25; ++round) {
            await runWorker("churn", async (worker) => {
                await new Promise((resolve) => setTimeout(resolve, 2 * round));
                await worker.terminate();
            });
        }
        console.log("terminated");
    },
    async terminateDropped() {
        for (let round = 0; round < 8; ++round) {
            await runWorker("dropped", (worker) => worker.terminate());
        }
        console.log("terminated");
    },
    async workerExit() {
        for (let round = 0; round < 3; ++round) await runWorker("busyExit", () => {});
        await runWorker("busyThrow", () => {}).catch(() => {});
        console.log("exited");
    },
    // Two threads with the addon, one of them terminated: the other's jobs go on.
    async neighbours() {
        const job = binding.createJob(openEngine());
        const rows = generate(job, binding.createCountSink(job), 5e6);
        await runWorker("busy", (worker) => worker.terminate());
        console.log(`rows ${await rows}`);
    }
};

const workerWays = {
    async busy() {
        await makeBusy();
        parentPort.postMessage("running");
    },
    async churn() {
        parentPort.postMessage("running");
        const engine = openEngine();
        for (;;) {
            const job = binding.createJob(engine);
            const queue = binding.createQueueSink(job, columns, {
                batchRows: 2 ** 14,
                batchBytes: 2 ** 30,
                maxBatches: 2,
                kept: false
            });
            const rows = generate(job, queue, 200_000);
            while ((await binding.nextBatch(queue)) !== null);
            await rows;
            binding.closeSink(queue);
        }
    },
    async dropped() {
        const held = await dropBatches();
        parentPort.postMessage("running");
        while (held.last !== null) await dropBatches();
    },
    async busyExit() {
        await makeBusy();
        parentPort.postMessage("running");
        process.exit(threadId);
    },
    async busyThrow() {
        await makeBusy();
        throw new Error("on purpose");
    }
};

await (isMainThread ? ways[process.argv[2]]() : workerWays[workerData]());
