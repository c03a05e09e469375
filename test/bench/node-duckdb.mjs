// SPDX-License-Identifier: Apache-2.0
// DuckDB on all cores, for the queries of node-out-of-core.mjs and node-delivery.mjs over tables in its memory
// (node-duckdb-tables.mjs).
import { rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";

import { duckdbQuery } from "./node-duckdb-queries.mjs";

// The nearest to Arrow of what DuckDB writes without an extension (engines/duckdb.mjs has times).
const fileOptions = "FORMAT parquet, COMPRESSION uncompressed, PARQUET_VERSION v2";

/** Rows of a result that is read chunk by chunk while DuckDB makes it. */
async function streamedRows(connection, sql) {
    const result = await connection.stream(sql);
    let rows = 0;
    for (let chunk = await result.fetchChunk(); chunk?.rowCount > 0; chunk = await result.fetchChunk()) {
        rows += chunk.rowCount;
    }
    return rows;
}

/** How results go where Spillway's go; each tells the number of rows. */
function runsOf(connection, output) {
    const first = async (sql) => Number((await connection.runAndReadAll(sql)).getRows()[0][0]);
    return {
        count: async (sql) => await first(`SELECT count(*) FROM (${sql})`),
        table: async (sql) => await first(`CREATE OR REPLACE TEMP TABLE result AS ${sql}`),
        batches: async (sql) => await streamedRows(connection, sql),
        file: async (sql) => await first(`COPY (${sql}) TO '${output}' (${fileOptions})`)
    };
}

/** Times of one query, the first run left out, or why DuckDB cannot run it here. */
async function timesOf(connection, { result, sql }, { output, samples }) {
    const run = runsOf(connection, output)[result];
    const times = [];
    try {
        let rows = 0;
        for (let i = 0; i <= samples; i++) {
            const start = performance.now();
            rows = await run(sql);
            times.push(performance.now() - start);
            // Outside the time, as Spillway's results are let go outside theirs.
            await connection.run("DROP TABLE IF EXISTS result");
            rmSync(output, { force: true });
        }
        return { samples_ms: times.slice(1), rows };
    } catch (error) {
        if (!error.message.startsWith("Out of Memory Error")) throw error;
        return { refused: error.message.split("\n")[0] };
    }
}

/**
 * Makes the tables of a set with these statements in a DuckDB of its own, runs the queries with these names, and closes
 * it: by name the times and the number of rows, or why it was refused. `duckdb` is the package (`loadDuckdb`),
 * `queryOf` tells the SQL of a name, `memoryBytes` is the limit of its memory where it is not to choose one.
 */
export async function measureDuckdb(duckdb, tables, names, { folder, samples, queryOf = duckdbQuery, memoryBytes }) {
    for (const name of names) queryOf(name); // None may be missing: better to know before tables are made.
    const instance = await duckdb.DuckDBInstance.create(":memory:", { threads: String(availableParallelism()) });
    const connection = await instance.connect();
    const spilled = join(folder, `duckdb-${process.pid}`);
    const output = join(folder, `result-${process.pid}.parquet`);
    try {
        await connection.run(`SET temp_directory = '${spilled}'`);
        if (memoryBytes !== undefined) await connection.run(`SET memory_limit = '${memoryBytes}B'`);
        // Spillway does not keep the order of rows either.
        await connection.run("SET preserve_insertion_order = false");
        for (const sql of tables) await connection.run(sql);
        const version = (await connection.runAndReadAll("SELECT version()")).getRows()[0][0];
        const [queries, bySql] = [new Map(), new Map()];
        for (const name of names) {
            // Several joins by name are one to DuckDB, which need not take its time again.
            const query = queryOf(name);
            // The same rows may go to a table and to a file.
            const kind = `${query.result}: ${query.sql}`;
            const told = bySql.get(kind) ?? (await timesOf(connection, query, { output, samples }));
            queries.set(name, told);
            bySql.set(kind, told);
            const what =
                told.refused ?? `${told.samples_ms.map((ms) => ms.toFixed(2)).join(", ")} ms, ${told.rows} rows`;
            process.stderr.write(`duckdb: ${name}: ${what}\n`);
        }
        return { version, queries };
    } finally {
        connection.closeSync();
        instance.closeSync();
        rmSync(spilled, { recursive: true, force: true });
        rmSync(output, { force: true });
    }
}
