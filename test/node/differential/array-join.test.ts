// SPDX-License-Identifier: Apache-2.0
// Joins whose build side gives no more than dense integer keys: a bit per key instead of a hash table.
import { readFileSync } from "node:fs";
import {
    DateDay,
    DurationMicrosecond,
    Int16,
    Int32,
    Int64,
    Int8,
    TimestampNanosecond,
    Uint16,
    Uint32,
    Uint64,
    Uint8,
    Utf8,
    tableFromIPC,
    type DataType,
    type Table
} from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { describe, expect, test } from "vitest";
import type { PlainValue } from "../../support/arrow-data.js";
import type { JoinCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { expectedJoin } from "../../support/engine.js";
import { forSeeds, runsOneSeed, type Random } from "../../support/random.js";
import { joinTypes, type JoinType } from "../../support/reference.js";
import {
    buildTable,
    distributions,
    drawIndices,
    oneBatch,
    payloadColumns,
    randomShape,
    withNulls,
    type Distribution
} from "../../support/relations.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

const families: (() => DataType[])[] = [
    () => [new Int64(), new Int32(), new Int16()],
    () => [new Uint64(), new Uint32(), new Uint16()],
    () => [new TimestampNanosecond()],
    () => [new DateDay()],
    () => [new DurationMicrosecond()]
];

/** A value of an integer type as Arrow JS wants it. */
function integerOf(type: DataType, value: bigint): bigint | number {
    const wide = (type.ArrayType as object) === BigInt64Array || (type.ArrayType as object) === BigUint64Array;
    return wide ? value : Number(value);
}

/** A join on one integer key; mostly dense, mostly unique on one side. */
function denseCase(random: Random): JoinCase {
    const types = random.pick(families)();
    const domain = random.pick([1, 3, 40, 400, 3000]);
    const unsigned = String(types[0]).startsWith("Uint");
    const base = unsigned ? random.pick([0, 1000]) : random.pick([0, -500, 7, -30_000]);
    const step = random.pick([1, 1, 1, 3, 8]);
    const side = (prefix: string, rows: number, distribution: Distribution): Table => {
        const type = random.pick(types);
        const indices = drawIndices(random, rows, domain, distribution);
        const keys = indices.map((index) => integerOf(type, BigInt(base + step * index)));
        const key = { name: "k", type, values: withNulls(random, keys, random.pick([0, 0, 0.1, 1])) };
        return buildTable([key, ...payloadColumns(random, prefix, random.below(4), rows)], randomShape(random, rows));
    };
    const unique = random.pick([0, 1, 2]);
    const shape = (own: number): [number, Distribution] => {
        const rows = random.pick([0, 1, 17, 300, 900]);
        return own === unique ? [Math.min(rows, domain), "unique"] : [rows, random.pick(distributions)];
    };
    const [leftShape, rightShape] = [shape(0), shape(1)];
    // Few keys on both sides make a cross product.
    if (domain < 40 && leftShape[0] * rightShape[0] > 40_000) rightShape[0] = 40;
    const type = random.pick(joinTypes.filter((name) => name !== "full"));
    const text = `${type} join of ${leftShape.join(" ")} x ${rightShape.join(" ")} rows, ${domain} keys from ${base}`;
    const [left, right] = [side("a", ...leftShape), side("b", ...rightShape)];
    return { left, right, on: [["k", "k"]], type, nullEquality: random.chance(0.1), text };
}

function keyTable(type: DataType, keys: readonly PlainValue[], name = "k"): Table {
    return buildTable([{ name, type, values: [...keys] }], oneBatch(keys.length));
}

function withPayload(type: DataType, keys: readonly PlainValue[]): Table {
    const texts = keys.map((key, i) => (i % 7 === 3 ? null : `${String(key)} `.repeat(i % 5)));
    const columns = [
        { name: "k", type, values: [...keys] },
        { name: "v", type: new Utf8(), values: texts }
    ];
    return buildTable(columns, oneBatch(keys.length));
}

/** What ran: "array", "radix", "streaming". */
function algorithmOf(query: { report(): { stages: readonly { algorithm: string }[] } | null | undefined }): string {
    const join = query.report()?.stages.at(-1)?.algorithm ?? "";
    return join.includes("array") ? "array" : join.includes("no-partitioning") ? "streaming" : "radix";
}

async function inRuntime(body: (runtime: Runtime, sandbox: Sandbox) => Promise<void>): Promise<void> {
    using sandbox = new Sandbox();
    const memory = { host: "128MiB", spillDirectory: sandbox.spill };
    const runtime = await openRuntime({ threads: 2, memory });
    try {
        await body(runtime, sandbox);
    } finally {
        await runtime.close();
    }
    await sandbox.expectClean();
}

/** The whole numbers from `first` on. */
const range = (first: number, count: number): bigint[] => Array.from({ length: count }, (_, i) => BigInt(first + i));

describe("the same rows as other algorithms", () => {
    const asArray = { debug: { algorithm: "array", workers: 3, morselRows: 50 } } as const;

    async function check(random: Random, runtime: Runtime): Promise<string> {
        const made = denseCase(random);
        const { type, nullEquality } = made;
        const [left, right] = [runtime.fromTable(made.left), runtime.fromTable(made.right)];
        const join = { left, right, on: Object.fromEntries(made.on), type, nullEquality };
        const names = runtime.join(join).schema.fields.map(({ name }) => name);
        const leftCount = made.left.schema.fields.length;
        const select = type === "right" ? names.slice(leftCount) : names.slice(0, leftCount);
        const options = { ...join, ...(select.length > 0 ? { select } : {}) };
        const expected = runtime.join({ ...options, debug: { algorithm: "radix" } });
        const query = runtime.join({ ...options, ...asArray });
        const [rows, wanted] = [await query.toTable(), await expected.toTable()];
        const ran = algorithmOf(query);
        expectSameRows(rowTexts(cellTable(rows)), rowTexts(cellTable(wanted)), `${ran}: ${made.text}`);
        const reference = expectedJoin(made).rows.length;
        expect(await query.count(), `count (${algorithmOf(query)}) of ${made.text}`).toBe(reference);
        return ran;
    }

    test("of random relations", async () => {
        const ran: string[] = [];
        await forSeeds(90_000, 150, async (random) => {
            await inRuntime(async (runtime) => void ran.push(await check(random, runtime)));
        });
        // Cases that fall back to other algorithms would test nothing.
        if (!runsOneSeed) {
            expect(ran.filter((name) => name === "array").length).toBeGreaterThan(40);
        }
    });
});

/** Rows of the result by JavaScript: for each left row, how many right rows have its key. */
function expectedCount(left: readonly PlainValue[], right: readonly PlainValue[], type: JoinType): number {
    const count = (keys: readonly PlainValue[]) => {
        const counts = new Map<PlainValue, number>();
        for (const key of keys) if (key !== null) counts.set(key, (counts.get(key) ?? 0) + 1);
        return counts;
    };
    const [inLeft, inRight] = [count(left), count(right)];
    const matches = left.map((key) => (key === null ? 0 : (inRight.get(key) ?? 0)));
    const pairs = matches.reduce((sum, n) => sum + n, 0);
    const loneLeft = matches.filter((n) => n === 0).length;
    const loneRight = right.filter((key) => key === null || !inLeft.has(key)).length;
    switch (type) {
        case "inner":
            return pairs;
        case "left":
            return pairs + loneLeft;
        case "right":
            return pairs + loneRight;
        case "full":
            return pairs + loneLeft + loneRight;
        case "semi":
            return left.length - loneLeft;
        case "anti":
            return loneLeft;
    }
}

describe("keys at the edges of their types", () => {
    const edges: [string, DataType, bigint[]][] = [
        ["int64 least", new Int64(), range(0, 300).map((key) => key - 2n ** 63n)],
        ["int64 greatest", new Int64(), range(0, 300).map((key) => 2n ** 63n - 1n - key)],
        ["int64 around 0", new Int64(), range(-150, 300)],
        ["uint64 greatest", new Uint64(), range(0, 300).map((key) => 2n ** 64n - 1n - key)],
        ["uint64 around 2^63", new Uint64(), range(-150, 300).map((key) => 2n ** 63n + key)],
        ["uint64 least", new Uint64(), range(0, 300)],
        ["int32 least", new Int32(), range(-(2 ** 31), 300)],
        ["int16 greatest", new Int16(), range(2 ** 15 - 300, 300)],
        ["all of int8", new Int8(), range(-128, 256)],
        ["all of uint8", new Uint8(), range(0, 256)]
    ];

    test.each(edges)("%s: every join type, by count and rows", async (_name, type, keys) => {
        await inRuntime(async (runtime, sandbox) => {
            const values = keys.map((key) => integerOf(type, key));
            // Every third key is missing on the right, some repeat on the left, and both have NULLs.
            const right = [...values.filter((_, i) => i % 3 !== 0), null];
            const left = [...values, ...values.slice(0, 40), null, null];
            const files = [withPayload(type, left), keyTable(type, right, "r")].map((table) => sandbox.write(table));
            for (const joinType of joinTypes) {
                const join = {
                    left: await runtime.fromArrowFile(files[0]!),
                    right: await runtime.fromArrowFile(files[1]!),
                    on: { k: "r" },
                    type: joinType,
                    debug: { algorithm: "array" } as const
                };
                const query = runtime.join(join);
                expect(await query.count(), joinType).toBe(expectedCount(left, right, joinType));
                expect(algorithmOf(query), joinType).toBe(
                    joinType === "full" || joinType === "right" ? "streaming" : "array"
                );
                if (joinType === "right" || joinType === "full") continue;
                const rows = runtime.join({ ...join, select: ["k", "v"] });
                const radix = runtime.join({ ...join, select: ["k", "v"], debug: { algorithm: "radix" } });
                const [actual, expected] = [await rows.toTable(), await radix.toTable()];
                expect(algorithmOf(rows)).toBe("array");
                expectSameRows(rowTexts(cellTable(actual)), rowTexts(cellTable(expected)), joinType);
            }
        });
    });
});

describe("keys that are not what their sample showed", () => {
    // Samples of 64 pieces of 256 rows: of 40,000 rows, those between 256 and 624 are in none.
    const unseenRow = 400;
    const rows = 40_000;
    const dense = range(0, rows);
    const withUnseen = (key: bigint) => dense.with(unseenRow, key);
    const keys: [string, bigint[]][] = [
        ["a key far above", withUnseen(2n ** 62n)],
        ["a key far below", withUnseen(-(2n ** 62n))],
        ["two equal keys", withUnseen(7n)]
    ];
    const cases = keys.flatMap(([name, build]) =>
        (["inner", "left", "semi", "anti"] as const).map((type) => [type, name, build] as const)
    );

    test.each(cases)("%s join, %s: another plan gives the result, and later ones know", async (type, name, build) => {
        const probe = [...dense, 2n ** 62n, -(2n ** 62n), -1n];
        const staysArray = name === "two equal keys" && (type === "semi" || type === "anti");
        await inRuntime(async (runtime, sandbox) => {
            const join = {
                left: await runtime.fromArrowFile(sandbox.write(keyTable(new Int64(), probe))),
                right: await runtime.fromArrowFile(sandbox.write(withPayload(new Int64(), build))),
                on: { k: "k" },
                type,
                select: ["k"],
                hints: { buildSide: "right" }
            } as const;
            const plannedStage = async () => (await runtime.join(join).explain()).plan.stages[0]!.kind;
            expect(await plannedStage()).toBe("arrayJoin");
            const query = runtime.join(join);
            expect(await query.count()).toBe(expectedCount(probe, build, type));
            expect(algorithmOf(query) === "array").toBe(staysArray);
            expect((await plannedStage()) === "arrayJoin").toBe(staysArray);
            expect((await runtime.join(join).toTable()).numRows).toBe(expectedCount(probe, build, type));
        });
    });

    test.each(["count", "table", "batches", "file"] as const)("a result by %s begins anew", async (way) => {
        await inRuntime(async (runtime, sandbox) => {
            const build = withUnseen(2n ** 62n);
            const query = runtime.join({
                left: await runtime.fromArrowFile(sandbox.write(withPayload(new Int64(), dense))),
                right: await runtime.fromArrowFile(sandbox.write(keyTable(new Int64(), build))),
                on: { k: "k" },
                hints: { buildSide: "right" },
                select: ["k", "v"]
            });
            const path = sandbox.path("output.arrow");
            let counted = 0;
            if (way === "count") counted = await query.count();
            if (way === "table") counted = (await query.toTable()).numRows;
            if (way === "batches") for await (const batch of query.batches()) counted += batch.numRows;
            if (way === "file") {
                await query.toArrowFile(path);
                counted = tableFromIPC(readFileSync(path)).numRows;
            }
            expect(counted).toBe(expectedCount(dense, build, "inner"));
            expect(algorithmOf(query)).not.toBe("array");
        });
    });
});
