// SPDX-License-Identifier: Apache-2.0
// What is asked of a hostile relation: every way in which the engine reads, keys, pads, groups and delivers a column.
import { readFileSync, statSync } from "node:fs";
import { tableFromIPC } from "apache-arrow";
import { checkBatch, Unsound } from "./soundness.mjs";

/** Options with which the same queries run: other code of the engine each time. */
export const modes = {
    plain: {},
    spill: { debug: { forceSpill: true, packSpilled: false, pageBytes: 4096, workers: 2 } },
    packed: { debug: { forceSpill: true, packSpilled: true, pageBytes: 4096, workers: 2 } },
    passes: {
        debug: { algorithm: "radix", morselRows: 7, workers: 2 },
        experiment: { radixBits: 4, secondRadixBits: 3 }
    },
    streaming: { debug: { algorithm: "streaming", morselRows: 7, workers: 2 } },
    collide: { debug: { hashMask: 0n, workers: 2 } }
};

/** Rows after which a result is left: leaving it early is a way to end, too. */
const rowsMax = 200_000;
const readBackBytesMax = 4 << 20;

async function drain(query, { signal }) {
    let rows = 0;
    for await (const batch of query.batches({ signal })) {
        checkBatch(batch);
        rows += batch.numRows;
        if (rows > rowsMax) break;
    }
}

async function toTable(query, { signal }) {
    const table = await query.toTable({ signal });
    table.batches.forEach(checkBatch);
}

/** A file that the engine wrote must be sound, for the engine and for Arrow JS, whatever its rows came from. */
async function toFile(query, { runtime, signal, output }) {
    const rows = await query.toArrowFile(output, { overwrite: true, signal });
    const again = await runtime.fromArrowFile(output);
    if (again.rows !== rows) throw new Unsound(`a file of ${rows} rows was read back with ${again.rows}`);
    if (statSync(output).size > readBackBytesMax) return;
    const table = tableFromIPC(readFileSync(output));
    if (table.numRows !== rows) throw new Unsound(`Arrow JS finds ${table.numRows} rows in a file of ${rows}`);
    table.batches.forEach(checkBatch);
}

const countOf = async (query, { signal }) => query.count({ signal });

/**
 * Each gets { runtime, file, good, options, key, signal, output }: the hostile relation and a sound one, whose keys are
 * more than the hostile one's, so that rows without a partner come from both sides.
 */
export const queries = {
    "left join": (with_) => drain(join(with_, with_.good, with_.file, "left"), with_),
    "full join to a file": (with_) => toFile(join(with_, with_.file, with_.good, "full"), with_),
    "self join of p, counted": (with_) => {
        const { runtime, file, options } = with_;
        return countOf(runtime.join({ left: file, right: file, on: ["p"], nullEquality: true, ...options }), with_);
    },
    "groups of p": (with_) => {
        const aggregates = { rows: { count: "*" }, first: { first: with_.key } };
        return drain(with_.file.groupBy({ keys: ["p"], aggregates, ...with_.options }), with_);
    },
    "first of p": (with_) => toTable(grouped(with_, { a: { first: "p" }, b: { count: "p" } }), with_),
    "distinct p": (with_) => toTable(grouped(with_, { a: { countDistinct: "p" }, b: { any: "p" } }), with_),
    "least and greatest p": (with_) => drain(grouped(with_, { a: { min: "p" }, b: { max: "p" } }), with_),
    "sum of p": (with_) => toTable(grouped(with_, { a: { sum: "p" } }), with_),
    "mean of p": (with_) => toTable(grouped(with_, { a: { mean: "p" } }), with_),
    "anti join": (with_) => drain(join(with_, with_.file, with_.good, "anti"), with_),
    "all rows counted": (with_) => {
        const aggregates = { rows: { count: "*" }, values: { count: "p" } };
        return toTable(with_.file.groupBy({ keys: [], aggregates, ...with_.options }), with_);
    },
    "groups of a join": (with_) => {
        const joined = join(with_, with_.good, with_.file, "left");
        const aggregates = { a: { first: "p" }, rows: { count: "*" } };
        return drain(joined.groupBy({ keys: [with_.key], aggregates, ...with_.options }), with_);
    }
};

function join({ runtime, key, options }, left, right, type) {
    return runtime.join({ left, right, on: [key], type, ...options });
}

function grouped({ file, key, options }, aggregates) {
    return file.groupBy({ keys: [key], aggregates, ...options });
}
