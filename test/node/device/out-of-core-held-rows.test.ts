// SPDX-License-Identifier: Apache-2.0
// Groups and rows of joins that are joined or grouped again beyond GPU memory, where they are held in host memory
// between two stages.
import {
    Decimal,
    Dictionary,
    Int32,
    Int64,
    Int8,
    makeVector,
    Table,
    Uint16,
    Utf8,
    vectorFromArray
} from "apache-arrow";
import { openRuntime, type Query, type Relation, type Runtime, type RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";

useGpu();

const memory = { host: "256MiB", device: "128MiB" };
const small = knobs({ outOfCore: true, chunkRows: 256, radixBits: 3, residentShare: 0.4 });

async function within<T>(options: RuntimeOptions, use: (runtime: Runtime) => Promise<T>): Promise<T> {
    await using runtime = await openRuntime({ threads: 2, memory, ...options });
    return await use(runtime);
}

const facts = (rows: number): Table =>
    new Table({
        k: vectorFromArray(
            Array.from({ length: rows }, (_, i) => BigInt((i * 7919) % rows)),
            new Int64()
        ),
        word: vectorFromArray(
            Array.from({ length: rows }, (_, i) => (i % 11 === 0 ? null : `word ${i % 37}`)),
            new Dictionary(new Utf8(), new Int32())
        ),
        text: vectorFromArray(
            Array.from({ length: rows }, (_, i) => (i % 13 === 0 ? null : `text ${i % 41}`)),
            new Utf8()
        ),
        v: vectorFromArray(
            Array.from({ length: rows }, (_, i) => BigInt(i)),
            new Int64()
        )
    });
const table = facts(3000);

async function rowsOf(query: Query): Promise<string[]> {
    return rowTexts(cellTable(await query.toTable()));
}

/** The same query on both devices; how many stages it had on the GPU. */
async function compare(make: (relation: (runtime: Runtime) => Relation, runtime: Runtime) => Query, streamed = false) {
    const relation = (runtime: Runtime): Relation =>
        streamed
            ? runtime.fromBatches(table.schema, async function* () {
                  for (const batch of table.batches) yield await Promise.resolve(batch);
              })
            : runtime.fromTable(table);
    const expected = await within({ device: "cpu" }, async (runtime) => {
        return await rowsOf(make(() => runtime.fromTable(table), runtime));
    });
    return await within({ device: "gpu", ...small }, async (runtime) => {
        const query = make(relation, runtime);
        expectSameRows(await rowsOf(query), expected, "GPU");
        expect(await make(relation, runtime).count()).toBe(expected.length);
        return query.report()!.stages.map(({ device }) => Object.keys(device ?? {}).sort());
    });
}

const counted = (query: Relation | Query, keys: string[]): Query =>
    query.groupBy({ keys, aggregates: { n: { count: "*" }, sum: { sum: "v" }, mean: { mean: "v" } } });

describe.each([false, true])("groups, streamed: %s,", (streamed) => {
    test("are joined, with text and means", async () => {
        const stages = await compare((relation, runtime) => {
            const groups = counted(relation(runtime), ["text"]);
            return groups.join(runtime.fromTable(table), { on: { text: "text" }, type: "full", suffix: "_2" });
        }, streamed);
        expect(stages).toHaveLength(2);
    });

    test("are joined, with codes of a dictionary in the result", async () => {
        const stages = await compare((relation, runtime) => {
            const groups = counted(relation(runtime), ["word"]);
            return runtime.fromTable(table).join(groups, { on: { word: "word" }, type: "left", suffix: "_2" });
        }, streamed);
        expect(stages).toHaveLength(2);
    });

    test("are grouped again", async () => {
        const stages = await compare((relation, runtime) => {
            const groups = counted(relation(runtime), ["k", "word"].slice(1));
            return groups.groupBy({ keys: ["n"], aggregates: { most: { max: "sum" }, all: { sum: "sum" } } });
        }, streamed);
        expect(stages).toHaveLength(2);
    });
});

test("groups of nothing are joined", async () => {
    const none = new Table(table.schema);
    await within({ device: "gpu", ...small }, async (runtime) => {
        const groups = counted(runtime.fromTable(none), ["text"]);
        expect(await groups.join(runtime.fromTable(table), { on: { text: "text" }, suffix: "_2" }).count()).toBe(0);
    });
});

describe("more groups than were expected", () => {
    const rows = 200_000;
    const many = facts(rows);
    const make = (runtime: Runtime): Query => {
        const options = { keys: ["k"], aggregates: { n: { count: "*" } }, hints: { groups: 10 } } as const;
        const groups = runtime.fromTable(many).groupBy(options);
        return groups.join(runtime.fromTable(many), { on: { k: "k" }, select: ["n"] });
    };

    test("are held on disk, as far as host memory has no room for them", async () => {
        await within({ device: "gpu", ...small }, async (runtime) => {
            const query = make(runtime);
            expect(await query.count()).toBe(rows);
            expect(query.report()).toMatchObject({ device: "gpu" });
            expect(query.report()!.stages).toHaveLength(2);
        });
    });

    test("are joined by either device where any will do", async () => {
        await within({ device: "auto", ...knobs({ gpu: true, outOfCore: true }) }, async (runtime) => {
            expect((await make(runtime).toTable()).numRows).toBe(rows);
        });
    });
});

const decimals = vectorFromArray(
    Array.from({ length: 3000 }, (_, i) => (i % 17 === 0 ? null : Uint32Array.of(i % 7, 0, i % 3, 0))),
    new Decimal(2, 30, 128)
);
const wide = table.assign(new Table({ amount: decimals }));

describe.each([false, true])("rows of a join, streamed: %s,", (streamed) => {
    /** Joins the relation with a table of other names. */
    const joined = (relation: Relation, runtime: Runtime, more: object = {}): Query => {
        const others = Object.fromEntries(wide.schema.fields.map(({ name }) => [`${name}_2`, wide.getChild(name)!]));
        return relation.join(runtime.fromTable(new Table(others)), { on: { k: "k_2" }, ...more });
    };

    test("are grouped by keys of text, words and decimals", async () => {
        const stages = await compare((relation, runtime) => {
            const query = joined(relation(runtime), runtime, { type: "left" });
            const keys = ["text", "word", "amount_2"];
            return query.groupBy({ keys, aggregates: { n: { count: "*" }, sum: { sum: "v_2" }, most: { max: "v" } } });
        }, streamed);
        expect(stages).toHaveLength(2);
    });

    test("are grouped with values counted that differ", async () => {
        const stages = await compare((relation, runtime) => {
            const query = joined(relation(runtime), runtime, { type: "full" });
            const aggregates = { texts: { countDistinct: "text_2" }, words: { countDistinct: "word" } } as const;
            return query.groupBy({ keys: ["v"], aggregates });
        }, streamed);
        expect(stages).toHaveLength(2);
    });

    test("are joined by a dictionary column of theirs", async () => {
        const stages = await compare((relation, runtime) => {
            const few = runtime.fromTable(facts(60).select(["word"]));
            const query = joined(relation(runtime), runtime, { select: ["word", "text", "amount_2"] });
            return query.join(few, { on: { word: "word" }, type: "left" });
        }, streamed);
        expect(stages).toHaveLength(2);
    });

    test("are joined by what is computed of them", async () => {
        const stages = await compare((relation, runtime) => {
            const query = joined(relation(runtime), runtime, { type: "right" });
            const groups = query.groupBy({ keys: ["text", "word"], aggregates: { apart: { countDistinct: "v" } } });
            return groups.join(runtime.fromTable(table), { on: { text: "text", word: "word" }, suffix: "_3" });
        }, streamed);
        expect(stages).toHaveLength(3);
    });
});

describe("more rows of a join than were expected", () => {
    const rows = 1_200_000;
    // All of 1,000 rows of a side with all of the other one's.
    const ones = (name: string, count: number): Table =>
        new Table({
            k: makeVector(new Int32Array(count).fill(1)),
            [name]: vectorFromArray(
                Array.from({ length: count }, (_, i) => BigInt(i)),
                new Int64()
            )
        });
    const make = (runtime: Runtime): Query => {
        const [left, right] = [runtime.fromTable(ones("a", rows / 1000)), runtime.fromTable(ones("b", 1000))];
        const joined = runtime.join({ left, right, on: "k", hints: { resultRows: 10 } });
        return joined.groupBy({ keys: ["a", "b"], aggregates: { n: { count: "*" } } });
    };

    test("are held all the same where host memory has room for them", async () => {
        await within({ device: "gpu", ...small }, async (runtime) => {
            const query = make(runtime);
            expect(await query.count()).toBe(rows);
            expect(query.report()!.stages).toHaveLength(2);
        });
    });

    const little = { ...memory, host: "24MiB" };
    /** Rows on disk, by stages. */
    const spilledOf = (query: Query): number[] => query.report()!.stages.map(({ spilledBytes }) => spilledBytes);

    test("are held on disk where it has none, by another plan", async () => {
        await within({ device: "gpu", memory: little, ...small }, async (runtime) => {
            const query = make(runtime);
            expect(await query.count()).toBe(rows);
            expect(query.report()).toMatchObject({ device: "gpu" });
            expect(spilledOf(query)[0]).toBeGreaterThan(0);
            expect(query.report()!.deviceReason).toMatch(/^Rows of a join that are joined or grouped again take/);
            expect(runtime.memory().host.usedBytes).toBe(0);
        });
    });
});

test("an abort while rows are held leaves nothing behind", async () => {
    await within({ device: "gpu", ...small }, async (runtime) => {
        const [left, right] = [runtime.fromTable(facts(100_000)), runtime.fromTable(facts(100_000))];
        const make = (): Query => {
            const joined = runtime.join({ left, right, on: "k", suffix: "_2" });
            return joined.groupBy({ keys: ["text", "v", "v_2"], aggregates: { n: { count: "*" } } });
        };
        for (const afterMs of [0, 2, 5, 10, 20]) {
            const aborted = new AbortController();
            setTimeout(() => aborted.abort(), afterMs);
            await expect(make().toTable({ signal: aborted.signal })).rejects.toMatchObject({ name: "AbortError" });
            expect(runtime.memory().host.usedBytes).toBe(0);
        }
        expect(await make().count()).toBe(100_000);
    });
});

// Found by drawn trees: seed 1931 of test/node/differential/trees.test.ts.
test("flags of NULLs lie behind keys of several words, whichever of these the operator above reads", async () => {
    const stages = await compare((relation, runtime) => {
        const left = relation(runtime);
        const on = { k: "k", text: "text" };
        const joined = left.join(runtime.fromTable(table), { on, nullEquality: true, suffix: "_2" });
        const rows = joined.join(runtime.fromTable(table), { on: { v: "v" }, type: "full", suffix: "_3" });
        return rows.groupBy({ keys: ["k"], aggregates: { n: { count: "*" }, most: { max: "v_2" } } });
    });
    expect(stages).toHaveLength(1);
});

describe.each([false, true])("least and largest texts, streamed: %s,", (streamed) => {
    const aggregates = { least: { min: "text" }, largest: { max: "text" }, apart: { countDistinct: "text" } } as const;

    test("of groups, of one and of several keys, and of all rows", async () => {
        for (const keys of [["k"], ["word"], ["word", "amount"], []]) {
            await compare((relation, runtime) => {
                const more = { ...aggregates, other: { max: "text" }, n: { count: "*" } } as const;
                return (streamed ? relation(runtime) : runtime.fromTable(wide)).groupBy({
                    keys: streamed ? keys.filter((key) => key !== "amount") : keys,
                    aggregates: more
                });
            }, streamed);
        }
    });

    test("of rows of a join", async () => {
        const stages = await compare((relation, runtime) => {
            const joined = relation(runtime).join(runtime.fromTable(table), { on: "k", type: "left", suffix: "_2" });
            return joined.groupBy({ keys: ["word_2"], aggregates: { ...aggregates, other: { min: "text_2" } } });
        }, streamed);
        expect(stages).toHaveLength(2);
    });
});

test("least texts of no rows, and of groups that have none", async () => {
    const none = new Table({
        k: vectorFromArray([1n, 1n, 2n, 2n], new Int64()),
        text: vectorFromArray([null, null, null, ""], new Utf8())
    });
    await within({ device: "gpu", ...small }, async (runtime) => {
        const least = (of: Table, keys: string[]): Query =>
            runtime.fromTable(of).groupBy({ keys, aggregates: { least: { min: "text" } } });
        const found = (await least(none, ["k"]).toTable()).toArray().map(({ k, least: text }) => [Number(k), text]);
        expect(found.sort()).toEqual([
            [1, null],
            [2, ""]
        ]);
        expect((await least(none.slice(0, 0), []).toTable()).get(0)?.toJSON()).toEqual({ least: null });
        expect((await least(none.slice(0, 0), ["k"]).toTable()).numRows).toBe(0);
    });
});

test("aggregates of held groups that no operator above reads are not made", async () => {
    const digits = new Decimal(0, 38, 128);
    // Two of these are more than 38 digits.
    const large = new Uint32Array(4).fill(0x4000_0000);
    const rows = { g: [0, 0, 1, 1], v: [4, 3, 2, 1] };
    const wide: Table = new Table({
        g: vectorFromArray(rows.g, new Int32()),
        v: vectorFromArray(rows.v, new Int32()),
        d: vectorFromArray([large, large, large, large], digits)
    });
    const make = (runtime: Runtime, select: string[]): Query => {
        const aggregates = { most: { max: "v" }, total: { sum: "d" } } as const;
        const groups = runtime.fromTable(wide).groupBy({ keys: ["g"], aggregates });
        return runtime.fromTable(wide).join(groups, { on: { v: "most" }, select });
    };
    for (const device of ["cpu", "gpu"] as const) {
        await within({ device, ...small }, async (runtime) => {
            expect((await rowsOf(make(runtime, ["g", "most"]))).sort()).toEqual(["0 | 4", "1 | 2"]);
            expect(await make(runtime, ["g", "total"]).count()).toBe(2);
            await expect(make(runtime, ["g", "total"]).toTable()).rejects.toMatchObject({ code: "INTEGER_OVERFLOW" });
        });
    }
});

// Found by drawn trees with dictionaries of every type of index.
test("dictionaries with indices of 8 and of 16 bits are held with indices of 32", async () => {
    const words = (index: Int8 | Uint16): Table =>
        new Table({
            k: makeVector(Int32Array.from({ length: 600 }, (_, i) => (i * 7) % 90)),
            word: vectorFromArray(
                Array.from({ length: 600 }, (_, i) => `word ${(i * 11) % 61}`),
                new Dictionary(new Utf8(), index)
            )
        });
    const [narrow, wide] = [words(new Int8()), words(new Uint16())];
    const make = (runtime: Runtime): Query => {
        const left: Relation = runtime.fromTable(narrow);
        const groups: Query = runtime
            .fromTable(wide)
            .groupBy({ keys: ["k", "word"], aggregates: { n: { count: "*" } } });
        const joined: Query = left.join(groups, { on: { k: "k" }, suffix: "_2" });
        return joined.join(runtime.fromTable(wide), { on: { word: "word" }, suffix: "_3" });
    };
    const expected = await within({ device: "cpu" }, async (runtime) => await rowsOf(make(runtime)));
    await within({ device: "gpu", ...small }, async (runtime) => {
        const query = make(runtime);
        expectSameRows(await rowsOf(query), expected, "GPU");
        expect(query.report()!.stages.length).toBeGreaterThan(1);
    });
});
