// SPDX-License-Identifier: Apache-2.0
// Random joins and group-bys: relations, keys, options; sized so that the result stays small.
import { Bool, DataType, type Table } from "apache-arrow";
import { dictionaryOf, keyTypes } from "./domains.js";
import type { Random } from "./random.js";
import { aggregateNames, joinTypes, type Aggregate, type AggregateName, type JoinType } from "./reference.js";
import {
    buildTable,
    distributions,
    drawIndices,
    keyColumn,
    keySource,
    payloadColumns,
    randomShape,
    withNulls,
    type Distribution,
    type PlainColumn
} from "./relations.js";

export interface JoinCase {
    readonly left: Table;
    readonly right: Table;
    readonly on: readonly (readonly [left: string, right: string])[];
    readonly type: JoinType;
    readonly nullEquality: boolean;
    /** One line for messages. */
    readonly text: string;
}

const rowCounts = [0, 1, 2, 17, 100, 300, 900];

function familyTypes(random: Random, family: string): [DataType, DataType] {
    const types = keyTypes[family]!();
    return [random.pick(types), random.pick(types)];
}

function keyNullRatio(random: Random): number {
    return random.pick([0, 0, 0.1, 0.4, 1]);
}

/** A full join puts a shared key of both sides into one column: one plain type, or it is refused. */
function holdsBoth([left, right]: readonly [DataType, DataType]): boolean {
    return String(left) === String(right) && !DataType.isDictionary(left);
}

/** Rows of a side, its distribution, and how many distinct keys there may be, so that the result stays small. */
function sizes(random: Random): { rows: [number, number]; shapes: [Distribution, Distribution]; domain: number } {
    const rows: [number, number] = [random.pick(rowCounts), random.pick(rowCounts)];
    const shapes: [Distribution, Distribution] = [random.pick(distributions), random.pick(distributions)];
    const domain = random.pick([1, 3, 40, 400, 2000]);
    // Few keys on both sides make a cross product: keep it below about 40,000 rows.
    const pairsMax = 40_000;
    const skewed = (shape: Distribution) => shape === "hot" || shape === "zipf";
    const dense = domain < 40 || (skewed(shapes[0]) && skewed(shapes[1]));
    if (dense && rows[0] * rows[1] > pairsMax) rows[1] = Math.floor(pairsMax / rows[0]);
    return { rows, shapes, domain };
}

export function joinCase(random: Random, families = Object.keys(keyTypes)): JoinCase {
    const { rows, shapes, domain } = sizes(random);
    const type = random.pick(joinTypes);
    const keyCount = random.pick([1, 1, 1, 2, 3]);
    const columns: [PlainColumn[], PlainColumn[]] = [[], []];
    const on: [string, string][] = [];
    const words: string[] = [];
    // Parts of a key are drawn together for most rows, so that composite keys match often enough.
    const drawn = [0, 1].map((side) => drawIndices(random, rows[side]!, domain, shapes[side]!));
    for (let part = 0; part < keyCount; ++part) {
        const family = random.pick(families);
        const source = keySource(
            random,
            familyTypes(random, family),
            part === 0 ? domain : random.pick([1, 4, domain])
        );
        const oneColumn = type !== "full" || holdsBoth(source.types);
        const names: [string, string] = [`k${part}`, oneColumn && random.chance(0.4) ? `k${part}` : `rk${part}`];
        on.push(names);
        for (const side of [0, 1] as const) {
            const indices = drawn[side]!.map((index) => index % source.domain.length);
            const ratio = keyNullRatio(random);
            columns[side].push(keyColumn(names[side], source, side, indices, (v) => withNulls(random, v, ratio)));
        }
        words.push(`${String(source.types[0])}=${String(source.types[1])}`);
    }
    // Payload names clash now and then: the right one gets a suffix.
    columns[0].push(...payloadColumns(random, "a", random.below(4), rows[0]));
    columns[1].push(...payloadColumns(random, random.chance(0.2) ? "a" : "b", random.below(4), rows[1]));
    const nullEquality = random.chance(0.3);
    return {
        left: buildTable(columns[0], randomShape(random, rows[0])),
        right: buildTable(columns[1], randomShape(random, rows[1])),
        ...{ on, type, nullEquality },
        text:
            `${type} join of ${rows[0]} (${shapes[0]}) x ${rows[1]} (${shapes[1]}) rows ` +
            `on ${words.join(", ")}, ${domain} keys`
    };
}

export interface GroupCase {
    readonly table: Table;
    readonly keys: readonly string[];
    readonly aggregates: readonly Aggregate[];
    readonly text: string;
}

/** Which aggregates a column of the type allows. */
export function aggregatesFor(type: DataType): readonly AggregateName[] {
    const always = ["first", "any", "count", "countDistinct"] as const;
    if (DataType.isDictionary(type)) return always;
    if (DataType.isInt(type) || DataType.isFloat(type)) return aggregateNames;
    if (DataType.isDecimal(type)) return aggregateNames;
    return [...(DataType.isDuration(type) ? (["sum"] as const) : []), "min", "max", ...always];
}

export function groupCase(random: Random, families = Object.keys(keyTypes)): GroupCase {
    const rows = random.pick([0, 1, 5, 100, 1000, 3000]);
    const domain = random.pick([1, 2, 30, 500, 5000]);
    const keyCount = random.pick([0, 1, 1, 1, 2, 3]);
    const indices = drawIndices(random, rows, domain, random.pick(distributions));
    const columns: PlainColumn[] = [];
    const keys: string[] = [];
    for (let part = 0; part < keyCount; ++part) {
        const types = familyTypes(random, random.pick(families));
        const source = keySource(random, [types[0], types[0]], part === 0 ? domain : random.pick([1, 3]));
        const drawn = indices.map((index) => index % source.domain.length);
        const ratio = keyNullRatio(random);
        keys.push(`k${part}`);
        columns.push(keyColumn(`k${part}`, source, 0, drawn, (values) => withNulls(random, values, ratio)));
    }
    const aggregates: Aggregate[] = [{ alias: "rows", kind: "count", column: "*" }];
    for (let i = random.below(5); i > 0; --i) {
        const types = familyTypes(random, random.pick(families));
        const type = random.chance(0.2) ? new Bool() : types[0];
        const source = keySource(random, [type, type], random.pick([1, 5, 200]));
        const drawn = drawIndices(random, rows, source.domain.length, "uniform");
        const name = `v${i}`;
        columns.push(keyColumn(name, source, 0, drawn, (values) => withNulls(random, values, keyNullRatio(random))));
        aggregates.push({ alias: `r${i}`, kind: random.pick(aggregatesFor(type)), column: name });
    }
    if (columns.length === 0)
        columns.push({ name: "v", type: dictionaryOf(new Bool()), values: indices.map(() => null) });
    const words = aggregates.map(({ kind, column }) => `${kind}(${column})`).join(", ");
    return {
        table: buildTable(columns, randomShape(random, rows)),
        ...{ keys, aggregates },
        text: `group-by of ${rows} rows by [${keys.join(", ")}]: ${words}`
    };
}
