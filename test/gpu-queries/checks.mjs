// SPDX-License-Identifier: Apache-2.0
// What run.mjs checks with: options, rows of tables as texts, results of two runtimes side by side.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { parseArgs } from "node:util";

export const { values: options } = parseArgs({
    options: {
        small: { type: "boolean", default: false },
        filter: { type: "string", default: "" },
        part: { type: "string", multiple: true, default: [] },
        "out-of-core-bits": { type: "string", default: "26" },
        record: { type: "string" },
        "spill-directory": { type: "string" },
        "join-algorithm": { type: "string", default: "auto" },
        "group-algorithm": { type: "string", default: "auto" }
    }
});
// The limits of large joins shrink with their rows; that of less could hold no buffers.
if (!(Number(options["out-of-core-bits"]) >= 25)) {
    throw new Error(`Expected 25 or more for --out-of-core-bits but received '${options["out-of-core-bits"]}'.`);
}
export const joinTypes = ["inner", "left", "right", "full", "semi", "anti"];
export const counts = { passed: 0, failed: 0 };
const checks = [];
let measured = {};

function cell(value) {
    if (value === null || value === undefined) return "NULL";
    if (typeof value === "number" && value === 0) return "0"; // -0 and 0 are one key, and either may come out
    if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("hex");
    return String(value);
}

/** Rows in an order of their own. */
export function sortedRows(table) {
    const vectors = table.schema.fields.map((_, i) => table.getChildAt(i));
    const rows = Array.from({ length: table.numRows }, (_, row) =>
        vectors.map((each) => cell(each.get(row))).join("|")
    );
    return rows.sort();
}

export function firstDifference(found, wanted) {
    if (found.length !== wanted.length) return `${found.length} rows instead of ${wanted.length}`;
    const at = found.findIndex((row, i) => row !== wanted[i]);
    return at < 0
        ? null
        : `row ${at} (sorted) is\n  ${found[at].slice(0, 300)}\ninstead of\n  ${wanted[at].slice(0, 300)}`;
}

/** `body` gives null, or what is wrong. */
export async function check(name, body) {
    if (!name.includes(options.filter)) return;
    const start = performance.now();
    measured = {};
    let failure;
    try {
        failure = await body();
    } catch (error) {
        failure = error.stack ?? String(error);
    }
    const ms = Math.round(performance.now() - start);
    console.log(failure === null ? `passed  ${name} (${ms} ms)` : `FAILED  ${name} (${ms} ms): ${failure}`);
    const status = failure === null ? "passed" : "failed";
    counts[status] += 1;
    checks.push({ name, status, ms, ...measured, ...(failure === null ? {} : { failure }) });
}

/** Figures of the check that runs, for its record. */
export function measure(figures) {
    measured = { ...measured, ...figures };
}

/** What was checked on which device and what it measured, if the options name a file for it. */
export function writeRecord(device) {
    if (options.record === undefined) return;
    const facts = { date: new Date().toISOString(), commit: process.env["SPILLWAY_COMMIT"] ?? null, device };
    const { small, filter, part } = options;
    const record = { ...facts, small, filter, parts: part, ...counts, checks };
    mkdirSync(dirname(options.record), { recursive: true });
    writeFileSync(options.record, `${JSON.stringify(record, null, 4)}\n`);
}

/** Made when somebody first wants it. */
export function onceMade(make) {
    let made;
    return () => (made ??= make());
}

/** Of the CPU engine. */
export const reference = (query) =>
    onceMade(async () => ({ rows: sortedRows(await query.toTable()), counted: await query.count() }));

/** The rows of a query on the GPU and their number; `inspect` says of the report of its run what is wrong. */
export async function compareWith(query, expected, inspect = () => null) {
    const { rows, counted } = await expected();
    const difference = firstDifference(sortedRows(await query.toTable()), rows);
    if (difference !== null) return difference;
    const report = query.report();
    if (report.device !== "gpu") return `ran on the ${report.device}`;
    const wrong = inspect(report);
    if (wrong !== null) return wrong;
    const found = await query.count();
    return found === counted ? null : `count() is ${found} instead of ${counted}`;
}

/** What a join or group-by out of core did; undefined where the query ran another way. */
export function linkOf({ stages: [first] }) {
    return first?.device?.outOfCore ?? first?.device?.outOfCoreGroupBy;
}

/** `make(runtime)` makes the query; its rows and their number must be those of the CPU engine. */
export async function compare(gpu, cpu, make) {
    return await compareWith(make(gpu), reference(make(cpu)));
}

const experiments = new Set([
    ...["partitioner", "interleave", "residentShare", "chunkRows", "radixBits", "secondRadixBits"],
    ...["partitionBlocks", "gatherBlocks", "pages", "coPartitionJoin"]
]);

/** The options `debug` and `experiment` of what a query turns, told together. */
export function knobs(turned) {
    const pick = (isExperiment) =>
        Object.fromEntries(Object.entries(turned).filter(([name]) => experiments.has(name) === isExperiment));
    return { debug: pick(false), experiment: pick(true) };
}

/** `run` must fail with this code and such a text, and no other way. */
export async function refusal(run, code, text) {
    try {
        await run();
    } catch (error) {
        return error.code === code && text.test(error.message) ? null : `${error.code}: ${error.message}`;
    }
    return `was not refused with ${code}`;
}
