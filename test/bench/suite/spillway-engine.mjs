// SPDX-License-Identifier: Apache-2.0
// Spillway as an engine of the suite, on the CPU: relations of Arrow files that were opened before, or of tables in
// memory.
import { rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { RecordBatchReader, Table } from "apache-arrow";

import { openRuntime, releaseBatch } from "../../../dist/index.js";
import { Checksum, addArrowBatch } from "./checksum.mjs";
import { queryByName } from "./data-sets.mjs";
import { spillwayQuery, tablesOf } from "./description.mjs";

async function checksumOf(batches) {
    const checksum = new Checksum();
    for await (const batch of batches) addArrowBatch(checksum, batch);
    return checksum.result();
}

/** Gives the batches of a file to `use`: a file may be larger than what Node reads at once. */
async function withBatches(path, use) {
    const file = await open(path);
    try {
        return await use(await RecordBatchReader.from(file));
    } finally {
        await file.close();
    }
}

/** The rows of a file as a table, each batch in one piece of memory. */
async function readTable(path) {
    return await withBatches(path, async (reader) => {
        const batches = [];
        for await (const batch of reader) batches.push(batch);
        return new Table(reader.schema, batches);
    });
}

async function countBatches(query) {
    let rows = 0;
    for await (const batch of query.batches()) {
        rows += batch.numRows;
        releaseBatch(batch);
    }
    return rows;
}

/** What the report of a query tells of its last run. */
function told(query) {
    const report = query.report();
    const { predictedMs, rowsIn, bytesIn, spilledBytes, stages } = report;
    const algorithm = `spillway ${[...new Set(stages.map((stage) => stage.algorithm))].join(" + ")}`;
    return { predictedMs, rowsIn, bytesIn, spilledBytes, algorithm };
}

export class SpillwayEngine {
    #runtime;
    #options;
    #set;
    #relations = {};
    #table;

    /**
     * `options`: threads, `work`, the folder for files, `inputs`, which are "files" unless it says "memory", and
     * `runtime`, more options of `openRuntime`.
     */
    static async open(options) {
        const engine = new SpillwayEngine();
        engine.#options = options;
        await engine.#openRuntime();
        return engine;
    }

    async #openRuntime(budget) {
        const { threads, work, runtime = {} } = this.#options;
        const memory = { spillDirectory: work, ...runtime.memory, ...(budget === undefined ? {} : { host: budget }) };
        this.#runtime = await openRuntime({ device: "cpu", threads, ...runtime, memory });
    }

    get #output() {
        return join(this.#options.work, `result-${process.pid}.arrow`);
    }

    /** Opens or reads the tables of a set. */
    async load(set) {
        this.#set = set;
        this.#relations = {};
        globalThis.gc?.(); // Those of the last set may take half of the memory.
        const names = new Set(set.names.flatMap((name) => tablesOf(queryByName(set, name).source)));
        for (const name of names) this.#relations[name] = await this.#relation(set, name);
    }

    async #relation({ paths, inMemory }, name) {
        const isTable = inMemory || this.#options.inputs === "memory";
        if (isTable) return this.#runtime.fromTable(await readTable(paths[name]));
        return await this.#runtime.fromArrowFile(paths[name]);
    }

    /** From now on in a runtime with this budget of memory; undefined: the default. */
    async setBudget(bytes) {
        await this.#runtime.close();
        await this.#openRuntime(bytes);
        await this.load(this.#set);
    }

    #query(name) {
        return spillwayQuery(queryByName(this.#set, name).source, this.#relations);
    }

    /** Runs a query of the set; `as`: how its rows are taken, instead of what it says itself. */
    async run(name, as) {
        const { result } = queryByName(this.#set, name);
        const query = this.#query(name);
        const rows = await this.#take(query, as ?? result);
        return { rows, ...told(query) };
    }

    async #take(query, result) {
        if (result === "count") return await query.count();
        if (result === "batches") return await countBatches(query);
        if (result === "file") return await query.toArrowFile(this.#output, { overwrite: true });
        this.#table = await query.toTable();
        return this.#table.numRows;
    }

    async runAtOnce(name, times) {
        const queries = Array.from({ length: times }, () => this.#query(name));
        const counts = await Promise.all(queries.map((query) => query.count()));
        if (counts.some((count) => count !== counts[0])) throw new Error(`"${name}" has other counts from run to run.`);
        // What is predicted is the time of one of them.
        return { rows: counts[0], ...told(queries[0]), predictedMs: undefined };
    }

    /** What the last run left is let go. */
    drop() {
        this.#table = undefined;
        rmSync(this.#output, { force: true });
    }

    /** The checksum of the result, and of a limited one its rows by their keys. */
    async check(name) {
        const { result, rowKeys } = queryByName(this.#set, name);
        const query = this.#query(name);
        if (result === "count") return { checksum: { rows: await query.count(), sum: "" } };
        if (result === "batches") return { checksum: await checksumOf(query.batches()) };
        await this.#take(query, result);
        if (result === "file") return { checksum: await withBatches(this.#output, checksumOf) };
        const checksum = await checksumOf(this.#table.batches);
        if (rowKeys === undefined) return { checksum };
        const rows = Array.from(this.#table, (row) => rowKeys.map((key) => String(row[key])));
        return { checksum, rows };
    }

    async close() {
        this.drop();
        await this.#runtime.close();
    }
}
