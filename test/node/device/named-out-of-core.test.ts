// SPDX-License-Identifier: Apache-2.0
// Joins that need not fit GPU memory, by name: they run out of core where their tables would fit, have the rows of the
// CPU engine, and are errors where they cannot be; and the join of the CPU engine that has a name.
import { makeVector, Table } from "apache-arrow";
import { outOfCoreJoinAlgorithms, SpillwayError } from "spillway";
import type { ExperimentOptions, JoinAlgorithm, Query, Runtime, RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { cellTable } from "../../support/cells.js";
import { command } from "../cli/in-process.js";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { joinTypes } from "../../support/reference.js";

import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

const memory = { host: "512MiB", device: "128MiB" };
const keyed = (rows: number, step: number, name: string): Table =>
    new Table({
        k: makeVector(BigInt64Array.from({ length: rows }, (_, i) => BigInt((i * step) % 700))),
        [name]: makeVector(BigInt64Array.from({ length: rows }, (_, i) => BigInt(i)))
    });
const [left, right] = [keyed(900, 3, "l"), keyed(1500, 7, "r")];
const joined = (runtime: Runtime, options: object): Query =>
    runtime.join({ left: runtime.fromTable(left), right: runtime.fromTable(right), on: "k", ...options });
/** The same below another join. */
const among = (runtime: Runtime, options: object): Query =>
    runtime.fromTable(keyed(300, 1, "o")).join(joined(runtime, options), { on: "k" });
const failure = async (run: () => Promise<unknown>): Promise<unknown> => await run().catch((error: unknown) => error);

describe.each(outOfCoreJoinAlgorithms)("%s", (algorithm) => {
    const makesEveryType = ["staged", "triton", "triton-uncached"].includes(algorithm);

    test.each(["auto", "gpu"] as const)("has the rows of the CPU engine with device %s", async (device) => {
        const expected = await withRuntime({ device: "cpu" }, async (cpu) =>
            rowTexts(cellTable(await joined(cpu, {}).toTable()))
        );
        await withRuntime({ device, memory }, async (runtime) => {
            const query = joined(runtime, { algorithm });
            expect(String(await query.explain())).toContain(`join: ${algorithm}, out of core on the GPU: `);
            expectSameRows(rowTexts(cellTable(await query.toTable())), expected, algorithm);
            const [stage] = query.report()!.stages;
            expect(stage?.device).toMatchObject({ algorithm, chosenBy: "user" });
            expect(stage?.device?.outOfCore).toBeDefined();
            expect(await query.count()).toBe(expected.length);
            expect(query.report()?.device).toBe("gpu");
        });
    });

    test("makes the types of join that it has, and no other join takes its place", async () => {
        await withRuntime({ device: "auto", memory }, async (runtime) => {
            for (const type of joinTypes) {
                const query = joined(runtime, { type, algorithm });
                const outcome = await failure(async () => await query.count());
                if (typeof outcome === "number") {
                    expect([type, makesEveryType || type === "inner"]).toEqual([type, true]);
                    expect(query.report()?.stages[0]?.device?.algorithm).toBe(algorithm);
                } else {
                    expect(makesEveryType).toBe(false);
                    expect(outcome).toMatchObject({
                        code: "INVALID_ARGUMENT",
                        details: { option: "algorithm", algorithm }
                    });
                    expect(String(outcome)).toContain(`"${algorithm}" cannot run this join: it makes inner joins`);
                }
            }
        });
    });

    test("is refused where its inputs, its memory or the device are not those that it needs", async () => {
        await withRuntime({ device: "auto", memory }, async (runtime) => {
            const stream = runtime.fromBatches(left.schema, async function* () {
                yield left;
            });
            const streamed = runtime.join({ left: stream, right: runtime.fromTable(right), on: "k", algorithm });
            const read = await failure(() => streamed.count());
            if (algorithm === "staged") expect(read).toBeGreaterThan(0);
            else expect(read).toMatchObject({ code: "INVALID_ARGUMENT" });
            const inner = joined(runtime, {}).join(runtime.fromTable(keyed(50, 1, "x")), { on: "k", algorithm });
            const outcome = await failure(() => inner.count());
            if (algorithm === "staged") expect(outcome).toBeGreaterThan(0);
            else expect(outcome).toMatchObject({ code: "INVALID_ARGUMENT", details: { algorithm } });
        });
        await withRuntime({ device: "auto", memory: { ...memory, device: "2MiB" } }, async (runtime) => {
            const little = await failure(() => joined(runtime, { algorithm }).count());
            expect(little).toMatchObject({ code: "BUDGET_TOO_SMALL", details: { tier: "device" } });
        });
        await withRuntime({ device: "cpu" }, (runtime) => {
            expect(() => joined(runtime, { algorithm })).toThrow(
                /runs on a GPU, and this runtime was opened with device/
            );
            return Promise.resolve();
        });
    });

    test("does not give way to the CPU engine where the GPU fails", async () => {
        if (usesRealGpu) return;
        await withRuntime({ device: "auto", memory }, async (runtime) => {
            process.env["SPILLWAY_FAKE_GPU"] = "lost-probe";
            const error = await failure(() => joined(runtime, { algorithm }).count());
            delete process.env["SPILLWAY_FAKE_GPU"];
            expect(error).toMatchObject({ code: "NO_DEVICE" });
        });
    });
});

test("what a table of linear probing meets too often is an error, and no other join takes its place", async () => {
    const rows = usesRealGpu ? 60_000 : 2000;
    const repeated = new Table({ k: makeVector(new BigInt64Array(rows).fill(7n)) });
    await withRuntime({ device: "auto", memory }, async (runtime) => {
        const made = (algorithm: JoinAlgorithm, experiment: ExperimentOptions = {}): Query =>
            runtime.join({
                experiment,
                ...{
                    left: runtime.fromTable(repeated),
                    right: runtime.fromTable(keyed(10, 1, "r")),
                    on: "k",
                    algorithm
                },
                hints: { buildSide: "left" }
            });
        for (const algorithm of ["stream-probe", "npj-far"] as const) {
            const experiment = algorithm === "npj-far" ? {} : { streamProbe: "table" as const };
            const error = await failure(() => made(algorithm, experiment).count());
            expect(error).toMatchObject({ code: "UNSUPPORTED_TYPE", details: { reason: "deviceUnsupported" } });
            expect(String(error)).toMatch(/linear probing is not for/);
        }
        expect(await made("cpu-partitioned").count()).toBe(rows);
        expect(await made("stream-probe").count()).toBe(rows);
        expect(await made("stream-probe", { streamProbe: "partitioned" }).count()).toBe(rows);
    });
});

test("experiments change how joins run, and no row", async () => {
    const experiments = {
        staged: [{ residentShare: 0, radixBits: 3, chunkRows: 64 }, { residentShare: 1 }],
        triton: [{ interleave: { device: 1, far: 1 }, chunkRows: 512, radixBits: 2, secondRadixBits: 4 }],
        "triton-uncached": [
            { partitioner: "linear", partitionBlocks: 3, gatherBlocks: 2, chunkRows: 512, radixBits: 1 }
        ],
        "stream-probe": [
            { chunkRows: 64 },
            { streamProbe: "partitioned", overlap: false },
            { streamProbe: "table", chunkRows: 64, overlap: false },
            { streamProbe: "sorted", overlap: false }
        ],
        "npj-far": [{ interleave: { device: 0, far: 1 }, chunkRows: 128 }],
        "cpu-partitioned": [{ chunkRows: 64, radixBits: 5 }, { overlap: false }, { residentShare: 0.5 }]
    } as const;
    const expected = await withRuntime({ device: "cpu" }, async (cpu) =>
        rowTexts(cellTable(await joined(cpu, {}).toTable()))
    );
    await withRuntime({ device: "gpu", memory }, async (runtime) => {
        for (const algorithm of outOfCoreJoinAlgorithms) {
            for (const experiment of experiments[algorithm]) {
                const query = joined(runtime, { algorithm, experiment });
                const [stage] = (await query.explain()).plan.stages;
                const sizes = (stage as OutOfCoreStage).sizes as unknown as Record<string, unknown>;
                const { chunkRows, radixBits } = experiment as { chunkRows?: number; radixBits?: number };
                if (chunkRows !== undefined) expect(sizes["chunkRows"]).toBe(chunkRows);
                if (radixBits !== undefined) expect(sizes["radixBits"]).toBe(radixBits);
                expectSameRows(rowTexts(cellTable(await query.toTable())), expected, algorithm);
                expect(await query.count()).toBe(expected.length);
            }
        }
    });
});

describe("cpu-radix", () => {
    test.each([{ device: "cpu" }, { device: "auto" }, { device: "gpu", memory }] as RuntimeOptions[])(
        "partitions both sides on the CPU engine with %j",
        async (options) => {
            await withRuntime(options, async (runtime) => {
                const query = joined(runtime, { algorithm: "cpu-radix" });
                const { stages, sets } = (await query.explain()).plan;
                expect(stages.map(({ kind }) => kind)).toEqual(["partition", "partition", "join"]);
                expect(sets).toHaveLength(2);
                expect(await query.count()).toBe(await joined(runtime, {}).count());
                expect(query.report()?.device).toBe("cpu");
                if (options.device === "cpu") return;
                expect(query.report()?.deviceReason).toBe('"cpu-radix" was asked for, a join of the CPU engine');
            });
        }
    );

    test("does not stand in one query with an algorithm of a GPU", async () => {
        await withRuntime({ device: "auto", memory }, (runtime) => {
            const query = joined(runtime, { algorithm: "cpu-radix" });
            const group = { keys: ["k"], algorithm: "hgb" } as const;
            expect(() => query.groupBy(group as never)).toThrow(
                /"cpu-radix" runs on the CPU engine and "hgb" on a GPU/
            );
            return Promise.resolve();
        });
    });
});

test.each(["triton", "triton-uncached"] as const)(
    "%s leaves the operators beside it the GPU memory that the plan has for them",
    async (algorithm) => {
        const expected = await withRuntime({ device: "cpu" }, async (cpu) => await among(cpu, {}).count());
        for (const device of ["88MiB", "96MiB", "112MiB", "144MiB", "192MiB"]) {
            await withRuntime({ device: "gpu", memory: { ...memory, device } }, async (runtime) => {
                for (const chunkRows of [64, 128, 1024, 16384]) {
                    const query = among(runtime, { algorithm, experiment: { chunkRows } });
                    const plan = await failure(async () => await query.explain({ result: "count" }));
                    // A real GPU may need more than that, and says so before it begins.
                    if (usesRealGpu && plan instanceof SpillwayError) continue;
                    expect(await query.count(), `${device}, ${chunkRows} rows`).toBe(expected);
                }
            });
        }
    }
);

test("the command line takes names and experiments", async () => {
    using sandbox = new Sandbox();
    const files = [sandbox.write(left), sandbox.write(right)];
    const words = ["join", ...files, "--on", "k", "--count", "--device-memory", "128MiB", "--memory", "512MiB"];
    const run = async (...more: string[]) => await command([...words, ...more]);
    const expected = (await run("--device", "cpu")).stdout;
    const triton = await run(
        "--algorithm",
        "triton",
        "--experiment",
        "interleave=1:3,radixBits=2",
        "--experiment",
        "chunkRows=64"
    );
    expect([triton.code, triton.stdout]).toEqual([0, expected]);
    expect(triton.stderr).toMatch(/^ {2}count: triton \(user\), .* on the GPU; link /m);
    const probe = await run("--algorithm", "stream-probe", "--experiment", "streamProbe=partitioned,overlap=false");
    expect([probe.code, probe.stdout]).toEqual([0, expected]);
    expect((await run("--algorithm", "cpu-radix", "--experiment", "radixBits=3")).stdout).toBe(expected);
    for (const [experiment, message] of [
        ["interleave=1", /needs pages of GPU and of host memory, such as 1:3/],
        ["interleaves=1:3", /needs NAME=VALUE with one of partitioner, interleave/],
        ["radixBits=2,radixBits=3", /names radixBits twice/],
        ["residentShare=2", /needs a number from 0 to 1/],
        ["radixBits=15", /experiment\.radixBits/],
        ["partitioner=best", /experiment\.partitioner/],
        ["streamProbe=hash", /experiment\.streamProbe/],
        ["overlap=no", /needs true or false, not "no"/]
    ] as const) {
        const refused = await run("--experiment", experiment);
        expect([experiment, refused.code === 0]).toEqual([experiment, false]);
        expect(refused.stderr).toMatch(message);
    }
});
