// SPDX-License-Identifier: Apache-2.0
// Fan-outs, pages and runs as exact figures, each of them where one limit alone decides. 4 workers, an L2 cache of
// 1 MiB (of which half is a table's), 8 GiB of memory.
import { Field, Int64, List, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { rowNumberColumn } from "../../../src/model/column-type.js";
import { limitLadder, type PlanLimits } from "../../../src/planner/limits.js";
import {
    combiningBytes,
    fanout,
    packsSpilled,
    pageBytes,
    runBytesInPool,
    spillWriteBytes,
    type PartitionContext
} from "../../../src/planner/partitioning.js";
import { defaultPolicy as policy } from "../../../src/planner/policy.js";
import { columnsRead, poolNeeds, readMemory } from "../../../src/planner/stage-memory.js";
import { machine } from "../../support/planning.js";

const kibibyte = 2 ** 10;
const limits = limitLadder(policy, 4, "batches")[0] as PlanLimits;

interface Given {
    l2KiB?: number;
    budget?: number;
    more?: Partial<PlanLimits>;
}

function contextOf({ l2KiB = 1024, budget = 2 ** 30, more = {} }: Given): PartitionContext {
    const cached = { ...machine, l2Bytes: l2KiB * kibibyte };
    return { limits: { ...limits, ...more }, policy, machine: cached, debug: {}, budgetBytes: budget };
}

describe("the fan-out is decided by", () => {
    const bits = (tables: number, rows: number, row: number, given: Given = {}): [number, number] => {
        const { first, second } = fanout(contextOf(given), tables, rows, row);
        return [first, second];
    };

    test("the cache: tables of half of it", () => {
        expect(bits(2 ** 28, 2 ** 24, 16)).toEqual([9, 0]);
    });

    test("eight partitions per worker, unless there is only one", () => {
        expect(bits(2 ** 20, 2 ** 24, 16)).toEqual([5, 0]);
        expect(bits(2 ** 20, 2 ** 24, 16, { more: { workers: 2 } })).toEqual([4, 0]);
        expect(bits(2 ** 20, 2 ** 24, 16, { more: { workers: 1 } })).toEqual([1, 0]);
    });

    test("2,048 rows for each partition", () => {
        expect(bits(2 ** 25, 2 ** 14, 16)).toEqual([3, 0]);
        expect(bits(2 ** 25, 100, 16)).toEqual([0, 0]);
    });

    test("open pages of 2 KiB in a quarter of the budget for both sides", () => {
        // 16 MiB: 512 KiB for each worker and side, 2^8 pages; the cache asks for 2^9.
        expect(bits(2 ** 24, 2 ** 20, 8, { l2KiB: 64, budget: 2 ** 24 })).toEqual([8, 0]);
        expect(bits(2 ** 24, 2 ** 20, 8, { l2KiB: 64, budget: 2 ** 25 })).toEqual([9, 0]);
    });

    test("128 KiB of the budget for each partition, once both sides do not fit it", () => {
        // One row too many: 2^7 runs, and what is left of 2^9 in a second pass.
        expect(bits(2 ** 24, 2 ** 20 + 1, 8, { l2KiB: 64, budget: 2 ** 24 })).toEqual([7, 2]);
    });

    test("a worker's share of the table memory, whatever that costs", () => {
        // 2^29 bytes and a quarter more in 0.3 of 16 MiB for 4 workers: 533 partitions.
        const given = { budget: 2 ** 24 };
        expect(bits(2 ** 29, 2 ** 20, 8, given)).toEqual([10, 0]);
        expect(bits(2 ** 31, 2 ** 20, 8, given)).toEqual([12, 0]);
        expect(bits(2 ** 40, 2 ** 20, 8, given)).toEqual([14, 0]);
        expect(bits(2 ** 29, 2 ** 20, 8, { ...given, more: { radixBitsMax: 9 } })).toEqual([9, 0]);
    });

    test("write-combining buffers in three quarters of the cache", () => {
        // 8 rows of 8 bytes: 192 buffers in 16 KiB.
        expect(bits(2 ** 22, 2 ** 20, 8, { l2KiB: 16, budget: 2 ** 24 })).toEqual([7, 2]);
        // Rows of more than 64 bytes are not combined.
        expect(bits(2 ** 22, 2 ** 20, 64, { l2KiB: 64 })).toEqual(bits(2 ** 22, 2 ** 20, 6400, { l2KiB: 64 }));
    });
});

describe("a page has", () => {
    const page = (rows: number, row: number, bits: number, given: Given = {}): number =>
        pageBytes(contextOf(given), { rows, width: { fixed: row - row / 4, heap: row / 4 } }, bits);

    test("a quarter of the bytes that a worker has of a partition", () => {
        expect(page(2 ** 20, 64, 8)).toBe(2 ** 26 / (4 * 2 ** 8) / 4);
        expect(page(2 ** 20, 64, 4)).toBe(256 * kibibyte);
        expect(page(1000, 64, 8)).toBe(4 * kibibyte);
    });

    test("no more than open ones may take, down to 1 KiB", () => {
        expect(page(2 ** 20, 64, 8, { budget: 2 ** 24 })).toBe(2 * kibibyte);
        expect(page(2 ** 20, 64, 11, { budget: 2 ** 24 })).toBe(kibibyte);
    });

    test("room for eight wide rows, in no more than 64 times the largest of others", () => {
        expect(page(1000, 10_000, 4)).toBe(128 * kibibyte);
        expect(page(1000, 10_000, 4, { more: { pageBytesMax: kibibyte } })).toBe(64 * kibibyte);
        // Twice the pool's largest: such a row has a page of its own.
        expect(page(10, 4 * 2 ** 20, 0)).toBe(2 * 2 ** 20);
    });
});

test("a run takes what its pool has beside open pages, twice, as half of one waits on average", () => {
    const spec = { workers: 4, radixBits: 4, pageBytes: 4096, spillRunBytes: 65_536, spillWriteBytes: 0 };
    const open = 4 * (2 ** 4 + 1) * 4096;
    expect(runBytesInPool(spec, 1e6, open + 2 ** 18)).toBe(32 * kibibyte);
    expect(runBytesInPool(spec, 1e6, open + 2 ** 24)).toBe(64 * kibibyte);
    expect(runBytesInPool(spec, 1e6, open)).toBe(4 * kibibyte);
    expect(runBytesInPool({ ...spec, pageBytes: 2 ** 17 }, 1e6, 0)).toBe(64 * kibibyte);
});

test("a write takes a 32nd of a worker's share of the budget, between 16 and 256 KiB", () => {
    const write = (budget: number) => spillWriteBytes(contextOf({ budget })) / kibibyte;
    expect([2 ** 20, 2 ** 22, 2 ** 24, 2 ** 30].map(write)).toEqual([16, 32, 128, 256]);
});

test("what spills is packed from a sixteenth of the memory that can be used on", () => {
    const context = contextOf({});
    expect([2 ** 29, 2 ** 29 + 1].map((bytes) => packsSpilled(context, bytes))).toEqual([false, true]);
    const limited = { ...context, machine: { ...machine, memoryLimitBytes: 2 ** 30 } };
    expect([2 ** 26, 2 ** 26 + 1].map((bytes) => packsSpilled(limited, bytes))).toEqual([false, true]);
    expect(packsSpilled({ ...context, debug: { packSpilled: true } }, 0)).toBe(true);
    expect(packsSpilled({ ...context, debug: { packSpilled: false } }, 2 ** 40)).toBe(false);
});

test("rows of up to 64 bytes without text are combined, eight for each worker and partition", () => {
    expect(combiningBytes(4, 4, { fixed: 64, heap: 0 })).toBe(4 * 17 * 8 * 64);
    expect(combiningBytes(4, 4, { fixed: 72, heap: 0 })).toBe(0);
    expect(combiningBytes(4, 4, { fixed: 16, heap: 1 })).toBe(0);
});

test("a pool of which nobody knows the rows has a quarter of its open pages to spare, and four more", () => {
    // 5 x 2 pages of 4 KiB; a share of 1 for open pages is what they take themselves.
    const crowded = { ...limits, openPagesShare: 1 };
    const needs = poolNeeds(10, 160, false, 5, 0, 4096, crowded, policy);
    expect(needs).toEqual({ min: 10 * 4096 * 1.25 + 4 * 4096, wanted: 10 * 4096 * 1.25 + 4 * 4096 });
    const counted = poolNeeds(10, 160, true, 5, 0, 4096, crowded, policy);
    const all = Math.ceil(160 * 1.02) + 10 * 4096 + 4096;
    expect(counted).toEqual({ min: all, wanted: all });
});

describe("readers", () => {
    test("take keys, then carried columns, each once, and no row numbers", () => {
        expect(columnsRead([{ column: 2 }, { column: 0 }], [0, 1, rowNumberColumn])).toEqual([2, 0, 1]);
    });

    test("encode a mebibyte of long text, but nested values whole", () => {
        const text = columnTypeOf(new Field("t", new Utf8(), false));
        const list = columnTypeOf(new Field("l", new List(new Field("item", new Int64(), false)), false));
        const [long, row] = [
            { fixed: 8, heap: 4000 },
            { fixed: 16, heap: 4000 }
        ];
        const read = (type: typeof text) => readMemory([type], [long], [0], row, true, limits, policy);
        // Half a mebibyte has 2^7 rows of 4,008 bytes; no fewer are taken than four times as many bytes have.
        const { morselRows } = read(text);
        expect(morselRows).toBe(Math.floor((4 * 512 * kibibyte) / 4008));
        // Readers copy offsets and validity of text in memory, and all of nested values: twice, with twice the room.
        const copied = (bytesPerRow: number): number => 2 * 2 * morselRows * bytesPerRow;
        expect(read(text).bytes).toBe(4 * (1024 * (16 + 16) + 2 ** 20 + copied(4 + 1 / 8)));
        expect(read(list).bytes).toBe(4 * (1024 * (16 + 16) + morselRows * 4000 + copied(4008)));
        // Beside a buffer of 4 MiB, twice; a row that is longer still has one of its own.
        const reading = (heap: number) =>
            readMemory([text], [{ fixed: 8, heap }], [0], { fixed: 16, heap: 0 }, false, limits, policy).bytes;
        expect(reading(4000)).toBe(4 * (2 * 2 * morselRows * (4008 + 1) + 1024 * 32));
        expect(reading(2 ** 22 - 8)).toBe(4 * (2 * 2 * 2 ** 22 + 1024 * 32));
    });
});
