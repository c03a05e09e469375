// SPDX-License-Identifier: Apache-2.0
/**
 * Tables in DuckDB's memory with the values of Arrow files, quick enough for tables of 10^8 rows: a large file becomes
 * Parquet files once, which DuckDB reads on all cores, made by as many processes as there are threads. As a program:
 * makes one of these Parquet files. Argument: the job as JSON.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DuckDBInstance } from "@duckdb/node-api";

import { appendBatches, tableShape } from "./duckdb-load.mjs";

const program = fileURLToPath(import.meta.url);
/** Bytes of the Arrow file for each Parquet file. */
const partBytes = 2 ** 26;
/** Smaller files are loaded as they are. */
const leastBytes = 2 ** 24;

/** Writes the rows of some batches as a Parquet file, which appears when it is whole. */
async function convert({ path, shape, range, output }) {
    const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
    const connection = await instance.connect();
    const unfinished = `${output}.${process.pid}`;
    try {
        await appendBatches(connection, "part", path, shape, range);
        await connection.run(`COPY part TO '${unfinished}' (FORMAT parquet, COMPRESSION snappy)`);
        renameSync(unfinished, output);
    } finally {
        rmSync(unfinished, { force: true });
        connection.closeSync();
        instance.closeSync();
    }
}

/** The Parquet files of an Arrow file, and the batches of each. */
function partsOf(path, { batches }, folder, table) {
    const { size, mtimeMs } = statSync(path);
    const count = Math.max(1, Math.min(batches, Math.ceil(size / partBytes)));
    return Array.from({ length: count }, (_, part) => ({
        range: [part, part + 1].map((of) => Math.floor((of * batches) / count)),
        output: join(folder, `${table}-${size}-${Math.floor(mtimeMs)}-${part}-of-${count}.parquet`)
    }));
}

async function runConvert(job) {
    const child = fork(program, [JSON.stringify(job)]);
    const [code, signal] = await once(child, "exit");
    if (code !== 0) throw new Error(`Making ${job.output} ended with ${signal ?? `code ${code}`}.`);
}

async function makeParts(path, shape, parts, processes) {
    const missing = parts.filter(({ output }) => !existsSync(output));
    const work = async () => {
        for (let part = missing.shift(); part !== undefined; part = missing.shift()) {
            await runConvert({ path, shape, ...part });
        }
    };
    await Promise.all(Array.from({ length: processes }, work));
}

/** Makes a table of an Arrow file; `folder` is where its Parquet files are, or will be. */
export async function loadTable(connection, table, path, { folder, threads }) {
    const shape = await tableShape(path);
    if (statSync(path).size < leastBytes) {
        await appendBatches(connection, table, path, shape, [0, shape.batches]);
        return;
    }
    mkdirSync(folder, { recursive: true });
    const parts = partsOf(path, shape, folder, table);
    await makeParts(path, shape, parts, threads);
    await connection.run(`CREATE OR REPLACE TABLE ${table} (${shape.columns})`);
    const files = parts.map(({ output }) => `'${output}'`).join(", ");
    await connection.run(`INSERT INTO ${table} SELECT * FROM read_parquet([${files}])`);
}

if (process.argv[1] === program) await convert(JSON.parse(process.argv[2]));
