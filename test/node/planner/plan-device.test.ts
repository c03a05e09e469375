// SPDX-License-Identifier: Apache-2.0
// Plans for a GPU from relations and samples: which algorithm, and what explain says of it.
import { Int32, Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { loadProfile } from "../../../src/machine/profile.js";
import { algorithmTitles, deviceGroupAlgorithms, deviceJoinAlgorithms } from "../../../src/model/algorithms.js";
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
/** Nothing is faster than an array over keys. */
const free = { factor: 1e-9, fixed_ms: 0 };
const arraysWin = { ...loadProfile(), deviceAlgorithms: { "npj-perfect": { match: free, materialize: free } } };
const joinStage = (plan: Plan): DeviceJoinStage =>
    plan.stages.find((stage): stage is DeviceJoinStage => stage.kind === "deviceJoin")!;
const predictedOf = ({ choice }: DeviceJoinStage | DeviceGroupStage, name: string): number =>
    choice.candidates.find(({ algorithm }) => algorithm === name)?.predictedMs ?? NaN;
const groupStage = (plan: Plan): DeviceGroupStage =>
    plan.stages.find((stage): stage is DeviceGroupStage => stage.kind === "deviceGroup")!;

describe("a join", () => {
    test("of two large relations is partitioned, and explain says why", () => {
        const plan = planOf(join(wide, orders, { on: "k" }), [{}, {}]);
        const stage = joinStage(plan);
        const { algorithm } = stage.choice;
        expect(stage.spec.algorithm).toBe(algorithm);
        expect(stage.algorithm).toBe(
            `${algorithm}, ${algorithmTitles[algorithm]} on the GPU, inner (chosen by the planner)`
        );
        expect(algorithm).toMatch(/^phj/);
        // All but the array over keys, of which these samples of 16,384 rows would hardly show repetitions, and what is
        // taken by name alone.
        const names = deviceJoinAlgorithms.filter((name) => name !== "npj-perfect" && name !== "phj-gftr");
        expect(stage.choice.candidates.map((one) => one.algorithm).sort()).toEqual([...names].sort());
        expect(predictedOf(stage, "npj")).toBeGreaterThan(predictedOf(stage, "phj-tr"));
        expect(stage.predictedMs).toBeGreaterThan(stage.choice.candidates[0]!.predictedMs);
        expect(JSON.parse(JSON.stringify(plan))).toEqual(plan);
        const text = planText(plan);
        expect(text).toMatch(/phj-[a-z]+: transform [\d.]+ ms, match [\d.]+ ms/);
        expect(text).toMatch(/because: a hash table of 2 GiB leaves the GPU's cache, 4 payload columns.* 100 % of/);
        expect(text).toMatch(/[a-z-]+ would take [\d.]+ ms/);
    });

    test("may go unpartitioned, unless keys repeat, whatever becomes of rows without a partner", () => {
        const candidates = (root: LogicalNode, more = {}, query: Partial<PlanQuery> = {}): string[] =>
            joinStage(planOf(root, [more, {}], query)).choice.candidates.map(({ algorithm }) => algorithm);
        const inner = join(nation, orders, { on: "k" });
        expect(candidates(inner)).toContain("npj");
        expect(candidates(inner, { sampledDistinct: 8000 })).not.toContain("npj");
        expect(candidates(inner, {}, { plainDevice: true })).toEqual(["phj-tr"]);
        expect(candidates(join(nation, orders, { on: "k", type: "full" }))).toContain("npj");
        expect(candidates(join(nation, orders, { on: "k", type: "semi" }))).toContain("npj");
        // A table of 16 MiB stays in the cache; one of 2 GiB does not.
        const small = joinStage(planOf(join(nation, orders, { on: "k" }), [{}, {}]));
        const large = joinStage(planOf(join(wide, orders, { on: "k" }), [{}, {}]));
        const share = (stage: DeviceJoinStage): number => predictedOf(stage, "npj") / predictedOf(stage, "phj-ur");
        expect(share(large)).toBeGreaterThan(1.5 * share(small));
    });

    describe("with an array over keys", () => {
        const inner = join(nation, orders, { on: "k" });
        const stageOf = (more: Partial<KeyStatistics>, root: LogicalNode = inner, query: Partial<PlanQuery> = {}) =>
            joinStage(planOf(root, [more, {}], query));
        const has = (...request: Parameters<typeof stageOf>): boolean =>
            stageOf(...request).choice.candidates.some(({ algorithm }) => algorithm === "npj-perfect");
        const last = (max: number): Partial<KeyStatistics> => ({ max: BigInt(max - 1) });

        test("of small sides is chosen, its range left for the GPU to find", () => {
            const plan = planOf(join(nation, orders, { on: "k", select: ["k"] }), [{}, {}], { profile: arraysWin });
            const stage = joinStage(plan);
            expect(stage).toMatchObject({ chosenBy: "planner", choice: { algorithm: "npj-perfect" } });
            expect(stage.spec).toMatchObject({ algorithm: "npj-perfect", firstKey: "0x0", keyRange: 0 });
            expect(stage.choice.reason).toMatch(/an array over their range takes 3\.81 MiB/);
            expect(planText(plan)).toMatch(/because: build keys come once each, as far as is known/);
        });

        test("takes unique keys in a dense range", () => {
            expect(has({})).toBe(true);
            expect(has({ min: -500_000n, max: 499_999n })).toBe(true);
            expect(has(last(7 * million))).toBe(true);
            // Half of what the GPU takes, as a sample misses the ends of the range.
            expect(has(last(9 * million))).toBe(false);
            expect(has({ min: null, max: null })).toBe(false);
            expect(has({ sampledRows: 900, sampledDistinct: 900, rows: 900, ...last(20_000) })).toBe(true);
        });

        test("takes no keys of which one came twice, and none that must repeat", () => {
            expect(has({ sampledDistinct: 16_383 })).toBe(false);
            // ... which is no repetition to speak of for a hash table.
            const { candidates } = stageOf({ sampledDistinct: 16_383 }).choice;
            expect(candidates.map(({ algorithm }) => algorithm)).toContain("npj");
            // A million keys of half as many values; the ends of a range that a sample missed are fewer.
            expect(has(last(million / 2))).toBe(false);
            expect(has(last(0.98 * million))).toBe(true);
            expect(has({ ...last(million / 2), nulls: 16_384 })).toBe(true);
        });

        test("takes keys only if their sample could have shown repetitions", () => {
            // 16,384 keys of 8 million values: 17 pairs. 4,000: one.
            expect(has({ sampledRows: 4000, sampledDistinct: 4000, ...last(7 * million) })).toBe(false);
            const seen = { sampledRows: 40_000, sampledDistinct: 40_000 };
            const large = join(wide, orders, { on: "k" });
            expect([has(seen, large), has({}, large)]).toEqual([true, false]);
        });

        test("is for joins of all types, not for keys that no array has or that the GPU has refused before", () => {
            expect(has({ notDense: true })).toBe(false);
            expect(has({}, inner, { plainDevice: true })).toBe(false);
            expect(has({}, join(nation, orders, { on: "k", nullEquality: true }))).toBe(false);
            expect(has({}, join(nation, orders, { on: "k", type: "left" }))).toBe(true);
            expect(has({}, join(nation, orders, { on: ["k", "a"] }))).toBe(false);
        });

        test("takes groups by their key, and no others", () => {
            const groups = group(wide, { keys: ["k"], aggregates: { a: { max: "a" } } });
            const few = { sampledRows: 65_536, sampledDistinct: 60_000, ...last(million) };
            const of = (on: string): boolean => has(few, join(groups, orders, { on, hints: { buildSide: "left" } }));
            expect([of("k"), of("a")]).toEqual([true, false]);
        });
    });

    test("by the user's algorithm is by that one, whatever it is predicted to take", () => {
        for (const type of ["inner", "left", "full", "anti"] as const) {
            for (const algorithm of deviceJoinAlgorithms) {
                const stage = joinStage(planOf(join(wide, orders, { on: "k", type, algorithm }), [{}, {}]));
                expect(stage).toMatchObject({ chosenBy: "user", spec: { algorithm }, choice: { algorithm } });
                expect(stage.choice.candidates).toHaveLength(1);
                expect(stage.algorithm).toContain(`${type} (chosen by the user)`);
            }
        }
    });

    test("in pieces is planned by the algorithm that makes them, and says whom it replaces", () => {
        const planned = (algorithm?: "smj-ur"): DeviceJoinStage =>
            joinStage(planOf(join(wide, orders, { on: "k", ...(algorithm && { algorithm }) }), [{}, {}], { debug }));
        const debug = { pieceRows: million };
        const [plain, named] = [planned(), planned("smj-ur")];
        expect(plain).toMatchObject({ spec: { algorithm: "phj-tr" }, choice: { algorithm: "phj-tr" } });
        expect(plain.algorithm).toMatch(/^phj-tr, .* \(chosen by the planner\), in pieces$/);
        expect(named).toMatchObject({ spec: { algorithm: "smj-ur" }, choice: { algorithm: "phj-tr" } });
        expect(named.algorithm).toMatch(/^smj-ur, .* \(chosen by the user\), in pieces by phj-tr$/);
        expect(named.predictedMs).toBe(plain.predictedMs);
    });

    test("sorts by the bits that the keys of both sides differ in", () => {
        const sortMs = (left: Partial<KeyStatistics>, right: Partial<KeyStatistics> = left): number => {
            const root = join(wide, orders, { on: "k", algorithm: "smj-ur" });
            return joinStage(planOf(root, [left, right])).choice.predictedMs.transformMs;
        };
        const range = (min: number, max: number): Partial<KeyStatistics> => ({ min: BigInt(min), max: BigInt(max) });
        const [near, far] = [range(0, 2 ** 24 - 1), range(0, 2 ** 31 - 1)];
        const high = range(2 ** 30, 2 ** 30 + 2 ** 24 - 1);
        expect(sortMs(near)).toBeLessThan(0.8 * sortMs(far));
        expect(sortMs(high)).toBe(sortMs(near));
        expect(sortMs(near, high)).toBe(sortMs(far));
        // The sign is a bit too, and keys of unknown range have all of them.
        expect(sortMs(range(-(2 ** 24), 2 ** 24))).toBe(sortMs(far));
        expect(sortMs(near, { min: null, max: null })).toBe(sortMs(far));
    });

    test("of keys with few partners is known by the ranges of both sides' keys", () => {
        const root = join(wide, orders, { on: "k" });
        const pairs = (...samples: Partial<KeyStatistics>[]): string => joinStage(planOf(root, samples)).choice.reason;
        expect(pairs({}, { max: BigInt(400 * million) })).toMatch(/ 25 % of the probe rows match/);
        const apart = { min: BigInt(500 * million), max: BigInt(600 * million) };
        expect(pairs({}, apart)).toMatch(/ 0 % of the probe rows match/);
        // Sparse keys of both sides fill the same range: what a sample of both found tells, ten pairs where numbers of
        // keys let expect 171, which count for as many as four.
        const sparse = join(wide, orders, { on: "k" });
        const range = { min: 0n, max: 2n ** 62n };
        const shown = (defaultPolicy.pairSampleRows / (100 * million)) ** 2;
        const sampled = { pairs: 6.25 * million, pieces: Math.round(6.25 * million * shown), shown };
        const found = { pairs: { "1:0/integer/4": sampled } };
        expect(joinStage(planOf(sparse, [{ ...range, ...found }, range])).choice.reason).toMatch(
            / 8\.3 % of the probe/
        );
        const half = join(wide, orders, { on: "k", hints: { resultRows: 50 * million } });
        expect(joinStage(planOf(half, [{}, {}])).choice.reason).toMatch(/ 50 % of the probe rows match/);
    });
});

test("a result without columns is not for the GPU, neither of tables nor out of core", () => {
    for (const debug of [{}, { outOfCore: true }]) {
        for (const [type, on] of [
            ["inner", "k"],
            ["full", { k: "a" }]
        ] as const) {
            const query = planQueryOf(join(wide, orders, { on, type, select: [] }), { debug });
            const made = planOnDevice(query, planQuery(query), 2 ** 30);
            expect(made).toBeInstanceOf(NotOnDevice);
            expect((made as NotOnDevice).reason).toMatch(/without columns/);
        }
    }
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
        expect(few.algorithm).toBe("hgb, hash group-by on the GPU (chosen by the planner)");
        expect(few.spec.algorithm).toBe("hgb");
        expect(few.choice.reason).toMatch(/about 1,000 groups, their states fit the shared memory/);
        const many = grouped({});
        const { algorithm, candidates } = many.choice;
        expect(many.spec.algorithm).toBe(algorithm);
        expect(many.algorithm).toContain(`${algorithm}, ${algorithmTitles[algorithm]} on the GPU`);
        // Tables in shared memory would give way to partitions, the one in GPU memory is for those who name it, and
        // sorted rows of as many groups overflow their tables.
        const able = deviceGroupAlgorithms.filter((name) => !name.startsWith("hgb") && name !== "sgb-ur");
        expect(candidates.map((one) => one.algorithm).sort()).toEqual([...able].sort());
    });

    test("knows the widths of what it aggregates", () => {
        const keys = inputNode({ k: new Int64(), a: new Int64(), b: new Int64() }, { rows: 100 * million });
        const sums = { aggregates: { x: { sum: "a" }, y: { sum: "b" }, n: { count: "*" } } };
        const stage = groupStage(planOf(group(keys, { keys: ["k"], ...sums }), [{ sampledDistinct: 4096 }]));
        const fewer = grouped({ sampledDistinct: 4096 });
        expect(stage.choice.candidates[0]!.predictedMs).toBeGreaterThan(fewer.choice.candidates[0]!.predictedMs * 2);
    });
});
