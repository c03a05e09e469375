// SPDX-License-Identifier: Apache-2.0
// Keys as places of an array: their range, whether each is there once, and whether the array would be taken.
import { Int32, Int64, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { KeySpec } from "../../../src/model/column-type.js";
import type { LogicalNode } from "../../../src/plan/logical.js";
import { Estimator } from "../../../src/planner/estimates.js";
import {
    arrayKeys,
    arrayObstacle,
    arraySlotsMax,
    fitsArray,
    isUnique,
    rangeOf
} from "../../../src/planner/perfect-keys.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { keyRange, sharedRange, wantedStatistics, type KeyStatistics } from "../../../src/planner/statistics.js";
import { group, inputNode, join } from "../../support/planning.js";

const million = 1_000_000;
const integer = (column: number, width: number): KeySpec => ({
    ...{ column, width },
    ...{ kind: "integer", kindOfValue: "integer" }
});

/** Keys 0 .. 999,999 of a million rows, of which a sample of 16,384 saw no two that are equal. */
const keysOf = (more: Partial<KeyStatistics> = {}): KeyStatistics => ({
    ...{ rows: million, nulls: 0, min: 0n, max: BigInt(million - 1), sampledRows: 16_384, sampledDistinct: 16_384 },
    ...{ heaviestShare: 1 / million, ...more }
});

const estimatorOf = (root: LogicalNode, statistics?: KeyStatistics): Estimator => {
    const ids = wantedStatistics(root, { ...defaultPolicy, sampledFromRows: 0 }).map(({ id }) => id);
    return new Estimator(root, new Map(statistics ? ids.map((id) => [id, statistics]) : []), defaultPolicy);
};

describe("the range of keys", () => {
    test("begins at the smallest, as a word of 64 bits", () => {
        expect(rangeOf(keysOf(), integer(0, 8))).toEqual({ firstKey: "0x0", keyRange: million });
        expect(rangeOf(keysOf({ min: 16n, max: 31n }), integer(0, 4))).toEqual({ firstKey: "0x10", keyRange: 16 });
        expect(rangeOf(keysOf({ min: -1n, max: 1n }), integer(0, 4))).toEqual({
            ...{ firstKey: "0xffffffffffffffff", keyRange: 3 }
        });
    });

    test("of narrow keys below zero is all that they can be: zeros in front tear it apart", () => {
        expect(rangeOf(keysOf({ min: -1n, max: 1n }), integer(0, 2))).toEqual({ firstKey: "0x0", keyRange: 65_536 });
        expect(rangeOf(keysOf({ min: 0n, max: 1n }), integer(0, 1))).toEqual({ firstKey: "0x0", keyRange: 2 });
    });

    test("is not known where either end is not", () => {
        for (const ends of [{ min: null }, { max: null }, { min: null, max: null }]) {
            expect(rangeOf(keysOf(ends), integer(0, 8))).toEqual({ firstKey: "0x0", keyRange: 0 });
            expect(keyRange(keysOf(ends))).toBe(null);
            expect(sharedRange(keysOf(ends), keysOf())).toBe(1);
            expect(sharedRange(keysOf(), keysOf(ends))).toBe(1);
        }
        expect(keyRange(keysOf({ min: -3n, max: 4n }))).toBe(8);
    });

    test("is shared with other keys in part, which samples that miss its ends may not deny", () => {
        const shared = (min: bigint, max: bigint): number =>
            sharedRange(keysOf({ min: 0n, max: 99n }), keysOf({ min, max }));
        expect([shared(0n, 99n), shared(-50n, 200n), shared(1n, 99n)]).toEqual([1, 1, 1]);
        expect([shared(50n, 99n), shared(0n, 24n), shared(25n, 74n)]).toEqual([0.5, 0.25, 0.5]);
        expect([shared(1n, 98n), shared(100n, 200n), shared(-9n, -1n)]).toEqual([0.98, 0, 0]);
    });
});

describe("keys are there once", () => {
    const table = inputNode({ k: new Int64(), g: new Int64() }, { rows: million });
    const unique = (node: LogicalNode, keys: number[], statistics?: KeyStatistics, tolerance = 0): boolean =>
        isUnique(
            node,
            keys.map((column) => integer(column, 8)),
            estimatorOf(node, statistics),
            defaultPolicy,
            tolerance
        );

    test("in groups by all of them or fewer, never after a join", () => {
        const grouped = group(table, { keys: ["k", "g"], aggregates: { n: { count: "*" } } });
        expect(unique(grouped, [0, 1])).toBe(true);
        expect(unique(grouped, [0, 1, 2])).toBe(true);
        expect(unique(grouped, [0])).toBe(false);
        expect(unique(grouped, [1, 2])).toBe(false);
        expect(unique(join(table, table, { on: "k", suffix: "_2" }), [0], keysOf(), 1)).toBe(false);
    });

    test("in a relation whose sample says so, or in a small one for who only estimates", () => {
        const self = (rows: number): LogicalNode => inputNode({ k: new Int64() }, { rows });
        const known = (statistics: KeyStatistics): boolean => {
            const joined = join(self(million), self(10), { on: "k", suffix: "_2" });
            return isUnique(joined.left, [integer(0, 8)], estimatorOf(joined, statistics), defaultPolicy, 0);
        };
        expect(known(keysOf())).toBe(true);
        expect(known(keysOf({ sampledDistinct: 16_383 }))).toBe(false);
        expect(known(keysOf({ rows: 5, nulls: 5, sampledRows: 0, sampledDistinct: 0 }))).toBe(true);
        const { sampledFromRows } = defaultPolicy;
        expect(unique(self(sampledFromRows - 1), [0], undefined, 0.01)).toBe(true);
        expect(unique(self(sampledFromRows), [0], undefined, 0.01)).toBe(false);
        expect(unique(self(sampledFromRows - 1), [0], undefined, 0)).toBe(false);
    });
});

describe("an array over keys", () => {
    const fits = (slots: number, more: Partial<KeyStatistics> = {}): boolean =>
        fitsArray(keysOf(more), slots, defaultPolicy);

    test("has half of the slots that the GPU would make, at most", () => {
        const most = arraySlotsMax(million, defaultPolicy) / 2;
        expect([fits(most), fits(most + 1)]).toEqual([true, false]);
        expect(arraySlotsMax(1, defaultPolicy)).toBe(defaultPolicy.devicePerfectRangeMin);
        expect([fits(0), fits(million, { notDense: true })]).toEqual([false, false]);
    });

    test("has a slot for nearly each key, of those that are no NULLs", () => {
        expect(fits(million)).toBe(true);
        expect(fits(Math.ceil(million * (1 - defaultPolicy.arrayRangeSlack)))).toBe(true);
        expect(fits(Math.floor(million * (1 - defaultPolicy.arrayRangeSlack)) - 1)).toBe(false);
        const halfNulls = { nulls: million / 2, sampledRows: million / 2, sampledDistinct: million / 2 };
        // All keys were seen: nothing is left to guess.
        expect(fits(10, halfNulls)).toBe(true);
        expect(fits(10, { ...halfNulls, nulls: million / 2 - 1 })).toBe(false);
    });

    test("is filled from a sample that would have shown repetitions", () => {
        const { repeatsSeenMin } = defaultPolicy;
        const sampledRows = Math.ceil(Math.sqrt(2 * million * repeatsSeenMin));
        expect(fits(million, { sampledRows, sampledDistinct: sampledRows })).toBe(true);
        expect(fits(million, { sampledRows: sampledRows - 1, sampledDistinct: sampledRows - 1 })).toBe(false);
    });

    test("takes one integer key, and no NULL that equals another", () => {
        const node = (key: "i" | "t", options: object = {}, rows = million) => {
            const side = inputNode({ i: new Int32(), j: new Int32(), t: new Utf8() }, { rows });
            return join(side, side, { on: key, suffix: "_2", ...options });
        };
        expect(arrayObstacle(node("i"), "left")).toBeUndefined();
        expect(arrayObstacle(node("t"), "right")).toMatch(/`t` is no integer/);
        expect(arrayObstacle(node("i", { on: ["i", "j"] }), "left")).toMatch(/one key column, not by 2/);
        expect(arrayObstacle(node("i", { nullEquality: true }), "left")).toMatch(/NULL/);
        const keys = (made: ReturnType<typeof node>, statistics?: KeyStatistics) =>
            arrayKeys(made, "left", estimatorOf(made, statistics), defaultPolicy);
        expect(keys(node("i"), keysOf())).toEqual({ slots: million, likely: true });
        expect(keys(node("i"))).toEqual({ slots: null, likely: false });
        expect(keys(node("i"), keysOf({ min: null, max: null }))).toEqual({ slots: null, likely: false });
        expect(keys(node("t"), keysOf())).toEqual({ slots: null, likely: false });
    });

    test("of groups is as dense as there are many of them", () => {
        const table = inputNode({ k: new Int64() }, { rows: million });
        const grouped = group(table, { keys: ["k"], aggregates: { n: { count: "*" } } });
        const likely = (more: Partial<KeyStatistics>): boolean => {
            const made = join(grouped, inputNode({ k: new Int64() }), { on: "k" });
            return arrayKeys(made, "left", estimatorOf(made, keysOf(more)), defaultPolicy).likely;
        };
        const most = arraySlotsMax(million, defaultPolicy) / 2;
        expect(likely({})).toBe(true);
        expect(likely({ max: BigInt(most - 1) })).toBe(true);
        expect(likely({ max: BigInt(most) })).toBe(false);
        expect(likely({ notDense: true })).toBe(false);
    });
});
