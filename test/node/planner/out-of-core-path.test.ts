// SPDX-License-Identifier: Apache-2.0
// Whether rows of a join out of core go by copy engines or by kernels, why, and what explain says of it.
import { Int32, Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { JoinAlgorithm } from "../../../src/model/algorithms.js";
import type { Knobs } from "../../../src/model/debug-knobs.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

const gibibyte = 2 ** 30;

interface Case extends Partial<Pick<PlanQuery, "coherentDevice" | "multiprocessors" | "budgetBytes" | "sink">> {
    debug?: Knobs;
    algorithm?: JoinAlgorithm;
    options?: object;
    limitBytes?: number;
    rows?: number;
    key?: Int32 | Int64;
}

function planOf({ options = {}, limitBytes = 4 * gibibyte, rows = 2 ** 28, key = new Int64(), ...given }: Case) {
    const { algorithm = "auto", ...more } = given;
    const [left, right] = ["l", "r"].map((name) =>
        inputNode({ k: key, [`v_${name}`]: key, [`w_${name}`]: key }, { rows, name })
    );
    const root = join(left!, right!, { on: "k", select: ["k", "v_l"], algorithm, ...options });
    const query = planQueryOf(root, { budgetBytes: 64 * gibibyte, threads: 16, ...more });
    const plan = planOutOfCore(query, planQuery(query), limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    const stage = plan.stages[0] as OutOfCoreStage;
    return { stage, path: stage.path, text: planText(plan) };
}

describe("the machine decides", () => {
    test.each([undefined, false])("copy engines where kernels have no coherent link to the host: %s", (coherent) => {
        const { path, text, stage } = planOf(coherent === undefined ? {} : { coherentDevice: coherent });
        expect([path.wanted, path.runs]).toEqual(["staged", "staged"]);
        expect(stage.coherent).toBeNull();
        expect(text).toContain("path: staged (PCIe: copy engines");
        expect(stage.work).toEqual({
            ...{ histogram: "none", streams: ["chunks in", "kernels", "spilled rows and results out"] },
            ...{ secondPass: "sort", secondPassBits: 8, multiprocessors: null, turns: null }
        });
        expect(text).toMatch(/3 streams \(chunks in, kernels, spilled rows and results out\), 3 chunk slots$/m);
    });

    test("kernels where the GPU uses the host's page tables", () => {
        const { path, text, stage } = planOf({ coherentDevice: true });
        expect([path.wanted, path.runs]).toEqual(["coherent", "coherent"]);
        expect(stage.coherent).toMatchObject({ partitioner: "auto", partitionBlocks: 0, gatherBlocks: 0 });
        expect(text).toContain("path: coherent (kernels of this GPU use the host's page tables)");
        expect(text).toContain("partitioned by kernels in GPU and host memory (build side: ");
        expect(text).toContain("second pass: 2^8 parts of each, sorted in shared memory; no histogram (partitions are");
        expect(text).toMatch(/3 streams \(kernels, gathering, results out\), 1 chunk slot$/m);
        expect(text).toMatch(/2\^8 partitions, in [\d,]+ pages of GPU and host memory in turns, \d+ to \d+ \(as many/);
        expect(text).toMatch(/\(as many of GPU memory as fit\), partitioner auto, chunks of/);
        expect(text).toMatch(/build side partitioned in .*, probe side in .*, join /);
        expect(text).toContain("no Bloom filter: kernels that partition host memory have none");
    });
});

describe("a name decides before the machine", () => {
    test("either path on either machine", () => {
        const byKernels = planOf({ algorithm: "triton" });
        expect(byKernels.path).toEqual({ wanted: "coherent", runs: "coherent", reason: 'that of "triton"' });
        expect(byKernels.stage).toMatchObject({ joinAlgorithm: "triton", chosenBy: "user" });
        expect(byKernels.text).toMatch(/join: triton, out of core on the GPU: .*, chosen by the user\)/);
        const byCopies = planOf({ coherentDevice: true, algorithm: "staged" });
        expect(byCopies.path).toEqual({ wanted: "staged", runs: "staged", reason: 'that of "staged"' });
        expect(planOf({ coherentDevice: true }).stage).toMatchObject({ joinAlgorithm: "triton", chosenBy: "planner" });
        expect(planOf({}).stage).toMatchObject({ joinAlgorithm: "staged", chosenBy: "planner" });
    });

    test("and how many blocks of which kernels take it", () => {
        const algorithm = "triton";
        const debug = { partitioner: "linear", partitionBlocks: 66, gatherBlocks: 20 } as const;
        const { stage, text } = planOf({ debug, algorithm });
        expect(stage.coherent).toMatchObject({ partitioner: "linear", partitionBlocks: 66, gatherBlocks: 20 });
        expect(text).toContain("partitioner linear");
        expect(planOf({ debug, algorithm: "staged" }).stage.coherent).toBeNull();
        const known = planOf({ debug, algorithm, multiprocessors: 132 });
        expect(known.stage.work.multiprocessors).toEqual({ firstPass: 66, fetch: 20, join: 112 });
        expect(known.text).toContain("1 chunk slot, 66 multiprocessors partition, then 20 gather while 112 join");
        const more = { ...debug, partitionBlocks: 500, gatherBlocks: 132 };
        const all = planOf({ debug: more, algorithm, multiprocessors: 132 }).stage.work.multiprocessors;
        expect(all).toEqual({ firstPass: 132, fetch: 132, join: 132 });
    });

    test("or the GPU's own share of them: a quarter gathers", () => {
        const { stage } = planOf({ algorithm: "triton", multiprocessors: 132 });
        expect(stage.work.multiprocessors).toEqual({ firstPass: 132, fetch: 33, join: 99 });
    });

    test("and half of them have a second pass", () => {
        const { stage, text } = planOf({ algorithm: "triton", multiprocessors: 132, sink: "count" });
        expect(stage.work).toEqual({
            ...{ histogram: "none", streams: ["kernels", "second pass"], secondPass: "hashTables", secondPassBits: 8 },
            multiprocessors: { firstPass: 132, fetch: 66, join: 66 },
            turns: expect.objectContaining({ reason: "capacity" }) as object
        });
        expect(text).toContain("132 multiprocessors partition, then 66 partition once more while 66 join");
        expect(text).toContain("second pass: 2^8 parts of each, joined by hash tables in shared memory; no histogram");
    });

    test("a filter that was asked for is not there, and its line says so", () => {
        const { stage } = planOf({ algorithm: "triton", debug: { filter: true } });
        expect(stage.sizes.filterWords).toBe(0);
        expect(stage.filter).toMatchObject({ bytes: 0, reason: expect.stringMatching(/^asked for, but kernels/) });
    });
});

test.each(["left", "right", "full", "semi", "anti"])("%s joins take it, by an index of build rows", (type) => {
    for (const sink of ["batches", "count"] as const) {
        const given = { options: { type, select: undefined }, sink, multiprocessors: 132 };
        const { stage } = planOf({ algorithm: "triton", ...given });
        expect(stage.path.runs).toBe("coherent");
        expect(stage.work).toMatchObject({ secondPass: "sort", multiprocessors: { fetch: 33, join: 99 } });
        expect(planOf({ coherentDevice: true, ...given }).path.runs).toBe("coherent");
    }
});

describe("joins that kernels alone cannot make are refused, or staged where nobody named one", () => {
    const refusals: Record<string, [Case, RegExp]> = {
        "little GPU memory": [
            { limitBytes: 40 * 2 ** 20, rows: 1000 },
            /it takes \d+(\.\d)? MiB of GPU memory at least/
        ],
        "little host memory": [
            { budgetBytes: 6 * gibibyte },
            /pages that do not fit GPU memory need about [\d.]+ GiB of host memory, [\d.]+ GiB are left of the budget/
        ],
        "little host memory by the knob": [{ debug: { hostSpillBytes: 1000 } }, /1000 B are left of the budget/],
        "row numbers wider than keys": [
            {
                ...{ rows: 2 ** 32, key: new Int32(), budgetBytes: 2 ** 40 },
                options: { select: ["k", "v_l", "w_l"] }
            },
            /numbers of 4294967296 rows do not fit the 4 bytes beside a key/
        ]
    };
    test.each(Object.entries(refusals))("%s", (_, [given, why]) => {
        for (const algorithm of ["triton", "triton-uncached"] as const) {
            expect(() => planOf({ algorithm, ...given })).toThrow(why);
        }
        const { path, stage, text } = planOf({ coherentDevice: true, ...given });
        expect([path.wanted, path.runs]).toEqual(["coherent", "staged"]);
        expect(path.reason).toMatch(/^kernels of this GPU use the host's page tables, but this join cannot take it: /);
        expect(path.reason).toMatch(why);
        expect(stage.coherent).toBeNull();
        expect(text).toContain("path: staged (kernels of this GPU use the host's page tables, but");
    });
});
