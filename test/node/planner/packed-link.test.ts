// SPDX-License-Identifier: Apache-2.0
// Which values cross the link to the GPU and back in as many bits as they need, where all tables are in GPU memory, and
// what plans say of that. Joins and group-bys beyond GPU memory: out-of-core-packed.test.ts.
import {
    Bool,
    DateDay,
    Decimal,
    Dictionary,
    FixedSizeBinary,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    LargeUtf8,
    TimestampMillisecond,
    Uint32,
    Uint8,
    Utf8,
    type DataType
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { loadProfile } from "../../../src/machine/profile.js";
import { formatBytes } from "../../../src/model/sizes.js";
import type { DeliverStage, UploadStage } from "../../../src/plan/device-stages.js";
import { inputsOf, type LogicalNode } from "../../../src/plan/logical.js";
import { Explanation, planText } from "../../../src/plan/plan-text.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOnDevice } from "../../../src/planner/plan-device.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { group, inputNode, join, planQueryOf, samplesOf, type InputShape } from "../../support/planning.js";

const rows = 2 ** 26;
/** What a sample says of values of 8 bytes that need few bits, or all, each with its share of a block's header. */
const [few, all] = [10.125, 64.125];
const packedText = ": in as many bits as values need";
/** A link that carries more than 16 workers fill. */
const c2c = {
    ...loadProfile(),
    deviceCopyBytesPerMs: 4e8,
    deviceCopyInBytesPerMs: 4e8,
    deviceCopyOutBytesPerMs: 4e8,
    deviceCopyBothBytesPerMs: 8e8
};

type Bits = readonly (number | undefined)[];

/** The plan with these bits for the columns of each input; of an input without them there is no sample. */
function planOf(root: LogicalNode, bits: readonly (Bits | undefined)[], more: Partial<PlanQuery> = {}): Plan {
    const sampled = inputsOf(root).flatMap((input, at) =>
        bits[at] === undefined ? [] : [[input, samplesOf(bits[at])] as const]
    );
    const memory = { budgetBytes: 2 ** 37, threads: 16 };
    const query = planQueryOf(root, { valueSamples: new Map(sampled), ...memory, ...more });
    const made = planOnDevice(query, planQuery(query), 2 ** 37);
    if (made instanceof NotOnDevice) throw made;
    return made.plan;
}

function uploadOf({ stages }: Plan, input: number): UploadStage {
    const found = stages.find((stage): stage is UploadStage => stage.kind === "upload" && stage.input === input);
    if (found === undefined) throw new Error(`input ${input} is not uploaded`);
    return found;
}

const deliverOf = ({ stages }: Plan): DeliverStage => stages.at(-1) as DeliverStage;
const packedOf = ({ columns }: UploadStage): number[] => columns.flatMap((one) => (one.packed ? [one.column] : []));

const relation = (types: Record<string, DataType>, shape: InputShape = {}): LogicalNode =>
    inputNode(types, { rows, inMemory: true, ...shape });
const dimension = relation({ k: new Int64() }, { rows: 1000, name: "dimension" });

/** The upload of a key of few bits, and of a column of this type, of which a sample says so many. */
function uploadWith(type: DataType, bits: number | undefined, shape: InputShape = {}, more: Partial<PlanQuery> = {}) {
    const facts = relation({ k: new Int64(), c: type }, { name: "facts", ...shape });
    return uploadOf(planOf(join(facts, dimension, { on: "k" }), [[few, bits]], more), 0);
}
const packsType = (...asked: Parameters<typeof uploadWith>): boolean => packedOf(uploadWith(...asked)).includes(1);

/** A key and a number of 8 bytes each, joined with a few rows. */
const facts = relation({ k: new Int64(), v: new Int64() }, { name: "facts" });
const query = join(facts, dimension, { on: "k" });
const packsBoth = (more: Partial<PlanQuery> = {}, bits: Bits = [few, few]): boolean => {
    const packed = packedOf(uploadOf(planOf(query, [bits], more), 0));
    expect([0, 2]).toContain(packed.length);
    return packed.length > 0;
};

describe("values of an upload", () => {
    test("are packed where they need few bits, and take so many bytes of the link and so much less time", () => {
        const [raw, packed] = [undefined, [few, 20.125]].map((bits) => uploadOf(planOf(query, [bits]), 0));
        expect(packedOf(raw!)).toEqual([]);
        expect(raw).toMatchObject({ bytes: 16 * rows, sentBytes: 16 * rows });
        expect(packedOf(packed!)).toEqual([0, 1]);
        expect(packed).toMatchObject({ bytes: 16 * rows, sentBytes: (rows * (few + 20.125)) / 8 });
        expect(packed!.predictedMs).toBeLessThan(raw!.predictedMs);
    });

    test.each([
        [new Int8(), 7.2],
        [new Uint8(), 7.2],
        [new Int16(), 14.4],
        [new Int32(), 28.8],
        [new Uint32(), 28.8],
        [new Float32(), 28.8],
        [new DateDay(), 28.8],
        [new Int64(), 57.6],
        [new Float64(), 57.6],
        [new TimestampMillisecond(), 57.6],
        [new FixedSizeBinary(16), 115.2],
        [new Decimal(2, 30, 128), 115.2]
    ] as [DataType, number][])("of type %s are where they need no more than the policy's share", (type, most) => {
        expect(most / defaultPolicy.devicePackedShareMax).toBeCloseTo((most * 10) / 9);
        expect(packsType(type, 1.125)).toBe(true);
        expect(packsType(type, most)).toBe(true);
        expect(packsType(type, most * 1.001)).toBe(false);
        // As those of random floats do.
        expect(packsType(type, (most * 10) / 9 + 1 / 8)).toBe(false);
        expect(packsType(type, undefined)).toBe(false);
    });

    test.each([
        ["a boolean, which is a bit already", new Bool()],
        ["text", new Utf8()],
        ["long text", new LargeUtf8()],
        ["a decimal of 32 bytes", new Decimal(2, 60, 256)],
        ["bytes of a width that no block has", new FixedSizeBinary(3)]
    ])("are not of %s, whatever is asked for", (_, type) => {
        expect(packsType(type, 1.125)).toBe(false);
        expect(packsType(type, 1.125, {}, { debug: { packLink: true } })).toBe(false);
    });

    test("are not where text keeps workers busy for longer than the link takes for all of them", () => {
        expect(packedOf(uploadWith(new FixedSizeBinary(3), undefined))).toEqual([0]);
        expect(packedOf(uploadWith(new Utf8(), undefined))).toEqual([]);
        expect(packedOf(uploadWith(new Utf8(), undefined, {}, { threads: 64 }))).toEqual([0]);
    });

    test("are packed with NULLs among them, too", () => {
        const upload = uploadWith(new Int64(), few, { nullable: true });
        expect(packedOf(upload)).toEqual([0, 1]);
        // A bit of each value says whether it is one.
        expect(upload.bytes).toBe(rows * (8 + 8 + 2 / 8));
        expect(upload.sentBytes).toBeGreaterThan((rows * 2 * few) / 8);
        expect(upload.sentBytes).toBeLessThan(upload.bytes);
    });

    test("need no sample where they are numbers in a dictionary", () => {
        const packs = (values: number): boolean => {
            const words = relation({ k: new Int64(), d: new Dictionary(new Utf8(), new Int32()) }, { name: "words" });
            Object.assign(inputsOf(words)[0]!, { dictionaryRows: [0, values] });
            const upload = uploadOf(planOf(join(words, dimension, { on: "k" }), [[few, undefined]]), 0);
            expect(upload.columns[1]).toMatchObject({ column: 1, decode: false });
            return packedOf(upload).includes(1);
        };
        expect([1, 2, 100, 2 ** 28].map(packs)).toEqual([true, true, true, true]);
        expect([2 ** 28 + 1, 2 ** 31].map(packs)).toEqual([false, false]);
    });

    // Only the indices of a dictionary are packed, and never its texts, which cross the link as they are.
    test("of a dictionary whose texts are uploaded in place of its indices are not expected to shrink", () => {
        const words = relation({ d: new Dictionary(new Utf8(), new Int32()), v: new Int64() }, { name: "words" });
        const texts = inputNode({ s: new Utf8() }, { rows: 1000, name: "texts" });
        const root = join(words, texts, { on: { d: "s" }, select: ["v"] });
        const upload = uploadOf(planOf(root, [[undefined, all]]), 0);
        expect(upload.columns.map(({ decode, packed }) => [decode, packed])).toEqual([
            [true, false],
            [false, false]
        ]);
        expect(upload.sentBytes).toBe(upload.bytes);
        // What is saved is saved of the numbers beside it alone.
        const beside = uploadOf(planOf(root, [[undefined, few]]), 0);
        expect(packedOf(beside)).toEqual([1]);
        expect(beside.sentBytes).toBeGreaterThanOrEqual(beside.bytes - rows * (8 - few / 8));
    });

    test("are packed column by column, and side by side of a join", () => {
        const other = relation({ k: new Int64(), w: new Int64() }, { name: "other" });
        const both = join(facts, other, { on: "k" });
        const packed = (left?: Bits, right?: Bits): number[][] => {
            const plan = planOf(both, [left, right]);
            return [0, 1].map((input) => packedOf(uploadOf(plan, input)));
        };
        expect(packed([few, few], [few, few])).toEqual([
            [0, 1],
            [0, 1]
        ]);
        expect(packed([few, all], [all, few])).toEqual([[0], [1]]);
        expect(packed([few, few], [all, all])).toEqual([[0, 1], []]);
        expect(packed(undefined, [few, few])).toEqual([[], [0, 1]]);
        expect(packed([undefined, undefined], [])).toEqual([[], []]);
    });

    test("are packed for a group-by as for a join", () => {
        const sums = group(facts, { keys: ["k"], aggregates: { sum: { sum: "v" } } });
        expect(packedOf(uploadOf(planOf(sums, [[few, few]]), 0))).toEqual([0, 1]);
        expect(packedOf(uploadOf(planOf(sums, [[few, all]]), 0))).toEqual([0]);
        expect(packedOf(uploadOf(planOf(sums, []), 0))).toEqual([]);
    });
});

describe("values cross the link as they are", () => {
    test("where they are few", () => {
        const policy = (devicePackedRowsMin: number) => ({ ...defaultPolicy, devicePackedRowsMin });
        expect(packsBoth({ policy: policy(rows) })).toBe(true);
        expect(packsBoth({ policy: policy(rows + 1) })).toBe(false);
        const least = relation({ k: new Int64() }, { rows: defaultPolicy.devicePackedRowsMin - 1, name: "few" });
        expect(packedOf(uploadOf(planOf(join(least, dimension, { on: "k" }), [[few]]), 0))).toEqual([]);
    });

    test("on a link that is as fast as the memory that workers read", () => {
        expect(packsBoth()).toBe(true);
        expect(packsBoth({ profile: c2c })).toBe(false);
        // As many workers as fill more than it carries are worth packing for it, too.
        expect(packsBoth({ profile: c2c, threads: 128 })).toBe(true);
    });

    test("where workers are too few to fill the link, from memory or from files", () => {
        expect([4, 8, 16].map((threads) => packsBoth({ threads }))).toEqual([false, false, true]);
        const filed = join(relation({ k: new Int64() }, { inMemory: false, name: "filed" }), dimension, { on: "k" });
        const packs = (threads: number): boolean =>
            packedOf(uploadOf(planOf(filed, [[few]], { threads }), 0)).length > 0;
        expect([16, 64].map(packs)).toEqual([false, true]);
    });

    test("where packing them gains less than the policy asks for", () => {
        const policy = { ...defaultPolicy, devicePackedShareMax: 1 };
        expect(packsBoth({ policy }, [62, 62])).toBe(true);
        expect(packsBoth({ policy }, [62.2, 62.2])).toBe(false);
        // The link would take a sixth of its time, but workers take half of that to pack.
        expect(packsBoth({ policy: { ...policy, devicePackedGain: 0.6 } }, [few, few])).toBe(true);
        expect(packsBoth({ policy: { ...policy, devicePackedGain: 0.5 } }, [few, few])).toBe(false);
    });

    test("where most bytes of an input are of columns that need all of their bits", () => {
        const types = Object.fromEntries(["k", "a", "b", "c", "d"].map((name) => [name, new Float64()]));
        const wide = join(relation({ ...types, k: new Int64() }, { name: "wide" }), dimension, { on: "k" });
        const packed = (key: number): number[] => packedOf(uploadOf(planOf(wide, [[key, all, all, all, all]]), 0));
        expect(packed(few)).toEqual([0]);
        // A twentieth of all bytes is saved, and a fiftieth.
        expect(packed(48)).toEqual([0]);
        expect(packed(57.6)).toEqual([]);
    });

    test("where nothing is known of any of them", () => {
        expect(packsBoth({}, [])).toBe(false);
        const plan = planOnDevice(planQueryOf(query), planQuery(planQueryOf(query)), 2 ** 37);
        if (plan instanceof NotOnDevice) throw plan;
        expect(packedOf(uploadOf(plan.plan, 0))).toEqual([]);
    });
});

describe("the knob packLink", () => {
    test("off: nothing is packed, on any link", () => {
        for (const profile of [loadProfile(), c2c]) {
            const plan = planOf(query, [[few, few]], { debug: { packLink: false }, profile });
            expect(packedOf(uploadOf(plan, 0))).toEqual([]);
            expect(uploadOf(plan, 0).sentBytes).toBe(16 * rows);
            expect(deliverOf(plan).packed).toBe(false);
        }
    });

    test("on: all values that can be are packed, however few, on any link, and without a sample", () => {
        const debug = { packLink: true };
        for (const profile of [loadProfile(), c2c]) {
            const plan = planOf(query, [], { debug, profile, threads: 1 });
            expect(packedOf(uploadOf(plan, 0))).toEqual([0, 1]);
            expect(packedOf(uploadOf(plan, 1))).toEqual([0]);
            expect(deliverOf(plan).packed).toBe(true);
            // What is not known of a sample is taken for the most that is worth it.
            const { bytes, sentBytes } = uploadOf(plan, 0);
            expect(sentBytes / bytes).toBeCloseTo(defaultPolicy.devicePackedShareMax);
        }
        const { sentBytes } = uploadOf(planOf(query, [[few, all]], { debug }), 0);
        expect(sentBytes).toBeCloseTo(rows * (few / 8 + 8 * defaultPolicy.devicePackedShareMax), -1);
    });
});

describe("results", () => {
    const packsResult = (threads: number, more: Partial<PlanQuery> = {}): boolean =>
        deliverOf(planOf(query, [], { threads, ...more })).packed;

    test("are packed where workers take more than the link carries", () => {
        const { deviceCopyOutBytesPerMs, deviceDeliverBytesPerMs } = loadProfile();
        const enough = Math.ceil(deviceCopyOutBytesPerMs / deviceDeliverBytesPerMs / 2);
        expect([1, enough - 1, enough, 2 * enough].map((threads) => packsResult(threads))).toEqual([
            false,
            false,
            true,
            true
        ]);
        expect(packsResult(16, { profile: c2c })).toBe(false);
    });

    test("that are counted do not cross it", () => {
        expect(planOf(query, [], { sink: "count" }).stages.map(({ kind }) => kind)).toEqual([
            "upload",
            "upload",
            "deviceJoin"
        ]);
    });
});

describe("a plan", () => {
    const lineOf = (plan: Plan, what: string): string =>
        planText(plan)
            .split("\n")
            .map((line) => line.trim())
            .find((line) => line.startsWith(what))!;

    test("says how many bytes there are and how many are expected to cross the link", () => {
        const plan = planOf(join(facts, dimension, { on: "k", hints: { resultRows: 1000 } }), [[few, few]]);
        const sent = formatBytes((rows * 2 * few) / 8);
        expect(lineOf(plan, "from facts")).toBe(`from facts: 2 columns, 1 GiB as ${sent}${packedText}`);
        expect(lineOf(plan, "from dimension")).toBe("from dimension: 1 columns, 7.81 KiB");
        expect(lineOf(plan, "about 1,000 rows, ")).toBe("about 1,000 rows, 15.6 KiB, in as many bits as values need");
    });

    test("says nothing of bits where values cross it as they are", () => {
        for (const more of [{ profile: c2c }, { debug: { packLink: false } }, { threads: 4 }]) {
            const plan = planOf(query, [[few, few]], more);
            expect(planText(plan)).not.toContain("bits as values need");
            expect(lineOf(plan, "from facts")).toBe("from facts: 2 columns, 1 GiB");
        }
        // That of a column that is packed alone is no line of the others.
        const some = planOf(query, [[few, all]]);
        expect(lineOf(some, "from facts")).toContain(` as ${formatBytes((rows * (few + 64)) / 8)}${packedText}`);
    });

    test("has the same as data, which JSON keeps", () => {
        const plan = planOf(query, [[few, all]]);
        const told = JSON.parse(JSON.stringify(new Explanation(plan))) as Plan;
        expect(told).toEqual(plan);
        expect(uploadOf(told, 0)).toMatchObject({
            bytes: 16 * rows,
            sentBytes: (rows * (few + 64)) / 8,
            columns: [
                { column: 0, decode: false, packed: true },
                { column: 1, decode: false, packed: false }
            ]
        });
        for (const stage of told.stages) {
            if (stage.kind !== "upload") continue;
            expect(Number.isInteger(stage.sentBytes)).toBe(true);
            expect(stage.sentBytes).toBeLessThanOrEqual(stage.bytes);
        }
        expect(deliverOf(told)).toMatchObject({ packed: true });
    });

    test("takes as much memory and gives the same rows, packed or not", () => {
        const [packed, raw] = [true, false].map((packLink) => planOf(query, [[few, few]], { debug: { packLink } }));
        expect(packed!.deviceMemory).toEqual(raw!.deviceMemory);
        expect(packed!.memory).toEqual(raw!.memory);
        expect(packed!.result).toEqual(raw!.result);
    });
});
