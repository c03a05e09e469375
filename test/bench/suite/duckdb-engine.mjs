// SPDX-License-Identifier: Apache-2.0
// DuckDB as an engine of the suite: the same tables in its memory, which are there before a clock starts.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";

import { Checksum, addDuckdbChunk, inPieces } from "./checksum.mjs";
import { queryByName } from "./data-sets.mjs";
import { sqlOf, tablesOf } from "./description.mjs";
import { loadTable } from "./duckdb-tables.mjs";

// The nearest to Arrow of what DuckDB writes without an extension (engines/duckdb.mjs has times).
const fileOptions = "FORMAT parquet, COMPRESSION uncompressed, PARQUET_VERSION v2";

async function fetchAll(result, use = () => undefined) {
    let rows = 0;
    for (let chunk = await result.fetchChunk(); chunk?.rowCount > 0; chunk = await result.fetchChunk()) {
        rows += chunk.rowCount;
        use(chunk);
    }
    return rows;
}

/** All rows of a query that have one of these keys. */
function limitedSql(source, rowKeys, rows) {
    const keys = rows.map((row) => `(${row.join(", ")})`).join(", ");
    return `SELECT * FROM (${sqlOf(source)}) WHERE (${rowKeys.join(", ")}) IN (${keys})`;
}

export class DuckdbEngine {
    #options;
    #algorithm;
    #instance;
    #connections = [];
    #set;
    #tables = new Set();
    #checksums = new Map();
    #ways = new Map();

    static async open(options) {
        const engine = new DuckdbEngine();
        engine.#options = options;
        const { threads, work } = options;
        engine.#instance = await DuckDBInstance.create(":memory:", { threads: String(threads) });
        // As many as queries that are asked for at once can run in parallel.
        for (let i = 0; i < threads; i++) engine.#connections.push(await engine.#instance.connect());
        const [[version]] = (await engine.#connection.runAndReadAll("SELECT version()")).getRows();
        engine.#algorithm = `duckdb ${version}`;
        await engine.#run(`SET temp_directory = '${join(work, `duckdb-${process.pid}`)}'`);
        return engine;
    }

    get #connection() {
        return this.#connections[0];
    }

    async #run(sql) {
        return await this.#connection.run(sql);
    }

    async #first(sql, connection = this.#connection) {
        return Number((await connection.runAndReadAll(sql)).getRows()[0][0]);
    }

    get #output() {
        return join(this.#options.work, `result-${process.pid}.parquet`);
    }

    async load(set) {
        for (const name of this.#tables) await this.#run(`DROP TABLE ${name}`);
        this.#checksums.clear();
        this.#ways.clear();
        this.#set = set;
        this.#tables = new Set(set.names.flatMap((name) => tablesOf(queryByName(set, name).source)));
        // Rows are loaded in the order of the files. Queries keep no order, as Spillway's do not.
        await this.#run("SET preserve_insertion_order = true");
        const options = { folder: join(set.derivedIn, "duckdb"), threads: this.#options.threads };
        for (const name of this.#tables) await loadTable(this.#connection, name, set.paths[name], options);
        await this.#run("SET preserve_insertion_order = false");
    }

    /** Runs a query of the set; `as`: how its rows are taken, instead of what it says itself. */
    async run(name, as) {
        const { result, source } = queryByName(this.#set, name);
        const sql = sqlOf(source);
        return { rows: await this.#take(sql, as ?? result), algorithm: this.#algorithm };
    }

    async #take(sql, result) {
        if (result === "count") return await this.#first(`SELECT count(*) FROM (${sql})`);
        if (result === "file") return await this.#first(`COPY (${sql}) TO '${this.#output}' (${fileOptions})`);
        if (!this.#ways.has(sql)) this.#ways.set(sql, await this.#fasterWay(sql, result));
        return await this.#fetch(sql, result, this.#ways.get(sql));
    }

    /** Fetches all chunks, and keeps those of a table, as they come (`stream`) or when all are there (`run`). */
    async #fetch(sql, result, way) {
        const kept = [];
        return await fetchAll(await this.#connection[way](sql), (chunk) => result === "table" && kept.push(chunk));
    }

    /** Few rows come sooner by the one, many by the other: DuckDB has the one that is faster here. */
    async #fasterWay(sql, result) {
        const times = { stream: [], run: [] };
        for (let i = 0; i < 2; i++) {
            for (const [way, taken] of Object.entries(times)) {
                const start = performance.now();
                await this.#fetch(sql, result, way);
                taken.push(performance.now() - start);
            }
        }
        return Math.min(...times.stream) < Math.min(...times.run) ? "stream" : "run";
    }

    async runAtOnce(name, times) {
        const sql = `SELECT count(*) FROM (${sqlOf(queryByName(this.#set, name).source)})`;
        const counts = await Promise.all(
            Array.from({ length: times }, (_, i) => this.#first(sql, this.#connections[i % this.#connections.length]))
        );
        return { rows: counts[0], algorithm: this.#algorithm };
    }

    drop() {
        rmSync(this.#output, { force: true });
    }

    /** The checksum of a result; of a limited one that of the rows with these keys, which Spillway gave. */
    async check(name, rows) {
        const { result, source, rowKeys } = queryByName(this.#set, name);
        if (result === "count") {
            return { checksum: { rows: await this.#first(`SELECT count(*) FROM (${sqlOf(source)})`), sum: "" } };
        }
        const sql = rows === undefined ? sqlOf(source) : limitedSql(source.input, rowKeys, rows);
        // The same rows may be asked for in several ways.
        if (!this.#checksums.has(sql)) this.#checksums.set(sql, await this.#checksumOf(sql));
        return { checksum: this.#checksums.get(sql) };
    }

    async #checksumOf(sql) {
        const described = (await this.#connection.runAndReadAll(`DESCRIBE ${sql}`)).getRows();
        const columns = described.map(([name, type]) => ({ name, type, bytes: 0 }));
        const texts = columns.filter(({ type }) => type === "VARCHAR");
        if (texts.length > 0) {
            const lengths = texts.map(({ name }) => `max(strlen("${name}"))`).join(", ");
            const [row] = (await this.#connection.runAndReadAll(`SELECT ${lengths} FROM (${sql})`)).getRows();
            for (const [index, text] of texts.entries()) text.bytes = Number(row[index] ?? 0);
        }
        const { select, layout } = inPieces(columns);
        const checksum = new Checksum();
        const result = await this.#connection.stream(`SELECT ${select} FROM (${sql})`);
        await fetchAll(result, (chunk) => addDuckdbChunk(checksum, chunk, layout));
        return checksum.result();
    }

    async close() {
        this.drop();
        for (const connection of this.#connections) connection.closeSync();
        this.#instance.closeSync();
        rmSync(join(this.#options.work, `duckdb-${process.pid}`), { recursive: true, force: true });
    }
}
