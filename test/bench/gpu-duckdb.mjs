// SPDX-License-Identifier: Apache-2.0
/**
 * DuckDB on all cores of the host, for the joins that the GPU benchmark times: count and sums of an equi-join of two
 * tables in its memory, unique int64 build keys in a shuffled order, foreign probe keys, an int64 payload each.
 * node test/bench/gpu-duckdb.mjs --build-rows N --probe-rows N [--samples N] [--warmup N] [--threads N]
 * Writes one JSON object. Exit code 1: the result is wrong; 3: there is no @duckdb/node-api here, as the last line of
 * stderr says.
 */
import { performance } from "node:perf_hooks";

import { loadDuckdb, notHere, readNumbers, shuffled, writeOutcome } from "./gpu-engine.mjs";

/** Numbers that are not below `rows` are left out: the rest is 0 ... rows - 1, each once. */
async function makeTables(connection, { buildRows, probeRows }) {
    const bits = Math.max(1, Math.ceil(Math.log2(buildRows)));
    await connection.run(
        `CREATE TABLE r AS SELECT key AS r_key, key + 1 AS r_value
         FROM (SELECT ${shuffled("i", bits)} AS key FROM range(${2 ** bits}) numbers(i)) WHERE key < ${buildRows}`
    );
    // A key of the build side per row, at random.
    await connection.run(
        `CREATE TABLE s AS SELECT CAST(hash(i) % ${buildRows} AS BIGINT) AS s_key, i AS s_value
         FROM range(${probeRows}) numbers(i)`
    );
}

const joined = "SELECT count(*), sum(r_value), sum(s_value) FROM r JOIN s ON r.r_key = s.s_key";

/** Every probe row has one partner, whose payload is its key and one. */
async function expectedRow(first, { probeRows }) {
    const [keys, values] = await first("SELECT sum(s_key), sum(s_value) FROM s");
    return [BigInt(probeRows), BigInt(keys) + BigInt(probeRows), BigInt(values)];
}

async function main() {
    const given = readNumbers();
    const duckdb = await loadDuckdb();
    if (duckdb === undefined) {
        process.exitCode = notHere;
        return;
    }
    const instance = await duckdb.DuckDBInstance.create(":memory:", { threads: String(given.threads) });
    const connection = await instance.connect();
    await connection.run("SET preserve_insertion_order = false");
    const first = async (sql) => (await connection.runAndReadAll(sql)).getRows()[0];
    await makeTables(connection, given);
    const expected = await expectedRow(first, given);
    const samples_ms = [];
    let found = [];
    for (let run = 0; run < given.warmup + given.samples; ++run) {
        const start = performance.now();
        found = await first(joined);
        if (run >= given.warmup) samples_ms.push(Number((performance.now() - start).toFixed(3)));
    }
    const [version] = await first("SELECT version()");
    writeOutcome(given, { algorithm: "duckdb", version, samples_ms, found, expected });
}

await main();
