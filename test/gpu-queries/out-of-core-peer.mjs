// SPDX-License-Identifier: Apache-2.0
// Joins, group-bys and trees of them whose spilled rows go to the memory of another GPU: of a second one where there is
// one that this one reaches, and of the one GPU itself as if it were two.
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
    const memory = { host: "1GiB", device: "512MiB", spillDirectory };
    const peers = { "itself as its peer": { peerOrdinal: 0 } };
    if (await hasPeer(memory)) peers["another GPU as its peer"] = {};
    const chunkRows = options.small ? 64 : 2048;
    // Four blocks of the least size: a few rows fill none.
    const cases = [["256MiB", allThere], ...(options.small ? [] : [[2 ** 18, partThere]])];
    for (const [which, more] of Object.entries(peers)) {
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
