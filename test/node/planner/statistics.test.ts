// SPDX-License-Identifier: Apache-2.0
import {
    Bool,
    Decimal,
    Dictionary,
    Field,
    FixedSizeBinary,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    List,
    Null,
    TimestampSecond,
    Utf8,
    type DataType
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { inputsOf, type JoinNode, type LogicalNode } from "../../../src/plan/logical.js";
import { Estimator, rowWidth } from "../../../src/planner/estimates.js";
import { joinSides } from "../../../src/planner/join-sides.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import {
    distinctKeys,
    looksUnique,
    sampledColumns,
    statisticsId,
    samplingPolicy,
    wantedPairs,
    wantedStatistics,
    type KeyStatistics,
    type SampledPairs
} from "../../../src/planner/statistics.js";
import { group, inputNode, join, type InputShape } from "../../support/planning.js";

const sample = (rows: number, sampledRows: number, sampledDistinct: number): KeyStatistics => ({
    rows,
    nulls: 0,
    min: null,
    max: null,
    sampledRows,
    sampledDistinct,
    heaviestShare: 0
});

describe("distinct keys of a sample", () => {
    test("are counted when the sample is everything", () => {
        expect(distinctKeys(sample(100, 100, 17))).toBe(17);
        expect(distinctKeys(sample(0, 0, 0))).toBe(0);
    });

    test("are the rows when every sampled key is new", () => {
        expect(distinctKeys(sample(10_000_000, 65_536, 65_530))).toBe(10_000_000);
    });

    test.each([1000, 50_000, 200_000, 1_000_000])("of %i equally likely keys are found within a tenth", (domain) => {
        const sampledRows = 65_536;
        const seen = Math.round(domain * -Math.expm1(-sampledRows / domain));
        const estimate = distinctKeys(sample(50_000_000, sampledRows, seen));
        expect(Math.abs(estimate / domain - 1)).toBeLessThan(0.1);
    });
});

describe("distinct keys of a sample of pieces", () => {
    const clustered = (rows: number, pieceDistinct: number, sampledDistinct: number): KeyStatistics => ({
        ...sample(rows, 65_536, sampledDistinct),
        pieceDistinct
    });

    test("are as many more as rows, where equal keys lie together", () => {
        // Four lines of each order, in the order of the orders.
        expect(distinctKeys(clustered(18_000_000, 16_384, 16_384))).toBe(4_500_000);
    });

    test("are those that were seen, where every piece has them all", () => {
        expect(distinctKeys(clustered(18_000_000, 7 * 256, 7))).toBe(7);
    });

    test("are found where clusters of a key lie in several places", () => {
        const [domain, draws] = [20_000, 16_384];
        const seen = Math.round(domain * -Math.expm1(-draws / domain));
        expect(Math.abs(distinctKeys(clustered(18_000_000, draws, seen)) / domain - 1)).toBeLessThan(0.1);
    });
});

describe("a sample looks unique", () => {
    test("when nearly all of it, or all rows, differ", () => {
        expect(looksUnique(sample(1_000_000, 16_384, 16_380))).toBe(true);
        expect(looksUnique(sample(1_000_000, 16_384, 16_000))).toBe(false);
        expect(looksUnique(sample(1000, 1000, 1000))).toBe(true);
        expect(looksUnique(sample(1000, 1000, 999))).toBe(false);
        expect(looksUnique({ ...sample(1000, 900, 900), nulls: 100 })).toBe(true);
        expect(looksUnique(sample(0, 0, 0))).toBe(false);
        // One repetition is one too many for some.
        expect(looksUnique(sample(1_000_000, 16_384, 16_383), 0)).toBe(false);
        expect(looksUnique(sample(1_000_000, 16_384, 16_384), 0)).toBe(true);
    });
});

describe("estimates", () => {
    const orders = inputNode({ k: new Int32(), c: new Int32() }, { rows: 100_000, name: "orders" });
    const lines = inputNode({ k: new Int32(), t: new Utf8() }, { rows: 400_000, name: "lines", textBytes: 30 });
    const node = join(orders, lines, { on: "k" });

    test("without a sample each row of the larger side finds one partner", () => {
        expect(new Estimator(node, new Map(), defaultPolicy).of(node).rows).toBe(400_000);
    });

    test("with samples: |L| |R| / most distinct keys", () => {
        const wanted = wantedStatistics(node, defaultPolicy);
        expect(wanted.map(({ input }) => input.name)).toEqual(["orders", "lines"]);
        const statistics = new Map(
            wanted.map(({ id, input }) => [
                id,
                sample(input.rows, input.rows, input.name === "orders" ? 100_000 : 90_000)
            ])
        );
        expect(new Estimator(node, statistics, defaultPolicy).of(node).rows).toBe(400_000);
    });

    test("of the join types and hints", () => {
        const rows = (options: object): number => {
            const other = join(orders, lines, { on: "k", ...options });
            return new Estimator(other, new Map(), defaultPolicy).of(other).rows;
        };
        expect(rows({ type: "right" })).toBe(400_000);
        expect(rows({ type: "semi" })).toBe(100_000);
        expect(rows({ hints: { resultRows: 7 } })).toBe(7);
    });

    test("of outer and anti joins: rows without a partner beside the pairs", () => {
        const rows = (type: string, orderKeys: number, lineKeys: number): number => {
            const other = join(orders, lines, { on: "k", type });
            const keysOf = (name: string): number => (name === "orders" ? orderKeys : lineKeys);
            const statistics = wantedStatistics(other, defaultPolicy).map(
                ({ id, input }) => [id, sample(input.rows, input.rows, keysOf(input.name))] as const
            );
            return new Estimator(other, new Map(statistics), defaultPolicy).of(other).rows;
        };
        // A fifth of the lines have a key of no order.
        expect(rows("right", 100_000, 125_000)).toBe(400_000);
        expect(rows("right", 50_000, 125_000)).toBe(560_000);
        expect(rows("left", 100_000, 125_000)).toBe(320_000);
        expect(rows("full", 100_000, 125_000)).toBe(400_000);
        // Half of the orders have no line, and each of the others has eight.
        expect(rows("left", 100_000, 50_000)).toBe(450_000);
        expect(rows("full", 100_000, 50_000)).toBe(450_000);
        expect(rows("anti", 100_000, 50_000)).toBe(50_000);
    });

    test("of groups: distinct keys, traced through joins to their relation", () => {
        const grouped = group(node, { keys: ["c"], aggregates: { n: { count: "*" } } });
        const wanted = wantedStatistics(grouped, defaultPolicy);
        expect(wanted).toHaveLength(3);
        const [first] = wanted;
        expect(first!.id).toBe(statisticsId(inputsOf(grouped), first!.input, first!.keys));
        const statistics = new Map([[first!.id, sample(100_000, 100_000, 500)]]);
        expect(new Estimator(grouped, statistics, defaultPolicy).of(grouped).rows).toBe(500);
        expect(new Estimator(grouped, statistics, defaultPolicy, true).of(grouped).rows).toBeGreaterThan(500);
        const all = group(node, { aggregates: { n: { count: "*" } } });
        expect(new Estimator(all, new Map(), defaultPolicy).of(all)).toMatchObject({ rows: 1, exact: true });
    });

    test.each([false, true])("a join samples as many rows as show whether keys repeat, on a GPU: %s", (forDevice) => {
        const rowsFor = (rows: number): number => {
            const large = inputNode({ k: new Int32() }, { rows });
            const policy = samplingPolicy(defaultPolicy, {}, forDevice);
            return wantedStatistics(join(large, lines, { on: "k" }), policy)[0]!.sampleRows;
        };
        const { joinSampleRows, repeatsSeenMin } = defaultPolicy;
        expect(rowsFor(1_000_000)).toBe(joinSampleRows);
        const rows = 2 ** 27;
        // Pairs among keys that are drawn from twice as many values as there are rows.
        expect(rowsFor(rows) ** 2 / (2 * 2 * rows)).toBeCloseTo(repeatsSeenMin, 2);
        // A CPU has no memory beside the budget for larger ones.
        expect(rowsFor(2 ** 32)).toBe(forDevice ? 2 ** 18 : 2 ** 16 - 256);
    });

    test.each([
        [8, 0, "right"],
        [0, 8, "left"],
        [8, 8, "left"],
        [8, 1, "right"],
        [4, 1, "left"],
        [1000, 1, "right"],
        [1000, 1000, "left"]
    ])("of sides alike, with %i and %i keys that come twice in 16,384, the %s one is built on", (left, right, side) => {
        const rows = 2 ** 24;
        const sides = [inputNode({ k: new Int64() }, { rows }), inputNode({ k: new Int64() }, { rows })] as const;
        const node = join(...sides, { on: "k" });
        const repeats = [left, right];
        const wanted = wantedStatistics(node, defaultPolicy);
        const statistics = new Map(wanted.map(({ id }, i) => [id, sample(rows, 16_384, 16_384 - repeats[i]!)]));
        const estimator = new Estimator(node, statistics, defaultPolicy);
        expect(joinSides(node, [], estimator, defaultPolicy).build).toBe(side);
    });

    test("small relations are sampled for a GPU where they could make many pairs, streams never", () => {
        const of = (rows: number, streamed = false) => inputNode({ k: new Int32() }, { rows, streamed });
        const sampled = (node: LogicalNode, forDevice: boolean): number[] =>
            wantedStatistics(node, samplingPolicy(defaultPolicy, {}, forDevice)).map(({ input }) => input.rows);
        const [few, stream] = [of(100), of(1e6, true)];
        expect(sampled(join(few, stream, { on: "k" }), false)).toEqual([]);
        expect(sampled(join(few, stream, { on: "k" }), true)).toEqual([100]);
        expect(sampled(join(few, of(1000), { on: "k" }), true)).toEqual([]);
        expect(sampled(join(of(1000), of(10_000), { on: "k" }), true)).toEqual([1000, 10_000]);
        expect(sampled(join(of(1000), of(10_000), { on: "k" }), false)).toEqual([]);
        expect(sampled(group(of(10_000), { keys: ["k"] }), true)).toEqual([]);
        expect(sampled(join(of(2048), of(2048), { on: "k" }), true)).toEqual([2048, 2048]);
        expect(sampled(join(of(2048), of(2047), { on: "k" }), true)).toEqual([]);
        // Rows of an outer join stay where the other side is empty.
        const kept = join(of(15_000), of(0), { on: "k", type: "left" });
        expect(sampled(join(kept, of(3214), { on: "k" }), true)).toEqual([15_000, 3214]);
        expect(sampled(join(group(of(15_000), { keys: ["k"] }), of(3214), { on: "k" }), true)).toEqual([15_000, 3214]);
    });
});

describe("estimates of trees", () => {
    const of = (columns: readonly string[], rows: number, name: string) =>
        inputNode(Object.fromEntries(columns.map((column) => [column, new Int32()])), { rows, name });
    const facts = of(["f_a", "f_b", "f_c"], 1_000_000, "facts");
    const a = of(["a_key", "a_color"], 1000, "a");
    const b = of(["b_key", "b_color"], 20_000, "b");
    /** Distinct values of the columns of whole samples; nothing is known of others. */
    const estimatorOf = (root: LogicalNode, distinct: Record<string, number>, policy = defaultPolicy): Estimator => {
        const statistics = wantedStatistics(root, policy).flatMap(({ id, input, keys }) => {
            const name = keys.map(({ column }) => input.columns[column]!.name).join();
            return name in distinct ? [[id, sample(input.rows, input.rows, distinct[name]!)] as const] : [];
        });
        return new Estimator(root, new Map(statistics), policy);
    };
    const known = { f_a: 5000, f_b: 20_000, f_c: 300, a_key: 1000, a_color: 10, b_key: 20_000, b_color: 40 };
    const withA = join(facts, a, { on: { f_a: "a_key" } });
    const withBoth = join(withA, b, { on: { f_b: "b_key" } });
    const rowsOf = (root: LogicalNode, distinct: Record<string, number> = known): number =>
        estimatorOf(root, distinct).of(root).rows;
    const groups = (child: LogicalNode, ...keys: string[]): number =>
        rowsOf(group(child, { keys, aggregates: { n: { count: "*" } } }));

    test("join by the keys of inputs, whatever joins before have left", () => {
        expect(rowsOf(withA)).toBe(200_000);
        expect(rowsOf(withBoth)).toBe(200_000);
        // Few rows are left, and a twentieth of the values of f_b: still each row has a partner in a full b.
        const few = of(["a_key", "a_color"], 5, "few");
        const rare = join(facts, few, { on: { f_a: "a_key" } });
        expect(rowsOf(join(rare, b, { on: { f_b: "b_key" } }), { ...known, a_key: 5 })).toBe(1000);
        const half = of(["b_key", "b_color"], 10_000, "half");
        expect(rowsOf(join(rare, half, { on: { f_b: "b_key" } }), { ...known, a_key: 5, b_key: 10_000 })).toBe(500);
    });

    test("group by columns of several inputs: all combinations, or as many as rows draw", () => {
        expect(groups(withBoth, "a_color", "b_color")).toBeCloseTo(400, 0);
        expect(groups(withBoth, "f_c", "b_key")).toBeCloseTo(6_000_000 * (1 - Math.exp(-1 / 30)), -2);
        // Of the keys that are left by a fifth of the rows nearly all have some row.
        expect(groups(withA, "f_c")).toBeCloseTo(300, 6);
        expect(groups(withA, "f_a")).toBeCloseTo(1000, 6);
        expect(groups(withA, "f_b")).toBeCloseTo(20_000 * (1 - 0.8 ** 50), 0);
    });

    test("group by a key and what follows from it", () => {
        expect(groups(withBoth, "a_key", "a_color")).toBe(1000);
        expect(groups(withBoth, "f_a", "a_color")).toBeCloseTo(1000, 0);
        const ofB = join(b, of(["c_key", "c_name"], 40, "c"), { on: { b_color: "c_key" } });
        const snow = join(withA, ofB, { on: { f_b: "b_key" } });
        const named = { ...known, c_key: 40, c_name: 40 };
        const grouped = group(snow, { keys: ["b_key", "c_name", "a_color"], aggregates: { n: { count: "*" } } });
        // All of the 200,000 combinations could be there, drawn by as many rows.
        expect(rowsOf(grouped, named) / (200_000 * (1 - Math.exp(-1)))).toBeCloseTo(1, 1);
    });

    test("know a relation that is joined twice apart", () => {
        const twice = join(withA, a, { on: { f_b: "a_key" }, suffix: "_2" });
        const root = group(twice, { keys: ["a_color", "a_color_2"], aggregates: { n: { count: "*" } } });
        expect(rowsOf(root)).toBeCloseTo(100, 0);
    });

    test("keys of several inputs are equal independently of each other", () => {
        const two = join(withA, of(["d_b", "d_color"], 20_000, "d"), { on: { f_b: "d_b", a_color: "d_color" } });
        expect(rowsOf(two, { ...known, d_b: 20_000, d_color: 10, "d_b,d_color": 20_000 })).toBe(20_000);
    });

    test("small inputs are sampled where a tree joins them with large ones, and none where it does not", () => {
        const inputs = (root: LogicalNode): string[] =>
            wantedStatistics(root, samplingPolicy(defaultPolicy, {}, false)).map(({ input }) => input.name);
        expect(inputs(withBoth)).toEqual(["facts", "b", "facts", "a"]);
        expect(inputs(withA)).toEqual(["facts"]);
        const small = join(of(["f_a", "f_b"], 10_000, "s"), a, { on: { f_a: "a_key" } });
        expect(inputs(group(small, { keys: ["a_color"] }))).toEqual([]);
    });

    test("tell how many rows a row becomes in each join of a chain, in any order of them", () => {
        const chain = (first: LogicalNode, second: LogicalNode): LogicalNode[] => {
            const on = (node: LogicalNode) => (node === a ? { f_a: "a_key" } : { f_b: "b_key" });
            const below = join(facts, first, { on: on(first) });
            return [below, join(below, second, { on: on(second) })];
        };
        const half = of(["b_key"], 5000, "half");
        for (const [first, second, expected] of [
            [a, half, [0.2, 0.25]],
            [half, a, [0.25, 0.2]]
        ] as const) {
            const joins = chain(first, second);
            const estimator = estimatorOf(joins[1]!, { ...known, b_key: 5000 });
            const found = joins.map((node) => estimator.rowsPerRow(node as JoinNode, "left"));
            found.forEach((rows, i) => expect(rows).toBeCloseTo(expected[i]!, 9));
        }
        const typed = (type: string, side: "left" | "right" = "left"): number => {
            const node = join(facts, a, { on: { f_a: "a_key" }, type });
            const above = group(node, { keys: ["f_c"], aggregates: { n: { count: "*" } } });
            return estimatorOf(above, known).rowsPerRow(node, side);
        };
        expect(typed("semi")).toBeCloseTo(0.2, 9);
        expect(typed("anti")).toBeCloseTo(0.8, 9);
        expect(typed("left")).toBeCloseTo(1, 9);
        expect(typed("inner", "right")).toBeCloseTo(200, 9);
    });
});

describe("estimates by sampled pairs", () => {
    const of = (columns: readonly string[], rows: number, name: string) =>
        inputNode(Object.fromEntries(columns.map((column) => [column, new Int64()])), { rows, name });
    const facts = of(["k", "v"], 1_000_000, "facts");
    const keys = of(["k", "w"], 100_000, "keys");
    const node = join(facts, keys, { on: "k" });
    const root = group(node, { keys: ["w"], aggregates: { n: { count: "*" } } });
    const rows = (pairs: SampledPairs, distinct = 100_000): number => {
        const statistics = new Map([
            ["0:0/integer/8", { ...sample(1_000_000, 1_000_000, 100_000), pairs: { "1:0/integer/8": pairs } }],
            ["1:0/integer/8", sample(100_000, 100_000, distinct)]
        ]);
        return new Estimator(root, statistics, defaultPolicy).of(node).rows;
    };

    test("are those of the samples, where these showed many", () => {
        expect(rows({ pairs: 200_000, pieces: 4000, shown: 0.02 }) / 200_000).toBeCloseTo(1, 2);
        expect(rows({ pairs: 3_000_000, pieces: 60_000, shown: 0.02 }, 50_000) / 3_000_000).toBeCloseTo(1, 2);
    });

    test("are no more than one for each row, where the other side has each key once", () => {
        expect(rows({ pairs: 3_000_000, pieces: 60, shown: 0.02 })).toBe(1_000_000);
    });

    test("are those of numbers of keys, where few pieces had pairs", () => {
        expect(rows({ pairs: 300_000, pieces: 2, shown: 0.02 })).toBeGreaterThan(500_000);
        expect(rows({ pairs: 0, pieces: 0, shown: 0.000_005 })).toBeGreaterThan(900_000);
        expect(rows({ pairs: 0, pieces: 0, shown: 0.02 })).toBeLessThan(100_000);
    });

    test("are wanted for joins of large trees, from a share of their rows on", () => {
        const wanted = (root: LogicalNode): number[] => wantedPairs(root, host).map(({ sampleRows }) => sampleRows);
        const host = samplingPolicy(defaultPolicy, {}, false);
        expect(wanted(node)).toEqual([]);
        expect(wanted(root)).toEqual([15_625]);
        const grouped = (left: LogicalNode, right: LogicalNode): LogicalNode =>
            group(join(left, right, { on: "k" }), { keys: ["w"], aggregates: { n: { count: "*" } } });
        expect(wanted(grouped(of(["k", "v"], 131_072, "f"), of(["k", "w"], 100, "d")))).toEqual([2048]);
        expect(wanted(grouped(of(["k", "v"], 131_071, "f"), of(["k", "w"], 100, "d")))).toEqual([]);
        // Two samples of 16,384 rows would show a pair or two of so many keys.
        expect(wanted(grouped(of(["k", "v"], 2 ** 28, "f"), of(["k", "w"], 2 ** 27, "d")))).toEqual([]);
    });
});

test("row widths follow the row format", () => {
    const node = inputNode({ k: new Int32(), v: new Int64(), t: new Utf8() }, { nullable: true });
    const types = node.columns.map((column) => column.type);
    const widths = [4, 8, 8].map((fixed, i) => ({ fixed, heap: i === 2 ? 10 : 0 }));
    const key = { column: 0, kind: "integer", kindOfValue: "integer", width: 4 } as const;
    expect(rowWidth(types, widths, [key], [], "drop")).toEqual({ fixed: 8, heap: 0 });
    // A carried key is in the key word; value, reference and NULL bits behind it.
    expect(rowWidth(types, widths, [key], [0, 1, 2], "keep")).toEqual({ fixed: 32, heap: 10 });
    const text = { column: 2, kind: "bytes", kindOfValue: "bytes", width: 0 } as const;
    expect(rowWidth(types, widths, [text], [], "drop")).toEqual({ fixed: 16, heap: 10 });
});

describe("pairs of a join", () => {
    const million = 1_000_000;
    const of = (rows: number, more: { name?: string; streamed?: boolean } = {}) =>
        inputNode({ k: new Int64(), t: new Utf8() }, { rows, ...more });
    const wanted = (left: number, right: number, options: object = {}, policy = defaultPolicy) =>
        wantedPairs(join(of(left), of(right, { name: "other" }), { on: "k", ...options }), policy);

    test("are sampled of large sides", () => {
        const [pairs] = wanted(100 * million, 100 * million);
        expect(pairs).toMatchObject({ left: { id: "0:0/integer/8" }, right: { id: "1:0/integer/8" } });
        expect(wanted(million, 100 * million)).toEqual([]);
    });

    test("are not where a hint tells them, few would be seen, or nothing runs on a GPU", () => {
        expect(wanted(100 * million, 100 * million, { hints: { resultRows: 1 } })).toEqual([]);
        expect(wanted(1000 * million, 1000 * million)).toEqual([]);
        const host = samplingPolicy(defaultPolicy, {}, false);
        expect(wanted(100 * million, 100 * million, {}, host)).toEqual([]);
        const streamed = of(100 * million, { streamed: true });
        expect(wantedPairs(join(streamed, of(100 * million), { on: "k" }), defaultPolicy)).toEqual([]);
        const counted = group(join(of(100 * million), of(100 * million), { on: "k" }), { keys: ["k"] });
        expect(wantedPairs(counted, defaultPolicy)).toHaveLength(1);
    });
});

describe("samples of values", () => {
    const rows = defaultPolicy.devicePackedRowsMin;
    const sampled = (types: Record<string, DataType>, policy = defaultPolicy, shape: InputShape = {}): number[] =>
        sampledColumns(inputsOf(inputNode(types, { rows, ...shape }))[0]!, policy);

    test("are sampled of columns whose values have a width that blocks have", () => {
        const packable = [new Int8(), new Int16(), new Int32(), new Int64(), new Float64(), new TimestampSecond()];
        const wide = [new Decimal(2, 30, 128), ...[1, 2, 4, 8, 16].map((width) => new FixedSizeBinary(width))];
        const types = Object.fromEntries([...packable, ...wide].map((type, at) => [`c${at}`, type]));
        expect(sampled(types)).toEqual(Object.keys(types).map((_, at) => at));
        expect(sampled(types, defaultPolicy, { nullable: true })).toHaveLength(12);
    });

    test("are not of any others: indices of dictionaries are known by their number", () => {
        const others = {
            ...{ bool: new Bool(), text: new Utf8(), nothing: new Null(), wide: new Decimal(2, 60, 256) },
            ...{ three: new FixedSizeBinary(3), more: new FixedSizeBinary(17) },
            ...{ list: new List(new Field("item", new Int64())), word: new Dictionary(new Utf8(), new Int32()) }
        };
        expect(sampled(others)).toEqual([]);
        expect(sampled({ ...others, k: new Int64() })).toEqual([Object.keys(others).length]);
    });

    test("are sampled of no more columns than are worth it, the first ones", () => {
        const types = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`c${at}`, new Int64()]));
        expect(sampled({ text: new Utf8(), ...types })).toEqual(Array.from({ length: 64 }, (_, at) => at + 1));
    });

    test("are not sampled of few rows, nor of rows that come once, nor where nothing runs on a GPU", () => {
        const types = { k: new Int64() };
        expect(sampled(types, defaultPolicy, { rows: rows - 1 })).toEqual([]);
        expect(sampled(types, samplingPolicy(defaultPolicy, {}, true))).toEqual([0]);
        expect(sampled(types, samplingPolicy(defaultPolicy, {}, false), { rows: 2 ** 40 })).toEqual([]);
        for (const kind of ["stream", "held"]) {
            const [input] = inputsOf(inputNode(types, { rows }));
            Object.assign(input!, { source: { kind } });
            expect(sampledColumns(input!, defaultPolicy)).toEqual([]);
        }
    });
});

test("Keys of passes and array joins that are asked for are sampled, however few they are", () => {
    const from = (debug: Parameters<typeof samplingPolicy>[1]): number =>
        samplingPolicy(defaultPolicy, debug, false).sampledFromRows;
    for (const debug of [{ passes: 2 }, { algorithm: "array" }] as const) {
        expect(from({})).toBe(defaultPolicy.sampledFromRows);
        expect(from(debug)).toBe(1);
    }
    // One algorithm with passes, and without.
    expect(from({ algorithm: "pipeline" })).toBe(defaultPolicy.sampledFromRows);
    expect(from({ algorithm: "pipeline", passes: 5 })).toBe(1);
});
