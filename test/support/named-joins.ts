// SPDX-License-Identifier: Apache-2.0
// Joins of two columns, a key and a number, by the name of their algorithm.
import { Int32, Table, vectorFromArray, type DataType } from "apache-arrow";
import type { JoinAlgorithm, JoinType, Query, Runtime } from "spillway";

export const onGpu = { device: "gpu", memory: { host: "64MiB", device: "64MiB" } } as const;

export function keyed(values: readonly unknown[], type: DataType = new Int32()): Table {
    return new Table({
        k: vectorFromArray(values, type),
        v: vectorFromArray(
            values.map((_, i) => i),
            new Int32()
        )
    });
}
export const count = (rows: number, make = (i: number): unknown => i): unknown[] =>
    Array.from({ length: rows }, (_, i) => make(i));

export function joined(
    runtime: Runtime,
    left: Table,
    right: Table,
    algorithm: JoinAlgorithm,
    type: JoinType = "inner"
): Query {
    const [build, probe] = [runtime.fromTable(left), runtime.fromTable(right)];
    return runtime.join({ left: build, right: probe, on: "k", algorithm, type, hints: { buildSide: "left" } });
}

export async function rowsOf(query: Query): Promise<string[]> {
    const table = await query.toTable();
    return table
        .toArray()
        .map((row) => String(row))
        .sort();
}
