// SPDX-License-Identifier: Apache-2.0
// What each stage of a plan for the CPU reserves, to the byte: a term that a plan forgets breaks the memory promise,
// one that it counts twice costs speed, and neither changes a result. Figures are worked out beside each test from
// what the engine allocates: 4 workers, a budget of 1 GiB, and tables of 2^20 and 2^22 rows of 16 bytes.
import { Dictionary, Float64, Int32, Int64, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { Plan } from "../../../src/plan/plan.js";
import { limitLadder, type PlanLimits } from "../../../src/planner/limits.js";
import { openPageBytes, spillReadBytes, spillScratchBytes } from "../../../src/planner/partitioning.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { outputMemory } from "../../../src/planner/stage-memory.js";
import { wantedStatistics } from "../../../src/planner/statistics.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const kibibyte = 1024;
const mebibyte = 1024 * kibibyte;
const workers = 4;
const numbers = { k: new Int64(), v: new Float64() };
const build = inputNode(numbers, { rows: 2 ** 20, name: "build" });
const probe = inputNode(numbers, { rows: 2 ** 22, name: "probe" });
const small = inputNode(numbers, { rows: 2 ** 17, name: "small" });
const text = inputNode({ k: new Int64(), t: new Utf8() }, { rows: 2 ** 20, name: "text", textBytes: 12 });
const options = { on: "k", suffix: "_2" };
const radix = { debug: { algorithm: "radix" } } as const;

const planOf = (root: LogicalNode, more: Partial<PlanQuery> = {}): Plan => planQuery(planQueryOf(root, more));
/** [input, tables, output] of each stage. */
const memoryOf = (plan: Plan): [number, number, number][] =>
    plan.stages.map(({ memory }) => [memory.inputBytes, memory.tableBytes, memory.outputBytes]);
const poolsOf = (plan: Plan): [number, number][] =>
    plan.sets.map(({ poolBytesMin, poolBytesWanted }) => [poolBytesMin, poolBytesWanted]);

// A worker that reads two columns of 8 bytes takes 2^15 rows (half a mebibyte) at a time into one of two buffers, with
// a byte per value for NULLs; it encodes 1,024 rows of 16 bytes from two columns of 16 bytes each.
const encoding = workers * 1024 * (16 + 2 * 16);
const reading = workers * 2 * 2 ** 15 * (16 + 2) + encoding;
// One column of 8 bytes, 2^16 rows at a time, encoded into rows of 8 bytes.
const readingKeys = workers * (2 * 2 ** 16 * (8 + 1) + 1024 * (8 + 16));
// 2^7 partitions and that of NULL keys: a buffer of 8 rows for each, per worker.
const combining = workers * (2 ** 7 + 1) * 8 * 16;
// Batches of 2^15 rows (a mebibyte has room for 43,690 of 24 bytes) of three columns, each with a bit for NULL: every
// worker fills one and has one that waits, the queue holds 4, and the reader one.
const batches = (2 * workers + 4 + 1) * (2 ** 15 * 24 + (2 ** 15 * 3) / 8);

describe("a radix join", () => {
    const root = join(build, probe, options);

    test("reserves readers, write-combining buffers, cursors, tables and batches", () => {
        const plan = planOf(root, radix);
        expect(plan.sets.map(({ spec }) => [spec.radixBits, spec.pageBytes, spec.spillRunBytes])).toEqual([
            [7, 8 * kibibyte, 64 * kibibyte],
            [7, 32 * kibibyte, 64 * kibibyte]
        ]);
        // A partition has 2^13 rows of 16 bytes, with a table of 56 bytes a row, and may be a quarter larger.
        const tables = workers * 2 ** 13 * (16 + 56) * 1.25;
        expect(memoryOf(plan)).toEqual([
            [reading + combining, 0, 0],
            [reading + combining, 0, 0],
            [workers * 64 * kibibyte, tables, batches]
        ]);
        expect(plan.stages.at(-1)).toMatchObject({ spec: { tableBytes: tables, buildChunkBytes: tables } });
    });

    test("that packs what it spills reserves a run unpacked, two on their way and a write for each worker", () => {
        const plan = planOf(root, { debug: { ...radix.debug, packSpilled: true } });
        const scratch = workers * (256 * kibibyte + 2 * 64 * kibibyte);
        expect(memoryOf(plan).map(([input]) => input)).toEqual([
            reading + combining + scratch,
            reading + combining + scratch,
            workers * 2 * 64 * kibibyte
        ]);
    });

    test("that counts needs 20 bytes of table a row and no batches", () => {
        // Rows are keys alone, in 2^6 partitions.
        expect(memoryOf(planOf(root, { ...radix, sink: "count" })).at(-1)).toEqual([
            workers * 64 * kibibyte,
            workers * 2 ** 14 * (8 + 20) * 1.25,
            0
        ]);
        // Rows without a partner are told from those that have one.
        const left = planOf(join(build, probe, { ...options, type: "left" }), { ...radix, sink: "count" });
        expect(memoryOf(left).at(-1)?.[1]).toBe(workers * 2 ** 14 * (8 + 56) * 1.25);
    });

    test("has pools for its rows, open pages and one more; at least four times the open pages", () => {
        const open = [8, 32].map((page) => workers * (2 ** 7 + 1) * page * kibibyte);
        expect(poolsOf(planOf(root, radix))).toEqual([
            [4 * open[0]!, Math.ceil(2 ** 24 * 1.02) + open[0]! + 8 * kibibyte],
            [4 * open[1]!, Math.ceil(2 ** 26 * 1.02) + open[1]! + 32 * kibibyte]
        ]);
    });

    test("of a stream holds two groups of its batches, and half as many rows again as are expected", () => {
        const stream = inputNode(numbers, { rows: 2 ** 22, streamed: true });
        const plan = planOf(join(build, stream, options), radix);
        expect(memoryOf(plan)[1]).toEqual([encoding + combining + 2 * 8 * mebibyte, 0, 0]);
        const open = workers * (2 ** 7 + 1) * 32 * kibibyte;
        expect(poolsOf(plan)[1]).toEqual([4 * open, Math.ceil(2 ** 26 * 1.5 * 1.02) + open + 32 * kibibyte]);
    });

    test("of a table in memory reads it where it is", () => {
        const table = inputNode(numbers, { rows: 2 ** 22, inMemory: true });
        expect(memoryOf(planOf(join(build, table, options), radix))[1]).toEqual([encoding + combining, 0, 0]);
    });
});

test("a join whose rows go on to another one reserves a batch per worker, and the buffers of that set", () => {
    const third = inputNode(numbers, { rows: 2 ** 21, name: "third" });
    const lower = join(build, probe, { ...options, hints: { resultRows: 2 ** 20 } });
    const plan = planOf(join(lower, third, { on: "k", suffix: "_3" }), radix);
    const stage = plan.stages[2]!;
    expect(stage).toMatchObject({ kind: "join", output: { to: "set" } });
    // 2^14 rows of three columns, which become rows of 24 bytes in 2^7 partitions.
    const batch = 2 ** 14 * 24 + (2 ** 14 * 3) / 8;
    // Encoders take 2^10 of them at a time, with a reference of 16 bytes per column.
    const encoding = 2 ** 10 * (24 + 3 * 16);
    expect(stage.memory.outputBytes).toBe(workers * (batch + encoding) + workers * (2 ** 7 + 1) * 8 * 24);
    const set = plan.sets[(stage as { output: { set: number } }).output.set]!;
    expect(set.batchBytes).toBe(batch);
    expect(stage.live).toContain(set.id);
    expect(poolsOf(plan)[set.id]![1]).toBe(
        Math.ceil(2 ** 20 * 24 * 1.5 * 1.02) + workers * (2 ** 7 + 1) * 8 * kibibyte + 8 * kibibyte
    );
});

describe("a streaming join", () => {
    const root = join(small, probe, options);
    // 2^17 rows in 2^2 partitions.
    const fewCombined = workers * (2 ** 2 + 1) * 8 * 16;
    const tables = 2 ** 17 * 56 + 256 * kibibyte;

    test("reserves readers of both sides and one table for all rows, none of which may leave", () => {
        const plan = planOf(root);
        expect(plan.stages.map(({ kind }) => kind)).toEqual(["partition", "streamingJoin"]);
        expect(memoryOf(plan)).toEqual([
            [reading + fewCombined, 0, 0],
            [reading, tables, batches]
        ]);
        const pool = Math.ceil(2 ** 21 * 1.02) + workers * (2 ** 2 + 1) * 32 * kibibyte + 32 * kibibyte;
        expect(poolsOf(plan)).toEqual([[pool, pool]]);
    });

    test("that is made to spill has room for the rows that come back", () => {
        const plan = planOf(root, { debug: { forceSpill: true } });
        expect(memoryOf(plan)[1]).toEqual([reading, tables + 2 ** 21 * 1.25, batches]);
    });

    test("reserves no batches for a count, one per worker for a file, and for a table those of 32 MiB", () => {
        const outputOf = (more: Partial<PlanQuery>) => memoryOf(planOf(root, more))[1]![2];
        const bytes = (rows: number) => Math.ceil(rows * 24 + (rows * 3) / 8);
        expect(outputOf({ sink: "count" })).toBe(0);
        expect(outputOf({ sink: "file" })).toBe(workers * bytes(2 ** 16));
        expect(outputOf({ sink: "table" })).toBe((2 * workers + 5) * bytes(2 ** 20));
        // More rows than a quarter of the budget has room for: 13 batches of 24 bytes and 3 bits a row.
        const rows = Math.floor((2 ** 30 * 0.25) / ((2 * workers + 5) * (24 + 3 / 8)));
        expect(outputOf({ batchRows: 10_000_000 })).toBe((2 * workers + 5) * bytes(rows));
        expect(planOf(root, { batchRows: 10_000_000 }).batchRows).toBe(rows);
        expect(planOf(root, { batchRows: 100 }).batchRows).toBe(100);
    });
});

test("an array join reserves the wider one of both readers, and a bitmap per worker that sets bits", () => {
    const root = join(probe, build, { on: "k", type: "semi" });
    const sample = { nulls: 0, min: 0n, max: 2n ** 20n, sampledRows: 16_384, heaviestShare: 0 };
    const wanted = wantedStatistics(root, defaultPolicy);
    const statistics = wanted.map(({ id, input }) => {
        const sampledDistinct = input.name === "build" ? 16_384 : 15_000;
        return [id, { ...sample, rows: input.rows, sampledDistinct }] as const;
    });
    const plan = planOf(root, { statistics: new Map(statistics) });
    expect(plan.stages.map(({ kind }) => kind)).toEqual(["arrayJoin"]);
    // 2^20 + 1 values, and on both ends a 32nd of them and 1,024 more: a bit for each, in whole words
    // and one to spare.
    const values = 2 ** 20 + 1 + 2 * (Math.ceil((2 ** 20 + 1) / 32) + 1024);
    const bitmap = (Math.floor(values / 64) + 1) * 8;
    // Two columns of 8 bytes, 2^16 rows to a mebibyte.
    const output = (2 * workers + 5) * (2 ** 16 * 16 + (2 ** 16 * 2) / 8);
    expect(reading).toBeGreaterThan(readingKeys);
    expect(memoryOf(plan)).toEqual([[reading, workers * bitmap, output]]);
    const counted = planOf(root, { statistics: new Map(statistics), sink: "count" });
    expect(memoryOf(counted)).toEqual([[readingKeys, workers * bitmap, 0]]);
});

describe("a group-by", () => {
    // 2^14 rows of 8 and of 8 + 12 bytes, which may be twice as long; encoded with 12 bytes of text each.
    const readingText = workers * (2 * 2 * 2 ** 14 * (28 + 2) + 1024 * (16 + 2 * 16 + 12));

    test("that partitions reserves two pages per worker, four tables' worth of groups, and all distinct values", () => {
        const plan = planOf(group(text, { keys: ["k"], aggregates: { d: { countDistinct: "t" } } }));
        expect(plan.stages.map(({ kind }) => kind)).toEqual(["partition", "group"]);
        expect(plan.sets[0]!.spec).toMatchObject({ radixBits: 8, pageBytes: 4 * kibibyte });
        // A group: key, 24 bytes of slots, 24 of state. A (group, value) pair: 48 bytes and 12 of text.
        const tables = 2 ** 20 * (8 + 24 + 24) * 4 + 2 ** 20 * (48 + 12);
        const output = (2 * workers + 5) * (2 ** 16 * 16 + (2 ** 16 * 2) / 8);
        expect(memoryOf(plan)).toEqual([
            [readingText, 0, 0], // rows with text are not combined
            [workers * 2 * 4 * kibibyte, tables, output]
        ]);
        // Rows of 16 bytes and 12 of text, a tenth more as that is a mean.
        const open = workers * (2 ** 8 + 1) * 4 * kibibyte;
        const wanted = (Math.ceil(2 ** 20 * 28 * 1.02) + open + 4 * kibibyte) * 1.1;
        expect(poolsOf(plan)).toEqual([[4 * open, Math.ceil(wanted)]]);
    });

    test("by tables alone reserves four of them for each worker, with the text that they keep", () => {
        const hinted = { keys: ["k"], aggregates: { least: { min: "t" } }, hints: { groups: 1000 } };
        const plan = planOf(group(text, hinted));
        expect(plan.stages.map(({ kind }) => kind)).toEqual(["hashGroup"]);
        // And numbers of the groups with arrays of their states, of twice as many places, in half of the room for them.
        const tables = (1000 * (8 + 24 + 24 + 12) * 4 + 2 * 2000 * (80 + 16)) * workers;
        // Text may be twice as long as expected: a worker has room for two batches, beside the one that waits.
        const output = (3 * workers + 5) * (2 ** 15 * 28 + (2 ** 15 * 2) / 8);
        expect(memoryOf(plan)).toEqual([[readingText, tables, output]]);
    });
});

test("the whole query reserves a sixteenth of the budget, threads, and dictionaries three times", () => {
    const dictionary = inputNode({ k: new Int64(), d: new Dictionary(new Utf8(), new Int32()) }, { textBytes: 1000 });
    const aggregates = { m: { min: "d" } };
    const threads = 256 * kibibyte + workers * 64 * kibibyte + (workers - 2) * 2 * mebibyte;
    const fixedOf = (child: LogicalNode, more: object) =>
        planOf(group(child, { keys: ["k"], ...more }), { debug: { workers } }).memory.fixedBytes;
    expect(fixedOf(build, {})).toBe(2 ** 26 + threads);
    // 100 values of 1,000 bytes.
    expect(fixedOf(dictionary, { aggregates })).toBe(2 ** 26 + threads + 3 * 100 * 1000);
    const { memory } = planOf(join(build, probe, options), radix);
    const [, , stage] = memoryOf(planOf(join(build, probe, options), radix));
    const pools = poolsOf(planOf(join(build, probe, options), radix));
    const most = stage!.reduce((sum, bytes) => sum + bytes, threads) + pools[0]![1] + pools[1]![1];
    expect(memory.wantedBytes).toBe(Math.ceil((most * 16) / 15));
});

describe("the parts of a reservation", () => {
    const sizes = { pageBytes: 4 * kibibyte, spillRunBytes: 8 * kibibyte, spillWriteBytes: 16 * kibibyte };

    test("a reader of spilled rows takes several short runs at once, one long one, and a run unpacked", () => {
        const read = (spillRunBytes: number, packSpilled = false, pageBytes = 4 * kibibyte) =>
            spillReadBytes({ pageBytes, spillRunBytes, packSpilled }) / kibibyte;
        expect(read(8 * kibibyte)).toBe(16);
        expect(read(20 * kibibyte)).toBe(32);
        expect(read(64 * kibibyte)).toBe(64);
        expect(read(8 * kibibyte, true)).toBe(8 + 16);
        expect(read(8 * kibibyte, false, 128 * kibibyte)).toBe(128);
        expect(read(8 * kibibyte, true, 128 * kibibyte)).toBe(2 * 128);
    });

    test("what packs has a write and two runs per worker, what does not has nothing", () => {
        const scratch = (spill: boolean, packSpilled: boolean) =>
            spillScratchBytes({ ...sizes, workers: 3, spill, packSpilled }) / kibibyte;
        expect([scratch(true, true), scratch(true, false), scratch(false, true)]).toEqual([3 * (16 + 2 * 8), 0, 0]);
    });

    test("pages are open for each worker and partition and for NULL keys, as far as there are rows", () => {
        expect(openPageBytes(3, 4, 1000, 1e6)).toBe(3 * 17 * 1000);
        expect(openPageBytes(3, 4, 1000, 10)).toBe(11 * 1000);
    });

    test("a batch of long values has as many rows as 64 MiB hold", () => {
        const limits = limitLadder(defaultPolicy, workers, "file")[0] as PlanLimits;
        const wish = { rows: 1_000_000, bytes: 2 ** 40 };
        // 1,000 bytes a row and a bit for NULL.
        const rows = Math.floor((64 * mebibyte) / (1000 + 1 / 8));
        const batchBytes = Math.ceil(rows * (1000 + 1 / 8));
        expect(outputMemory([{ fixed: 8, heap: 992 }], limits, defaultPolicy, undefined, wish)).toEqual({
            batchRows: rows,
            batchBytes,
            bytes: 2 * workers * batchBytes
        });
        const fixed = outputMemory([{ fixed: 1000, heap: 0 }], limits, defaultPolicy, undefined, wish);
        expect(fixed.batchRows).toBe(1_000_000);
    });
});
