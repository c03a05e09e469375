// SPDX-License-Identifier: Apache-2.0
// Which inputs of joins, group-bys and trees beyond GPU memory cross the link in as many bits as values need, and what
// plans say of that. Where all tables are in GPU memory: packed-link.test.ts.
import { Bool, Dictionary, Float64, Int32, Int64, Utf8, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { loadProfile } from "../../../src/machine/profile.js";
import { outOfCoreJoinAlgorithms } from "../../../src/model/algorithms.js";
import { formatBytes } from "../../../src/model/sizes.js";
import { inputsOf, type LogicalNode } from "../../../src/plan/logical.js";
import type { OutOfCoreGroupStage } from "../../../src/plan/out-of-core-group-stage.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import type { OutOfCoreTreeStage } from "../../../src/plan/out-of-core-tree-stage.js";
import { Explanation, planText } from "../../../src/plan/plan-text.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { group, inputNode, join, planQueryOf, samplesOf, type InputShape } from "../../support/planning.js";

const gibibyte = 2 ** 30;
const rows = 2 ** 26;
/** What a sample says of values of 8 bytes that need few bits, or all, each with its share of a block's header. */
const [few, all] = [10.125, 64.125];
/** A link that carries more than 16 workers fill. */
const c2c = {
    ...loadProfile(),
    deviceCopyInBytesPerMs: 4e8,
    deviceCopyOutBytesPerMs: 4e8,
    deviceCopyBothBytesPerMs: 8e8
};

type Bits = readonly (number | undefined)[];
type Stage = OutOfCoreStage | OutOfCoreGroupStage | OutOfCoreTreeStage;

interface Case extends Partial<PlanQuery> {
    limitBytes?: number;
}

/** The plan with these bits for the columns of each input; of an input without them there is no sample. */
function planOf(root: LogicalNode, bits: readonly (Bits | undefined)[], given: Case = {}): Plan {
    const { limitBytes = gibibyte, ...more } = given;
    const sampled = inputsOf(root).flatMap((input, at) =>
        bits[at] === undefined ? [] : [[input, samplesOf(bits[at])] as const]
    );
    const memory = { budgetBytes: 128 * gibibyte, threads: 16 };
    const query = planQueryOf(root, { valueSamples: new Map(sampled), sink: "count", ...memory, ...more });
    const made = planOutOfCore(query, planQuery(query), limitBytes);
    if (made instanceof NotOnDevice) throw made;
    return made;
}

function stageOf(...request: Parameters<typeof planOf>): Stage {
    return planOf(...request).stages[0] as Stage;
}

const packedOf = (...request: Parameters<typeof planOf>): number[] => [...stageOf(...request).packed];

const relation = (name: string, types: Record<string, DataType>, shape: InputShape = {}): LogicalNode =>
    inputNode(types, { rows, inMemory: true, name, ...shape });
const keyed = (name: string, shape: InputShape = {}): LogicalNode =>
    relation(name, { [`${name}_k`]: new Int64(), [`${name}_v`]: new Int64() }, shape);
const on = (left: string, right: string): object => ({ on: { [`${left}_k`]: `${right}_k` } });

const [left, right] = [keyed("l"), keyed("r")];
const joined = (more: object = {}): LogicalNode => join(left, right, { ...on("l", "r"), ...more });
const summed = group(left, { keys: ["l_k"], aggregates: { sum: { sum: "l_v" } }, hints: { groups: 1000 } });
const tree = join(joined(), keyed("s"), { on: { l_v: "s_k" } });

const kinds = [
    ["a join", joined(), [0, 1]],
    ["a group-by", summed, [0]],
    ["a tree", tree, [0, 1, 2]]
] as const satisfies readonly [string, LogicalNode, number[]][];

/** The same bits for all columns of all inputs. */
const alike = (root: LogicalNode, bits: number): Bits[] => inputsOf(root).map(() => [bits, bits]);

describe.each(kinds)("inputs of %s", (_, root, inputs) => {
    test("are packed where values need few bits, and are expected to take so much less of the link", () => {
        const [raw, packed] = [all, few].map((bits) => stageOf(root, alike(root, bits), { limitBytes: 64 * gibibyte }));
        expect(raw!.packed).toEqual([]);
        expect([...packed!.packed].sort()).toEqual(inputs);
        expect([raw!.predicted.spilledBytes, packed!.predicted.spilledBytes]).toEqual([0, 0]);
        expect(packed!.predicted.h2dBytes / raw!.predicted.h2dBytes).toBeCloseTo(few / 64);
        expect(packed!.predictedMs).toBeLessThan(raw!.predictedMs);
    });

    test("are packed up to the share of their bits that the policy allows", () => {
        expect([...packedOf(root, alike(root, 57.6))].sort()).toEqual(inputs);
        expect(packedOf(root, alike(root, 57.7))).toEqual([]);
        const policy = { ...defaultPolicy, devicePackedShareMax: 0.5 };
        expect(packedOf(root, alike(root, 57.6), { policy })).toEqual([]);
        expect([...packedOf(root, alike(root, 32), { policy })].sort()).toEqual(inputs);
    });

    test("are not without a sample, of few rows, or where packing gains too little", () => {
        expect(packedOf(root, [])).toEqual([]);
        expect(packedOf(root, [[], [], []])).toEqual([]);
        const policyOf = (more: object) => ({ policy: { ...defaultPolicy, ...more } });
        expect(packedOf(root, alike(root, few), policyOf({ devicePackedRowsMin: rows + 1 }))).toEqual([]);
        expect(packedOf(root, alike(root, few), policyOf({ devicePackedGain: 0.1 }))).toEqual([]);
    });

    test("are not on a link as fast as the memory that workers read, nor where workers are too few for any", () => {
        expect(packedOf(root, alike(root, few), { profile: c2c })).toEqual([]);
        expect(packedOf(root, alike(root, few), { threads: 4 })).toEqual([]);
    });

    test("are as the knob says", () => {
        expect(packedOf(root, alike(root, few), { debug: { packLink: false } })).toEqual([]);
        const asked = { debug: { packLink: true } };
        expect([...packedOf(root, [], asked)].sort()).toEqual(inputs);
        expect([...packedOf(root, [], { ...asked, profile: c2c, threads: 1 })].sort()).toEqual(inputs);
    });

    test("leave alone what is spilled, and the memory that all of it takes", () => {
        const [raw, packed] = [all, few].map((bits) => stageOf(root, alike(root, bits)));
        expect(raw!.predicted.spilledBytes).toBe(packed!.predicted.spilledBytes);
        expect(raw!.predicted.d2hBytes).toBe(packed!.predicted.d2hBytes);
        expect([packed!.deviceBytes, packed!.memory]).toEqual([raw!.deviceBytes, raw!.memory]);
    });

    test("make a line of the plan say what the link carries, and nothing of those that go as they are", () => {
        const lineOf = (text: string): string => /link: .* to the GPU/.exec(text)?.[0] ?? "";
        const plans = [all, few].map((bits) => planOf(root, alike(root, bits), { limitBytes: 64 * gibibyte }));
        const carried = plans.map(({ stages: [stage] }) => formatBytes((stage as Stage).predicted.h2dBytes));
        expect(plans.map((plan) => lineOf(planText(plan)))).toEqual(
            carried.map((bytes) => `link: ${bytes} to the GPU`)
        );
        expect(planText(plans[1]!)).toContain(`gpu: ${carried[1]} uploaded, 0 B downloaded;`);
        for (const plan of plans) {
            expect(JSON.parse(JSON.stringify(new Explanation(plan)))).toEqual(plan);
            expect((plan.stages[0] as Stage).packed.every(Number.isInteger)).toBe(true);
            expect(planText(plan)).not.toMatch(/NaN|undefined|Infinity/);
        }
    });
});

describe("a join", () => {
    test("has either side packed, whichever is built", () => {
        for (const buildSide of ["left", "right"] as const) {
            const root = joined({ hints: { buildSide } });
            const built = buildSide === "left" ? 0 : 1;
            const bits = (at: number): Bits[] => [0, 1].map((side) => (side === at ? [few, few] : [all, all]));
            expect(packedOf(root, bits(0))).toEqual([0]);
            expect(packedOf(root, bits(1))).toEqual([1]);
            const stage = stageOf(root, bits(built)) as OutOfCoreStage;
            expect(stage).toMatchObject({ buildInput: built, probeInput: 1 - built, packed: [built] });
            // The other side takes as long as it does without.
            const plain = stageOf(root, []) as OutOfCoreStage;
            expect(stage.predicted.buildMs).toBeLessThan(plain.predicted.buildMs);
            expect(stage.predicted.probeMs).toBe(plain.predicted.probeMs);
        }
    });

    test("has no stream packed, but the other side", () => {
        const root = join(keyed("l", { streamed: true }), right, on("l", "r"));
        expect(packedOf(root, [[few, few], undefined])).toEqual([]);
        expect(packedOf(root, [undefined, [few, few]])).toEqual([1]);
        expect(packedOf(root, [], { debug: { packLink: true } })).toEqual([1]);
    });

    test("is of packed values on the path of copy engines alone", () => {
        expect(packedOf(joined(), alike(joined(), few), { coherentDevice: true })).toEqual([]);
        for (const algorithm of outOfCoreJoinAlgorithms) {
            const root = joined({ algorithm });
            for (const debug of [{}, { packLink: true }]) {
                const packed = packedOf(root, alike(root, few), { debug, limitBytes: 16 * gibibyte });
                expect([algorithm, ...packed]).toEqual(algorithm === "staged" ? [algorithm, 0, 1] : [algorithm]);
            }
        }
    });

    // The workers hash the keys, and no block of hashes needs fewer than all of their bits.
    test("by hashes of keys is expected to carry each hash as it is, however few bits its keys need", () => {
        const names = ["a", "b", "c", "d", "e"];
        const types = Object.fromEntries(names.map((name) => [name, new Int64()]));
        const root = join(relation("l", types), relation("r", types), { on: names });
        const bits = names.map(() => few);
        const stage = stageOf(root, [bits, bits], { limitBytes: 64 * gibibyte }) as OutOfCoreStage;
        expect(stage.layout).toMatchObject({ keys: "hashed", join: { keyBytes: 8 } });
        expect(stage.predicted.h2dBytes).toBeGreaterThanOrEqual(2 * rows * 8);
    });

    test("of a relation with itself names its one input once", () => {
        const self = join(left, left, { on: "l_k" });
        expect(packedOf(self, [[few, few]])).toEqual([0]);
    });
});

describe("a group-by", () => {
    const packs = (type: DataType, bits: number | undefined, options: object, more: Case = {}): boolean => {
        const root = group(relation("t", { k: new Int64(), c: type }), { hints: { groups: 1000 }, ...options });
        return packedOf(root, [[few, bits]], more).length > 0;
    };

    test("has its keys packed alone, and what it adds up in halves", () => {
        expect(packs(new Int64(), few, { keys: ["k"], aggregates: { n: { count: "*" } } })).toBe(true);
        expect(packs(new Int64(), few, { keys: ["k"], aggregates: { sum: { sum: "c" } } })).toBe(true);
        expect(packs(new Float64(), all, { keys: ["k"], aggregates: { most: { max: "c" } } })).toBe(true);
        expect(packs(new Bool(), undefined, { keys: ["k"], aggregates: { n: { count: "c" } } })).toBe(true);
    });

    test("of numbers in a dictionary needs no sample", () => {
        const word = new Dictionary(new Utf8(), new Int32());
        const counted = { keys: ["c"], aggregates: { n: { count: "*" } } };
        expect(packs(word, undefined, counted)).toBe(true);
        expect(packs(word, undefined, counted, { debug: { packLink: false } })).toBe(false);
    });

    test("of text has no values to pack", () => {
        const counted = { keys: ["c"], aggregates: { n: { count: "*" } } };
        expect(packs(new Utf8(), few, counted)).toBe(false);
        expect(packs(new Utf8(), few, counted, { debug: { packLink: true } })).toBe(false);
    });
});

describe("a tree", () => {
    test("has those inputs packed whose values need few bits, whatever flow they are", () => {
        for (const packed of [[], [0], [1], [2], [0, 2], [0, 1, 2]]) {
            const bits = [0, 1, 2].map((input) => (packed.includes(input) ? [few, few] : [all, all]));
            const stage = stageOf(tree, bits) as OutOfCoreTreeStage;
            expect([...stage.packed].sort()).toEqual(packed);
            const plain = stageOf(tree, []) as OutOfCoreTreeStage;
            stage.flows.forEach(({ input }, at) => {
                const [ms, plainMs] = [stage.predicted.flowsMs[at]!, plain.predicted.flowsMs[at]!];
                if (packed.includes(input)) expect(ms).toBeLessThanOrEqual(plainMs);
                else expect(ms).toBe(plainMs);
            });
        }
    });

    test("of one relation twice names it once", () => {
        const twice = join(joined(), left, { on: { r_v: "l_k" } });
        expect([...packedOf(twice, alike(twice, few))].sort()).toEqual([0, 1]);
    });

    test("has no stream packed", () => {
        const root = join(joined(), keyed("s", { streamed: true }), { on: { l_v: "s_k" } });
        expect(
            [
                ...packedOf(root, [
                    [few, few],
                    [few, few],
                    [few, few]
                ])
            ].sort()
        ).toEqual([0, 1]);
    });
});

describe("rows that a stage holds for the next one", () => {
    const stagesOf = (value: DataType, bits: readonly Bits[]): readonly Stage[] => {
        const types = { l_k: new Int64(), l_c: value };
        const groups = group(relation("l", types), { keys: ["l_k"], aggregates: { one: { first: "l_c" } } });
        const root = join(groups, right, { ...on("l", "r"), hints: { buildSide: "left" } });
        return planOf(root, bits, { sink: "batches" }).stages as readonly Stage[];
    };

    test("are no sample's, so that they cross the link as they are", () => {
        const [groups, join] = stagesOf(new Int64(), [
            [few, few],
            [few, few]
        ]);
        expect(groups).toMatchObject({ packed: [0], holds: { input: 2 } });
        // Inputs keep the numbers that they have in the whole query.
        expect(join).toMatchObject({ buildInput: 2, probeInput: 1, packed: [1] });
    });

    // Nobody knows how many values the dictionary of held rows has: a bit for each of them would be too few.
    test("are not taken to need a bit for each number in a dictionary of which nothing is known", () => {
        const [groups, join] = stagesOf(new Dictionary(new Utf8(), new Int32()), [[], []]);
        expect(groups).toMatchObject({ holds: { input: 2 } });
        expect(join).toMatchObject({ buildInput: 2, probeInput: 1, packed: [] });
    });
});
