// SPDX-License-Identifier: Apache-2.0
// Queries whose tables are expected to exceed GPU memory, or do without being expected to, and what becomes of them.
import { makeVector, Table } from "apache-arrow";
import type { Query, Runtime, RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";

useGpu();

const names = ["a", "b", "c", "d", "e"];

/** Five keys of 8 bytes, which workers number out of core; each row of five keys comes `times` times. */
function table(rows: number, times: number): Table {
    const keys = Math.ceil(rows / times);
    const column = (shift: number): BigInt64Array =>
        BigInt64Array.from({ length: rows }, (_, i) => BigInt((i % keys) * 31 ** shift));
    return new Table(Object.fromEntries(names.map((name, i) => [name, makeVector(column(i))])));
}

const grouped = (runtime: Runtime, input: Table): Query =>
    runtime.groupBy(runtime.fromTable(input), { keys: names, aggregates: { n: { count: "*" } } });

const gpu = (device: string, more: RuntimeOptions = {}): RuntimeOptions => ({
    device: "gpu",
    memory: { device, host: "512MiB" },
    ...more
});

async function expectCounts(query: Query, groups: number, times: number): Promise<void> {
    const result = await query.toTable();
    expect(result.numRows).toBe(groups);
    const valuesOf = (name: string): Set<unknown> => new Set(result.getChild(name)?.toArray() as Iterable<unknown>);
    expect([...valuesOf("n")].map(Number)).toEqual([times]);
    expect(valuesOf("a").size).toBe(groups);
}

const kinds = (plan: { stages: readonly { kind: string }[] }): string[] => plan.stages.map(({ kind }) => kind);
const inCore = ["upload", "deviceGroup", "deliver"];

describe("a group-by that would have its keys numbered out of core", () => {
    const rows = 600_000;
    const device = "48MiB";

    test("is tried in GPU memory first, and stays there where that suffices", async () => {
        await withRuntime(gpu(device), async (runtime) => {
            const query = grouped(runtime, table(rows, 100));
            const explained = await query.explain();
            expect(kinds(explained.plan)).toEqual(inCore);
            expect(explained.plan.deviceMemory?.elseOutOfCore).toBe(true);
            expect(explained.plan.deviceMemory?.estimatedBytes).toBeGreaterThan(48 * 2 ** 20);
            expect(String(explained)).toContain("if GPU memory runs out, the query is planned again, out of core");
            await expectCounts(query, rows / 100, 100);
            expect(query.report()).toMatchObject({ device: "gpu", deviceReason: null });
            expect(query.report()?.stages).toHaveLength(3);
        });
        // Where all of it is expected to fit there is nothing to tell.
        await withRuntime(gpu("1GiB"), async (runtime) => {
            const explained = await grouped(runtime, table(rows, 100)).explain();
            expect(explained.plan.deviceMemory?.elseOutOfCore).toBeUndefined();
            expect(String(explained)).not.toContain("out of core");
        });
    });

    describe.skipIf(usesRealGpu)("and runs out of GPU memory", () => {
        const input = table(rows, 1);

        test("is planned again out of core, with all rows once", async () => {
            await withRuntime(gpu(device), async (runtime) => {
                const query = grouped(runtime, input);
                expect(kinds((await query.explain()).plan)).toEqual(inCore);
                await expectCounts(query, rows, 1);
                const report = query.report();
                expect(report?.stages.map(({ algorithm }) => algorithm)).toEqual([
                    expect.stringMatching(/^out of core on the GPU: chunks aggregated/)
                ]);
                expect(report).toMatchObject({ device: "gpu", rowsOut: rows });
                expect(report?.deviceReason).toMatch(/memory\.device/);
                expect(report?.devicePeakBytes).toBeLessThanOrEqual(48 * 2 ** 20);
            });
        });

        test("goes to the CPU engine with device auto, or out of core, whichever is faster", async () => {
            await withRuntime(gpu(device, { device: "auto", debug: { gpu: true } }), async (runtime) => {
                const query = grouped(runtime, input);
                expect(kinds((await query.explain()).plan)).toEqual(inCore);
                await expectCounts(query, rows, 1);
                expect(query.report()?.deviceReason).toMatch(/memory\.device/);
            });
        });

        test("ends with that error where it names an algorithm of tables in GPU memory", async () => {
            const details = { tier: "device", option: "memory.device" };
            await withRuntime(gpu(device), async (runtime) => {
                const query = runtime.groupBy(runtime.fromTable(input), {
                    keys: names,
                    aggregates: { n: { count: "*" } },
                    algorithm: "pgb-tr"
                });
                await expect(query.toTable()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", details });
            });
        });
    });
});
