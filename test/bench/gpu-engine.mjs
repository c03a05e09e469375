// SPDX-License-Identifier: Apache-2.0
// What the other engines of the GPU benchmark have in common (gpu-duckdb.mjs, gpu-cpu-engine.mjs): their command line,
// the outcome that they write, and what DuckDB takes. Only built-in modules must be here: a GPU machine may have no
// others.
import { availableParallelism, cpus } from "node:os";
import { parseArgs } from "node:util";

/** Exit code of an engine that is not here. */
export const notHere = 3;

const numbers = ["build-rows", "probe-rows", "samples", "warmup", "threads"];

/** --build-rows, --probe-rows, --samples, --warmup and --threads. */
export function readNumbers() {
    const options = Object.fromEntries(numbers.map((name) => [name, { type: "string" }]));
    const { values } = parseArgs({ options });
    const read = (name, otherwise) => {
        const value = Number(values[name] ?? otherwise);
        if (Number.isSafeInteger(value) && value >= 0) return value;
        throw new Error(`Expected a number for --${name} but received '${values[name]}'.`);
    };
    return {
        buildRows: read("build-rows"),
        probeRows: read("probe-rows"),
        samples: Math.max(1, read("samples", 3)),
        warmup: read("warmup", 1),
        threads: read("threads", availableParallelism())
    };
}

export function medianOf(samples) {
    return samples.toSorted((a, b) => a - b)[Math.floor(samples.length / 2)];
}

/** Writes the outcome of a join with these sums, which `found` must be, with what else the engine tells of it. */
export function writeOutcome(given, { algorithm, samples_ms, found, expected, ...more }) {
    const { buildRows, probeRows, threads } = given;
    const median_ms = medianOf(samples_ms);
    const verified = expected.every((value, column) => value === BigInt(found[column] ?? 0));
    const rows_in = buildRows + probeRows;
    const outcome = {
        workload: {
            ...{ key_bytes: 8, payload_bytes: { build: [8], probe: [8] } },
            ...{ build_rows: buildRows, probe_rows: probeRows, match_ratio: 1, zipf: 0, result: "sums" }
        },
        ...{ algorithm, threads, median_ms, samples_ms, rows_in, rows_out: Number(found[0]) },
        ...{ g_tuples_per_s: Number((rows_in / median_ms / 1e6).toPrecision(6)), verified },
        ...(verified ? {} : { problem: `the result is ${found.join(", ")} instead of ${expected.join(", ")}` }),
        ...more,
        device: `${cpus()[0]?.model.trim() ?? process.arch}, ${threads} threads`
    };
    process.stdout.write(`${JSON.stringify(outcome)}\n`);
    process.exitCode = verified ? 0 : 1;
}

/** The package of DuckDB; undefined, and a line on stderr that says why, where it cannot be loaded. */
export async function loadDuckdb() {
    try {
        return await import("@duckdb/node-api");
    } catch (error) {
        process.stderr.write(`@duckdb/node-api cannot be loaded here: ${error.message.split("\n")[0]}\n`);
        return undefined;
    }
}

// Odd factors below 2^32, so that products with row numbers below 2^31 stay below 2^63.
const factors = [2654435761n, 2246822519n];

/** SQL of a bijection of 0 ... 2^bits - 1 without order: odd factors modulo 2^bits, and the upper half of the bits. */
export function shuffled(row, bits) {
    const mask = (1n << BigInt(bits)) - 1n;
    const half = Math.ceil(bits / 2);
    const first = `((${row} * ${factors[0]}) & ${mask})`;
    return `((xor(${first}, ${first} >> ${half}) * ${factors[1]}) & ${mask})`;
}
