// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { openRuntime } from "../../dist/index.js";

export function inputPaths(folder) {
    return { leftPath: join(folder, "r.arrow"), rightPath: join(folder, "s.arrow") };
}

/** R: unique int64 keys, shuffled; S: uniform foreign keys, each with one partner in R; an int64 payload each. */
export async function generateInputs(folder, { rows, keys }) {
    const { leftPath, rightPath } = inputPaths(folder);
    const sparse = keys === "sparse";
    const runtime = await openRuntime({ device: "cpu" });
    try {
        const left = { rows, seed: 1, key: { name: "r_key", sparse }, payload: [{ name: "r_value" }] };
        const foreign = { name: "s_key", role: "foreign", domainRows: rows, sparse };
        const right = { rows, seed: 2, key: foreign, payload: [{ name: "s_value" }] };
        await runtime.generate(left, { path: leftPath, overwrite: true });
        await runtime.generate(right, { path: rightPath, overwrite: true });
    } finally {
        await runtime.close();
    }
}
