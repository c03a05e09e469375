// SPDX-License-Identifier: Apache-2.0
// Means of whole numbers and decimals are the doubles nearest to them, whatever way a group-by takes.
import { Decimal, Int64, Uint64, Uint8, type DataType } from "apache-arrow";
import { openRuntime, type RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { suiteModes } from "../../support/engine.js";
import { forSeeds, type Random } from "../../support/random.js";
import { nearestQuotient } from "../../support/reference.js";
import { buildTable, randomShape } from "../../support/relations.js";
import { Sandbox } from "../../support/sandbox.js";

const names = ["default", "forced spill", "hash always 0", "tiny pages and morsels", "GPU where it can"];
const modes: [string, RuntimeOptions][] = [
    ...Object.entries(suiteModes).filter(([name]) => names.includes(name)),
    ["partitioned", { debug: { algorithm: "partitioned", workers: 3, morselRows: 50 } }]
];

const types: readonly (() => DataType)[] = [
    ...[() => new Int64(), () => new Uint64(), () => new Uint8()],
    ...[() => new Decimal(2, 9, 32), () => new Decimal(25, 18, 64), () => new Decimal(-3, 18, 64)],
    ...[() => new Decimal(2, 38, 128), () => new Decimal(38, 38, 128), () => new Decimal(-30, 20, 128)],
    ...[() => new Decimal(0, 76, 256), () => new Decimal(76, 76, 256), () => new Decimal(-76, 40, 256)]
];

function bitsOf(type: DataType): number {
    return (type as Int64 | Decimal).bitWidth;
}

/** Draws values of all sizes, many of which differ little, so that their mean has few digits to spare. */
function drawn(random: Random, type: DataType): bigint {
    const signed = !(type instanceof Uint64 || type instanceof Uint8);
    let value = 0n;
    for (let i = 0; i < 4; ++i) value = (value << 64n) | random.bits64();
    const bits = type instanceof Decimal ? Math.floor(type.precision * 3.32) : bitsOf(type) - (signed ? 1 : 0);
    value &= (1n << BigInt(random.between(1, bits))) - 1n;
    if (random.chance(0.3)) value = BigInt.asUintN(bits, (1n << 53n) + 1n + BigInt(random.below(3)));
    return signed && random.chance(0.4) ? -value : value;
}

test.each(modes)("the mean of three times 2^53 + 1 is 2^53: %s", async (_, options) => {
    using sandbox = new Sandbox();
    const memory = { host: "64MiB", ...options.memory, spillDirectory: sandbox.spill };
    await using runtime = await openRuntime({ threads: 2, ...options, memory });
    const value = 9_007_199_254_740_993n;
    const columns = [
        { name: "i", type: new Int64(), values: [value, value, value] },
        { name: "d", type: new Decimal(2, 18, 64), values: [value, value, value] }
    ];
    const table = buildTable(columns, { batchRows: [2, 1], margin: 0, shared: false });
    const aggregates = { i: { mean: "i" }, d: { mean: "d" } } as const;
    const result = await runtime.fromTable(table).groupBy({ keys: [], aggregates }).toTable();
    expect(result.getChild("i")?.get(0)).toBe(9_007_199_254_740_992);
    expect(result.getChild("d")?.get(0)).toBe(nearestQuotient(value, 100n));
});

describe.each(modes)("means of random numbers: %s", (name, options) => {
    test("are rounded once", async () => {
        await forSeeds(90_000 + 1000 * modes.findIndex(([mode]) => mode === name), 12, async (random) => {
            using sandbox = new Sandbox();
            const memory = { host: "64MiB", ...options.memory, spillDirectory: sandbox.spill };
            await using runtime = await openRuntime({ threads: 2, ...options, memory });
            const rows = random.pick([1, 60, 700]);
            const groups = random.pick([1, 7, 200]);
            const type = random.pick(types)();
            const keys = Array.from({ length: rows }, () => BigInt(random.below(groups)));
            const values = keys.map(() => (random.chance(0.1) ? null : drawn(random, type)));
            const columns = [
                { name: "k", type: new Int64(), values: keys },
                { name: "v", type, values }
            ];
            const relation = runtime.fromTable(buildTable(columns, randomShape(random, rows)));
            const result = await relation.groupBy({ keys: ["k"], aggregates: { m: { mean: "v" } } }).toTable();
            const scale = type instanceof Decimal ? type.scale : 0;
            const power = (digits: number): bigint => 10n ** BigInt(Math.max(0, digits));
            const expected = [...new Set(keys)].map((key) => {
                const own = values.filter((value, row): value is bigint => value !== null && keys[row] === key);
                const sum = own.reduce((all, value) => all + value, 0n) * power(-scale);
                return `${key} ${own.length === 0 ? "NULL" : nearestQuotient(sum, BigInt(own.length) * power(scale))}`;
            });
            const [found, means] = cellTable(result).cells;
            expect(found!.map((key, row) => `${key} ${means![row]!}`).sort()).toEqual(expected.sort());
        });
    });
});
