// SPDX-License-Identifier: Apache-2.0
// Plans for a GPU from relations and samples: which algorithm, and what explain says of it.
import { Int32, Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { DeviceGroupStage, DeviceJoinStage } from "../../../src/plan/device-stages.js";
import { inputsOf, type LogicalNode } from "../../../src/plan/logical.js";
import { planText } from "../../../src/plan/plan-text.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOnDevice } from "../../../src/planner/plan-device.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { sharedRange, wantedStatistics, type KeyStatistics } from "../../../src/planner/statistics.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const million = 1_000_000;
const columns = { k: new Int32(), a: new Int32(), b: new Int32() };
const wide = inputNode(columns, { rows: 100 * million, name: "wide" });
const orders = inputNode(columns, { rows: 100 * million, name: "orders" });
const nation = inputNode(columns, { rows: million, name: "nation" });

/** A sample of an input's keys: all different unless said otherwise. */
function sampleOf(rows: number, more: Partial<KeyStatistics> = {}): KeyStatistics {
    const sampledRows = Math.min(rows, 16_384);
    const range = { min: 0n, max: BigInt(rows - 1) };
    return { rows, nulls: 0, ...range, sampledRows, sampledDistinct: sampledRows, heaviestShare: 1 / rows, ...more };
}

/** A plan for the GPU, with a sample for each input in the order of the query. */
function planOf(root: LogicalNode, samples: readonly Partial<KeyStatistics>[], more: Partial<PlanQuery> = {}): Plan {
    const wanted = wantedStatistics(root, defaultPolicy);
    const statistics = new Map(
        wanted.map(({ id, input }) => [id, sampleOf(input.rows, samples[inputsOf(root).indexOf(input)])])
    );
    const query = planQueryOf(root, { statistics, ...more });
    const made = planOnDevice(query, planQuery(query), 2 ** 37);
    if (made instanceof NotOnDevice) throw made;
    return made.plan;
}
const joinStage = (plan: Plan): DeviceJoinStage =>
    plan.stages.find((stage): stage is DeviceJoinStage => stage.kind === "deviceJoin")!;
const groupStage = (plan: Plan): DeviceGroupStage =>
    plan.stages.find((stage): stage is DeviceGroupStage => stage.kind === "deviceGroup")!;

describe("a join", () => {
    test("of two large relations is partitioned, and explain says why", () => {
        const plan = planOf(join(wide, orders, { on: "k" }), [{}, {}]);
        const stage = joinStage(plan);
        expect(stage).toMatchObject({ algorithm: "radix hash join on the GPU, inner", spec: { algorithm: "phj-tr" } });
        expect(stage.choice.candidates.map(({ algorithm }) => algorithm)).toEqual(["phj-tr", "npj"]);
        expect(stage.predictedMs).toBeGreaterThan(stage.choice.candidates[0]!.predictedMs);
        expect(JSON.parse(JSON.stringify(plan))).toEqual(plan);
        const text = planText(plan);
        expect(text).toMatch(/phj-tr: transform [\d.]+ ms, match [\d.]+ ms/);
        expect(text).toMatch(/because: a hash table of 2 GiB leaves the GPU's cache, 4 payload columns.* 100 % of/);
        expect(text).toMatch(/npj would take \d+ ms/);
    });

    test("with a small side is not, unless its keys repeat or rows without a partner come out", () => {
        const algorithm = (root: LogicalNode, more = {}, query: Partial<PlanQuery> = {}): string =>
            joinStage(planOf(root, [more, {}], query)).spec.algorithm;
        const inner = join(nation, orders, { on: "k" });
        expect(algorithm(inner)).toBe("noPartitioning");
        expect(algorithm(inner, { sampledDistinct: 8000 })).toBe("radix");
        expect(algorithm(inner, {}, { plainDevice: true })).toBe("radix");
        expect(algorithm(join(nation, orders, { on: "k", type: "full" }))).toBe("radix");
        expect(algorithm(join(nation, orders, { on: "k", type: "semi" }))).toBe("radix");
    });

    test("of keys with few partners is known by the ranges of both sides' keys", () => {
        const root = join(wide, orders, { on: "k" });
        const pairs = (...samples: Partial<KeyStatistics>[]): string => joinStage(planOf(root, samples)).choice.reason;
        expect(pairs({}, { max: BigInt(400 * million) })).toMatch(/ 25 % of the probe rows match/);
        const apart = { min: BigInt(500 * million), max: BigInt(600 * million) };
        expect(pairs({}, apart)).toMatch(/ 0 % of the probe rows match/);
        // Sparse keys of both sides fill the same range: what a sample of both found is all that tells.
        const sparse = join(wide, orders, { on: "k" });
        const range = { min: 0n, max: 2n ** 62n };
        const found = { pairs: { "1:0/integer/4": 6.25 * million } };
        expect(joinStage(planOf(sparse, [{ ...range, ...found }, range])).choice.reason).toMatch(
            / 6\.3 % of the probe/
        );
        const half = join(wide, orders, { on: "k", hints: { resultRows: 50 * million } });
        expect(joinStage(planOf(half, [{}, {}])).choice.reason).toMatch(/ 50 % of the probe rows match/);
    });
});

test("ranges of keys share what lies in both", () => {
    const of = (min: bigint, max: bigint): KeyStatistics => sampleOf(1000, { min, max });
    expect(sharedRange(of(0n, 99n), of(0n, 24n))).toBe(0.25);
    expect(sharedRange(of(0n, 24n), of(0n, 99n))).toBe(1);
    expect(sharedRange(of(0n, 9n), of(10n, 19n))).toBe(0);
    // A sample misses a little of both ends.
    expect(sharedRange(of(0n, 999n), of(5n, 994n))).toBe(1);
    expect(sharedRange(of(0n, 9n), sampleOf(10, { min: null, max: null }))).toBe(1);
});

describe("a group-by", () => {
    const grouped = (samples: Partial<KeyStatistics>, aggregates: object = { most: { max: "a" } }): DeviceGroupStage =>
        groupStage(planOf(group(wide, { keys: ["k"], aggregates }), [samples]));

    test("hashes few groups and partitions many", () => {
        const few = grouped({ sampledRows: 65_536, sampledDistinct: 1000 });
        expect(few).toMatchObject({ algorithm: "hash group-by on the GPU", spec: { algorithm: "hash" } });
        expect(few.choice.reason).toMatch(/about 1,000 groups, their states fit the shared memory/);
        const many = grouped({});
        expect(many).toMatchObject({
            algorithm: "partitioned group-by on the GPU",
            spec: { algorithm: "partitioned" }
        });
        expect(many.choice.candidates).toHaveLength(3);
    });

    test("knows the widths of what it aggregates", () => {
        const keys = inputNode({ k: new Int64(), a: new Int64(), b: new Int64() }, { rows: 100 * million });
        const sums = { aggregates: { x: { sum: "a" }, y: { sum: "b" }, n: { count: "*" } } };
        const stage = groupStage(planOf(group(keys, { keys: ["k"], ...sums }), [{ sampledDistinct: 4096 }]));
        const fewer = grouped({ sampledDistinct: 4096 });
        expect(stage.choice.candidates[0]!.predictedMs).toBeGreaterThan(fewer.choice.candidates[0]!.predictedMs * 2);
    });
});
