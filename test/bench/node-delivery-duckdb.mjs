// SPDX-License-Identifier: Apache-2.0
/**
 * The process of DuckDB beside some cells of node-delivery.mjs: makes tables of their shape in its memory, runs each
 * result, and writes what they took as a line of JSON each. Argument: the job as JSON.
 */
import { loadDuckdb, medianOf } from "./gpu-engine.mjs";
import { groupsOf, nameOf } from "./node-delivery-cells.mjs";
import { deliveryQuery } from "./node-duckdb-queries.mjs";
import { deliveryTables } from "./node-duckdb-tables.mjs";
import { measureDuckdb } from "./node-duckdb.mjs";

const { kind, bits, columns, results, samples, folder, memoryBytes } = JSON.parse(process.argv[2]);
const keyBits = kind === "group" ? Math.log2(groupsOf(bits)) : bits;
const names = new Map(
    results.map((result) => [nameOf({ result, bits, columns, from: "tables", device: "duckdb" }), result])
);
const { version, queries } = await measureDuckdb(
    await loadDuckdb(),
    deliveryTables({ kind, bits, columns, keyBits }),
    [...names.keys()],
    { folder, samples, memoryBytes, queryOf: (name) => deliveryQuery(names.get(name), columns) }
);
for (const [name, { samples_ms: times, rows, refused }] of queries) {
    const told =
        refused === undefined
            ? { duckdb_ms: Number(medianOf(times).toFixed(3)), duckdb_rows: rows }
            : { duckdb_refused: refused };
    const about = { duckdb_version: version, duckdb_date: new Date().toISOString() };
    process.stdout.write(`${JSON.stringify({ result: names.get(name), told: { ...told, ...about } })}\n`);
}
