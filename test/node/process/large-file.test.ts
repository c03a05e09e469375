// SPDX-License-Identifier: Apache-2.0
// Offsets beyond 32 bits: files of more than 4 GiB, sparse so that they cost no disk.
import { statSync } from "node:fs";
import type { Int64 } from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, expect, test } from "vitest";
import { numericTable } from "../../support/numeric-files.js";
import { Sandbox } from "../../support/sandbox.js";
import { writeSparseFile } from "../../support/sparse-file.js";

const fourGibibytes = 2 ** 32;
let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 2, memory: { host: "128MiB", spillDirectory: sandbox.spill } });
});
afterAll(async () => {
    await runtime.close();
    sandbox[Symbol.dispose]();
});

/** [batches, MiB of zeros in each batch]: many batches below 4 GiB, and one whose body alone is larger. */
test.each([
    [6, 1000],
    [1, 5000]
])("%i batches of %i MiB", async (batches, mebibytes) => {
    const path = sandbox.path(`sparse-${batches}.arrow`);
    writeSparseFile(path, batches, mebibytes);
    const { size, blocks } = statSync(path);
    expect(size).toBeGreaterThan(fourGibibytes);
    expect(blocks * 512).toBeLessThan(16 * 1024 * 1024);

    const rows = batches * mebibytes;
    const file = await runtime.fromArrowFile<{ key: Int64 }>(path);
    expect(file.rows).toBe(rows);
    const table = numericTable({ rows: 3 * rows, keys: 2 * rows, prefix: "r" });
    const query = runtime.join({
        left: file,
        right: runtime.fromTable(table),
        on: { key: "rkey" },
        select: ["key", "rp0"]
    });
    let found = 0;
    for await (const batch of query.batches()) {
        const [left, payload] = [batch.getChildAt(0)!, batch.getChildAt(1)!];
        for (let row = 0; row < batch.numRows; ++row, ++found) {
            const key = left.get(row) as bigint;
            if (key < 0n || key >= BigInt(rows)) throw new Error(`key ${key} is not in the file`);
            if (typeof payload.get(row) !== "bigint") throw new Error("no payload");
        }
    }
    const partners = [...table.getChildAt(0)!].filter((key) => (key as bigint) < BigInt(rows));
    expect(found).toBe(partners.length);
    const total = await file.groupBy({ aggregates: { rows: { count: "*" }, largest: { max: "key" } } }).toTable();
    expect([...total].map((row) => row.toJSON())).toEqual([{ rows: BigInt(rows), largest: BigInt(rows - 1) }]);
});
