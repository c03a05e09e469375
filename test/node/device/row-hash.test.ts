// SPDX-License-Identifier: Apache-2.0
// The hash by which large results of the GPU are compared with the CPU engine's.
import { join } from "node:path";
import { tableFromArrays, type Table } from "apache-arrow";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";

interface Hash {
    add: (batch: Table) => void;
    toString: () => string;
}
const { RowHash } = (await import(join(repositoryRoot, "test/gpu-queries/row-hash.mjs"))) as {
    RowHash: new () => Hash;
};

const keys = [3n, -5n, 3n, 2n ** 60n, 0n];
const values = [1, 2, 1, -7, 0];
const order = [4, 2, 0, 3, 1];

function hashOf(k: bigint[], v: number[], cut = k.length): string {
    const hash = new RowHash();
    for (const [from, to] of [
        [0, cut],
        [cut, k.length]
    ] as const) {
        hash.add(tableFromArrays({ k: BigInt64Array.from(k.slice(from, to)), v: Int32Array.from(v.slice(from, to)) }));
    }
    return hash.toString();
}

test("rows in any order and in any batches have one hash", () => {
    const whole = hashOf(keys, values);
    expect(whole).toMatch(/^5 rows, hash [0-9a-f]{32}$/);
    expect(
        hashOf(
            order.map((at) => keys[at]!),
            order.map((at) => values[at]!),
            2
        )
    ).toBe(whole);
});

test("a row that is missing, there twice, changed or mixed with another one changes it", () => {
    const others = [
        hashOf(keys.slice(1), values.slice(1)),
        hashOf([...keys.slice(0, 4), 3n], [...values.slice(0, 4), 1]),
        hashOf([3n, -5n, 3n, 2n ** 60n + 1n, 0n], values),
        hashOf([-5n, 3n, 3n, 2n ** 60n, 0n], values),
        hashOf(keys, [1, 2, 1, 7, 0])
    ];
    expect(new Set([hashOf(keys, values), ...others]).size).toBe(others.length + 1);
});

test("what it cannot hash it refuses", () => {
    expect(() => {
        new RowHash().add(tableFromArrays({ k: [1, null, 2] }));
    }).toThrow("NULLs");
    expect(() => {
        new RowHash().add(tableFromArrays({ k: Int16Array.of(1, 2, 3) }));
    }).toThrow("32 bits");
});
