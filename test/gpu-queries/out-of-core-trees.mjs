// SPDX-License-Identifier: Apache-2.0
// Joins of joins and group-bys of joins of relations larger than GPU memory: trees drawn at random against the CPU
// engine, with NULLs, keys of several columns and rows that leave GPU memory; stars, and how fast large ones are.
import { openRuntime } from "../../dist/index.js";
import { check, compareWith, knobs, options, reference } from "./checks.mjs";
import { drawnTiers, drawnTree, refusedTrees } from "./drawn-trees.mjs";
import { randomNumbers } from "./relations.mjs";

/** Groups that are joined or grouped again have a stage of their own, which may be no tree. */
const ranOutOfCore = ({ stages }) => {
    const other = stages.find(({ device }) => !Object.keys(device ?? {}).some((key) => key.startsWith("outOfCore")));
    return other === undefined ? null : `ran ${other.algorithm}`;
};

/** What cannot run is drawn again. */
async function isRefused(query) {
    try {
        await query.explain();
        return false;
    } catch ({ message }) {
        return refusedTrees.test(message);
    }
}

const relationsOf = (runtime, tables) =>
    Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, runtime.fromTable(table)]));

async function drawnTrees(cpu) {
    const trees = options.small ? 12 : 100;
    for (const [at, more] of drawnTiers.entries()) {
        const chunkRows = options.small ? 64 : 1024;
        const memory = { host: "2GiB", device: "1GiB" };
        const gpu = await openRuntime({ device: "gpu", memory, ...knobs({ outOfCore: true, chunkRows, ...more }) });
        let seed = 5000 + at * 1000;
        for (let tried = 0; tried < trees; ++seed) {
            const { text, tables, make } = drawnTree(randomNumbers(seed), options.small ? 200 : 1000);
            const [query, expected] = [gpu, cpu].map((runtime) => make(relationsOf(runtime, tables)));
            if (await isRefused(query)) continue;
            ++tried;
            await check(`tree out-of-core, seed ${seed}: ${text}, ${JSON.stringify(more)}`, () =>
                compareWith(query, reference(expected), ranOutOfCore)
            );
        }
        await gpu.close();
    }
}

export async function outOfCoreTrees(cpu) {
    await drawnTrees(cpu);
}
