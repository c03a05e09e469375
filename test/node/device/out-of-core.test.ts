// SPDX-License-Identifier: Apache-2.0
import { Int32, Int64, Table, vectorFromArray } from "apache-arrow";
import { openRuntime } from "spillway";
import { expect, test } from "vitest";
import { useGpu } from "../../support/gpu.js";

useGpu();

test("thin path", async () => {
    const rows = 5000;
    const column = (make: (i: number) => bigint) => vectorFromArray(Array.from({ length: rows }, (_, i) => make(i)), new Int64());
    const left = new Table({ k: column((i) => BigInt(i * 2)), a: column((i) => BigInt(i)) });
    const right = new Table({ k: column((i) => BigInt(i * 3)), b: vectorFromArray(Array.from({ length: rows }, (_, i) => i), new Int32()) });
    const gpu = await openRuntime({ device: "gpu", threads: 2, memory: { device: "64MiB" }, debug: { outOfCore: true, chunkRows: 256 } });
    const cpu = await openRuntime({ device: "cpu", threads: 2 });
    const of = (r: typeof gpu) => r.join({ left: r.fromTable(left), right: r.fromTable(right), on: "k" });
    console.log(String(await of(gpu).explain()));
    const q = of(gpu);
    expect(await q.count()).toBe(await of(cpu).count());
    console.log(JSON.stringify(q.report(), null, 1));
    const sorted = (t: Table) => t.toArray().map((r) => JSON.stringify(r, (_, v: unknown) => (typeof v === "bigint" ? String(v) : v))).sort();
    expect(sorted(await q.toTable())).toEqual(sorted(await of(cpu).toTable()));
    await gpu.close();
    await cpu.close();
});
