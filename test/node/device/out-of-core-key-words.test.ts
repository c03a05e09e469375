// SPDX-License-Identifier: Apache-2.0
// Group-bys of a relation by keys of several words of 8 bytes, which the GPU compares by a hash and what it keeps of
// the words, and keys that share a hash.
import { Decimal, FixedSizeBinary, Int16, Int32, Int64, Utf8, type DataType } from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { GroupCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { expectedGroups, expectSameGroups } from "../../support/engine.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { buildTable, oneBatch, type PlainColumn } from "../../support/relations.js";

useGpu();

const memory = { host: "256MiB", device: "64MiB" };
const shapes = [
    { residentShare: 0, chunkRows: 64, radixBits: 0, workers: 12 },
    { residentShare: 0.5, chunkRows: 192, radixBits: 3, workers: 3 },
    { residentShare: 1, chunkRows: 4096, radixBits: 9, workers: 2 }
];
let gpus: Runtime[] = [];

beforeAll(async () => {
    gpus = [];
    for (const shape of shapes) {
        const debug = { outOfCore: true, ...shape };
        gpus.push(await openRuntime({ device: "gpu", threads: 2, memory, ...knobs(debug) }));
    }
});
afterAll(async () => {
    for (const runtime of gpus) await runtime.close();
});

const rows = 1200;
const mask = 2n ** 64n - 1n;

/** As native/base/hash.hpp. */
function mix64(value: bigint): bigint {
    let x = value & mask;
    x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
    x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & mask;
    return x ^ (x >> 31n);
}

const bytesOf = (i: number, width: number): Uint8Array => Uint8Array.from({ length: width }, (_, at) => (i >> at) & 3);

/** Values of key `at`, of which each row has one of a few; as often as `nulls` says there is none. */
function keyColumn(at: number, type: DataType, nulls: number): PlainColumn {
    const value = (i: number): unknown => {
        const drawn = Math.floor((i * (at + 3)) / 2) % (at === 0 ? 97 : 5);
        if (nulls > 0 && (i * 7 + at) % nulls === 0) return null;
        if (type instanceof Utf8) return `text ${drawn}`;
        if (type instanceof FixedSizeBinary) return bytesOf(drawn, type.byteWidth);
        if (type instanceof Int64 || type instanceof Decimal) return BigInt(drawn - 2) * 10n ** 15n;
        return drawn - 2;
    };
    return { name: `k${at}`, type, values: Array.from({ length: rows }, (_, i) => value(i)) as PlainColumn["values"] };
}

function groupCase(types: readonly DataType[], nulls = 0): GroupCase {
    const keys = types.map((type, at) => keyColumn(at, type, nulls));
    const values = Array.from({ length: rows }, (_, i) => BigInt(i) * 10n ** 12n);
    const columns = [...keys, { name: "v", type: new Int64(), values }];
    return {
        table: buildTable(columns, oneBatch(rows)),
        keys: keys.map(({ name }) => name),
        aggregates: [
            { alias: "n", kind: "count", column: "*" },
            { alias: "sum", kind: "sum", column: "v" },
            { alias: "max", kind: "max", column: "v" }
        ],
        text: `${types.map(String).join(", ")}, ${nulls > 0 ? "some NULL" : "no NULL"}`
    };
}

function groupBy(runtime: Runtime, { table, keys, aggregates }: GroupCase): Query {
    const named = aggregates.map(({ alias, kind, column }) => [alias, { [kind]: column }]);
    const options = { keys, aggregates: Object.fromEntries(named) as { n: { count: string } } };
    return runtime.groupBy(runtime.fromTable(table), options);
}

const inWords = /keys of (\d) words, grouped by a hash of 64 bits that is checked by these words/;
const numbered = /workers number the keys of each row together/;

/** Two int64 keys each, of which the first two share a hash. */
function colliding(): GroupCase {
    const [a, b, c] = [5n, mask & (5n ^ mix64(1n) ^ mix64(2n)), 7n].map((value) => BigInt.asIntN(64, value));
    const pairs: [bigint, bigint][] = [
        [a!, 1n],
        [b!, 2n],
        [c!, 2n]
    ];
    const column = (name: string, at: 0 | 1): PlainColumn => ({
        name,
        type: new Int64(),
        values: Array.from({ length: rows }, (_, i) => pairs[i % pairs.length]![at])
    });
    const table = buildTable([column("k0", 0), column("k1", 1)], oneBatch(rows));
    const aggregates = [{ alias: "n", kind: "count" as const, column: "*" }];
    return { table, keys: ["k0", "k1"], aggregates, text: "keys that share a hash" };
}

describe("keys of several words", () => {
    const cases: [DataType[], number][] = [
        [[new Int64(), new Int64()], 2],
        [[new Int32(), new Int64()], 2],
        [[new Decimal(2, 38, 128)], 2],
        [[new Int64(), new Utf8(), new Int16(), new FixedSizeBinary(5)], 3],
        [[new FixedSizeBinary(16), new FixedSizeBinary(11)], 4],
        [[new Int64(), new Int64(), new Int64(), new Int64()], 4]
    ];
    test("are grouped as they are, also with NULLs", async () => {
        for (const [types, words] of cases) {
            for (const nulls of words === 4 && types.length === 4 ? [0] : [0, 6]) {
                const groups = groupCase(types, nulls);
                for (const gpu of gpus) {
                    const query = groupBy(gpu, groups);
                    const found = inWords.exec(String(await query.explain()));
                    expect(found?.[1], groups.text).toBeDefined();
                    if (nulls === 0) expect(found?.[1], groups.text).toBe(String(words));
                    expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
                    expect(query.report()?.device).toBe("gpu");
                    expect(await query.count()).toBe(expectedGroups(groups).length);
                }
            }
        }
    });

    test("have a limit, beyond which they are numbered, as wide rows are", async () => {
        const five = groupCase(Array.from({ length: 5 }, () => new Int64()));
        const nullable = groupCase(
            Array.from({ length: 4 }, () => new Int64()),
            6
        );
        for (const groups of [five, nullable]) {
            const query = groupBy(gpus[1]!, groups);
            expect(String(await query.explain())).toMatch(numbered);
            expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
        }
    });

    test("that share a hash are found, and planned again by numbers", async () => {
        const groups = colliding();
        for (const gpu of gpus) {
            const query = groupBy(gpu, groups);
            expect(String(await query.explain())).toMatch(inWords);
            expect(await query.count()).toBe(3);
            expectSameGroups(cellTable(await query.toTable()), expectedGroups(groups), groups);
            expect(query.report()?.device).toBe("gpu");
            let found = 0;
            for await (const batch of query.batches()) found += batch.numRows;
            expect(found).toBe(3);
        }
    });
});
