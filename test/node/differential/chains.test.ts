// SPDX-License-Identifier: Apache-2.0
// Chains of joins and group-bys on each other's results, with many dictionaries and many results without rows, against
// a model in plain JavaScript. Single operators are tested with all types; here it is what they hand on that counts.
import { Dictionary, Int32, Int64, Table, Utf8, vectorFromArray, type DataType, type Vector } from "apache-arrow";
import { openRuntime, type Query, type Relation, type Runtime } from "spillway";
import { describe, expect, test } from "vitest";
import { suiteModes } from "../../support/engine.js";
import { forSeeds, type Random } from "../../support/random.js";
import { Sandbox } from "../../support/sandbox.js";

type Cell = string | bigint | null;
/** Rows of a relation or result, and what gives them. */
interface Step {
    names: string[];
    rows: Cell[][];
    of: Relation | Query;
}
type JoinType = "inner" | "left" | "right" | "full" | "semi" | "anti";

/** Keys of one name have one kind in a chain: a full join puts both into one column. */
interface Kind {
    text: boolean;
    dictionary: boolean;
}

const rowsMax = 5000;
const kind = (random: Random): Kind => ({ text: random.chance(0.5), dictionary: random.chance(0.6) });

function column(random: Random, { text, dictionary }: Kind, length: number, first: number): [Vector, Cell[]] {
    const distinct = random.pick([1, 3, 40]);
    const nulls = random.pick([0, 0, 0.2, 1]);
    const cells = Array.from({ length }, (): Cell => {
        if (random.chance(nulls)) return null;
        const value = first + random.below(distinct);
        return text ? `v${value}` : BigInt(value);
    });
    const plain: DataType = text ? new Utf8() : new Int64();
    const type = dictionary ? new Dictionary(plain, new Int32()) : plain;
    return [vectorFromArray(cells, type), cells];
}

function relation(random: Random, runtime: Runtime, own: string, kinds: readonly Kind[]): Step {
    const length = random.pick([0, 1, 20, 150]);
    const names = ["k0", "k1", own];
    // A key that begins elsewhere has no partner: many joins are empty, though nothing tells so beforehand.
    const columns = names.map((_, i) => column(random, kinds[i]!, length, random.pick([0, 0, 1000])));
    const table = new Table(Object.fromEntries(names.map((name, i) => [name, columns[i]![0]])));
    const rows = Array.from({ length }, (_, row) => columns.map(([, cells]) => cells[row]!));
    return { names, rows, of: runtime.fromTable(table) };
}

const keyOf = (cells: readonly Cell[]): string => cells.map((cell) => (cell === null ? "-" : `+${cell}`)).join("|");

function joined(left: Step, right: Step, on: string[], type: JoinType, nullEquality: boolean): Omit<Step, "of"> {
    const oneSided = type === "semi" || type === "anti";
    const keys = ({ names, rows }: Step): (string | null)[] =>
        rows.map((row) => {
            const cells = on.map((name) => row[names.indexOf(name)]!);
            return !nullEquality && cells.some((cell) => cell === null) ? null : keyOf(cells);
        });
    const [leftKeys, rightKeys] = [keys(left), keys(right)];
    const others = right.names.filter((name) => !on.includes(name));
    const renamed = others.map((name) => (left.names.includes(name) ? `${name}_right` : name));
    const rows: Cell[][] = [];
    const emit = (l: Cell[] | undefined, r: Cell[] | undefined): void => {
        const own = left.names.map((name, i) => l?.[i] ?? (on.includes(name) ? r?.[right.names.indexOf(name)] : null));
        const their = oneSided ? [] : others.map((name) => r?.[right.names.indexOf(name)]);
        rows.push([...own, ...their].map((cell) => cell ?? null));
    };
    const found = new Set<number>();
    for (const [i, row] of left.rows.entries()) {
        const partners = rightKeys.flatMap((key, j) => (key !== null && key === leftKeys[i] ? [j] : []));
        if (oneSided) {
            if (partners.length > 0 === (type === "semi")) emit(row, undefined);
            continue;
        }
        for (const j of partners) emit(row, right.rows[found.add(j) && j]);
        if (partners.length === 0 && (type === "left" || type === "full")) emit(row, undefined);
    }
    if (type === "right" || type === "full") {
        for (const [j, row] of right.rows.entries()) if (!found.has(j)) emit(undefined, row);
    }
    return { names: [...left.names, ...(oneSided ? [] : renamed)], rows };
}

function join(random: Random, runtime: Runtime, so: Step, other: Step): Step | null {
    const shared = ["k0", "k1"].filter((name) => so.names.includes(name));
    const on = random.chance(0.3) ? shared : shared.slice(0, 1);
    if (on.length === 0) return null;
    const type = random.pick<JoinType>(["inner", "left", "right", "full", "full", "semi", "anti"]);
    const nullEquality = random.chance(0.3);
    const [left, right] = random.chance(0.5) ? [so, other] : [other, so];
    const result = joined(left, right, on, type, nullEquality);
    if (result.rows.length > rowsMax || new Set(result.names).size < result.names.length) return null;
    return { ...result, of: runtime.join({ left: left.of, right: right.of, on, type, nullEquality }) };
}

function group(random: Random, runtime: Runtime, so: Step, prefix: string): Step {
    const keys = so.names.filter((name) => name === "k0" || random.chance(0.3));
    const measured = so.names.filter((name) => !keys.includes(name));
    const groups = new Map<string, Cell[][]>();
    for (const row of so.rows) {
        const key = keyOf(keys.map((name) => row[so.names.indexOf(name)]!));
        groups.set(key, [...(groups.get(key) ?? []), row]);
    }
    const greatest = (cells: Cell[]): Cell =>
        cells.reduce((most, cell) => (cell !== null && (most === null || cell > most) ? cell : most), null);
    const of = runtime.groupBy(so.of, {
        keys,
        aggregates: Object.fromEntries(measured.map((name) => [`${prefix}_${name}`, { max: name }]))
    });
    const columns = measured.map((name) => so.names.indexOf(name));
    const rows = [...groups.values()].map((members) => [
        ...keys.map((name) => members[0]![so.names.indexOf(name)]!),
        ...columns.map((index) => greatest(members.map((row) => row[index]!)))
    ]);
    return { names: [...keys, ...measured.map((name) => `${prefix}_${name}`)], rows, of };
}

async function checkChain(random: Random, runtime: Runtime): Promise<void> {
    const keys = [kind(random), kind(random)];
    const another = (own: string): Step => relation(random, runtime, own, [...keys, kind(random)]);
    let so = another("a");
    for (const own of ["b", "c", "d"]) {
        const next = random.chance(0.7) ? join(random, runtime, so, another(own)) : group(random, runtime, so, own);
        so = next ?? so;
    }
    if (!("toTable" in so.of)) return;
    const result = await so.of.toTable();
    expect(result.schema.fields.map((field) => field.name)).toEqual(so.names);
    const vectors = so.names.map((_, i) => result.getChildAt(i)!);
    const rows = Array.from({ length: result.numRows }, (_, row) =>
        keyOf(vectors.map((each) => each.get(row) as Cell))
    );
    expect(rows.sort()).toEqual(so.rows.map(keyOf).sort());
    expect(await so.of.count()).toBe(so.rows.length);
}

describe.each(Object.entries(suiteModes))("chains: %s", (name, options) => {
    test("equal the model", async () => {
        const first = 50_000 + 1000 * Object.keys(suiteModes).indexOf(name);
        using sandbox = new Sandbox();
        const memory = { host: "64MiB", ...options.memory, spillDirectory: sandbox.spill };
        await using runtime = await openRuntime({ threads: 2, ...options, memory });
        await forSeeds(first, 28, async (random) => await checkChain(random, runtime));
    });
});
