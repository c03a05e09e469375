// SPDX-License-Identifier: Apache-2.0
// A machine whose GPU reads and writes memory of the host through the host's page tables, as POWER9 and Grace have it:
// the fake plugin says so, and joins that nobody named are made by kernels alone, in memory that is not pinned there
// (test/gpu/tier_plain_memory_test.cu), whatever their type, columns and sink.
import { Int32, Int64, makeVector, Table, Utf8, vectorFromArray } from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { cellTable } from "../../support/cells.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { Random } from "../../support/random.js";
import { knobs } from "../../support/knobs.js";
import { joinTypes } from "../../support/reference.js";
import { resultRows } from "../../support/result-rows.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

const memory = { host: "512MiB", device: "96MiB" };

function table(seed: number, rows: number, suffix: string): Table {
    const random = new Random(seed);
    const keys = Array.from({ length: rows }, () => (random.chance(0.1) ? null : random.below(400)));
    const values = Array.from({ length: rows }, () => random.below(1000));
    return new Table({
        k: vectorFromArray(keys, new Int32()),
        text: vectorFromArray(
            keys.map((key) => (key === null ? null : `key ${key}`)),
            new Utf8()
        ),
        [`long_${suffix}`]: makeVector(BigInt64Array.from(values, BigInt)),
        [`maybe_${suffix}`]: vectorFromArray(
            values.map((value) => (value % 5 === 0 ? null : BigInt(value))),
            new Int64()
        ),
        [`text_${suffix}`]: vectorFromArray(
            values.map((value) => "x".repeat(value % 40)),
            new Utf8()
        )
    });
}

const tables = [table(1, 700, "l"), table(2, 900, "r")];

describe.skipIf(usesRealGpu)("where the GPU uses the host's page tables", () => {
    let cpu: Runtime;
    let gpu: Runtime;
    beforeAll(async () => {
        process.env["SPILLWAY_FAKE_GPU"] = "host-page-tables";
        cpu = await openRuntime({ device: "cpu", threads: 2, memory });
        gpu = await openRuntime({ device: "gpu", threads: 2, memory, ...knobs({ outOfCore: true, radixBits: 3 }) });
    });
    afterAll(async () => {
        for (const runtime of [cpu, gpu]) await runtime.close();
        delete process.env["SPILLWAY_FAKE_GPU"];
    });

    const joined = (runtime: Runtime, options: object): Query => {
        const [left, right] = tables.map((given) => runtime.fromTable(given));
        return runtime.join({ left: left!, right: right!, on: "k", ...options });
    };

    for (const type of joinTypes) {
        test(`${type} joins take the path without copy engines and have the rows of the CPU engine`, async () => {
            using sandbox = new Sandbox();
            const once = type === "semi" || type === "anti";
            for (const on of ["k", "text"]) {
                const select = [on, "long_l", "text_l", ...(once ? [] : ["maybe_r", "text_r"])];
                const expected = rowTexts(cellTable(await joined(cpu, { on, type, select }).toTable()));
                const query = joined(gpu, { on, type, select });
                const explained = await query.explain();
                const stage = explained.plan.stages[0] as OutOfCoreStage;
                expect(stage).toMatchObject({
                    joinAlgorithm: "triton",
                    chosenBy: "planner",
                    path: { runs: "coherent" }
                });
                expect(String(explained)).toContain("path: coherent (kernels of this GPU use the host's page tables)");
                // Copy engines bring results out and nothing else, and no row waits for a disk.
                expect(stage.work.streams).toEqual(["kernels", "gathering", "results out"]);
                expect(stage.sizes.diskBlocks).toBe(0);
                expectSameRows(await resultRows(new Random(7), query, sandbox), expected, type);
                expect(query.report()?.stages[0]?.device?.outOfCore?.path).toBe("coherent");
                expect(await query.count(), type).toBe(expected.length);
                expect(gpu.memory().host.usedBytes).toBe(0);
            }
        });
    }

    test("a join that was named is made as it was named", async () => {
        const query = joined(gpu, { algorithm: "staged", select: ["k"] });
        const stage = (await query.explain()).plan.stages[0] as OutOfCoreStage;
        expect(stage.path).toMatchObject({ wanted: "staged", runs: "staged" });
        expect(await query.count()).toBe(await joined(cpu, { select: ["k"] }).count());
    });
});
