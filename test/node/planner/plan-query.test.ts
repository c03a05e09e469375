// SPDX-License-Identifier: Apache-2.0
import { Dictionary, Float64, Int32, Int64, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { JoinStage, Plan, PlanStage } from "../../../src/plan/plan.js";
import { Explanation } from "../../../src/plan/plan-text.js";
import { memoryNeeds, planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { parseBytes } from "../../../src/model/sizes.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";
import { forSeeds } from "../../support/random.js";

const mebibyte = 2 ** 20;
const numbers = { k: new Int64(), v: new Float64() };
const small = inputNode(numbers, { rows: 1000, name: "small" });
const large = inputNode(numbers, { rows: 10_000_000, name: "large" });
const larger = inputNode(numbers, { rows: 50_000_000, name: "larger" });

const planOf = (root: LogicalNode, more: Partial<PlanQuery> = {}): Plan => planQuery(planQueryOf(root, more));
const kinds = (plan: Plan): string[] => plan.stages.map((stage) => stage.kind);
const joinOf = (plan: Plan): JoinStage => plan.stages.find((stage): stage is JoinStage => stage.kind === "join")!;

/** Memory of a stage and of all sets that are alive while it runs. */
const stageBytes = (plan: Plan, stage: PlanStage): number =>
    stage.live.reduce(
        (sum, set) => sum + plan.sets[set]!.poolBytes,
        stage.memory.inputBytes + stage.memory.tableBytes + stage.memory.outputBytes
    );

describe("a plan", () => {
    test("is frozen data that JSON keeps", () => {
        const plan = planOf(join(large, larger, { on: "k" }));
        expect(JSON.parse(JSON.stringify(plan))).toEqual(plan);
        expect(Object.isFrozen(plan)).toBe(true);
        expect(Object.isFrozen(plan.stages[0])).toBe(true);
        expect(Object.isFrozen(plan.sets[0]!.spec.keys[0])).toBe(true);
    });

    test("reads well", () => {
        const text = String(new Explanation(planOf(join(large, larger, { on: "k" }), { budgetBytes: 128 * mebibyte })));
        expect(text).toMatch(/partition build: radix partitioning/);
        expect(text).toMatch(/from large/);
        expect(text).toMatch(/in memory, [\d.]+ MiB on disk/);
        expect(text).toMatch(/budget 128 MiB, 4 threads/);
        expect(text).toMatch(/predicted time/);
    });

    test("is the same for the same question", () => {
        const root = join(large, larger, { on: "k" });
        expect(planOf(root)).toEqual(planOf(root));
    });
});

describe("a join", () => {
    test("builds on the smaller side, whatever it is called", () => {
        for (const node of [join(large, larger, { on: "k" }), join(larger, large, { on: "k" })]) {
            const plan = planOf(node);
            expect(plan.inputs[(plan.stages[0] as { input: number }).input]!.name).toBe("large");
        }
        const asked = planOf(join(large, larger, { on: "k", hints: { buildSide: "right" } }));
        expect(asked.inputs[(asked.stages[0] as { input: number }).input]!.name).toBe("larger");
    });

    test("with a small build side streams the other past one table", () => {
        expect(kinds(planOf(join(small, large, { on: "k" })))).toEqual(["partition", "streamingJoin"]);
        expect(kinds(planOf(join(large, larger, { on: "k" })))).toEqual(["partition", "partition", "join"]);
        const stream = inputNode(numbers, { rows: 10_000_000, streamed: true });
        expect(kinds(planOf(join(small, stream, { on: "k" })))).toEqual(["partition", "partition", "join"]);
    });

    test("cuts the build side into partitions of the cache", () => {
        const plan = planOf(join(large, larger, { on: "k" }));
        const [build, probe] = [plan.sets[0]!, plan.sets[1]!];
        expect(build.spec.radixBits).toBe(probe.spec.radixBits);
        expect((build.estimatedRows * 56) / 2 ** build.spec.radixBits).toBeLessThan(mebibyte);
    });

    test.each([
        ["inner", "pairs", false, false],
        ["left", "pairs", true, false],
        ["right", "pairs", false, true],
        ["full", "pairs", true, true]
    ])("%s keeps the unmatched rows of the right sides", (type, emit, left, right) => {
        for (const buildSide of ["left", "right"] as const) {
            const { spec } = joinOf(planOf(join(large, larger, { on: "k", type, hints: { buildSide } })));
            const [build, probe] = buildSide === "left" ? [left, right] : [right, left];
            expect(spec).toMatchObject({ emit, keepUnmatchedBuild: build, keepUnmatchedProbe: probe });
        }
    });

    test("semi and anti emit left rows once, from either side", () => {
        for (const type of ["semi", "anti"]) {
            const emits = (["left", "right"] as const).map(
                (buildSide) => joinOf(planOf(join(large, larger, { on: "k", type, hints: { buildSide } }))).spec
            );
            expect(emits.map(({ emit }) => emit)).toEqual(["buildOnce", "probeOnce"]);
            expect(emits.map(({ anti }) => anti)).toEqual([type === "anti", type === "anti"]);
        }
    });

    test("keeps rows with NULL keys only where they come out", () => {
        const nullKeys = (options: object): string[] => {
            const plan = planOf(join(large, larger, { on: "k", hints: { buildSide: "left" }, ...options }));
            return plan.sets.map((set) => set.spec.nullKeys);
        };
        expect(nullKeys({})).toEqual(["drop", "drop"]);
        expect(nullKeys({ type: "left" })).toEqual(["keep", "drop"]);
        expect(nullKeys({ type: "right" })).toEqual(["drop", "keep"]);
        expect(nullKeys({ type: "full" })).toEqual(["keep", "keep"]);
        expect(nullKeys({ type: "semi" })).toEqual(["drop", "drop"]);
        expect(nullKeys({ type: "anti" })).toEqual(["keep", "drop"]);
        expect(nullKeys({ type: "left", nullEquality: true })).toEqual(["equal", "equal"]);
    });

    test("carries what is needed and nothing else", () => {
        const wide = inputNode(
            { k: new Int64(), a: new Utf8(), b: new Utf8(), c: new Float64() },
            { rows: 10_000_000 }
        );
        const carried = (options: object, sink: PlanQuery["sink"] = "batches"): number[] => {
            const plan = planOf(join(wide, larger, { on: "k", hints: { buildSide: "left" }, ...options }), { sink });
            return [...plan.sets[0]!.spec.carry];
        };
        expect(carried({ select: ["b"] })).toEqual([2]);
        expect(carried({ select: ["v", "k"] })).toEqual([0]);
        expect(carried({}, "count")).toEqual([]);
        expect(joinOf(planOf(join(wide, larger, { on: "k" }), { sink: "count" })).spec.outputs).toEqual([]);
    });
});

describe("chains", () => {
    const chain = join(
        join(large, larger, { on: "k" }),
        inputNode({ k: new Int64(), z: new Utf8() }, { rows: 30_000_000 }),
        {
            on: "k",
            select: ["z"]
        }
    );

    test("hand rows from stage to stage and carry what later stages need", () => {
        const plan = planOf(chain);
        expect(kinds(plan)).toEqual(["partition", "partition", "join", "partition", "join"]);
        const [first, second] = plan.stages.filter((stage): stage is JoinStage => stage.kind === "join");
        expect(first!.output).toEqual({ to: "set", set: expect.any(Number) as number });
        expect(second!.output).toEqual({ to: "sink" });
        const handed = plan.sets[(first!.output as { set: number }).set]!;
        expect(handed.spec.columns.map((column) => column.name)).toEqual(["k"]);
        expect(first!.spec.outputs).toHaveLength(1);
    });

    test("end in a group-by without a detour", () => {
        const plan = planOf(
            group(join(large, larger, { on: "k" }), { keys: ["v"], aggregates: { n: { count: "*" } } })
        );
        expect(kinds(plan)).toEqual(["partition", "partition", "join", "group"]);
        expect(plan.stages[2]).toMatchObject({ output: { to: "set" } });
    });
});

describe("a group-by", () => {
    const rows = inputNode({ k: new Int64(), v: new Float64(), t: new Utf8() }, { rows: 10_000_000 });
    const planGroup = (options: object, more: Partial<PlanQuery> = {}): Plan => planOf(group(rows, options), more);

    test("of few groups uses tables only, of many it partitions first", () => {
        expect(kinds(planGroup({ aggregates: { n: { count: "*" } } }))).toEqual(["hashGroup"]);
        expect(kinds(planGroup({ keys: ["k"], hints: { groups: 100 } }))).toEqual(["hashGroup"]);
        expect(kinds(planGroup({ keys: ["k"] }))).toEqual(["partition", "group"]);
        expect(kinds(planGroup({ keys: ["k"], hints: { groups: 9 } }, { tableFull: true }))).toEqual([
            "partition",
            "group"
        ]);
    });

    test("carries row numbers for `first` of one relation; a join has no order", () => {
        const first = { keys: ["k"], aggregates: { f: { first: "v" } } };
        const plan = planGroup(first);
        expect(plan.sets[0]!.spec.carry).toEqual([0, 1, -1]);
        expect(plan.stages.at(-1)).toMatchObject({
            spec: { rowNumberField: 2, aggregates: [{ kind: "first", field: 1 }] }
        });
        const joined = planOf(group(join(rows, large, { on: "k" }), first));
        expect(joined.stages.at(-1)).toMatchObject({ spec: { rowNumberField: -1, aggregates: [{ kind: "any" }] } });
    });
});

describe("budgets", () => {
    const text = inputNode(
        { k: new Int32(), t: new Utf8(), d: new Dictionary(new Utf8(), new Int32()) },
        { rows: 5_000_000, textBytes: 100 }
    );
    const queries: Record<string, LogicalNode> = {
        join: join(large, larger, { on: "k" }),
        streaming: join(small, larger, { on: "k" }),
        text: join(text, text, { on: "k", suffix: "_2" }),
        chain: join(join(large, larger, { on: "k" }), small, { on: "k", suffix: "_2" }),
        distinct: group(text, { aggregates: { n: { countDistinct: "t" } } }),
        group: group(large, { keys: ["k"], aggregates: { s: { sum: "v" }, f: { first: "v" } } }),
        joinGroup: group(join(large, larger, { on: "k" }), { keys: ["v"], aggregates: { n: { count: "*" } } })
    };

    test.each(Object.keys(queries))("of any size are kept by every stage: %s", async (name) => {
        const root = queries[name]!;
        for (const sink of ["count", "batches", "file", "table"] as const) {
            for (const threads of [1, 4, 32]) {
                const { minimumBytes } = memoryNeeds(planQueryOf(root, { sink, threads, budgetBytes: 2 ** 40 }));
                for (const budgetBytes of [
                    minimumBytes,
                    minimumBytes * 1.3,
                    minimumBytes * 5,
                    64 * mebibyte,
                    2 ** 33
                ]) {
                    if (budgetBytes < minimumBytes) continue;
                    const plan = planOf(root, { sink, threads, budgetBytes: Math.ceil(budgetBytes) });
                    const usable = plan.memory.budgetBytes - plan.memory.fixedBytes;
                    for (const stage of plan.stages) expect(stageBytes(plan, stage)).toBeLessThanOrEqual(usable);
                    for (const set of plan.sets) expect(set.poolBytes).toBeGreaterThanOrEqual(set.poolBytesMin);
                }
            }
        }
        await Promise.resolve();
    });

    test.each(Object.keys(queries))("that are too small name the smallest that will do: %s", (name) => {
        const root = queries[name]!;
        let error: { code: string; details: { smallest: string; option: string } } | undefined;
        try {
            planOf(root, { budgetBytes: 100_000 });
        } catch (thrown) {
            error = thrown as typeof error;
        }
        expect(error).toMatchObject({ code: "BUDGET_TOO_SMALL", details: { option: "memory.host" } });
        const smallest = parseBytes(error!.details.smallest, "memory.host");
        expect(() => planOf(root, { budgetBytes: smallest })).not.toThrow();
        expect(smallest).toBeLessThan(16 * mebibyte);
        expect(String(planOf(root, { budgetBytes: smallest }).memory.minimumBytes)).toMatch(/^\d+$/);
    });

    test("of random queries: planned, or refused with a figure that works", async () => {
        await forSeeds(1000, 150, async (random) => {
            const input = () =>
                inputNode(
                    {
                        k: new Int64(),
                        ...Object.fromEntries(
                            Array.from({ length: random.below(20) }, (_, i) => [
                                `c${i}`,
                                random.pick([new Int32(), new Utf8()])
                            ])
                        )
                    },
                    {
                        rows: Math.round(10 ** (random.unit() * 9)),
                        textBytes: random.pick([1, 20, 3000]),
                        streamed: random.chance(0.2)
                    }
                );
            const type = random.pick(["inner", "left", "full", "anti"]);
            const root = join(input(), input(), { on: "k", type, suffix: "_2" });
            const budgetBytes = Math.round(10 ** (5 + random.unit() * 6));
            const threads = random.pick([1, 3, 64]);
            try {
                planOf(root, { budgetBytes, threads });
            } catch (error) {
                const { code, details } = error as { code: string; details: { smallest: string } };
                expect(code).toBe("BUDGET_TOO_SMALL");
                const smallest = parseBytes(details.smallest, "memory.host");
                expect(smallest).toBeGreaterThan(budgetBytes);
                expect(() => planOf(root, { budgetBytes: smallest, threads })).not.toThrow();
            }
            await Promise.resolve();
        });
    });
});

test("knobs decide", () => {
    const root = join(large, larger, { on: "k" });
    const debug = {
        radixBits: 3,
        pageBytes: 16384,
        workers: 2,
        forceSpill: true,
        hashMask: 0n,
        morselRows: 100
    } as const;
    const plan = planOf(root, { debug });
    expect(plan.sets[0]!.spec).toMatchObject({
        radixBits: 3,
        pageBytes: 16384,
        workers: 2,
        forceSpill: true,
        hashMask: "0x0",
        morselRows: 100
    });
    expect(joinOf(planOf(root, { debug: { scheme: "bucketChaining" } })).spec.scheme).toBe("bucketChaining");
    expect(kinds(planOf(join(small, large, { on: "k" }), { debug: { algorithm: "radix" } }))).toContain("join");
});
