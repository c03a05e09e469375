// SPDX-License-Identifier: Apache-2.0
// Every value of every result column fits the type that the result declares.
import * as arrow from "apache-arrow";
import { openRuntime, SpillwayError, type Query, type Runtime, type RuntimeOptions } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { PlainValue } from "../../support/arrow-data.js";
import { groupCase, joinCase } from "../../support/cases.js";
import { dictionaryOf } from "../../support/domains.js";
import { suiteModes } from "../../support/engine.js";
import { misfits } from "../../support/misfits.js";
import { forSeeds, runsOneSeed, type Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import { buildTable, oneBatch } from "../../support/relations.js";

const modes: readonly RuntimeOptions[] = [
    { device: "cpu" },
    suiteModes["forced spill"]!,
    { device: "auto", memory: { device: "64MiB" }, debug: { gpu: true } }
];
let runtimes: Runtime[] = [];
beforeAll(async () => {
    const open = (mode: RuntimeOptions) =>
        openRuntime({ threads: 2, ...mode, memory: { host: "64MiB", ...mode.memory } });
    runtimes = await Promise.all(modes.map(open));
});
afterAll(async () => {
    for (const runtime of runtimes) await runtime.close();
});

async function expectFits(query: Query, words: string): Promise<arrow.Table> {
    const batches: arrow.RecordBatch[] = [];
    for await (const batch of query) {
        expect(String(batch.schema), words).toBe(String(query.schema));
        batches.push(batch);
    }
    const table = new arrow.Table(query.schema, batches);
    expect(misfits(table), words).toEqual([]);
    return table;
}

const decimal = (precision: number, scale: number, bits: 32 | 64 | 128 | 256) =>
    new arrow.Decimal(scale, precision, bits);

/** Types that may meet as keys, of which one holds values that another cannot. */
const families: readonly (readonly arrow.DataType[])[] = [
    [decimal(10, 2, 128), decimal(30, 2, 128), decimal(38, 2, 128)],
    [decimal(40, 5, 256), decimal(76, 5, 256)],
    [decimal(4, 1, 32), decimal(9, 1, 32)],
    [decimal(11, 0, 64), decimal(18, 0, 64)],
    [dictionaryOf(decimal(10, 2, 128)), dictionaryOf(decimal(30, 2, 128))],
    [new arrow.Int8(), new arrow.Int16(), new arrow.Int32(), new arrow.Int64()],
    [new arrow.Uint8(), new arrow.Uint32(), new arrow.Uint64(), new arrow.Int32()],
    [new arrow.Float32(), new arrow.Float64()],
    [new arrow.TimeMillisecond()],
    [new arrow.DateDay(), new arrow.DateMillisecond()],
    [new arrow.TimestampMillisecond(), new arrow.TimestampMillisecond("UTC")],
    [new arrow.Utf8(), new arrow.LargeUtf8(), new arrow.Utf8View(), dictionaryOf(new arrow.Utf8())],
    [dictionaryOf(new arrow.Utf8(), new arrow.Int8()), dictionaryOf(new arrow.Utf8(), new arrow.Int32())],
    [new arrow.Binary(), new arrow.LargeBinary()],
    [new arrow.FixedSizeBinary(4)]
];

/** The largest value of a type, in its own numbers, or one of the middle. */
function value(random: Random, type: arrow.DataType): PlainValue {
    if (arrow.DataType.isDictionary(type)) return value(random, type.dictionary as arrow.DataType);
    const sign = random.chance(0.5) ? 1n : -1n;
    if (arrow.DataType.isDecimal(type)) {
        const digits = random.chance(0.5) ? type.precision : random.between(1, type.precision);
        return sign * (10n ** BigInt(digits) - 1n - BigInt(random.below(3)));
    }
    if (arrow.DataType.isInt(type)) {
        const most = 1n << BigInt(random.pick([7, type.bitWidth - (type.isSigned ? 1 : 0)]));
        return type.isSigned ? (sign > 0n ? most - 1n : -most) : most - 1n;
    }
    if (arrow.DataType.isFloat(type)) return random.between(-400, 400) / 4;
    if (arrow.DataType.isTime(type)) return BigInt(random.below(86_400_000));
    if (arrow.DataType.isDate(type)) return BigInt(random.between(-9, 9)) * (type.unit === 0 ? 1n : 86_400_000n);
    if (arrow.DataType.isTimestamp(type)) return BigInt(random.between(-9, 9));
    if (arrow.DataType.isFixedSizeBinary(type)) return random.bytes(type.byteWidth);
    const text = `text ${random.below(40)} ${"ä".repeat(random.below(3))}`;
    return arrow.DataType.isBinary(type) || arrow.DataType.isLargeBinary(type) ? Buffer.from(text) : text;
}

function side(random: Random, type: arrow.DataType, name: string): arrow.Table {
    const rows = random.pick([0, 1, 40, 300]);
    const keys = Array.from({ length: rows }, () => (random.chance(0.1) ? null : value(random, type)));
    const numbers = Array.from({ length: rows }, (_, i) => BigInt(i));
    const columns = [
        { name: "k", type, values: keys },
        { name, type: new arrow.Int32(), values: numbers }
    ];
    return buildTable(columns, oneBatch(rows));
}

/** A relation of the table in memory or of a stream. */
const relationOf = (random: Random, runtime: Runtime, table: arrow.Table) =>
    random.chance(0.2)
        ? runtime.fromBatches(table.schema, async function* () {
              yield* table.batches;
          })
        : runtime.fromTable(table);

describe("every value of a result fits the type of its column", () => {
    test("in joins on keys of two types of one name, or they are refused", async () => {
        let [joined, refused] = [0, 0];
        await forSeeds(71_000, 300, async (random) => {
            const family = random.pick(families);
            const [leftType, rightType] = [random.pick(family), random.pick(family)];
            const type = random.pick([...joinTypes, "full", "full"] as const);
            const [left, right] = [side(random, leftType, "l"), side(random, rightType, "r")];
            const words = `${type} join on ${String(leftType)} and ${String(rightType)}`;
            try {
                const runtime = random.pick(runtimes);
                const sides = [relationOf(random, runtime, left), relationOf(random, runtime, right)] as const;
                const query = sides[0].join(sides[1], { on: "k", type });
                const table = await expectFits(query, words);
                const [key] = table.schema.fields;
                const grouped = query.groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } });
                const groups = await expectFits(grouped, `groups of a ${words}`);
                expect(String(groups.schema.fields[0]!.type)).toBe(String(key!.type));
                joined += 1;
            } catch (error) {
                if (!(error instanceof SpillwayError)) throw error;
                expect(error.code, words).toBe("KEY_TYPE_MISMATCH");
                refused += 1;
            }
        });
        if (runsOneSeed) return;
        expect(joined).toBeGreaterThan(150);
        expect(refused).toBeGreaterThan(10);
    });

    test("in joins of drawn relations and group-bys of them", async () => {
        await forSeeds(72_000, 60, async (random) => {
            const { left, right, on, type, nullEquality, text } = joinCase(random);
            const runtime = random.pick(runtimes);
            const query = runtime.join({
                ...{ left: runtime.fromTable(left), right: runtime.fromTable(right), on: Object.fromEntries(on) },
                ...{ type, nullEquality }
            });
            await expectFits(query, text);
            const aggregates = Object.fromEntries(query.schema.fields.map(({ name }, i) => [`f${i}`, { first: name }]));
            await expectFits(query.groupBy({ keys: [], aggregates } as never), `first of a ${text}`);
        });
    });

    test("in drawn group-bys", async () => {
        await forSeeds(73_000, 80, async (random) => {
            const { table, keys, aggregates, text } = groupCase(random);
            const of = aggregates.map(({ alias, kind, column }) => [alias, { [kind]: column }]);
            const options = { keys, aggregates: Object.fromEntries(of) } as never;
            try {
                await expectFits(random.pick(runtimes).fromTable(table).groupBy(options), text);
            } catch (error) {
                if (!(error instanceof SpillwayError)) throw error;
                expect(error.code, text).toBe("INTEGER_OVERFLOW");
            }
        });
    });
});

test("what does not fit is found", () => {
    const wrong = buildTable([{ name: "d", type: decimal(3, 0, 128), values: [999n, 1000n, -1000n] }], oneBatch(3));
    expect(misfits(wrong)).toEqual(["d, row 1: 1000 has more than 3 digits", "d, row 2: -1000 has more than 3 digits"]);
});
