// SPDX-License-Identifier: Apache-2.0
// Joins past tables that stay in memory, by integer keys of all widths and of dense, sparse and far ranges, in one pass
// and in several, against the same joins of partitions. Perfect tables take keys as they lie in columns; the others
// take them as rows.
import {
    Int16,
    Int32,
    Int64,
    Int8,
    Table,
    Uint32,
    Uint8,
    vectorFromArray,
    type DataType,
    type Vector
} from "apache-arrow";
import { openRuntime, type Query, type Relation, type Runtime } from "spillway";
import { expect, test } from "vitest";
import { knobs } from "../../support/knobs.js";
import { forSeeds, Random, runsOneSeed } from "../../support/random.js";

const types = {
    byte: { make: () => new Int8(), first: -128, last: 127 },
    unsigned: { make: () => new Uint8(), first: 0, last: 255 },
    short: { make: () => new Int16(), first: -32_768, last: 32_767 },
    int: { make: () => new Int32(), first: -(2 ** 31), last: 2 ** 31 - 1 },
    whole: { make: () => new Uint32(), first: 0, last: 2 ** 32 - 1 },
    long: { make: () => new Int64(), first: -(2 ** 52), last: 2 ** 52 }
};
type TypeName = keyof typeof types;

interface Keys {
    /** Of the build side and of the probe side: a join makes both of them the wider one. */
    build: TypeName;
    probe: TypeName;
    of: (random: Random) => number;
}

/** Values that both types have: `values` of them, `stride` apart. */
function keys(random: Random): Keys {
    const [build, probe] = [0, 0].map(() => random.pick(Object.keys(types) as TypeName[])) as [TypeName, TypeName];
    const first = Math.max(types[build].first, types[probe].first);
    const last = Math.min(types[build].last, types[probe].last);
    const stride = random.pick([1, 3, 97, 2 ** 40]);
    const values = Math.min(random.pick([1, 20, 300, 3000]), Math.floor((last - first) / stride) + 1);
    const lowest = random.pick([first, last - (values - 1) * stride, Math.max(first, Math.min(-5, last - 300_000))]);
    return { build, probe, of: (one) => Math.min(last, lowest + one.below(values) * stride) };
}

function column(type: TypeName, length: number, of: () => number | null): Vector {
    const cells = Array.from({ length }, of);
    const made: DataType = types[type].make();
    return vectorFromArray(type === "long" ? cells.map((cell) => (cell === null ? null : BigInt(cell))) : cells, made);
}

const columnOf = (values: number[]): Vector => vectorFromArray(values.map(BigInt), new Int64());

/** Tables of a fact and of its dimensions, the last of which another dimension has the key of. */
function tablesOf(random: Random): Record<string, Table> {
    const [a, b, c] = [keys(random), keys(random), keys(random)];
    const facts = random.pick([0, 1, 900, 2500]);
    const nulls = random.pick([0, 0, 0.1]);
    const orNull = (value: number): number | null => (random.chance(nulls) ? null : value);
    const numbers = (length: number): Vector => columnOf(Array.from({ length }, () => random.below(1000)));
    const fact = new Table({
        a: column(a.probe, facts, () => orNull(a.of(random))),
        b: column(b.probe, facts, () => orNull(b.of(random))),
        measure: numbers(facts)
    });
    const dimension = (name: string, of: Keys, more = {}): Table => {
        const rows = random.pick([0, 1, 30, 400]);
        // Each value once, mostly: then a row has one partner at most.
        const values = Array.from({ length: rows }, () => of.of(random));
        const kept = random.chance(0.7) ? [...new Set(values)] : values;
        const key = kept.map((value) => (random.chance(nulls / 2) ? null : value));
        let next = 0;
        return new Table({
            [name]: column(of.build, key.length, () => key[next++]!),
            ...more,
            [`${name}_is`]: numbers(key.length)
        });
    };
    const withKey = dimension("b", b);
    const cOfB = column(c.probe, withKey.numRows, () => orNull(c.of(random)));
    const both = new Table({ b: withKey.getChild("b")!, c: cOfB, b_is: withKey.getChild("b_is")! });
    return { fact, a: dimension("a", a), b: both, c: dimension("c", c) };
}

type JoinType = "inner" | "left" | "semi" | "anti";

function queryOf(random: Random, runtime: Runtime, tables: Record<string, Table>): Query {
    const relations = Object.fromEntries(Object.entries(tables).map(([name, of]) => [name, runtime.fromTable(of)]));
    let so: Relation | Query = relations["fact"]!;
    let names = ["a", "b", "measure"];
    for (const on of random.shuffle(["a", "b"]).concat("c")) {
        if (!names.includes(on) || random.chance(0.1)) continue;
        const type = random.pick<JoinType>(["inner", "inner", "inner", "left", "semi", "anti"]);
        so = runtime.join({ left: so, right: relations[on]!, on, type });
        if (type === "inner" || type === "left") names = [...names, ...tables[on]!.schema.names.map(String)];
    }
    if (!("toTable" in so) || random.chance(0.4)) {
        const by = random.pick(names.filter((name) => name !== "measure"));
        const measured = names.filter((name) => name !== by && (name.endsWith("_is") || name === "measure"));
        const sums = Object.fromEntries([...new Set(measured)].map((name) => [`sum_${name}`, { sum: name }]));
        return runtime.groupBy(so, { keys: [by], aggregates: { ...sums, rows: { count: "*" } } });
    }
    return so;
}

async function rowsOf(query: Query): Promise<string[]> {
    const result = await query.toTable();
    const vectors = result.schema.fields.map((_, i) => result.getChildAt(i)!);
    return Array.from({ length: result.numRows }, (_, row) =>
        vectors.map((each) => String(each.get(row))).join("|")
    ).sort();
}

test("pipelines equal joins of partitions", async () => {
    let [pipelines, ofPasses] = [0, 0];
    await forSeeds(70_000, 60, async (random) => {
        const passes = random.pick([1, 1, 2, 5]);
        const many = { workers: 4, morselRows: random.pick([50, 3000]), radixBits: random.pick([0, 2]), passes };
        const options = { device: "cpu", threads: 2, memory: { host: "64MiB" } } as const;
        await using passing = await openRuntime({ ...options, ...knobs({ ...many, algorithm: "pipeline" }) });
        await using apart = await openRuntime({ ...options, debug: { algorithm: "radix", scheme: "linearProbing" } });
        const tables = tablesOf(random);
        const choices = random.bits64();
        const [one, other] = [passing, apart].map((runtime) => queryOf(new Random(choices), runtime, tables));
        expect(await rowsOf(one!)).toEqual(await rowsOf(other!));
        expect(await one!.count()).toBe(await other!.count());
        const algorithms = one!.report()!.stages.map(({ algorithm }) => algorithm);
        pipelines += algorithms.filter((algorithm) => algorithm.includes("pipeline")).length;
        ofPasses += algorithms.filter((algorithm) => algorithm.includes("passes")).length;
    });
    if (runsOneSeed) return;
    expect(pipelines).toBeGreaterThan(0);
    expect(ofPasses).toBeGreaterThan(0);
});
