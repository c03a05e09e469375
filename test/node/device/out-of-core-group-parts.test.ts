// SPDX-License-Identifier: Apache-2.0
// Group-bys beyond GPU memory that add up more numbers for a key than a partial row has: made in parts, whose groups
// are joined.
import {
    Bool,
    Decimal,
    Dictionary,
    FixedSizeBinary,
    Float64,
    Int32,
    Int64,
    makeVector,
    Table,
    Utf8,
    vectorFromArray,
    type DataType,
    type Vector
} from "apache-arrow";
import { openRuntime, type Query, type Relation, type Runtime, type RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";

useGpu();

const memory = { host: "512MiB", device: "256MiB" };
const small = { memory, ...knobs({ outOfCore: true, chunkRows: 256, radixBits: 3, residentShare: 0.4 }) };
const rows = 3000;

function column(type: DataType, value: (row: number) => unknown): Vector {
    const values = Array.from({ length: rows }, (_, row) => value(row));
    return vectorFromArray(values as number[], type as Int32);
}

const names = Array.from({ length: 14 }, (_, i) => `v${i}`);
const table: Table = new Table({
    k: column(new Int64(), (row) => BigInt((row * 7919) % 500)),
    none: column(new Int64(), (row) => (row % 97 === 0 ? null : BigInt(row % 300))),
    f: column(new Float64(), (row) => [NaN, -0, 0, null, Infinity][row % 40] ?? (row % 40) / 3),
    t: column(new Utf8(), (row) => (row % 31 === 0 ? null : `key ${row % 91}`)),
    d: column(new Dictionary(new Utf8(), new Int32()), (row) => (row % 29 === 0 ? null : `word ${row % 71}`)),
    b: column(new FixedSizeBinary(11), (row) => Uint8Array.from({ length: 11 }, (_, at) => (row % 50) * at)),
    flag: column(new Bool(), (row) => row % 3 === 0),
    c: column(new Decimal(2, 30, 128), (row) => (row % 13 === 0 ? null : Uint32Array.of(row % 70, 0, row % 3, 0))),
    ...Object.fromEntries(
        // Sums of groups leave 64 bits on the way, and some columns may be NULL.
        names.map((name, i) => [
            name,
            column(new Int64(), (row) =>
                i % 3 === 0 && row % 17 === 0 ? null : BigInt(row % 2 === 0 ? row : -row) << 44n
            )
        ])
    )
});

const means = Object.fromEntries(
    names.flatMap((name) => [
        [`mean_${name}`, { mean: name }],
        [`sum_${name}`, { sum: name }]
    ])
);
const extremes = Object.fromEntries(
    names.flatMap((name) => [
        [`min_${name}`, { min: name }],
        [`first_${name}`, { first: name }]
    ])
);
const others = {
    least: { min: "t" },
    most: { max: "t" },
    texts: { countDistinct: "t" },
    total: { sum: "c" },
    mean: { mean: "c" },
    low: { min: "c" },
    word: { first: "d" },
    text: { first: "t" },
    n: { count: "*" }
} as const;

async function within<T>(options: RuntimeOptions, use: (runtime: Runtime) => Promise<T>): Promise<T> {
    await using runtime = await openRuntime({ threads: 2, ...options });
    return await use(runtime);
}

const rowsOf = async (query: Query): Promise<string[]> => rowTexts(cellTable(await query.toTable()));

/** The same query on both devices; how many stages it had on the GPU. */
async function compare(make: (runtime: Runtime) => Query, options: RuntimeOptions = small): Promise<number> {
    const expected = await within({ device: "cpu", memory }, async (runtime) => await rowsOf(make(runtime)));
    return await within({ ...options, device: "gpu" }, async (runtime) => {
        const query = make(runtime);
        const found = await query.toTable();
        expectSameRows(rowTexts(cellTable(found)), expected, "GPU");
        const stages = query.report()!.stages.length;
        // Users see the types that the query says, whatever parts know of NULLs.
        expect(found.schema.fields.map((field) => [field.name, String(field.type), field.nullable])).toEqual(
            query.schema.fields.map((field) => [field.name, String(field.type), field.nullable])
        );
        expect(await make(runtime).count()).toBe(expected.length);
        return stages;
    });
}

type Aggregates = Parameters<Relation["groupBy"]>[0]["aggregates"];
const grouped = (query: Relation | Query, keys: string[], aggregates: object = means): Query =>
    query.groupBy({ keys, aggregates: aggregates as NonNullable<Aggregates> });

describe("many means and sums, in two parts, of keys", () => {
    const keySets = [["k"], ["none"], ["f"], ["t"], ["d"], ["b"], ["c"], ["flag", "none"], ["k", "none"], []];
    test.each([...keySets, ["t", "f", "d", "none"], ["k", "none", "f", "c", "b"]])(
        "%s %s %s %s %s",
        async (...keys) => {
            const wanted = keys.filter((key) => typeof key === "string");
            expect(await compare((runtime) => grouped(runtime.fromTable(table), wanted))).toBeGreaterThanOrEqual(3);
        }
    );
});

describe("many aggregates in more parts", () => {
    test.each([["k"], ["none"], ["f"], ["d"]])("by %s", async (key) => {
        const stages = await compare((runtime) => grouped(runtime.fromTable(table), [key], { ...means, ...extremes }));
        expect(stages).toBeGreaterThanOrEqual(4);
    });

    test("of all rows, and of none", async () => {
        const all = { ...means, ...extremes };
        expect(await compare((runtime) => grouped(runtime.fromTable(table), [], all))).toBeGreaterThanOrEqual(4);
        const none = table.slice(0, 0);
        await compare((runtime) => grouped(runtime.fromTable(none), [], all));
        await compare((runtime) => grouped(runtime.fromTable(none), ["k"], all));
    });

    test("with texts, decimals and values that differ among them", async () => {
        for (const keys of [["k"], ["t", "none"], []]) {
            await compare((runtime) => grouped(runtime.fromTable(table), keys, { ...means, ...others }));
        }
    });
});

describe("parts", () => {
    const partner = (runtime: Runtime): Relation => runtime.fromTable(table.select(["k", "c", "f"]));

    test.each([false, true])("of rows of a join, of a stream: %s", async (streamed) => {
        let opened = 0;
        const relation = (runtime: Runtime): Relation => {
            const some = table.select(["k", "none", "d", ...names.slice(0, 10)]);
            if (!streamed) return runtime.fromTable(some);
            return runtime.fromBatches(some.schema, async function* () {
                opened++;
                for (const batch of some.batches) yield await Promise.resolve(batch);
            });
        };
        const wanted = Object.fromEntries(
            names.slice(0, 10).flatMap((name) => [
                [`mean_${name}`, { mean: name }],
                [`min_${name}`, { min: name }]
            ])
        );
        for (const keys of [["f"], ["none"]]) {
            const stages = await compare((runtime) => {
                const joined = relation(runtime).join(partner(runtime), { on: "k", suffix: "_2" });
                return grouped(joined, keys, wanted);
            });
            expect(stages).toBeGreaterThanOrEqual(3);
        }
        // Rows on the CPU, on the GPU, and their count there: each of these reads a stream once.
        expect(opened).toBe(streamed ? 6 : 0);
    });

    test("are joined with a table, and grouped again", async () => {
        await compare((runtime) => {
            const groups = grouped(runtime.fromTable(table), ["none"], { ...means, ...extremes });
            return groups.join(partner(runtime), { on: { none: "k" }, type: "left", suffix: "_2" });
        });
        await compare((runtime) => {
            const groups = grouped(runtime.fromTable(table), ["k"]);
            const again = Object.fromEntries(Object.keys(means).map((max) => [`most_${max}`, { max }]));
            return grouped(groups, ["mean_v1"], again);
        });
    });

    test("are held on disk where host memory has no room for them", async () => {
        const many = 100_000;
        const numbers = (value: (row: number) => number): Vector =>
            makeVector(BigInt64Array.from({ length: many }, (_, row) => BigInt(value(row))));
        const sums = Array.from({ length: 17 }, (_, i) => `v${i}`);
        const wide: Table = new Table({
            k: numbers((row) => row % 90_000),
            ...Object.fromEntries(sums.map((name, i) => [name, numbers((row) => row + i)]))
        });
        const aggregates = Object.fromEntries(sums.map((sum) => [`sum_${sum}`, { sum }]));
        const little = { host: "24MiB", device: "256MiB" };
        await within({ ...small, device: "gpu", memory: little }, async (runtime) => {
            const query = grouped(runtime.fromTable(wide), ["k"], aggregates);
            let [found, total] = [0, 0n];
            for await (const batch of query.batches()) {
                found += batch.numRows;
                for (const sum of batch.getChild("sum_v16")!) total += sum as bigint;
            }
            expect(found).toBe(90_000);
            expect(total).toBe((BigInt(many) * BigInt(many + 31)) / 2n);
            const report = query.report()!;
            expect(report).toMatchObject({ device: "gpu" });
            expect(report.stages.slice(0, 2).map(({ spilledBytes }) => spilledBytes > 0)).toEqual([true, true]);
        });
    });

    test("whose sum is too large end the query before its first row, with nothing held", async () => {
        const large: Table = new Table({
            k: table.getChild("k")!,
            ...Object.fromEntries(names.map((name) => [name, column(new Int64(), () => 2n ** 62n)])),
            v14: column(new Int64(), () => 1n)
        });
        await within({ ...small, device: "gpu" }, async (runtime) => {
            const query = grouped(runtime.fromTable(large), ["k"], { ...means, one: { sum: "v14" } });
            await expect(query.toTable()).rejects.toMatchObject({ code: "INTEGER_OVERFLOW" });
            expect(runtime.memory().host.usedBytes).toBe(0);
        });
    });

    test("are explained with what each of them makes", async () => {
        await within({ ...small, device: "gpu" }, async (runtime) => {
            const text = String(await grouped(runtime.fromTable(table), ["k"]).explain());
            expect(text).toMatch(/a group-by in 2 parts, .*: mean_v0, sum_v0, .*; mean_v\d+, sum_v\d+, .*/);
            expect(text.match(/its rows are held in host memory/g)).toHaveLength(2);
        });
    });
});
