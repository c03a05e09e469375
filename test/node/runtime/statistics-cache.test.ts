// SPDX-License-Identifier: Apache-2.0
// Samples of relations: which are taken, for what they are kept, and what becomes of those that cannot be taken.
import { Bool, Int32, Int64, tableFromArrays, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { Job } from "../../../src/execute/job.js";
import type { KeySpec } from "../../../src/model/column-type.js";
import type { InputInfo, LogicalNode } from "../../../src/plan/logical.js";
import { defaultPolicy, type Policy } from "../../../src/planner/policy.js";
import type { KeyStatistics } from "../../../src/planner/statistics.js";
import { StatisticsCache } from "../../../src/runtime/statistics-cache.js";
import { FakeBinding } from "../../support/fake-binding.js";
import { fakeRuntime } from "../../support/fake-runtime.js";
import { failureOf } from "../../support/made-up-gpu.js";
import { group, inputNode, join } from "../../support/planning.js";

const sample = {
    rows: 20_000,
    nulls: 0,
    min: 0n,
    max: 19_999n,
    sampledRows: 4096,
    sampledDistinct: 4096,
    heaviestShare: 0
};

test("a relation is sampled for its first query and admitted once for those that follow", async () => {
    const { fake, runtime } = fakeRuntime({ keyStatistics: () => Promise.resolve(sample) });
    const rows = Int32Array.from({ length: sample.rows }, (_, i) => i);
    const [left, right] = ["a", "b"].map((name) => runtime.fromTable(tableFromArrays({ k: rows, [name]: rows })));
    const join = () => runtime.join({ left: left!, right: right!, on: "k" });
    const calls = (name: string): number => fake.calls.filter((call) => call === name).length;
    const admitted: number[] = [];
    const { admission } = (left as unknown as { _runner: { admission: { admit: (...wanted: never[]) => unknown } } })
        ._runner;
    const admit = admission.admit.bind(admission);
    admission.admit = (...wanted) => {
        admitted.push(calls("keyStatistics"));
        return admit(...wanted);
    };
    for (let i = 0; i < 3; i++) await join().count();
    expect(calls("keyStatistics")).toBe(2);
    expect(admitted).toEqual([0, 2, 2, 2]);
    expect(fake.leftOpen).toEqual(["engine"]);
});

/** Sides of a hundred rows are sampled, and no pairs of them. */
const policy: Policy = { ...defaultPolicy, sampledFromRows: 100, pairSampleRows: 0, repeatsSeenMin: 0 };
/** Their pairs are sampled too. */
const withPairs: Policy = { ...policy, pairSampleRows: 10, pairSampleShareMin: 1, pairsSeenMin: 0 };

const columns = { k: new Int32(), a: new Int32(), w: new Int64() };
const relation = (name: string): LogicalNode => inputNode(columns, { rows: 1000, name });
const inputOf = (node: LogicalNode): InputInfo => (node as Extract<LogicalNode, { kind: "input" }>).input;
const key = (column: number): KeySpec => ({ column, kind: "integer", kindOfValue: "integer", width: 4 });

interface Answers {
    /** What the next sample of keys, of pairs and of values fails with. */
    sampleFailure?: Error;
    pairsFailure?: Error;
    samplesFailure?: Error;
}

/** A cache, and an engine that numbers its samples by their rows and its estimates of pairs, and values by columns. */
function cacheOn(answers: Answers = {}) {
    const asked: unknown[] = [];
    const made = { samples: 0, pairs: 0 };
    const fake = new FakeBinding({
        keyStatistics: async (_: unknown, handle: unknown, keys: unknown, options: unknown) => {
            asked.push([handle, keys, options]);
            if (answers.sampleFailure !== undefined) throw answers.sampleFailure;
            return { ...sample, rows: ++made.samples };
        },
        keyPairs: async (...args: unknown[]) => {
            asked.push(args.slice(1));
            if (answers.pairsFailure !== undefined) throw answers.pairsFailure;
            return { pairs: 1000 * ++made.pairs, pieces: made.pairs };
        },
        sampleValues: async (_: unknown, handle: unknown, columns: number[]) => {
            asked.push([handle, columns]);
            if (answers.samplesFailure !== undefined) throw answers.samplesFailure;
            return columns.map((column) => ({ bits: 10 + column, magnitude: column }));
        }
    });
    const cache = new StatisticsCache();
    const job = new Job(fake.binding, "engine" as never, undefined);
    const collect = async (root: LogicalNode, by = policy, open = new Map<InputInfo, never>()) =>
        await cache.collect(job, root, by, 3, { open });
    return { fake, cache, asked, made, collect };
}
const rowsOf = (found: ReadonlyMap<string, KeyStatistics> | undefined) =>
    found && Object.fromEntries([...found].map(([id, { rows }]) => [id, rows]));

describe("samples of keys", () => {
    test("are taken from sources that are opened for it, and closed again", async () => {
        const { fake, asked, collect } = cacheOn();
        const found = await collect(join(relation("l"), relation("r"), { on: { a: "k" } }));
        expect(rowsOf(found)).toEqual({ "0:1/integer/4": 1, "1:0/integer/4": 2 });
        const options = { sampleRows: policy.joinSampleRows, exactRange: false, workers: 3 };
        expect(asked).toEqual([
            [{ kind: "source" }, [key(1)], options],
            [{ kind: "source" }, [key(0)], options]
        ]);
        expect(fake.leftOpen).toEqual([]);
    });

    test("are taken from sources that are open, which stay so", async () => {
        const { fake, asked, collect } = cacheOn();
        const [left, right] = [relation("l"), relation("r")];
        const open = new Map([
            [inputOf(left), "left source" as never],
            [inputOf(right), "right source" as never]
        ]);
        await collect(join(left, right, { on: "k" }), withPairs, open);
        expect(asked.map((call) => (call as unknown[])[0])).toEqual(["left source", "right source", "left source"]);
        expect(asked[2]).toEqual(["left source", [key(0)], "right source", [key(0)], 10]);
        expect(fake.calls.filter((call) => /source$/i.test(call))).toEqual([]);
    });

    test("are kept for the relation, its keys and what was asked of them", async () => {
        const { cache, made, collect } = cacheOn();
        const [left, right] = [relation("l"), relation("r")];
        const queries: [LogicalNode, Policy][] = [
            [join(left, right, { on: "k" }), policy],
            [join(left, right, { on: "a" }), policy],
            [join(left, right, { on: "w" }), policy],
            [join(left, right, { on: ["k", "a"] }), policy],
            [join(left, right, { on: ["a", "k"] }), policy],
            [join(left, right, { on: "k", algorithm: "npj-perfect" }), policy],
            [join(left, right, { on: "k" }), { ...policy, joinSampleRows: 77 }],
            [group(relation("l"), { keys: ["k"] }), policy]
        ];
        const first: unknown[] = [];
        for (const [root, by] of queries) {
            expect(cache.known(root, by)).toBeUndefined();
            first.push(rowsOf(await collect(root, by)));
        }
        expect(made.samples).toBe(15);
        for (const [i, [root, by]] of queries.entries()) {
            expect(rowsOf(cache.known(root, by))).toEqual(first[i]);
            expect(rowsOf(await collect(root, by))).toEqual(first[i]);
        }
        expect(made.samples).toBe(15);
        // One side is not known.
        expect(cache.known(join(left, relation("other"), { on: "k" }), policy)).toBeUndefined();
    });

    test.each(["BUDGET_TOO_SMALL", "OUT_OF_MEMORY"] as const)(
        "are done without where memory is short: %s",
        async (code) => {
            const answers: Answers = { sampleFailure: failureOf(code) };
            const { fake, cache, collect } = cacheOn(answers);
            const root = join(relation("l"), relation("r"), { on: "k" });
            expect([...(await collect(root, withPairs))]).toEqual([]);
            expect(cache.known(root, policy)).toBeUndefined();
            expect(fake.leftOpen).toEqual([]);
            delete answers.sampleFailure;
            expect(rowsOf(await collect(root))).toEqual({ "0:0/integer/4": 1, "1:0/integer/4": 2 });
        }
    );

    test("that fail for any other reason fail the query", async () => {
        const { fake, collect } = cacheOn({ sampleFailure: failureOf("FILE_CHANGED") });
        await expect(collect(join(relation("l"), relation("r"), { on: "k" }))).rejects.toMatchObject({
            code: "FILE_CHANGED"
        });
        expect(fake.leftOpen).toEqual([]);
    });

    test("are not to be had of streams", async () => {
        const { collect } = cacheOn();
        const stream = relation("s");
        Object.assign(inputOf(stream), { source: { kind: "stream" } });
        const failed = collect(join(stream, relation("r"), { on: "k" }));
        await expect(failed).rejects.toMatchObject({ code: "INTERNAL" });
    });
});

describe("estimates of pairs", () => {
    const pairsOf = (found: ReadonlyMap<string, KeyStatistics> | undefined) =>
        found &&
        [...found.values()].map(
            ({ pairs }) => pairs && Object.fromEntries(Object.entries(pairs).map(([id, one]) => [id, one.pairs]))
        );

    test("are taken once for the keys of two relations, and belong to the left one", async () => {
        const { cache, made, asked, fake, collect } = cacheOn();
        const [left, right, other] = [relation("l"), relation("r"), relation("o")];
        const roots = [
            join(left, right, { on: { k: "a" } }),
            join(left, right, { on: { k: "k" } }),
            join(left, right, { on: { a: "k" } }),
            join(right, left, { on: { k: "k" } }),
            join(left, other, { on: { k: "k" } })
        ];
        const ids = ["1:1", "1:0", "1:0", "1:0", "1:0"].map((id) => `${id}/integer/4`);
        const expected = ids.map((id, i) => [{ [id]: 1000 * (i + 1) }, undefined]);
        for (const [i, root] of roots.entries()) {
            // Its samples may be known from the joins before.
            expect(cache.known(root, withPairs)).toBeUndefined();
            expect(pairsOf(await collect(root, withPairs))).toEqual(expected[i]);
        }
        expect(asked[2]).toEqual([{ kind: "source" }, [key(0)], { kind: "source" }, [key(1)], 10]);
        for (const [i, root] of roots.entries()) {
            expect(pairsOf(cache.known(root, withPairs))).toEqual(expected[i]);
            expect(pairsOf(await collect(root, withPairs))).toEqual(expected[i]);
        }
        expect(made.pairs).toBe(5);
        expect(cache.known(roots[0]!, { ...withPairs, pairSampleRows: 11 })).toBeUndefined();
        expect(fake.leftOpen).toEqual([]);
    });

    test("of one side with several others are kept beside each other", async () => {
        const { collect } = cacheOn();
        const left = relation("l");
        const first = join(left, relation("r"), { on: "k", select: ["k"] });
        const second = join(left, relation("o"), { on: "k", select: ["k"] });
        const found = await collect(join(first, second, { on: "k" }), withPairs);
        expect(Object.keys(found.get("0:0/integer/4")!.pairs ?? {})).toEqual(["1:0/integer/4", "2:0/integer/4"]);
    });

    test.each(["BUDGET_TOO_SMALL", "OUT_OF_MEMORY"] as const)(
        "are done without where memory is short: %s",
        async (code) => {
            const answers: Answers = { pairsFailure: failureOf(code) };
            const { fake, cache, collect } = cacheOn(answers);
            const root = join(relation("l"), relation("r"), { on: "k" });
            const found = await collect(root, withPairs);
            expect([...found.values()].map((one) => "pairs" in one)).toEqual([false, false]);
            expect(cache.known(root, withPairs)).toBeUndefined();
            expect(fake.leftOpen).toEqual([]);
            delete answers.pairsFailure;
            expect(pairsOf(await collect(root, withPairs))).toEqual([{ "1:0/integer/4": 1000 }, undefined]);
        }
    );

    test("that fail for any other reason fail the query", async () => {
        const { fake, collect } = cacheOn({ pairsFailure: failureOf("FILE_CHANGED") });
        const failed = collect(join(relation("l"), relation("r"), { on: "k" }), withPairs);
        await expect(failed).rejects.toMatchObject({ code: "FILE_CHANGED" });
        expect(fake.leftOpen).toEqual([]);
    });
});

describe("keys that a query found to be less dense or unique than their sample", () => {
    const dense = (found: ReadonlyMap<string, KeyStatistics> | undefined) =>
        found && [...found.values()].map(({ notDense }) => notDense !== true);

    test("are known so from then on, whatever sample is taken of them", async () => {
        const { cache, collect } = cacheOn();
        const [left, right] = [relation("l"), relation("r")];
        const [onKey, onOther] = [join(left, right, { on: "k" }), join(left, right, { on: "a" })];
        for (const root of [onKey, onOther]) expect(dense(await collect(root))).toEqual([true, true]);
        cache.disprove(inputOf(left), [key(0)]);
        expect(dense(cache.known(onKey, policy))).toEqual([false, true]);
        expect(dense(cache.known(onOther, policy))).toEqual([true, true]);
        expect(dense(await collect(onKey, { ...policy, joinSampleRows: 77 }))).toEqual([false, true]);
        cache.disprove(inputOf(left), [key(1)]);
        expect(dense(cache.known(onKey, policy))).toEqual([false, true]);
        expect(dense(cache.known(onOther, policy))).toEqual([false, true]);
    });

    test("of a stream are nothing to remember", async () => {
        const { cache } = cacheOn();
        const stream = relation("s");
        Object.assign(inputOf(stream), { source: { kind: "stream" } });
        expect(() => cache.disprove(inputOf(stream), [key(0)])).not.toThrow();
    });
});

describe("samples of values", () => {
    /** Keys are not sampled, so that nothing else is asked. */
    const samplesPolicy: Policy = { ...policy, sampledFromRows: Infinity, devicePackedRowsMin: 1000 };
    const mixed = (name: string, rows = 1000): LogicalNode =>
        inputNode({ t: new Utf8(), k: new Int32(), b: new Bool(), w: new Int64() }, { rows, name });

    test("are sampled once for a relation, of the columns that have any, and kept by their places", async () => {
        const { cache, asked, fake, collect } = cacheOn();
        const [left, right] = [mixed("l"), mixed("r")];
        const root = join(left, right, { on: "k" });
        expect(cache.known(root, samplesPolicy)).toBeUndefined();
        expect([...cache.valueSamples(root)]).toEqual([]);
        for (let i = 0; i < 2; i++) {
            expect([...(await collect(root, samplesPolicy))]).toEqual([]);
            expect(cache.known(root, samplesPolicy)).toEqual(new Map());
        }
        expect(asked).toEqual([
            [{ kind: "source" }, [1, 3]],
            [{ kind: "source" }, [1, 3]]
        ]);
        const values = [undefined, { bits: 11, magnitude: 1 }, undefined, { bits: 13, magnitude: 3 }];
        expect([...cache.valueSamples(root)]).toEqual([
            [inputOf(left), values],
            [inputOf(right), values]
        ]);
        // Other queries of one of them know them, too.
        const grouped = group(left, { keys: ["k"] });
        expect([...cache.valueSamples(grouped).values()]).toEqual([values]);
        expect(cache.known(grouped, samplesPolicy)).toEqual(new Map());
        expect(cache.known(join(left, mixed("other"), { on: "k" }), samplesPolicy)).toBeUndefined();
        expect(fake.leftOpen).toEqual([]);
    });

    test("have no magnitude any more once a query has found larger sums", async () => {
        const { cache, collect } = cacheOn();
        const root = mixed("l");
        cache.outgrow(inputOf(root)); // nothing is known yet
        await collect(group(root, { keys: ["k"] }), samplesPolicy);
        cache.outgrow(inputOf(root));
        const [k, w] = [11, 13].map((bits) => ({ bits, magnitude: Infinity }));
        expect([...cache.valueSamples(root).values()]).toEqual([[undefined, k, undefined, w]]);
    });

    test("are not sampled of few rows, of streams, or where nothing runs on a GPU", async () => {
        const { cache, asked, collect } = cacheOn();
        const stream = mixed("s");
        Object.assign(inputOf(stream), { source: { kind: "stream" } });
        const root = join(stream, mixed("few", 999), { on: "k" });
        await collect(root, samplesPolicy);
        await collect(join(mixed("l"), mixed("r"), { on: "k" }), { ...policy, sampledFromRows: Infinity });
        expect(asked).toEqual([]);
        expect([...cache.valueSamples(root)]).toEqual([]);
        expect(cache.known(root, samplesPolicy)).toEqual(new Map());
    });

    test("are sampled of sources that are open, which stay so", async () => {
        const { fake, asked, collect } = cacheOn();
        const left = mixed("l");
        await collect(
            join(left, mixed("few", 10), { on: "k" }),
            samplesPolicy,
            new Map([[inputOf(left), "left" as never]])
        );
        expect(asked).toEqual([["left", [1, 3]]]);
        expect(fake.calls.filter((call) => /source$/i.test(call))).toEqual([]);
    });

    test.each(["BUDGET_TOO_SMALL", "OUT_OF_MEMORY"] as const)(
        "are done without where memory is short: %s",
        async (code) => {
            const { cache, fake, collect } = cacheOn({ samplesFailure: failureOf(code) });
            const root = join(mixed("l"), mixed("r"), { on: "k" });
            expect([...(await collect(root, samplesPolicy))]).toEqual([]);
            expect([...cache.valueSamples(root).values()].flat()).toEqual([]);
            expect(fake.leftOpen).toEqual([]);
        }
    );

    test("that fail for any other reason fail the query", async () => {
        const { fake, collect } = cacheOn({ samplesFailure: failureOf("FILE_CHANGED") });
        const failed = collect(join(mixed("l"), mixed("r"), { on: "k" }), samplesPolicy);
        await expect(failed).rejects.toMatchObject({ code: "FILE_CHANGED" });
        expect(fake.leftOpen).toEqual([]);
    });
});
