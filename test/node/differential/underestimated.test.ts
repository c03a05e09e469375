// SPDX-License-Identifier: Apache-2.0
// Chains whose intermediate results are many times what was expected, at many budgets: once one is enough, so is every
// larger one, for counts as for batches.
import { Dictionary, Int32, Table, tableFromArrays, Utf8, vectorFromArray, type DataType } from "apache-arrow";
import { openRuntime, SpillwayError, type Query, type Runtime } from "spillway";
import { describe, expect, test } from "vitest";
import { forSeeds, type Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import { Sandbox } from "../../support/sandbox.js";

const mebibyte = 2 ** 20;
type Sink = "count" | "batches";
type JoinType = (typeof joinTypes)[number];
type Cell = string | number | null;
type MakeQuery = (runtime: Runtime) => Query;

const ints = (rows: number, key: (row: number) => number): Table =>
    tableFromArrays({ k: Int32Array.from({ length: rows }, (_, row) => key(row)) });
const texts = (rows: number, key: (row: number) => number): Table =>
    new Table({
        k: vectorFromArray(
            Array.from({ length: rows }, (_, row) => `key${key(row)}`),
            new Utf8()
        )
    });

/** Rows of the result, or "too small" where the query says that the budget is. */
async function rowsOf(make: MakeQuery, sink: Sink, host: number, threads: number): Promise<number | "too small"> {
    using sandbox = new Sandbox();
    const runtime = await openRuntime({ device: "cpu", threads, memory: { host, spillDirectory: sandbox.spill } });
    try {
        const query = make(runtime);
        if (sink === "count") return await query.count();
        let rows = 0;
        for await (const batch of query.batches()) rows += batch.numRows;
        return rows;
    } catch (error) {
        if (!(error instanceof SpillwayError) || error.code !== "BUDGET_TOO_SMALL") throw error;
        return "too small";
    } finally {
        await runtime.close();
        await sandbox.expectClean();
    }
}

/** Each budget from the first that is enough on is enough for the right rows. */
async function expectEnough(make: MakeQuery, rows: number, hosts: readonly number[], threads: number): Promise<void> {
    for (const sink of ["count", "batches"] as const) {
        let enough = false;
        for (const host of hosts) {
            const found = await rowsOf(make, sink, Math.floor(host), threads);
            if (!enough && found === "too small") continue;
            enough = true;
            expect(found, `${sink} with ${threads} threads and ${host} bytes`).toBe(rows);
        }
        expect(enough, `${sink} with the largest budget`).toBe(true);
    }
}

const every = (step: number, from: number, to: number): number[] =>
    Array.from({ length: Math.round((to - from) / step) + 1 }, (_, i) => (from + i * step) * mebibyte);

describe("every budget from the least on is enough for", () => {
    const [few, none] = [ints(20_000, (i) => (i % 66 ? i : -1)), ints(20_000, (i) => (i % 66 ? i + 1e8 : -1))];
    const many = ints(60_000, (i) => (i % 2 ? -5 - i : i + 3e8));
    const dense = ints(40_000, (i) => i);
    const pairs = 304 ** 2; // rows whose key is -1 on both sides
    const lone = 20_000 - 304;
    const chainOf = (type: JoinType, hints = {}): MakeQuery => {
        return (runtime) =>
            runtime
                .fromTable(few)
                .join(runtime.fromTable(none), { on: "k", type, hints })
                .join(runtime.fromTable(many), { on: "k", type: "left" });
    };
    const textChain = (type: JoinType): MakeQuery => {
        const [left, other, last] = [texts(5000, (i) => i), texts(12, (i) => 1e8 + i), texts(47, (i) => 3 * i)];
        return (runtime) =>
            runtime
                .fromTable(left)
                .join(runtime.fromTable(other), { on: "k", type })
                .join(runtime.fromTable(last), { on: "k" });
    };
    const grouped: MakeQuery = (runtime) =>
        runtime
            .fromTable(ints(40_000, (i) => (i < 36_000 ? 5 : i)))
            .groupBy({
                keys: ["k"],
                aggregates: { rows: { count: "*" }, sum: { sum: "k" }, values: { countDistinct: "k" } }
            })
            .join(runtime.fromTable(dense), { on: "k" });

    test.each<[string, MakeQuery, number, number[]]>([
        ["a left join of one frequent key, joined left", chainOf("left"), pairs + lone, [2, 2.5, 3.5, 4, 5, 6, 8]],
        ["... with the hint that it has no rows", chainOf("left", { resultRows: 0 }), pairs + lone, [2, 2.5, 4, 5]],
        ["an inner join with the hint that it has no rows", chainOf("inner", { resultRows: 0 }), pairs, [2, 3, 4, 5]],
        ["a group-by with one frequent key, joined", grouped, 4001, [1, 1.5, 2, 2.5, 3, 4]],
        ["an anti join of texts, joined", textChain("anti"), 47, [1, 2, 4, 6]],
        ["a left join of texts, joined", textChain("left"), 47, [1, 2, 4, 6]]
    ])("%s", async (_, make, rows, hosts) => {
        await expectEnough(
            make,
            rows,
            hosts.map((host) => host * mebibyte),
            1
        );
    });

    test("that left join and that group-by at each 128 KiB", async () => {
        await expectEnough(chainOf("left"), pairs + lone, every(1 / 8, 1, 6.5), 1);
        await expectEnough(grouped, 4001, every(1 / 8, 1, 3.25), 1);
    });

    test("a frequent key on both sides of outer joins, whose probe rows are flagged some at a time", async () => {
        const [probe, build] = [ints(300_000, (i) => (i < 299_000 ? 7 : i)), ints(40_000, (i) => (i < 39_900 ? 8 : i))];
        const rows = { left: 300_000, full: 340_000, anti: 300_000 };
        for (const [type, expected] of Object.entries(rows)) {
            const make: MakeQuery = (runtime) =>
                runtime.join({
                    ...{ left: runtime.fromTable(probe), right: runtime.fromTable(build), on: "k" },
                    ...{ type: type as JoinType, hints: { buildSide: "right" } }
                });
            await expectEnough(make, expected, every(1 / 4, 1, 4), 2);
        }
    });
});

/** How often each key comes; NULL among them. */
type Counts = Map<Cell, number>;

const countsOf = (keys: readonly Cell[]): Counts => {
    const counts: Counts = new Map();
    for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
    return counts;
};
const total = (counts: Counts): number => [...counts.values()].reduce((sum, count) => sum + count, 0);

/** The keys of a join on its only column, by how often they come. */
function joined(left: Counts, right: Counts, type: JoinType): Counts {
    const result: Counts = new Map();
    const partners = (of: Counts, key: Cell): number => (key === null ? 0 : (of.get(key) ?? 0));
    const add = (key: Cell, count: number): void => {
        if (count > 0) result.set(key, (result.get(key) ?? 0) + count);
    };
    for (const [key, count] of left) {
        const found = partners(right, key);
        if (type === "semi") add(key, found > 0 ? count : 0);
        else if (type === "anti") add(key, found > 0 ? 0 : count);
        else if (found > 0) add(key, count * found);
        else if (type === "left" || type === "full") add(key, count);
    }
    if (type !== "right" && type !== "full") return result;
    for (const [key, count] of right) if (partners(left, key) === 0) add(key, count);
    return result;
}

interface Drawn {
    words: string;
    rows: number;
    make: MakeQuery;
}

const rowsMax = 400_000;

function drawKeys(random: Random): number[] {
    const rows = random.pick([30, 2000, 20_000, 60_000]);
    const [first, step] = [random.pick([0, 0, 1e8]), random.pick([1, 1, 7])];
    const heavy = random.pick([0, 0, 0.01, 0.2, 0.9]);
    const [key, distinct] = [random.below(3), random.pick([50, 5000, rows])];
    return Array.from({ length: rows }, (_, row) =>
        random.chance(heavy) ? key : first + step * (distinct < rows ? random.below(distinct) : row)
    );
}

/** A chain of one to four joins and group-bys on one column of keys. */
function drawChain(random: Random): Drawn {
    const type: DataType = random.pick([new Int32(), new Int32(), new Utf8(), new Dictionary(new Utf8(), new Int32())]);
    const nulls = random.pick([0, 0, 0.02]);
    const relation = () => {
        const keys = drawKeys(random).map((key): Cell => {
            if (random.chance(nulls)) return null;
            return type instanceof Int32 ? key : `key${key}`;
        });
        const table: Table = new Table({ k: vectorFromArray(keys, type) });
        return { table, counts: countsOf(keys) };
    };
    const first = relation();
    let counts = first.counts;
    let words = `${String(type)} ${first.table.numRows}`;
    const steps: ((runtime: Runtime, so: Query | undefined) => Query)[] = [];
    const relationOf = (runtime: Runtime, so: Query | undefined) => so ?? runtime.fromTable(first.table);
    for (let stages = random.between(1, 4); stages > 0; --stages) {
        if (random.chance(0.2)) {
            const hints = random.chance(0.3) ? { groups: random.pick([1, 1e6]) } : {};
            const distinct = random.chance(0.3);
            const aggregates = { n: { count: "*" }, ...(distinct ? { d: { countDistinct: "k" } } : {}) } as const;
            counts = new Map([...counts.keys()].map((key) => [key, 1]));
            steps.push((runtime, so) => {
                const grouped = runtime.groupBy(relationOf(runtime, so), { keys: ["k"], aggregates, hints });
                return grouped.join(runtime.fromTable(first.table), { on: "k", type: "semi", select: ["k"] });
            });
            counts = joined(counts, first.counts, "semi");
            words += `, group ${JSON.stringify(hints)}`;
            continue;
        }
        const other = relation();
        const join = random.pick(joinTypes);
        const next = joined(counts, other.counts, join);
        if (total(next) > rowsMax) continue;
        counts = next;
        const hints = random.chance(0.3) ? { resultRows: random.pick([0, 10, 1e7]) } : {};
        steps.push((runtime, so) =>
            runtime.join({
                ...{ left: relationOf(runtime, so), right: runtime.fromTable(other.table), on: "k", type: join, hints },
                select: ["k"]
            })
        );
        words += `, ${join} join ${other.table.numRows} ${JSON.stringify(hints)} -> ${total(counts)}`;
    }
    if (steps.length === 0) return drawChain(random);
    const make = (runtime: Runtime): Query => {
        let so: Query | undefined;
        for (const step of steps) so = step(runtime, so);
        return so!;
    };
    return { words, rows: total(counts), make };
}

describe("random chains", () => {
    test("succeed with every budget above one that is enough", async () => {
        await forSeeds(90_000, 24, async (random) => {
            const { words, rows, make } = drawChain(random);
            const hosts = Array.from({ length: 5 }, () => mebibyte * 2 ** (random.unit() * 4));
            try {
                const ladder = [...hosts, 64 * mebibyte].sort((a, b) => a - b);
                await expectEnough(make, rows, ladder, random.pick([1, 2]));
            } catch (error) {
                throw new Error(`${words}: ${String(error)}`, { cause: error });
            }
        });
    });
});
