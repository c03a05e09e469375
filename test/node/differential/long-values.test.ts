// SPDX-License-Identifier: Apache-2.0
// Values that are much longer than estimates say: a few among many short ones, behind dictionary codes, shared by
// views, repeated by joins. Everything that runs at its least budget must run, whatever the values are like.
import { rmSync, writeFileSync } from "node:fs";
import {
    Dictionary,
    Int32,
    makeData,
    makeVector,
    Table,
    tableToIPC,
    type TypeMap,
    Utf8,
    Utf8View,
    vectorFromArray,
    type Vector
} from "apache-arrow";
import { openRuntime, SpillwayError, type Query, type Relation } from "spillway";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Random } from "../../support/random.js";
import { Sandbox } from "../../support/sandbox.js";

let sandbox: Sandbox;
beforeAll(() => (sandbox = new Sandbox()));
afterAll(() => sandbox[Symbol.dispose]());

const open = async (host: string | number) =>
    await openRuntime({ threads: 2, memory: { host, spillDirectory: sandbox.spill } });
const numbers = (length: number, of: (i: number) => number): Vector<Int32> =>
    makeVector(makeData({ type: new Int32(), data: Int32Array.from({ length }, (_, i) => of(i)) }));
const texts = (values: string[]): Vector<Utf8> => vectorFromArray(values, new Utf8());

function encoded(codes: Vector<Int32>, words: string[]): Vector {
    const type = new Dictionary(new Utf8(), new Int32());
    const data = codes.data[0]!.values;
    return makeVector(makeData({ type, length: data.length, data, dictionary: texts(words) }));
}

/** Views that all show the same bytes. */
function shared(length: number, value: string): Vector {
    const bytes = new TextEncoder().encode(value);
    const views = new Uint8Array(length * 16);
    const view = new DataView(views.buffer);
    for (let i = 0; i < length; i++) {
        view.setInt32(i * 16, bytes.length, true);
        views.set(bytes.subarray(0, 4), i * 16 + 4);
    }
    return makeVector(makeData({ type: new Utf8View(), length, views, variadicBuffers: [bytes] }));
}

const long = (i: number): string => `w${i}${"x".repeat(500)}`;
const rows = 20_000;
const skewed = ["q".repeat(3000), "z", ...Array.from({ length: 3000 }, (_, i) => String(i))];
const keys: [string, () => Vector, string[]][] = [
    [
        "all entries of a dictionary",
        () =>
            encoded(
                numbers(rows, (i) => i % 50),
                Array.from({ length: 50 }, (_, i) => long(i))
            ),
        Array.from({ length: 50 }, (_, i) => long(i))
    ],
    [
        "the entry of a dictionary that half of the rows have",
        () =>
            encoded(
                numbers(rows, (i) => i % 2),
                skewed
            ),
        skewed.slice(0, 2)
    ],
    ["a value that all views share", () => shared(rows, long(7)), [long(7)]]
];

test.each(keys)("a join by %s is planned again when its rows are longer than estimated", async (_, column, found) => {
    const left = new Table({ w: column(), a: numbers(rows, (i) => i) });
    const others = Array.from({ length: 100_000 }, (_unused, i) => found[i] ?? `other${i}`);
    const right = new Table({ w: texts(others), b: numbers(others.length, (i) => i) });
    for (const host of ["16MiB", "1GiB"]) {
        await using runtime = await open(host);
        const join = runtime.fromTable(left).join(runtime.fromTable(right), { on: "w" });
        expect(await join.count()).toBe(rows);
        expect(join.report()?.rowsOut).toBe(rows);
    }
});

test("a stream beside such a join is opened once: it may come to its end only once", async () => {
    await using runtime = await open("64MiB");
    const words = Array.from({ length: 50 }, (_, i) => long(i));
    const long50 = encoded(
        numbers(rows, (i) => i % 50),
        skewed.map((_, i) => words[i] ?? String(i))
    );
    const left = runtime.fromTable(new Table({ w: long50, a: numbers(rows, (i) => i) }));
    const right = runtime.fromTable(new Table({ w: texts(words) }));
    const ids = new Table({ a: numbers(rows, (i) => i), c: numbers(rows, (i) => 2 * i) });
    const once = (async function* () {
        yield* await Promise.resolve(ids.batches);
    })();
    let opened = 0;
    const stream = runtime.fromBatches(ids.schema, () => {
        opened++;
        return once;
    });
    const joined = stream.join(left, { on: "a" }).join(right, { on: "w" });
    expect(await joined.count()).toBe(rows);
    expect(opened).toBe(1);
});

test("one long value that a join repeats makes small batches, not large ones", async () => {
    const value = "x".repeat(50_000);
    const left = new Table({
        id: numbers(1000, (i) => i),
        t: texts(Array.from({ length: 1000 }, (_, i) => (i === 7 ? value : "s")))
    });
    const right = new Table({ id: numbers(1000, () => 7) });
    await using runtime = await open("4MiB");
    const join = runtime.fromTable(left).join(runtime.fromTable(right), { on: "id" });
    let count = 0;
    for await (const batch of join.batches()) {
        expect(batch.data.byteLength).toBeLessThan(2 ** 20);
        for (const row of batch) expect(row["t"]).toBe(value);
        count += batch.numRows;
    }
    expect(count).toBe(1000);
    const path = sandbox.path("repeated.arrow");
    await join.toArrowFile(path);
    await using roomy = await open("256MiB");
    const grouped = (await roomy.fromArrowFile(path)).groupBy({ keys: ["t"], aggregates: { n: { count: "*" } } });
    expect((await grouped.toTable()).get(0)?.toJSON()).toEqual({ t: value, n: 1000n });
});

// Rows larger than a page count as pages do: what they took beside the pool was missing later, at any budget below the
// data, in tables, result batches and pages that are read back.
test.each(["4MiB", "8MiB", "16MiB"])("a long value in each 250 rows leaves enough of %s", async (host) => {
    const length = 40_000;
    const lengths = Array.from({ length }, (_, i) => (i % 250 === 0 ? 64_000 : (i % 20) * 8));
    const table = new Table({
        k: numbers(length, (i) => i),
        l: texts(lengths.map((bytes) => "v".repeat(bytes)))
    });
    const bytes = lengths.reduce((sum, each) => sum + each, 0);
    await using runtime = await open(host);
    const relation = runtime.fromTable(table);
    const sum = async <T extends TypeMap>(query: Query<T>, ...names: (string & keyof T)[]): Promise<number[]> => {
        const sums = names.map(() => 0);
        for await (const batch of query.batches()) {
            for (const [i, name] of names.entries()) {
                for (const { valueOffsets } of batch.getChild(name)!.data) {
                    sums[i]! += valueOffsets[valueOffsets.length - 1] - valueOffsets[0];
                }
            }
        }
        return sums;
    };
    expect(await sum(relation.join(relation, { on: "k" }), "l", "l_right")).toEqual([bytes, bytes]);
    expect(await sum(relation.join(relation, { on: "k", type: "left" }), "l", "l_right")).toEqual([bytes, bytes]);
    expect(await relation.join(relation, { on: "k" }).toArrowFile(sandbox.path(`often-${host}.arrow`))).toBe(length);
    expect(await sum(relation.groupBy({ keys: ["k"], aggregates: { l: { first: "l" } } }), "l")).toEqual([bytes]);
});

test("few but huge rows need no memory for all of them", async () => {
    const values = Array.from({ length: 200 }, (_, i) => String(i).padEnd(50_000 + 500 * i, "v"));
    const table = new Table({ k: numbers(values.length, (i) => i), t: texts(values) });
    const bytes = values.reduce((sum, value) => sum + value.length, 0);
    await using runtime = await open(bytes);
    const relation = runtime.fromTable(table);
    let found = 0;
    for await (const batch of relation.join(relation, { on: "k" }).batches()) {
        for (const row of batch) {
            expect(row["t"]).toBe(values[row["k"]]);
            expect(row["t_right"]).toBe(row["t"]);
            found++;
        }
    }
    expect(found).toBe(values.length);
    const groups = relation.groupBy({ keys: ["t"], aggregates: { n: { count: "*" } } });
    expect(await groups.toArrowFile(sandbox.path("huge.arrow"))).toBe(values.length);
});

interface Side {
    table: Table;
    keys: Int32Array;
}

function sideOf(random: Random, length: number, keyed: number, share: number, longest: number, kind: string): Side {
    const codes = Int32Array.from({ length }, () => random.below(keyed));
    const words = Array.from({ length: keyed }, (_, i) =>
        i % 7 === 3 && share > 0 ? i + "k".repeat(longest / 10) : `w${i}`
    );
    const column = numbers(length, (i) => codes[i]!);
    const text = (i: number): string => (random.chance(share) ? `L${i}${"x".repeat(random.below(longest))}` : `s${i}`);
    const key =
        kind === "int"
            ? column
            : kind === "utf8"
              ? texts(Array.from(codes, (code) => words[code]!))
              : encoded(column, words);
    const values = texts(Array.from({ length }, (_, i) => text(i)));
    return { table: new Table({ k: key, v: values }), keys: codes };
}

const seeds = Array.from({ length: Number(process.env["SPILLWAY_SEEDS"] ?? 12) }, (_, i) => i + 1);

test.each(seeds)("joins with skewed lengths run from their least budget on (seed %i)", async (seed) => {
    const random = new Random(seed);
    const keyed = random.pick([10, 500, 5000]);
    const [share, longest] = [random.pick([0.0005, 0.01, 0.3]), random.pick([200, 3000, 40_000])];
    const kind = random.pick(["int", "utf8", "dictionary"]);
    const left = sideOf(random, random.pick([1, 300, 3000]), keyed, share, longest, kind);
    const right = sideOf(random, random.pick([300, 3000, 10_000]), keyed, share, longest, kind);
    const times = new Map<number, number>();
    for (const key of left.keys) times.set(key, (times.get(key) ?? 0) + 1);
    const pairs = right.keys.reduce((sum, key) => sum + (times.get(key) ?? 0), 0);
    const inFiles = random.chance(0.5);
    const paths = [left, right].map(({ table }, i) => {
        const path = sandbox.path(`long-${seed}-${i}.arrow`);
        writeFileSync(path, tableToIPC(table, "file"));
        return path;
    });
    const run = async (host: string | number, count: boolean): Promise<void> => {
        await using runtime = await open(host);
        const relation = async (side: Side, i: number): Promise<Relation> =>
            inFiles ? await runtime.fromArrowFile(paths[i]!) : runtime.fromTable(side.table);
        const join = (await relation(left, 0)).join(await relation(right, 1), { on: "k", suffix: "_r" });
        let found = 0;
        if (count) found = await join.count();
        else for await (const batch of join.batches()) found += batch.numRows;
        expect(found).toBe(pairs);
    };
    for (const count of pairs > 200_000 ? [true] : [true, false]) {
        const least = await run("1MiB", count).then(
            () => "1MiB",
            (error: unknown) => {
                expect(error).toBeInstanceOf(SpillwayError);
                return String((error as SpillwayError).details["smallest"]);
            }
        );
        for (const factor of [1, 1.1, 2, 8]) await run(Math.ceil(parseFloat(least) * 2 ** 20 * factor), count);
    }
    for (const path of paths) rmSync(path);
});
