// SPDX-License-Identifier: Apache-2.0
// A kernel that fails in a join or a group-by out of core, in each of its phases: one error or the CPU engine's turn,
// everything given back, and what the runtime says from then on.
import { makeVector, Table } from "apache-arrow";
import type { Query, Runtime, RuntimeOptions } from "spillway";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { behave, withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

useGpu();

let sandbox: Sandbox;
beforeEach(() => (sandbox = new Sandbox()));
afterEach(() => {
    behave(undefined);
    sandbox[Symbol.dispose]();
});

async function withSpill<T>(options: RuntimeOptions, body: (runtime: Runtime) => Promise<T>): Promise<T> {
    const memory = { host: "64MiB", device: "64MiB", spillDirectory: sandbox.spill };
    // All partitions are spilled, and most of them to disk.
    const debug = { outOfCore: true, chunkRows: 128, radixBits: 3, residentShare: 0, hostSpillBytes: 2000 };
    return await withRuntime({ memory, ...knobs(debug), ...options }, body);
}

const rows = 20_000;

function table(step: number): Table {
    const keys = Int32Array.from({ length: rows }, (_, i) => i * step);
    return new Table({ k: makeVector(keys), v: makeVector(Int32Array.from({ length: rows }, (_, i) => i)) });
}

interface Operation {
    /** What the fake GPU may fail at, in the order of the phases. */
    readonly phases: readonly string[];
    /** Rows of its first stage are held: no reader has rows by then. */
    readonly holds?: boolean;
    readonly resultRows: number;
    readonly queryOn: (runtime: Runtime) => Query;
}

const operations: Record<string, Operation> = {
    join: {
        phases: ["lost-build", "lost-probe", "lost-spilled", "lost-result"],
        resultRows: rows / 2,
        queryOn(runtime) {
            const [left, right] = [runtime.fromTable(table(1)), runtime.fromTable(table(2))];
            return runtime.join({ left, right, on: "k" });
        }
    },
    "group-by": {
        phases: ["lost-build", "lost-spilled", "lost-result"],
        resultRows: rows,
        queryOn: (runtime) =>
            runtime.groupBy(runtime.fromTable(table(1)), { keys: ["k"], aggregates: { sum: { sum: "v" } } })
    },
    "group-by of held rows": {
        phases: ["lost-build", "lost-probe", "lost-spilled", "lost-result"],
        holds: true,
        resultRows: rows / 2,
        queryOn(runtime) {
            const [left, right] = [runtime.fromTable(table(1)), runtime.fromTable(table(2))];
            const joined = runtime.join({ left, right, on: "k", suffix: "_2" });
            return joined.groupBy({ keys: ["k", "v", "v_2"], aggregates: { n: { count: "*" } } });
        }
    }
};

/** Reads until the query fails. */
async function failing(query: Query): Promise<{ rows: number; error: unknown }> {
    let found = 0;
    try {
        for await (const batch of query.batches({ batchRows: 50 })) found += batch.numRows;
    } catch (error) {
        return { rows: found, error };
    }
    throw new Error(`${found} rows and no error`);
}

const lost = { name: "SpillwayError", code: "NO_DEVICE", details: { cudaError: "700" } };

describe.skipIf(usesRealGpu)("a GPU that is lost", () => {
    for (const [name, { phases, holds, resultRows, queryOn }] of Object.entries(operations)) {
        for (const phase of phases) {
            const isRead = phase === "lost-result" && holds !== true;
            test(`${phase}, in a ${name}: one error, and the same for what comes after it`, async () => {
                await withSpill({ device: "gpu" }, async (runtime) => {
                    expect(await queryOn(runtime).count()).toBe(resultRows);
                    behave(phase);
                    const found = await failing(queryOn(runtime));
                    behave(undefined);
                    expect(found.error).toMatchObject(lost);
                    expect(String(found.error)).toMatch(/illegal memory access/);
                    if (isRead) expect(found.rows).toBeGreaterThan(0);
                    else expect(found.rows).toBe(0);
                    expect(found.rows).toBeLessThan(resultRows);
                    expect(sandbox.leftovers()).toEqual([]);
                    expect(runtime.memory().host.usedBytes).toBe(0);
                    await expect(queryOn(runtime).count()).rejects.toMatchObject(lost);
                    await expect(queryOn(runtime).toTable()).rejects.toMatchObject(lost);
                    expect(runtime.memory().host.usedBytes).toBe(0);
                });
                await sandbox.expectClean();
                // Nothing of the lost one keeps this from being opened.
                await withSpill({ device: "gpu" }, async (runtime) => {
                    expect(await queryOn(runtime).count()).toBe(resultRows);
                });
            });

            test(`${phase}, in a ${name}: with device auto the CPU engine goes on if nobody has rows`, async () => {
                await withSpill({ device: "auto" }, async (runtime) => {
                    expect(await queryOn(runtime).count()).toBe(resultRows);
                    behave(phase);
                    const query = queryOn(runtime);
                    if (isRead) {
                        expect(await failing(query)).toMatchObject({ error: lost });
                    } else {
                        expect((await query.toTable()).numRows).toBe(resultRows);
                        expect(query.report()).toMatchObject({ device: "cpu" });
                        expect(query.report()?.deviceReason).toMatch(/illegal memory access/);
                    }
                    behave(undefined);
                    expect(sandbox.leftovers()).toEqual([]);
                    const next = queryOn(runtime);
                    expect((await next.toTable()).numRows).toBe(resultRows);
                    expect(next.report()).toMatchObject({ device: "cpu" });
                    expect(next.report()?.deviceReason).toMatch(/illegal memory access/);
                    expect(runtime.memory().host.usedBytes).toBe(0);
                });
                await sandbox.expectClean();
            });
        }
    }
});
