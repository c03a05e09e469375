// SPDX-License-Identifier: Apache-2.0
// Joins and group-bys of relations by short text, which is a key of 8 or 16 bytes of its own, among it longer text.
import { Binary, Int32, Int64, LargeUtf8, Utf8, type DataType, type Table } from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import type { GroupCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { expectedGroups, expectSameGroups } from "../../support/engine.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { buildTable, oneBatch, type PlainColumn } from "../../support/relations.js";
import { joinTypes } from "../../support/reference.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";

useGpu();

const memory = { host: "256MiB", device: "64MiB" };
const shapes = [
    { residentShare: 0, chunkRows: 64, radixBits: 0, workers: 12 },
    { residentShare: 1, chunkRows: 4096, radixBits: 9, workers: 2 }
];
let gpus: Runtime[] = [];
let cpu: Runtime;

beforeAll(async () => {
    cpu = await openRuntime({ device: "cpu", threads: 2, memory: { host: "256MiB" } });
    gpus = [];
    for (const shape of shapes) {
        const debug = { outOfCore: true, ...shape };
        gpus.push(await openRuntime({ device: "gpu", threads: 2, memory, ...knobs(debug) }));
    }
});
afterAll(async () => {
    for (const runtime of [cpu, ...gpus]) await runtime.close();
});

const rows = 3000;
const encoder = new TextEncoder();

/** Texts of up to so many bytes: empty ones, zeros, and others that begin alike; one of `longer` is longer. */
function textOf(i: number, bytes: number, longer: number): string {
    const drawn = (i * 7) % 83;
    if (longer > 0 && i % longer === 0) return `${"long".repeat(8)}${drawn % 5}`;
    if (drawn === 0) return "";
    if (drawn < 4) return "\0".repeat(drawn);
    return `${"a".repeat(Math.max(0, bytes - 2 - (drawn % 3)))}${drawn}`.slice(-bytes);
}

interface Key {
    readonly type: DataType;
    readonly bytes: number;
    readonly longer?: number;
    readonly nulls?: number;
}

function keyColumn({ type, bytes, longer = 0, nulls = 0 }: Key, at: number): PlainColumn {
    const value = (i: number): unknown => {
        if (nulls > 0 && (i + at) % nulls === 0) return null;
        if (type instanceof Int32) return (i % 7) - 3;
        const text = textOf(i + at, bytes, longer);
        return type instanceof Binary ? encoder.encode(text) : text;
    };
    return { name: `k${at}`, type, values: Array.from({ length: rows }, (_, i) => value(i)) as PlainColumn["values"] };
}

function groupCase(...keys: Key[]): GroupCase {
    const values = Array.from({ length: rows }, (_, i) => BigInt(i) * 10n ** 12n);
    const texts = Array.from({ length: rows }, (_, i) => textOf(i * 3, 9, 0));
    const columns = [
        ...keys.map(keyColumn),
        { name: "v", type: new Int64(), values },
        { name: "t", type: new Utf8(), values: texts }
    ];
    return {
        table: buildTable(columns, oneBatch(rows)),
        keys: keys.map((_, at) => `k${at}`),
        aggregates: [
            { alias: "n", kind: "count", column: "*" },
            { alias: "sum", kind: "sum", column: "v" },
            { alias: "least", kind: "min", column: "t" },
            { alias: "different", kind: "countDistinct", column: "t" }
        ],
        text: keys
            .map((key) => `${String(key.type)} of up to ${key.bytes} bytes ${key.longer ?? 0} ${key.nulls ?? 0}`)
            .join(", ")
    };
}

function groupBy(runtime: Runtime, { table, keys, aggregates }: GroupCase): Query {
    const named = aggregates.map(({ alias, kind, column }) => [alias, { [kind]: column }]);
    const options = { keys, aggregates: Object.fromEntries(named) as { n: { count: string } } };
    return runtime.groupBy(runtime.fromTable(table), options);
}

async function expectGroups(one: GroupCase, ...lines: RegExp[]): Promise<void> {
    for (const gpu of gpus) {
        const query = groupBy(gpu, one);
        const result = await query.toTable();
        expectSameGroups(cellTable(result), expectedGroups(one), one);
        expect(await query.count()).toBe(result.numRows);
        const text = String(await query.explain());
        for (const line of lines) expect(text).toMatch(line);
        if (lines.length === 0) expect(text).not.toMatch(/longer text a number/);
    }
}

const in8 = /text of up to 7 bytes is a key of 8 bytes, longer text a number/;
const in16 = /text of up to 15 bytes is a key of 16 bytes, longer text a number/;
const utf8 = new Utf8();

describe("short texts", () => {
    test.each([
        [in8, groupCase({ type: utf8, bytes: 7 })],
        [in8, groupCase({ type: utf8, bytes: 1 })],
        [in8, groupCase({ type: utf8, bytes: 6, longer: 50 })],
        [in8, groupCase({ type: utf8, bytes: 7, nulls: 9 })],
        [in8, groupCase({ type: new LargeUtf8(), bytes: 7, longer: 60 })],
        [in8, groupCase({ type: new Binary(), bytes: 7 })],
        [in16, groupCase({ type: utf8, bytes: 15 })],
        [in16, groupCase({ type: utf8, bytes: 14, longer: 20, nulls: 11 })],
        [in16, groupCase({ type: new LargeUtf8(), bytes: 15, nulls: 5 })],
        [in16, groupCase({ type: new Binary(), bytes: 15, longer: 40 })]
    ])("alone %s", async (line, one) => {
        await expectGroups(one, line);
    });

    test("with others", async () => {
        await expectGroups(
            groupCase({ type: utf8, bytes: 7 }, { type: new Int32(), bytes: 4 }),
            in8,
            /keys of 2 words/
        );
        await expectGroups(
            groupCase({ type: new Int32(), bytes: 4, nulls: 8 }, { type: utf8, bytes: 15, nulls: 6, longer: 30 }),
            in16,
            /keys of 4 words/
        );
        await expectGroups(groupCase({ type: utf8, bytes: 15 }, { type: utf8, bytes: 15, longer: 30 }), in16);
    });

    test("that are tiny stay numbers beside other keys", async () => {
        await expectGroups(groupCase({ type: utf8, bytes: 1 }, { type: utf8, bytes: 2, longer: 0 }));
    });

    test("that need too many words are numbered", async () => {
        const wide = { type: utf8, bytes: 15 };
        await expectGroups(groupCase(wide, wide, { ...wide, nulls: 4 }));
    });
});

describe("joins by short texts", () => {
    const sides = (key: Key, other: Key, onlyText: boolean): [Table, Table] => {
        const side = (suffix: string, one: Key, first: number): Table => {
            const size = 400 + first;
            const texts = keyColumn(one, first).values.slice(0, size) as PlainColumn["values"];
            const numbers = Array.from({ length: size }, (_, i) => BigInt(i % 3));
            return buildTable(
                [
                    { name: "k", type: one.type, values: texts },
                    ...(onlyText ? [] : [{ name: "n", type: new Int64(), values: numbers }]),
                    { name: `row_${suffix}`, type: new Int32(), values: Array.from({ length: size }, (_, i) => i) }
                ],
                oneBatch(size)
            );
        };
        return [side("l", key, 0), side("r", other, 31)];
    };
    const onGpu = async (query: Query): Promise<number[]> => {
        const [stage] = (await query.explain()).plan.stages as OutOfCoreStage[];
        return stage!.layout.build.keys.filter(({ kind }) => kind === "bytes").map(({ width }) => width);
    };

    test.each([
        [8, { type: utf8, bytes: 5 }, { type: utf8, bytes: 7 }],
        [8, { type: utf8, bytes: 5, nulls: 7 }, { type: utf8, bytes: 6, nulls: 5 }],
        [8, { type: utf8, bytes: 6, longer: 40 }, { type: utf8, bytes: 6, longer: 70 }],
        [8, { type: utf8, bytes: 6 }, { type: utf8, bytes: 5, longer: 50 }],
        [0, { type: utf8, bytes: 6 }, { type: utf8, bytes: 15 }],
        [0, { type: utf8, bytes: 12 }, { type: utf8, bytes: 12 }]
    ] as [number, Key, Key][])("have the rows of the CPU engine, in keys of %d bytes", async (width, left, right) => {
        for (const type of joinTypes) {
            for (const onlyText of [true, false]) {
                const tables = sides(left, right, onlyText);
                const joined = (runtime: Runtime, buildSide: "left" | "right"): Query => {
                    const [l, r] = tables.map((table) => runtime.fromTable(table));
                    const on = onlyText ? ["k"] : ["n", "k"];
                    return runtime.join({ left: l!, right: r!, on, type, hints: { buildSide } });
                };
                const expected = rowTexts(cellTable(await joined(cpu, "left").toTable()));
                for (const gpu of gpus) {
                    for (const buildSide of ["left", "right"] as const) {
                        const query = joined(gpu, buildSide);
                        const what = `${type}, built on the ${buildSide}, ${onlyText ? "text" : "text and numbers"}`;
                        expect(await onGpu(query), what).toEqual([width]);
                        expectSameRows(rowTexts(cellTable(await query.toTable())), expected, what);
                        expect(await query.count(), what).toBe(expected.length);
                    }
                }
            }
        }
    });
});
