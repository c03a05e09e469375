// SPDX-License-Identifier: Apache-2.0
// The tables of the queries in node-auto-queries.mjs, as Arrow files: TPC-H-like orders and lines, and dimensions.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Table, tableToIPC, vectorFromArray, makeVector, Utf8 } from "apache-arrow";

import { openRuntime } from "../../dist/index.js";
import { tableNames } from "./node-auto-queries.mjs";

/** A dimension: keys from 1 on, each once, and columns to group by. */
function dimension(key, rows, columns) {
    const keys = BigInt64Array.from({ length: rows }, (_, i) => BigInt(i + 1));
    const values = Object.entries(columns).map(([name, of]) => {
        const made = Array.from({ length: rows }, (_, i) => of(i));
        const isText = typeof made[0] === "string";
        return [name, isText ? vectorFromArray(made, new Utf8()) : makeVector(Int32Array.from(made))];
    });
    return new Table({ [key]: makeVector(keys), ...Object.fromEntries(values) });
}

const segments = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"];
const pathOf = ({ folder, scale }, name) => join(folder, `${name}-${scale}.arrow`);

/** Writes the files that are not there yet. */
export async function generateTables(options) {
    const { folder, scale } = options;
    mkdirSync(folder, { recursive: true });
    const runtime = await openRuntime({ device: "cpu", memory: { host: "8GiB" } });
    for (const table of ["orders", "lineitem"]) {
        const path = pathOf(options, table);
        if (!existsSync(path)) await runtime.generate({ table, scale }, { path });
    }
    await runtime.close();
    const dimensions = {
        customer: () =>
            dimension("c_custkey", 150_000 * scale, { c_nationkey: (i) => i % 25, c_segment: (i) => segments[i % 5] }),
        part: () => dimension("p_partkey", 200_000 * scale, { p_brand: (i) => i % 25, p_size: (i) => i % 50 }),
        supplier: () => dimension("s_suppkey", 10_000 * scale, { s_nationkey: (i) => (i * 7) % 25 })
    };
    for (const [name, make] of Object.entries(dimensions)) {
        const path = pathOf(options, name);
        if (!existsSync(path)) writeFileSync(path, tableToIPC(make(), "file"));
    }
}

/** Opens these files as relations, by the names of the tables. */
export async function openTables(runtime, options) {
    const relations = {};
    for (const name of tableNames) relations[name] = await runtime.fromArrowFile(pathOf(options, name));
    return relations;
}
