// SPDX-License-Identifier: Apache-2.0
import { DuckDBDataChunk, DuckDBInstance, BIGINT } from "@duckdb/node-api";
import { RecordBatchReader } from "apache-arrow";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";

// Rows of a DuckDB data chunk (its standard vector size).
const chunkRows = 2048;

async function loadArrowFile(connection, table, path) {
    const handle = await open(path);
    try {
        const reader = await RecordBatchReader.from(handle);
        await reader.open();
        const names = reader.schema.fields.map((field) => field.name);
        await connection.run(`CREATE TABLE ${table} (${names.map((name) => `"${name}" BIGINT`).join(", ")})`);
        const appender = await connection.createAppender(table);
        const chunk = DuckDBDataChunk.create(
            names.map(() => BIGINT),
            chunkRows
        );
        for await (const batch of reader) appendBatch(appender, chunk, batch);
        appender.closeSync();
    } finally {
        await handle.close();
    }
}

function appendBatch(appender, chunk, batch) {
    const columns = batch.schema.fields.map((_, index) => batch.getChildAt(index).data[0].values);
    for (let begin = 0; begin < batch.numRows; begin += chunkRows) {
        const rows = Math.min(chunkRows, batch.numRows - begin);
        chunk.reset();
        chunk.rowCount = rows;
        for (const [index, values] of columns.entries()) {
            chunk.setColumnValues(index, values.subarray(begin, begin + rows));
        }
        appender.appendDataChunk(chunk);
    }
}

const joined = "FROM r JOIN s ON r.r_key = s.s_key";
const payloads = "SELECT r.r_value, s.s_value";

function operationsOf(connection, outputPath) {
    const one = async (sql) => (await (await connection.runAndReadAll(sql)).getRows())[0];
    const check = async (from) => {
        const [rows, left, right] = await one(`SELECT count(*), sum(r_value), sum(s_value) FROM ${from}`);
        const checksum = [left, right].map((sum) => BigInt.asUintN(64, BigInt(sum ?? 0)).toString()).join("/");
        return { rowsOut: Number(rows), checksum };
    };
    let counted = 0;
    return {
        count: {
            run: async () => {
                counted = Number((await one(`SELECT count(*) ${joined}`))[0]);
            },
            check: async () => ({ rowsOut: counted, checksum: null })
        },
        table: {
            run: async () => {
                await connection.run("DROP TABLE IF EXISTS joined");
                await connection.run(`CREATE TABLE joined AS ${payloads} ${joined}`);
            },
            check: () => check("joined")
        },
        file: {
            // Arrow needs an extension from the network; Parquet without compression is DuckDB's nearest format, and
            // of its variants version 2 was the fastest here (5 M rows: 1.2 s, version 1 1.6 s, CSV 2.0 s).
            run: async () => {
                const options = "FORMAT parquet, COMPRESSION uncompressed, PARQUET_VERSION v2";
                await connection.run(`COPY (${payloads} ${joined}) TO '${outputPath}' (${options})`);
            },
            check: () => check(`'${outputPath}'`)
        }
    };
}

/**
 * DuckDB with both relations loaded. Without a budget they are in-memory tables. With one they are a database file,
 * because in-memory tables alone would exceed the limit; its blocks come from the page cache, as Spillway's files do.
 */
export async function openDuckdb({ leftPath, rightPath, workFolder, threads, budgetBytes, operation }) {
    const databasePath = budgetBytes == null ? ":memory:" : join(workFolder, "bench.duckdb");
    const outputPath = join(workFolder, "joined.parquet");
    const files = [databasePath, `${databasePath}.wal`, outputPath];
    const removeFiles = () => Promise.all(files.map((file) => rm(file, { force: true })));
    await removeFiles(); // of a case that failed
    const instance = await DuckDBInstance.create(databasePath, { threads: String(threads) });
    const connection = await instance.connect();
    await connection.run(`SET temp_directory = '${join(workFolder, "duckdb-temp")}'`);
    // Spillway does not keep the input order either; DuckDB is faster and smaller without it.
    await connection.run("SET preserve_insertion_order = false");
    await loadArrowFile(connection, "r", leftPath);
    await loadArrowFile(connection, "s", rightPath);
    if (budgetBytes != null) {
        await connection.run("CHECKPOINT");
        await connection.run(`SET memory_limit = '${budgetBytes}B'`);
    }
    return {
        algorithm: `duckdb ${(await connection.runAndReadAll("SELECT version()")).getRows()[0][0]}`,
        ...operationsOf(connection, outputPath)[operation],
        close: async () => {
            connection.closeSync();
            instance.closeSync();
            await removeFiles();
        }
    };
}
