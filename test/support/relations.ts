// SPDX-License-Identifier: Apache-2.0
// Generated relations as Arrow tables: several batches of odd sizes, NULLs, duplicates, skew, slices.
import { Field, makeData, RecordBatch, Schema, Struct, Table, type Data, type DataType } from "apache-arrow";
import { buildData, type PlainValue } from "./arrow-data.js";
import { fits, randomType, randomValue } from "./domains.js";
import type { Random } from "./random.js";

export interface PlainColumn {
    readonly name: string;
    readonly type: DataType;
    readonly values: readonly PlainValue[];
}

export interface TableShape {
    /** Rows per batch; their sum is the number of rows. */
    readonly batchRows: readonly number[];
    /** Rows in front of and behind each batch that are sliced away again. */
    readonly margin: number;
    /** Batches are slices of one block with one dictionary (as files need); else each batch has its own. */
    readonly shared: boolean;
}

export const oneBatch = (rows: number): TableShape => ({ batchRows: [rows], margin: 0, shared: false });

export function randomShape(random: Random, rows: number, margin = random.chance(0.3)): TableShape {
    const batchRows: number[] = [];
    for (let left = rows; left > 0; left -= batchRows.at(-1)!) {
        batchRows.push(Math.min(left, random.pick([1, 7, 63, 64, 65, 100, 1000, 4096])));
        if (batchRows.length > 20) batchRows[batchRows.length - 1] = left;
    }
    // An empty batch now and then, and a table without rows with or without a batch.
    if (random.chance(0.2)) batchRows.splice(random.below(batchRows.length + 1), 0, 0);
    return { batchRows, margin: margin ? random.pick([1, 3, 8, 13]) : 0, shared: random.chance(0.3) };
}

function slicedData(type: DataType, values: readonly PlainValue[], margin: number): Data {
    if (margin === 0 || values.length === 0) return buildData(type, values);
    const around = Array.from({ length: margin }, (_, i) => values[i % values.length]!);
    return buildData(type, [...around, ...values, ...around]).slice(margin, values.length);
}

export function buildTable(columns: readonly PlainColumn[], shape: TableShape): Table {
    const schema = new Schema(columns.map(({ name, type }) => new Field(name, type, true)));
    const whole = shape.shared ? columns.map(({ type, values }) => slicedData(type, values, shape.margin)) : [];
    let first = 0;
    const batches = shape.batchRows.map((rows) => {
        const children = columns.map(
            ({ type, values }, index) =>
                whole[index]?.slice(first, rows) ?? slicedData(type, values.slice(first, first + rows), shape.margin)
        );
        first += rows;
        const struct = makeData({ type: new Struct(schema.fields), length: rows, nullCount: 0, children });
        return new RecordBatch(schema, struct);
    });
    return new Table(schema, batches);
}

/** How often each value of a domain comes up. */
export type Distribution = "unique" | "uniform" | "zipf" | "hot" | "sorted";

export const distributions: readonly Distribution[] = ["unique", "uniform", "zipf", "hot", "sorted"];

/** Indices into a domain of `size` values. */
export function drawIndices(random: Random, rows: number, size: number, distribution: Distribution): number[] {
    const uniform = () => random.below(size);
    switch (distribution) {
        case "unique":
            return random.shuffle(Array.from({ length: rows }, (_, i) => i % size));
        case "zipf": {
            const rank = random.zipf(size, 1.1);
            return Array.from({ length: rows }, rank);
        }
        case "hot":
            // One key takes most rows, so that radix bits cannot split its partition.
            return Array.from({ length: rows }, () => (random.chance(0.8) ? 0 : uniform()));
        case "sorted":
            return Array.from({ length: rows }, uniform).sort((a, b) => a - b);
        default:
            return Array.from({ length: rows }, uniform);
    }
}

export function withNulls(random: Random, values: PlainValue[], ratio: number): PlainValue[] {
    return ratio === 0 ? values : values.map((value) => (random.chance(ratio) ? null : value));
}

const nullRatios = [0, 0, 0.05, 0.3, 1];

/** Payload columns of random types that `wanted` accepts, named `<prefix>0`, `<prefix>1` ... */
export function payloadColumns(
    random: Random,
    prefix: string,
    count: number,
    rows: number,
    wanted: (type: DataType) => boolean = () => true
): PlainColumn[] {
    return Array.from({ length: count }, (_, index) => {
        let type = randomType(random);
        while (!wanted(type)) type = randomType(random);
        // A union has no NULLs of its own: they lie in its children.
        const ratio = random.pick(nullRatios);
        const values = Array.from({ length: rows }, () => randomValue(random, type));
        return { name: `${prefix}${index}`, type, values: withNulls(random, values, ratio) };
    });
}

export interface KeySource {
    readonly domain: readonly PlainValue[];
    /** Type on each side: of one family, so that values compare. */
    readonly types: readonly [left: DataType, right: DataType];
}

export function keySource(random: Random, types: readonly [DataType, DataType], size: number): KeySource {
    const values = Array.from({ length: size }, () => randomValue(random, random.pick(types)));
    return { domain: values, types };
}

/** A key column for one side; values that its (narrower) type cannot hold become the first that fits, or NULL. */
export function keyColumn(
    name: string,
    source: KeySource,
    side: 0 | 1,
    indices: readonly number[],
    nulls: (values: PlainValue[]) => PlainValue[]
): PlainColumn {
    const type = source.types[side];
    const fallback = source.domain.find((value) => fits(type, value)) ?? null;
    const values = indices.map((index) => {
        const value = source.domain[index]!;
        return fits(type, value) ? value : fallback;
    });
    return { name, type, values: nulls(values) };
}
