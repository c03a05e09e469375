// SPDX-License-Identifier: Apache-2.0
import { makeVector, Table, Utf8, vectorFromArray } from "apache-arrow";
import { openRuntime } from "../../dist/index.js";
import { check, compareWith, joinTypes, knobs, options, reference } from "./checks.mjs";
import { randomNumbers } from "./relations.mjs";

/**
 * Columns and keys that do not go to the GPU: text, what rows of 128 bytes have no room for, keys of which a hash is
 * compared; and rows of that width.
 */
export async function gatheredColumns(cpu, ranOutOfCore) {
    for (const columns of [4, 13, 18]) await joinsOf(columns, cpu, ranOutOfCore);
}

/** Each side has so many columns of 8 bytes beside its keys and text. */
async function joinsOf(columns, cpu, ranOutOfCore) {
    const rows = options.small ? [200, 300] : [30_000, 50_000];
    const domain = Math.ceil(rows[1] / 3);
    const memory = { host: "2GiB", device: "512MiB" };
    const debug = { outOfCore: true, chunkRows: options.small ? 64 : 4096, residentShare: 0.5, radixBits: 4 };
    const gpu = await openRuntime({ device: "gpu", memory, ...knobs(debug) });
    const seeds = randomNumbers(7900);
    const tables = rows.map((count, side) => {
        const draw = (size) => Array.from({ length: count }, () => seeds(size));
        const keys = draw(domain);
        const longs = (values) => makeVector(BigInt64Array.from(values, BigInt));
        const texts = (values) => vectorFromArray(values, new Utf8());
        const suffix = side === 0 ? "l" : "r";
        const wide = Array.from({ length: columns }, (_, i) => [`v${i}_${suffix}`, longs(draw(1000))]);
        return new Table({
            k: longs(keys),
            k2: longs(keys.map((key) => 7 * key)),
            t: texts(keys.map((key) => (key % 50 === 0 ? null : `key ${key}`))),
            [`t_${suffix}`]: texts(draw(1000).map((value) => "x".repeat(value % 40) + value)),
            ...Object.fromEntries(wide)
        });
    });
    const cases = [
        ...joinTypes.map((type) => ({ type, on: ["k"] })),
        ...[["t"], ["k", "k2"], ["t", "k"]].map((on) => ({ type: "inner", on }))
    ];
    for (const { type, on } of options.small ? cases.slice(-4) : cases) {
        const make = (runtime) => {
            const [left, right] = tables.map((table) => runtime.fromTable(table));
            return runtime.join({ left, right, on, type });
        };
        await check(`${type} join out-of-core on ${on.join(", ")}, ${columns} columns and text`, () =>
            compareWith(make(gpu), reference(make(cpu)), ranOutOfCore)
        );
    }
    await gpu.close();
}
