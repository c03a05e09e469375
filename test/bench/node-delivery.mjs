// SPDX-License-Identifier: Apache-2.0
/**
 * How fast results of joins and group-bys come to Node: configs/experiments/node-delivery.json says which results of
 * how many rows and columns, from memory and from Arrow files, on the CPU engine and on a GPU with limits of its
 * memory, beside DuckDB. `--help` has the options; docs/benchmarks.md says what is compared.
 * Needs the built package (dist, its addon and plugin) and no network. A machine without packages takes of node_modules
 * apache-arrow, flatbuffers and tslib, and benchmark, lodash and platform; for DuckDB also @duckdb. Exit code 1:
 * results disagree, or a cell failed; 2: nothing was measured.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { freemem } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { openRuntime } from "../../dist/index.js";
import { loadDuckdb } from "./gpu-engine.mjs";
import { deviceName } from "./machine-name.mjs";
import {
    duckdbBudget,
    duckdbMisfit,
    hostBudget,
    misfitOf,
    nameOf,
    recordOf,
    shapesOf,
    specsOf
} from "./node-delivery-cells.mjs";
import { help, readOptions } from "./node-delivery-options.mjs";
import { mergeRecords } from "./node-delivery-records.mjs";

const say = (text) => process.stderr.write(`${text}\n`);
const tmpfs = 0x01021994;

/** Whether no more cells are to begin; never without a limit. */
const isOver = ({ deadline }) => Date.now() > deadline;

/** Memory and disk that are free now. */
function roomOf(folder) {
    const { bavail, bsize, type } = statfsSync(folder);
    const memoryBytes = Math.min(freemem(), process.constrainedMemory() || Infinity);
    return { memoryBytes, diskBytes: bavail * bsize, diskIsMemory: type === tmpfs };
}

/** Paths of a shape's inputs, and whether they are there. */
function pathsOf({ bits, columns, ...shape }, folder) {
    const names = Object.keys(specsOf({ bits, columns, ...shape }));
    return Object.fromEntries(names.map((name) => [name, join(folder, `${name}-${bits}-${columns}.arrow`)]));
}

/** Writes the files that are not there yet; tells which it wrote. */
async function writeInputs(shape, paths) {
    const missing = Object.entries(paths).filter(([, path]) => !existsSync(path));
    if (missing.length === 0) return [];
    const runtime = await openRuntime({ device: "cpu" });
    try {
        for (const [name, path] of missing) await runtime.generate(specsOf(shape)[name], { path });
    } finally {
        await runtime.close();
    }
    return missing.map(([, path]) => path);
}

/** Runs a job in a process of its own, which tells of each of its results as soon as it has it. */
async function runProcess(file, job, tell) {
    const program = fileURLToPath(new URL(file, import.meta.url));
    const child = spawn(process.execPath, ["--expose-gc", program, JSON.stringify(job)], {
        stdio: ["ignore", "pipe", "inherit"]
    });
    const ended = once(child, "close");
    for await (const line of createInterface({ input: child.stdout })) tell(JSON.parse(line));
    const [code, signal] = await ended;
    return code === 0 ? undefined : `its process ended with ${signal ?? `code ${code}`}`;
}

/** "812.1 ms (810.2, 812.1, 830), cold 1500.3, 4.6 GB/s of the result, 790.2 planned" */
function lineOf(record) {
    if (record.refused !== undefined) return `refused: ${record.refused}`;
    const { median_ms, samples_ms, cold_ms, cold_of, gb_per_s, gb_per_s_of, predicted_ms, duckdb_ms } = record;
    const times = `${median_ms} ms (${samples_ms.join(", ")}), cold ${cold_ms} in its ${cold_of}`;
    const duckdb = duckdb_ms === undefined ? "" : `, DuckDB ${duckdb_ms} ms`;
    return `${times}, ${gb_per_s} GB/s of the ${gb_per_s_of}, ${predicted_ms} planned${duckdb}`;
}

/** All records so far, and what became of cells that have none. */
class Outcome {
    #before;
    #records = [];
    #said = new Set();
    #late = [];
    failed = false;

    constructor(options) {
        this.options = options;
        const { record } = options;
        this.#before = record !== undefined && existsSync(record) ? JSON.parse(readFileSync(record, "utf8")) : [];
    }

    get records() {
        return mergeRecords(this.#before, this.#records);
    }

    /** Those of this run. */
    get measured() {
        const names = new Set(this.#records.map(({ workload }) => workload.name));
        return this.records.filter(({ workload }) => names.has(workload.name));
    }

    add(record) {
        this.#records.push(record);
        const all = this.records;
        const { record: file } = this.options;
        if (file !== undefined) writeFileSync(file, `${JSON.stringify(all, null, 4)}\n`);
        const { name } = record.workload;
        say(`${name}: ${lineOf(all.find(({ workload }) => workload.name === name))}`);
    }

    fail(cell, why) {
        this.failed = true;
        say(`${nameOf(cell)}: failed: ${why}`);
    }

    /** No time was left for these. */
    leaveForLater(cells) {
        this.#late.push(...cells.map(nameOf));
    }

    sayWhatIsLeft() {
        if (this.#late.length === 0) return;
        const [seconds, left] = [this.options["limit-s"], this.#late.map((name) => `\n  ${name}`).join("")];
        say(`${this.#late.length} cells are left out, since ${seconds} seconds were over:${left}`);
    }

    /** Each reason once for the cells that differ in nothing but the device. */
    leaveOut(cell, why) {
        const text = `${nameOf({ ...cell, device: "any device", limit: undefined })}: left out: ${why}`;
        if (!this.#said.has(text)) say(text);
        this.#said.add(text);
    }
}

/** The results of a shape on one device, in as many processes as it takes. */
async function runDevice(cells, { paths, room, duckdb }, outcome) {
    const { options } = outcome;
    const [{ from }] = cells;
    const oneByOne = options.fresh || from === "files";
    for (const group of oneByOne ? cells.map((cell) => [cell]) : [cells]) {
        if (isOver(options)) {
            outcome.leaveForLater(group);
            continue;
        }
        const [{ result: first, ...shape }] = group;
        const hostBytes = hostBudget({ result: first, ...shape }, room.memoryBytes);
        const { samples, folder, deadline, commit } = options;
        const results = group.map(({ result }) => result);
        const job = { ...shape, results, paths, hostBytes, samples, folder, deadline };
        const waiting = new Map(group.map((cell) => [cell.result, cell]));
        const why = await runProcess("node-delivery-worker.mjs", job, ({ result, gpuName, threads, ...measured }) => {
            const device = gpuName === undefined ? deviceName() : `${gpuName}; ${deviceName()}`;
            const setting = { samples, hostBytes, threads, device, date: new Date().toISOString(), commit };
            outcome.add({ ...recordOf(waiting.get(result), measured, setting), ...duckdb.get(result) });
            waiting.delete(result);
        });
        if (why === undefined) outcome.leaveForLater([...waiting.values()]);
        else for (const cell of waiting.values()) outcome.fail(cell, why);
    }
}

/** What DuckDB takes for the results of a shape, as fields of their records. */
async function runDuckdb({ kind, bits, columns, results }, outcome) {
    const { samples, folder, duckdb } = outcome.options;
    const told = new Map();
    if (duckdb === "off" || isOver(outcome.options)) return told;
    const room = roomOf(folder);
    const cells = results.map((result) => ({ result, kind, bits, columns, from: "tables", device: "duckdb" }));
    const fitting = cells.filter((cell) => {
        const why = duckdbMisfit(cell, room);
        if (why !== undefined) say(`${nameOf(cell)}: left out: ${why}`);
        return why === undefined;
    });
    if (fitting.length === 0) return told;
    const job = { kind, bits, columns, results: fitting.map(({ result }) => result), samples, folder };
    const why = await runProcess("node-delivery-duckdb.mjs", { ...job, memoryBytes: duckdbBudget(room) }, (line) =>
        told.set(line.result, line.told)
    );
    if (why !== undefined) for (const cell of fitting) if (!told.has(cell.result)) outcome.fail(cell, why);
    return told;
}

/** All cells of a shape whose inputs are in one place. */
async function runPlace(shape, from, duckdb, outcome) {
    const { options } = outcome;
    const paths = pathsOf(shape, options.folder);
    const room = roomOf(options.folder);
    const { kind, bits, columns, devices } = shape;
    const fitting = shape.results.filter((result) => {
        const cell = { result, kind, bits, columns, from };
        const why = misfitOf(cell, room);
        if (why !== undefined) outcome.leaveOut(cell, why);
        return why === undefined;
    });
    const ofDevices = devices.map((device) =>
        fitting.map((result) => ({ result, kind, bits, columns, from, ...device }))
    );
    if (fitting.length === 0) return;
    if (isOver(options)) return outcome.leaveForLater(ofDevices.flat());
    const written = from === "files" ? await writeInputs(shape, paths) : [];
    try {
        for (const cells of ofDevices) await runDevice(cells, { paths, room, duckdb }, outcome);
    } finally {
        if (!options["keep-files"]) for (const path of written) rmSync(path);
    }
}

async function main() {
    const options = readOptions(process.argv.slice(2));
    if (options.help) return void process.stdout.write(`${help}\n`);
    if (options.duckdb === "on" && (await loadDuckdb()) === undefined) options.duckdb = "off";
    mkdirSync(options.folder, { recursive: true });
    const outcome = new Outcome(options);
    for (const shape of shapesOf(options.axes)) {
        const duckdb = await runDuckdb(shape, outcome);
        for (const from of shape.from) await runPlace(shape, from, duckdb, outcome);
    }
    outcome.sayWhatIsLeft();
    const { measured } = outcome;
    if (options.json) process.stdout.write(`${JSON.stringify(measured, null, 4)}\n`);
    for (const { workload } of measured.filter(({ verified }) => verified === false)) {
        say(`${workload.name}: another result than the other records have, or another number of rows than keys have`);
        outcome.failed = true;
    }
    if (outcome.failed) process.exitCode = 1;
    else if (measured.length === 0) process.exitCode = 2;
}

try {
    await main();
} catch (error) {
    say(error.message);
    process.exitCode = 1;
}
