// SPDX-License-Identifier: Apache-2.0
// Jobs in every state a process can end in: used by the programs beside this file.
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

export const binding = createRequire(import.meta.url)(process.env["SPILLWAY_TEST_ADDON"]);

const column = (name) => ({
    ...{ name, layout: "fixed", order: "signed", byteWidth: 8, nullable: false, utf8: false, listSize: 0 },
    ...{ typeIds: [], children: [] }
});
export const columns = [column("key"), column("payload")];

export function openEngine() {
    return binding.createEngine({ memoryBytes: 2 ** 30, spillDirectory: tmpdir(), threads: 2 });
}

export function generate(job, sink, rows) {
    const key = {
        ...{ name: "key", width: 8, role: "primary", domainRows: rows, keyStride: 1, keyOffset: 0, duplicates: 1 },
        ...{ zipf: 0, matchRatio: 1, order: "shuffled", sparse: false }
    };
    const payload = [{ name: "payload", kind: "int", width: 8 }];
    return binding.generate(job, { rows, seed: 1n, key, payload, batchRows: 2 ** 14, workers: 2 }, sink);
}

/** An engine with rows in partitions, a job that computes, one that waits for its consumer and an open source. */
export async function makeBusy() {
    const engine = openEngine();
    const ignored = (promise) => void promise.catch(() => {});

    const waiting = binding.createJob(engine);
    const queue = binding.createQueueSink(waiting, columns, {
        batchRows: 2 ** 14,
        batchBytes: 2 ** 30,
        maxBatches: 1,
        kept: false
    });
    ignored(generate(waiting, queue, 1e8));
    await binding.nextBatch(queue);

    const computing = binding.createJob(engine);
    const spec = {
        ...{ columns, carry: [0, 1], nullKeys: "drop", radixBits: 6, pageBytes: 65536, poolBytes: 2 ** 28 },
        ...{ keys: [{ column: 0, kind: "integer", kindOfValue: "integer", width: 8 }] },
        ...{ spillRunBytes: 8192, spillWriteBytes: 65536, spill: true, packSpilled: true },
        ...{ forceSpill: false, morselRows: 4096, workers: 2, hashMask: 2n ** 64n - 1n }
    };
    const partitions = binding.createPartitions(computing, spec);
    ignored(generate(computing, binding.createPartitionSink(computing, partitions, 2 ** 30), 1e8));

    const counting = binding.createJob(engine);
    ignored(generate(counting, binding.createCountSink(counting), 1e9));

    const data = new Uint8Array(8e6);
    const batch = {
        ...{ rows: 1e6, nodes: Float64Array.of(1e6, 0, 0, 1e6, 0, 0) },
        ...{ memory: [null, data, null, data], variadicCounts: [], dictionaries: [] }
    };
    const source = await binding.openSource(engine, {
        columns,
        dictionaries: [],
        files: null,
        links: [],
        batches: [batch]
    });
    const reading = binding.createJob(engine);
    const large = binding.createPartitions(reading, spec);
    ignored(binding.partitionSource(reading, large, source));
    ignored(
        binding.nextBatch(
            binding.createQueueSink(reading, columns, { batchRows: 1, batchBytes: 2 ** 30, maxBatches: 1, kept: false })
        )
    );
    return { engine, queue, waiting };
}

/**
 * Takes `rows` rows in batches, drops all but the last batch and has them collected: their blocks are being freed in
 * the background when this returns.
 */
export async function dropBatches(rows = 2e6) {
    const engine = openEngine();
    const job = binding.createJob(engine);
    const queue = binding.createQueueSink(job, columns, {
        batchRows: 2 ** 14,
        batchBytes: 2 ** 30,
        maxBatches: 4,
        kept: false
    });
    const done = generate(job, queue, rows);
    let last = null;
    for (let batch = await binding.nextBatch(queue); batch !== null; batch = await binding.nextBatch(queue)) {
        last = batch;
    }
    await done;
    binding.closeSink(queue);
    await collect();
    return { engine, last };
}

/** The finalizers of what is garbage have run when this returns. */
export async function collect() {
    setFlagsFromString("--expose-gc");
    runInNewContext("gc")();
    await turn();
}
