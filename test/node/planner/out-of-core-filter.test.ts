// SPDX-License-Identifier: Apache-2.0
// When joins out of core drop probe rows by a Bloom filter, from the shapes of relations alone.
import { Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { checkDebugKnobs, type Knobs } from "../../../src/model/debug-knobs.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { planText } from "../../../src/plan/plan-text.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { chooseFilter, falsePositiveShare, type FilterDraft } from "../../../src/planner/streaming/join/filter.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import type { KeyStatistics } from "../../../src/planner/statistics.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";
import { Random } from "../../support/random.js";

const gibibyte = 2 ** 30;
const rows = 2 ** 30;

interface Given {
    matchRatio?: number;
    limitBytes?: number;
    debug?: Knobs;
    options?: object;
    budgetBytes?: number;
}

/** 2^30 rows of 16 bytes on both sides, counted; the hint for the result says how many have a partner. */
function planOf({ matchRatio = 0.1, limitBytes = 4 * gibibyte, debug = {}, options, budgetBytes }: Given): Plan {
    const columns = { k: new Int64(), v: new Int64() };
    const [left, right] = ["l", "r"].map((name) => inputNode(columns, { rows, name }));
    const hints = { resultRows: Math.round(matchRatio * rows), buildSide: "left" };
    const root = join(left!, right!, { on: "k", hints, ...options });
    const query = planQueryOf(root, { budgetBytes: budgetBytes ?? 128 * gibibyte, threads: 16, sink: "count", debug });
    const plan = planOutOfCore(query, planQuery(query), limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    return plan;
}

const stageOf = (given: Given): OutOfCoreStage => planOf(given).stages[0] as OutOfCoreStage;

describe("a filter", () => {
    test("is chosen where few probe rows have a partner and some would be spilled", () => {
        for (const matchRatio of [0, 0.1, 0.5, 0.8, 0.95, 1]) {
            for (const limit of [1, 2, 4, 8, 64]) {
                const limitBytes = limit * gibibyte;
                const chosen = stageOf({ matchRatio, limitBytes });
                const plain = stageOf({ matchRatio, limitBytes, debug: { filter: false } });
                const what = `${matchRatio} in ${limit} GiB: ${chosen.filter.reason}`;
                const used = chosen.filter.bytes > 0;
                if (matchRatio <= 0.5 && limit >= 2) expect(used, what).toBe(limit <= 8);
                if (matchRatio >= 0.95) expect(used, what).toBe(false);
                expect(plain.sizes.filterWords, what).toBe(0);
                expect(chosen.predictedMs, what).toBeLessThanOrEqual(plain.predictedMs);
                expect(chosen.deviceBytes, what).toBeLessThanOrEqual(limitBytes);
                expect(chosen.filter.bytes, what).toBe(8 * chosen.sizes.filterWords);
            }
        }
    });

    test("saves what it drops of the spilled rows, both ways, and costs build rows their room", () => {
        const [plain, filtered] = [false, true].map((filter) => stageOf({ debug: { filter } }));
        const { sizes, predicted, filter } = filtered!;
        expect(Math.log2(sizes.filterWords) % 1).toBe(0);
        expect(sizes.residentPartitions).toBeLessThan(plain!.sizes.residentPartitions);
        expect(filter.droppedShare).toBeCloseTo(0.9 * (1 - falsePositiveShare(rows, sizes.filterWords)), 6);
        expect(predicted.droppedRows).toBe(Math.round(rows * filter.droppedShare));
        expect(plain!.predicted.droppedRows).toBe(0);
        const share = ({ sizes: { residentPartitions, radixBits } }: OutOfCoreStage): number =>
            1 - residentPartitions / 2 ** radixBits;
        const before = plain!.predicted.spilledBytes / share(plain!);
        const after = (before * (2 - filter.droppedShare)) / 2;
        expect(predicted.spilledBytes).toBeCloseTo(after * share(filtered!), -4);
        expect(predicted.h2dBytes - predicted.spilledBytes).toBe(2 * rows * 8);
    });

    test("is for joins whose result has no probe rows without a partner", () => {
        const mayHave = (type: string, buildSide: string): boolean =>
            stageOf({ debug: { filter: true }, options: { type, hints: { buildSide } } }).filter.bytes > 0;
        for (const side of ["left", "right"]) {
            const other = side === "left" ? "right" : "left";
            expect(mayHave("inner", side)).toBe(true);
            expect(mayHave("semi", side)).toBe(true);
            expect(mayHave("full", side)).toBe(false);
            expect(mayHave(side, side)).toBe(true);
            expect(mayHave(other, side)).toBe(false);
        }
        expect(mayHave("anti", "left")).toBe(true);
        expect(mayHave("anti", "right")).toBe(false);
    });

    test("follows the knob", () => {
        expect(stageOf({ matchRatio: 1, debug: { filter: true } }).filter).toMatchObject({ droppedShare: 0 });
        expect(stageOf({ matchRatio: 1, debug: { filter: true } }).sizes.filterWords).toBeGreaterThan(0);
        expect(stageOf({ limitBytes: 64 * gibibyte, debug: { filter: true } }).sizes.filterWords).toBeGreaterThan(0);
        expect(stageOf({ debug: { filter: false } }).sizes.filterWords).toBe(0);
        expect(() => checkDebugKnobs({ filter: 1 }, "debug")).toThrow(/debug.filter/);
    });

    test("takes a quarter of GPU memory at most, and none that the join cannot do without", () => {
        for (const limitBytes of [32 * 2 ** 20, 100 * 2 ** 20, gibibyte]) {
            const stage = stageOf({ limitBytes, debug: { filter: true } });
            expect(stage.filter.bytes).toBeLessThanOrEqual(limitBytes / 4);
            expect(stage.deviceBytes).toBeLessThanOrEqual(limitBytes);
        }
    });

    test("is explained, and so is that there is none", () => {
        expect(planText(planOf({}))).toMatch(
            /Bloom filter of \d+(\.\d+)? [GM]iB: drops about 8\d % of the probe rows before they are spilled \(about/
        );
        expect(planText(planOf({ matchRatio: 1 }))).toMatch(/no Bloom filter: about 100 % of the probe rows/);
        const resident = planOf({ limitBytes: 64 * gibibyte });
        expect(planText(resident)).not.toMatch(/Bloom/);
        expect((resident.stages[0] as OutOfCoreStage).filter.reason).toBe("no rows are spilled");
        expect(stageOf({ options: { type: "full" } }).filter.reason).toMatch(/without a partner are in the result/);
    });
});

test("a plan that is possible with a filter alone has one, and one without where none is possible with it", () => {
    const bytes = { h2dBytes: 1, d2hBytes: 1, spilledBytes: 1, peerBytes: 0, diskBytes: 0 };
    const predicted = { ...bytes, droppedRows: 0, gatherMs: 0 };
    const timed = { predicted: { ...predicted, buildMs: 1, probeMs: 1, spilledMs: 1 } };
    const shape = { emit: "pairs", anti: false, keepUnmatchedProbe: false } as const;
    const request = { shape, buildKeys: 1000, matchRatio: 0.5, matchRatioMost: 0.5, limitBytes: gibibyte, debug: {} };
    const choose = (possible: (draft: FilterDraft) => boolean, wanted?: boolean) =>
        chooseFilter({ ...request, debug: wanted === undefined ? {} : { filter: wanted } }, (draft) => {
            if (!possible(draft)) throw new NotOnDevice(`no room with ${draft.words} words`);
            return timed;
        }).filter;
    expect(choose(({ words }) => words > 0)).toMatchObject({
        bytes: 2048,
        reason: "about 50 % of the probe rows have a partner; without it no room with 0 words"
    });
    expect(choose(({ words }) => words === 0)).toMatchObject({ bytes: 0, reason: "no room with 256 words" });
    expect(choose(({ words }) => words <= 64, true)).toMatchObject({ bytes: 512 });
    expect(() => choose(() => false)).toThrow(NotOnDevice);
    expect(() => choose(({ words }) => words === 0, true)).toThrow(NotOnDevice);
});

test("a filter that pays only if the samples say all is not planned", () => {
    const shape = { emit: "pairs", anti: false, keepUnmatchedProbe: false } as const;
    // A filter saves what it drops, and its memory costs a tenth.
    const planWith = ({ words, droppedShare }: FilterDraft) => {
        const bytes = { h2dBytes: 1, d2hBytes: 1, peerBytes: 0, diskBytes: 0 };
        const none = { ...bytes, droppedRows: 0, gatherMs: 0, buildMs: 0, probeMs: 0 };
        return { predicted: { ...none, spilledBytes: 1, spilledMs: 100 * (1 - droppedShare) + (words > 0 ? 10 : 0) } };
    };
    const choose = (matchRatio: number, matchRatioMost: number) =>
        chooseFilter({ shape, buildKeys: 1000, matchRatio, matchRatioMost, limitBytes: gibibyte, debug: {} }, planWith);
    expect(choose(0.7, 0.7).filter.bytes).toBeGreaterThan(0);
    expect(choose(0.7, 0.8).filter.bytes).toBeGreaterThan(0);
    const { filter, predicted } = choose(0.7, 1);
    expect(filter).toMatchObject({ bytes: 0, droppedShare: 0 });
    expect(filter.reason).toBe(
        "about 70 % of the probe rows have a partner (100 % at most), 110 ms with a filter and 100 ms without"
    );
    expect(predicted.spilledMs).toBe(100);
    // What is told is what is expected, not the least that was asked of it.
    expect(choose(0.7, 0.8).predicted.spilledMs).toBeLessThan(85);
});

/** Plans for samples of 2^28 x 2^28 rows that show so many pairs, `sampledDistinct` keys among 16,384 probe rows. */
function sampledStage(pairsSeen: number, sampledDistinct = 16_384): OutOfCoreStage {
    const rowsOfSide = 2 ** 28;
    const columns = { k: new Int64(), v: new Int64() };
    const [left, right] = ["l", "r"].map((name) => inputNode(columns, { rows: rowsOfSide, name }));
    const sample = { rows: rowsOfSide, nulls: 0, min: 0n, max: 2n ** 60n, sampledRows: 16_384, heaviestShare: 0 };
    const shown = (defaultPolicy.pairSampleRows / rowsOfSide) ** 2;
    const pairs = { "1:0/integer/8": { pairs: pairsSeen / shown, pieces: pairsSeen, shown } };
    const statistics = new Map<string, KeyStatistics>([
        ["0:0/integer/8", { ...sample, sampledDistinct: 16_384, pairs }],
        ["1:0/integer/8", { ...sample, sampledDistinct }]
    ]);
    const root = join(left!, right!, { on: "k", hints: { buildSide: "left" } });
    const query = planQueryOf(root, { budgetBytes: 128 * gibibyte, threads: 16, sink: "count", statistics });
    const plan = planOutOfCore(query, planQuery(query), gibibyte);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreStage;
}

describe("samples of 2^28 x 2^28 rows", () => {
    test("that may hide that all rows have a partner plan no filter", () => {
        // 64 pairs are seen if all have one: 48 is two standard deviations less.
        for (const seen of [80, 64, 56, 48]) expect(sampledStage(seen).filter.bytes, String(seen)).toBe(0);
        expect(sampledStage(56).filter.reason).toMatch(/about 89 % of the probe rows .* \(100 % at most\)/);
        for (const seen of [32, 16, 6, 0]) {
            const { filter, predicted } = sampledStage(seen);
            expect(filter.bytes, `${seen}: ${filter.reason}`).toBeGreaterThan(0);
            expect(predicted.droppedRows / 2 ** 28).toBeCloseTo(filter.droppedShare, 6);
            // Where none is seen, both sides may be sorted alike, and no piece of one have met its piece of the other.
            expect(filter.droppedShare).toBeGreaterThan((seen === 0 ? 0.4 : 0.75) * (1 - seen / 64));
        }
    });

    test("in which keys come again say nothing of those rows", () => {
        expect(sampledStage(6, 16_000).filter.bytes).toBeGreaterThan(0);
        // Zipf 1.5: hardly any row whose key is not frequent.
        const skewed = sampledStage(3, 1000);
        expect(skewed.filter.bytes, skewed.filter.reason).toBe(0);
    });
});

test("false positives are as many as a filter of drawn bits has", () => {
    const random = new Random(5);
    const words = 4096;
    const drawBits = (): number[] => Array.from({ length: 4 }, () => random.below(64));
    for (const keysPerWord of [2, 4, 8, 16, 32]) {
        const filter = Array.from({ length: words }, () => new Set<number>());
        for (let key = 0; key < words * keysPerWord; ++key) {
            const word = filter[random.below(words)]!;
            for (const bit of drawBits()) word.add(bit);
        }
        const looks = 20_000;
        let passed = 0;
        for (let look = 0; look < looks; ++look) {
            const word = filter[random.below(words)]!;
            if (drawBits().every((bit) => word.has(bit))) passed++;
        }
        const expected = falsePositiveShare(words * keysPerWord, words);
        expect(Math.abs(passed / looks - expected)).toBeLessThan(0.002 + 0.06 * expected);
    }
    expect(falsePositiveShare(8000, 1000)).toBeCloseTo(0.034, 3);
    expect(falsePositiveShare(4000, 1000)).toBeCloseTo(0.005, 3);
    expect(falsePositiveShare(0, 2)).toBeCloseTo(0, 10);
});
