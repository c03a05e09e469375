// SPDX-License-Identifier: Apache-2.0
// Texts that lie in the rows themselves: lengths around whole words, empty and NULL ones, NUL bytes, prefixes of each
// other, against the reference and DuckDB, under budgets from tiny to ample; and texts that grow after they were looked
// at.
import {
    Binary,
    BinaryView,
    type DataType,
    Int32,
    LargeBinary,
    LargeUtf8,
    makeData,
    makeVector,
    Table,
    Utf8,
    Utf8View,
    vectorFromArray
} from "apache-arrow";
import { openRuntime, type RuntimeOptions } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Plan } from "../../../src/plan/plan.js";
import { plainTable, type PlainColumn, type PlainValue } from "../../support/arrow-data.js";
import type { GroupCase, JoinCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { dictionaryOf } from "../../support/domains.js";
import { DuckDB } from "../../support/duckdb.js";
import { expectedGroups, expectedJoin, expectSameGroups, joinedRows } from "../../support/engine.js";
import { forSeeds, Random } from "../../support/random.js";
import { joinTypes, type Aggregate } from "../../support/reference.js";
import { expectSameRows, hashRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

const texts = () => [new Utf8(), new LargeUtf8(), new Utf8View(), dictionaryOf(new Utf8())];
const binaries = () => [new Binary(), new LargeBinary(), new BinaryView()];
/** Longest texts of a column: around the words of keys, and around the longest that is inline. */
const longest = [1, 2, 3, 6, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 33, 40];

const modes: RuntimeOptions[] = [
    { debug: { inlineTexts: true } },
    { debug: { inlineTexts: true, workers: 3, morselRows: 37 } },
    { debug: { inlineTexts: true, forceSpill: true, pageBytes: 1024, workers: 2 } },
    { debug: { inlineTexts: true, hashMask: 0n, workers: 2 } },
    { debug: { inlineTexts: true, algorithm: "radix", workers: 2 } },
    { debug: { inlineTexts: true, algorithm: "streaming", workers: 2, morselRows: 64 } },
    { debug: { inlineTexts: true, algorithm: "partitioned", workers: 2 } },
    { debug: { inlineTexts: true, algorithm: "hash", workers: 2, morselRows: 64 } },
    { debug: { inlineTexts: true, algorithm: "radix", scheme: "bucketChaining" } },
    { memory: { host: "24MiB" }, debug: { inlineTexts: true } }
];

/** Different texts of at most so many bytes, many of them the beginning of others, some with NUL bytes. */
function words(random: Random, bytesMax: number, count: number): string[] {
    const found = new Set<string>(["", "a".repeat(bytesMax)]);
    const alphabet = random.pick(["ab", "\0a", "abcdefghijkl", "xy\0"]);
    for (let i = 0; i < 4 * count && found.size < count; i++) {
        const length = random.pick([bytesMax, bytesMax, Math.max(0, bytesMax - 1), random.below(bytesMax + 1)]);
        const tail = Array.from({ length: Math.min(length, 12) }, () => random.pick([...alphabet])).join("");
        found.add("a".repeat(length - tail.length) + tail);
    }
    return [...found];
}

function drawn(random: Random, from: readonly PlainValue[], rows: number, nulls: number): PlainValue[] {
    return Array.from({ length: rows }, () => (random.chance(nulls) ? null : random.pick(from)));
}

const asBytes = (values: readonly string[]): PlainValue[] => values.map((value) => new TextEncoder().encode(value));

function joinCaseOf(random: Random): JoinCase {
    const rows = [random.pick([0, 1, 50, 400]), random.pick([0, 1, 90, 700])] as const;
    const type = random.pick(joinTypes);
    const keys = random.pick([1, 1, 2, 3]);
    const columns: [PlainColumn[], PlainColumn[]] = [[], []];
    const on: [string, string][] = [];
    const said: string[] = [];
    for (let k = 0; k < keys; k++) {
        const isBinary = random.chance(0.25);
        const bytesMax = random.pick(longest);
        const domain = words(random, bytesMax, k === 0 ? 60 : 3);
        const types: readonly DataType[] = isBinary ? binaries() : texts();
        on.push([`k${k}`, `r${k}`]);
        for (const side of [0, 1] as const) {
            // One side may have shorter texts than the other: both must agree on what a key takes.
            const own = random.chance(0.3) ? domain.filter((word) => word.length <= bytesMax / 2) : domain;
            const values = drawn(random, isBinary ? asBytes(own) : own, rows[side], random.pick([0, 0, 0.2]));
            const keyType = random.pick(types);
            columns[side].push({ name: `${side === 0 ? "k" : "r"}${k}`, type: keyType, values });
            said.push(`${String(keyType)} of ${bytesMax}`);
        }
    }
    for (const side of [0, 1] as const) {
        for (let c = random.below(3); c > 0; c--) {
            const values = drawn(random, words(random, random.pick(longest), 20), rows[side], random.pick([0, 0.3]));
            columns[side].push({ name: `${side === 0 ? "a" : "b"}${c}`, type: random.pick(texts()), values });
        }
    }
    const batchRows = random.pick([64, 1000]);
    return {
        left: plainTable(columns[0], rows[0], batchRows),
        right: plainTable(columns[1], rows[1], batchRows),
        ...{ on, type, nullEquality: random.chance(0.3) },
        text: `${type} join of ${rows.join(" x ")} rows on ${said.join(", ")}`
    };
}

function groupCaseOf(random: Random): GroupCase {
    const rows = random.pick([0, 1, 80, 1500]);
    const columns: PlainColumn[] = [];
    const keys: string[] = [];
    for (let k = random.pick([1, 1, 2, 3]); k > 0; k--) {
        const isBinary = random.chance(0.25);
        const domain = words(random, random.pick(longest), random.pick([3, 100]));
        const type = random.pick<DataType>(isBinary ? binaries() : texts());
        keys.push(`k${k}`);
        const values = drawn(random, isBinary ? asBytes(domain) : domain, rows, random.pick([0, 0, 0.2]));
        columns.push({ name: `k${k}`, type, values });
    }
    const values = drawn(random, words(random, random.pick(longest), 30), rows, 0.1);
    columns.push({ name: "v", type: random.pick(texts().slice(0, 3)), values });
    const aggregates: Aggregate[] = [{ alias: "rows", kind: "count", column: "*" }];
    for (const kind of ["min", "max", "first", "any", "count", "countDistinct"] as const) {
        if (random.chance(0.4)) aggregates.push({ alias: `${kind}V`, kind, column: "v" });
        // Of a key: its bytes are in the key area, or in the word of the key.
        const isOrdered = !String(columns[0]!.type).startsWith("Dictionary") || !["min", "max"].includes(kind);
        if (isOrdered && random.chance(0.3)) aggregates.push({ alias: `${kind}K`, kind, column: keys[0]! });
    }
    return {
        table: plainTable(columns, rows, random.pick([100, 5000])),
        ...{ keys, aggregates },
        text: `group-by of ${rows} rows by ${columns.map(({ name, type }) => `${name}: ${String(type)}`).join(", ")}`
    };
}

test("joins of short texts equal the reference", async () => {
    await forSeeds(810_000, 80, async (random) => {
        using sandbox = new Sandbox();
        const mode = random.pick(modes);
        const memory = { host: "256MiB", ...mode.memory, spillDirectory: sandbox.spill };
        await using runtime = await openRuntime({ threads: 2, device: "cpu", ...mode, memory });
        const joinCase = joinCaseOf(random);
        const query = runtime.join({
            left: runtime.fromTable(joinCase.left),
            right: runtime.fromTable(joinCase.right),
            on: Object.fromEntries(joinCase.on),
            type: joinCase.type,
            nullEquality: joinCase.nullEquality
        });
        const expected = expectedJoin(joinCase);
        expectSameRows(joinedRows(cellTable(await query.toTable()), joinCase), expected.rows, joinCase.text);
        expect(await query.count(), joinCase.text).toBe(expected.rows.length);
    });
});

test("group-bys of short texts equal the reference", async () => {
    await forSeeds(820_000, 80, async (random) => {
        using sandbox = new Sandbox();
        const mode = random.pick(modes);
        const memory = { host: "256MiB", ...mode.memory, spillDirectory: sandbox.spill };
        await using runtime = await openRuntime({ threads: 2, device: "cpu", ...mode, memory });
        const groups = groupCaseOf(random);
        const aggregates = Object.fromEntries(
            groups.aggregates.map(({ alias, kind, column }) => [alias, { [kind]: column }])
        ) as Record<string, { count: string }>;
        const query = runtime.groupBy(runtime.fromTable(groups.table), { keys: [...groups.keys], aggregates });
        const expected = expectedGroups(groups);
        expectSameGroups(cellTable(await query.toTable()), expected, groups);
        expect(await query.count(), groups.text).toBe(expected.length);
    });
});

const leftRows = 30_000;
const rightRows = 50_000;

/** Names like those of TPC-H, codes of two letters, and words of up to 30 bytes. */
function relation(random: Random, prefix: string, rows: number): Table {
    const name = (): PlainValue =>
        random.chance(0.02) ? null : `Customer#${String(random.below(20_000)).padStart(9, "0")}`;
    const columns: [string, () => PlainValue][] = [
        ["name", name],
        ["code", () => random.pick(["A", "N", "R", "AF", "", null])],
        ["word", () => "x".repeat(random.below(24)) + String(random.below(1000))]
    ];
    const made = columns.map(([column, value]) => {
        const values = Array.from({ length: rows }, value);
        return { name: prefix + column, type: new Utf8(), values };
    });
    const values = Array.from({ length: rows }, (_, row) => BigInt(row));
    return plainTable([...made, { name: `${prefix}n`, type: new Int32(), values }], rows, 10_007);
}

describe("of thousands of rows, against DuckDB", () => {
    const random = new Random("inline texts");
    const left = relation(random, "l", leftRows);
    const right = relation(random, "r", rightRows);
    let duckdb: DuckDB;
    const hashes = new Map<string, string>();
    const expectedHash = async (sql: string): Promise<string> => {
        const known = hashes.get(sql) ?? hashRows(rowTexts(await duckdb.query(sql)));
        hashes.set(sql, known);
        return known;
    };
    beforeAll(async () => {
        duckdb = await DuckDB.open();
        await duckdb.load("l", left);
        await duckdb.load("r", right);
    });
    afterAll(async () => {
        await duckdb[Symbol.asyncDispose]();
    });

    describe.each(["16MiB", "32MiB", "64MiB", "1GiB"])("with a budget of %s", (host) => {
        test.each(joinTypes)("%s join by a name", async (type) => {
            using sandbox = new Sandbox();
            await using runtime = await openRuntime({
                ...{ threads: 2, device: "cpu", memory: { host, spillDirectory: sandbox.spill } }
            });
            const [l, r] = [runtime.fromTable(left), runtime.fromTable(right)];
            const query = runtime.join({ left: l, right: r, on: { lname: "rname" }, type });
            const { plan } = await query.explain();
            expect(JSON.stringify(plan.stages.concat(plan.sets as never))).toContain("inlineBytes");
            const ofRight = type === "semi" || type === "anti" ? [] : ["rname", "rcode", "rword", "rn"];
            const columns = ["lname", "lcode", "lword", "ln", ...ofRight];
            const expected = await expectedHash(
                `SELECT ${columns.join(", ")} FROM l ${type.toUpperCase()} JOIN r ON lname = rname`
            );
            const rows: string[] = [];
            for await (const batch of query.batches()) rows.push(...rowTexts(cellTable(new Table(batch)), columns));
            expect(hashRows(rows)).toBe(expected);
        });

        test("group-bys by codes, by names, and of a join", async () => {
            using sandbox = new Sandbox();
            await using runtime = await openRuntime({
                ...{ threads: 2, device: "cpu", memory: { host, spillDirectory: sandbox.spill } }
            });
            const [l, r] = [runtime.fromTable(left), runtime.fromTable(right)];
            const aggregates = {
                rows: { count: "*" },
                low: { min: "rword" },
                kinds: { countDistinct: "rcode" }
            } as const;
            const asked = "count(*), min(rword), count(DISTINCT rcode)";
            for (const keys of [["rcode"], ["rname"], ["rcode", "rname"]]) {
                const query = runtime.groupBy(r, { keys, aggregates });
                const expected = await expectedHash(
                    `SELECT ${keys.join(", ")}, ${asked} FROM r GROUP BY ${keys.join(", ")}`
                );
                expect(hashRows(rowTexts(cellTable(await query.toTable())))).toBe(expected);
            }
            const joined = runtime.join({ left: l, right: r, on: { lname: "rname" } });
            const expected = await expectedHash(
                `SELECT lcode, lword, ${asked} FROM l JOIN r ON lname = rname GROUP BY lcode, lword`
            );
            const table = await joined.groupBy({ keys: ["lcode", "lword"], aggregates }).toTable();
            expect(hashRows(rowTexts(cellTable(table)))).toBe(expected);
        });
    });
});

const keyKinds = ({ plan }: { plan: Plan }): string[] =>
    plan.stages.flatMap((stage) => (stage.kind === "hashGroup" ? stage.inputSpec.keys.map(({ kind }) => kind) : []));

test("a text that grew since its relation was looked at makes another plan, once", async () => {
    await using runtime = await openRuntime({
        threads: 2,
        device: "cpu",
        debug: { inlineTexts: true, algorithm: "hash" }
    });
    const data = new TextEncoder().encode("abcdefghijklmnop");
    const valueOffsets = Int32Array.of(0, 4, 8, 12, 16);
    const column = makeVector(makeData({ type: new Utf8(), length: 4, valueOffsets, data, nullCount: 0 }));
    const table = new Table({ k: column, n: vectorFromArray([1, 2, 3, 4], new Int32()) });
    const groups = runtime.fromTable(table).groupBy({ keys: ["k"], aggregates: { n: { sum: "n" } } });
    const rowsOf = async (): Promise<string[]> => rowTexts(cellTable(await groups.toTable())).sort();
    const before = await rowsOf();
    expect(before).toHaveLength(4);
    expect(keyKinds(await groups.explain())).toEqual(["inlineBytes"]);
    valueOffsets.set([0, 1, 2, 3, 16]);
    const after = await rowsOf();
    expect(after).toHaveLength(4);
    expect(after.join()).toContain("defghijklmnop");
    // What its longest text is now is found out again.
    expect(await rowsOf()).toEqual(after);
    expect(keyKinds(await groups.explain())).toEqual(["inlineBytes"]);
});
