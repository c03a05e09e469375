// SPDX-License-Identifier: Apache-2.0
// The queries of node-out-of-core.mjs over generated relations in memory, as a user would write them.
import { batches, count, table } from "./node-auto-queries.mjs";

/** Columns of numbers beside the key. */
const numbers = (prefix, columns) => Array.from({ length: columns }, (_, i) => ({ name: `${prefix}${i}` }));

/** What `generate` makes a fact table of: its keys are drawn from those of a dimension. */
export function factsSpec(rows, { domainRows = rows, columns = 1, zipf } = {}) {
    const key = { name: "k", role: "foreign", domainRows, ...(zipf > 0 ? { zipf } : {}) };
    return { rows, seed: 5, key, payload: numbers("f", columns) };
}

/** The same of a dimension: each key once. */
export function dimensionSpec(rows, name, columns = 1) {
    return { rows, seed: 5, key: { name: "k", role: "primary" }, payload: numbers(name, columns) };
}

async function facts(runtime, rows, options) {
    return await runtime.generate(factsSpec(rows, options), "memory");
}

async function dimensionOf(runtime, rows, name, columns) {
    return await runtime.generate(dimensionSpec(rows, name, columns), "memory");
}

/** Relations of one key and one column: the shapes of the paper, and stars. */
export async function largeQueries(runtime, bits) {
    const rows = 2 ** bits;
    const few = rows / 4;
    const fact = await facts(runtime, rows, { domainRows: few });
    const [a, b] = [await dimensionOf(runtime, few, "a"), await dimensionOf(runtime, few, "b")];
    const joined = fact.join(a, { on: "k" });
    const star = joined.join(b, { on: "k" });
    const sums = { f: { sum: "f0" }, a: { sum: "a0" }, n: { count: "*" } };
    return [
        ["join, count", joined, count],
        ["sums over a join", joined.groupBy({ keys: [], aggregates: sums }), table],
        ["groups of a join", joined.groupBy({ keys: ["k"], aggregates: { f: { sum: "f0" } } }), count],
        ["sums over a star", star.groupBy({ keys: [], aggregates: { b: { sum: "b0" }, n: { count: "*" } } }), table],
        ["group-by, a group of four rows", fact.groupBy({ keys: ["k"], aggregates: { f: { sum: "f0" } } }), count]
    ].map(([name, query, run]) => ({ name: `${name}, 2^${bits} rows`, query, run }));
}

/** The joins out of core by name, and what `experiment` asks of two of them. */
const named = [
    ...["staged", "triton", "triton-uncached", "npj-far"].map((algorithm) => ({ algorithm })),
    ...[true, false].map((overlap) => ({ algorithm: "cpu-partitioned", experiment: { overlap } })),
    ...["sorted", "partitioned", "table"].map((streamProbe) => ({
        ...{ algorithm: "stream-probe", experiment: { streamProbe } }
    })),
    { algorithm: "cpu-radix" }
];

/** A key and one column a side, counted by each join by name; a device without a GPU has the same join by its own. */
export async function namedQueries(runtime, bits, device) {
    const rows = 2 ** bits;
    const right = await facts(runtime, rows, { domainRows: rows });
    const left = await dimensionOf(runtime, rows, "d");
    return named.map(({ algorithm, experiment }) => {
        const asked = device === "gpu" || algorithm === "cpu-radix" ? { algorithm, experiment } : {};
        const text = experiment === undefined ? algorithm : `${algorithm} ${JSON.stringify(experiment)}`;
        const query = runtime.join({ left, right, on: "k", ...asked });
        return { name: `join by ${text}, 2^${bits} rows`, query, run: count };
    });
}

/** Relations of several columns, and of keys by Zipf's law. */
export async function wideQueries(runtime, bits) {
    const rows = 2 ** bits;
    const made = [];
    for (const columns of [2, 6, 12]) {
        const fact = await facts(runtime, rows, { columns: columns / 2 });
        const dimension = await dimensionOf(runtime, rows, "d", columns / 2);
        const aggregates = Object.fromEntries(numbers("f", columns / 2).map(({ name }) => [name, { sum: name }]));
        made.push([`join of ${columns} columns as batches`, fact.join(dimension, { on: "k" }), batches]);
        made.push([`group-by of ${columns / 2} sums`, fact.groupBy({ keys: ["k"], aggregates }), count]);
    }
    for (const zipf of [0, 1, 1.5]) {
        const fact = await facts(runtime, rows, { zipf });
        const dimension = await dimensionOf(runtime, rows, "d");
        const aggregates = { f: { sum: "f0" } };
        made.push([`join, Zipf ${zipf}`, fact.join(dimension, { on: "k" }), count]);
        made.push([`group-by, Zipf ${zipf}`, fact.groupBy({ keys: ["k"], aggregates }), count]);
    }
    return made.map(([name, query, run]) => ({ name: `${name}, 2^${bits} rows`, query, run }));
}
