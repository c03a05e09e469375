// SPDX-License-Identifier: Apache-2.0
// Joins, group-bys and trees of them whose spilled rows go to the memory of another GPU, and joins by kernels whose far
// pages lie there: of a second one where this one reaches one, and of the one GPU itself as if it were two.
import { makeVector, Table } from "apache-arrow";
import { openRuntime } from "../../dist/index.js";
import { check, compareWith, knobs, options, reference } from "./checks.mjs";
import { queriesOf, spillOf } from "./out-of-core-disk.mjs";
import { randomNumbers, relation } from "./relations.mjs";

/** What `wanted` says of the bytes that were spilled, and of those with the peer and on disk. */
const spilledAs = (wanted) => (report) => {
    const spilled = spillOf(report);
    if (spilled === undefined) return `ran ${report.stages[0]?.algorithm}`;
    const { spilledBytes, peerBytes, diskWrittenBytes } = spilled;
    if (wanted(spilled)) return null;
    return `${spilledBytes} bytes spilled, ${peerBytes} to the peer, ${diskWrittenBytes} to disk`;
};
const allThere = spilledAs(({ spilledBytes, peerBytes }) => spilledBytes > 0 && peerBytes === spilledBytes);
const partThere = spilledAs(({ peerBytes, diskWrittenBytes }) => peerBytes > 0 && diskWrittenBytes > 0);

const someThere = spilledAs(({ spilledBytes, peerBytes }) => peerBytes > 0 && peerBytes < spilledBytes);

/** Joins by kernels, also as an operator below another one, which takes no NULLs. */
function kernelQueriesOf(tables, plainTables) {
    const select = ["k0", "p_int64_a", "p_int64_b"];
    const joined = (runtime, type, named, of = tables) => {
        const [left, right] = of.map((table) => runtime.fromTable(table));
        return runtime.join({ left, right, on: "k0", type, select, ...named });
    };
    const aggregates = { n: { count: "*" }, a: { sum: "p_int64_a" }, b: { sum: "p_int64_b" } };
    return {
        join: (runtime, named) => joined(runtime, "inner", named),
        "full join": (runtime, named) => joined(runtime, "full", named),
        "sums of a join": (runtime, named) =>
            joined(runtime, "inner", named, plainTables).groupBy({ keys: [], aggregates })
    };
}

/** Keys of 8 bytes and a value of as many, without NULLs. */
function plainTable(rows, step, name) {
    const column = (value) => makeVector(BigInt64Array.from({ length: rows }, value));
    return new Table({
        k0: column((_, row) => BigInt((row * step) % Math.ceil(rows / 2))),
        [name]: column((_, row) => BigInt((row * 7919) % rows))
    });
}

const allFar = { device: 0, far: 1 };
/** Each case says which pages are near, how much memory the peer has, and where rows are then. */
const pageCases = {
    "no page near": [{ interleave: allFar, hostSpillBytes: 0 }, "256MiB", allThere],
    "every other page near": [{ interleave: { device: 1, far: 1 }, hostSpillBytes: 0 }, "256MiB", allThere],
    "pages of a mapped range": [{ interleave: allFar, pages: "mapped" }, "256MiB", allThere],
    // Pages of 64 KiB: a few rows fill none.
    ...(options.small ? {} : { "no page near, some with the peer": [{ interleave: allFar }, "1MiB", someThere] })
};

async function byKernels(cpu, tables, memory, [which, more]) {
    for (const [pages, [turned, peer, wanted]] of Object.entries(pageCases)) {
        const sizes = { chunkRows: options.small ? 64 : 2048, radixBits: 3 };
        const gpu = await openRuntime({
            device: "gpu",
            memory: { ...memory, peer },
            ...knobs({ ...sizes, ...turned, ...more })
        });
        for (const [name, make] of Object.entries(kernelQueriesOf(...tables))) {
            await check(`${name} by kernels with ${which}, ${pages}`, () =>
                compareWith(make(gpu, { algorithm: "triton" }), reference(make(cpu)), wanted)
            );
        }
        await gpu.close();
    }
}

async function hasPeer(memory) {
    const runtime = await openRuntime({ device: "gpu", memory: { ...memory, peer: "64MiB" } });
    const gpus = runtime.devices().filter(({ kind }) => kind === "gpu").length;
    await runtime.close();
    return gpus > 1;
}

export async function outOfCorePeer(cpu, spillDirectory) {
    const rows = options.small ? 400 : 40_000;
    const random = randomNumbers(41);
    const tables = ["_a", "_b", "_c"].map((suffix, at) =>
        relation(random, { keys: ["int64"], side: at % 2, rows, domain: Math.ceil(rows / 2), nullPercent: 3, suffix })
    );
    const plainTables = ["p_int64_a", "p_int64_b"].map((name, side) => plainTable(rows, side + 1, name));
    const memory = { host: "1GiB", device: "512MiB", spillDirectory };
    const peers = { "itself as its peer": { peerOrdinal: 0 } };
    if (await hasPeer(memory)) peers["another GPU as its peer"] = {};
    const chunkRows = options.small ? 64 : 2048;
    // Four blocks of the least size: a few rows fill none.
    const cases = [["256MiB", allThere], ...(options.small ? [] : [[2 ** 18, partThere]])];
    for (const [which, more] of Object.entries(peers)) {
        await byKernels(cpu, [tables.slice(0, 2), plainTables], memory, [which, more]);
        for (const [peer, wanted] of cases) {
            const spilling = { outOfCore: true, residentShare: 0, chunkRows, radixBits: 3, hostSpillBytes: 0, ...more };
            const gpu = await openRuntime({ device: "gpu", memory: { ...memory, peer }, ...knobs(spilling) });
            for (const [name, make] of Object.entries(queriesOf(tables))) {
                await check(`${name} with ${which}, ${peer} of its memory`, () =>
                    compareWith(make(gpu), reference(make(cpu)), wanted)
                );
            }
            await gpu.close();
        }
    }
}
