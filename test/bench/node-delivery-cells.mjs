// SPDX-License-Identifier: Apache-2.0
// The cells of node-delivery.mjs: which there are, what each takes of a machine, and what is recorded of it.
import { medianOf } from "./gpu-engine.mjs";
import { dimensionSpec, factsSpec } from "./node-generated-queries.mjs";
import { linkOf } from "./node-report.mjs";

const columnBytes = 8;
const gibibyte = 2 ** 30;
/** Rows of each group, on average. */
const groupRows = 16;
/** What queries may use of the memory that inputs leave. The rest is for Node, and for what is about to be freed. */
const budgetShare = 0.8;
const leastBudgetBytes = 256 * 2 ** 20;
/** Less than this part of the inputs in memory is too little to plan with, and too near to the end of it. */
const leastBudgetShare = 1 / 8;

const round = (number) => Number(number.toFixed(3));
const gib = (bytes) => `${(bytes / gibibyte).toFixed(1)} GiB`;

/** Group-bys have one relation, everything else has two. */
export const kindOf = (result) => (result === "group-by" ? "group" : "join");

/** Groups of a group-by of 2^bits rows. */
export const groupsOf = (bits) => Math.max(1, 2 ** bits / groupRows);

/** A runtime for each: the CPU engine, and the GPU with each limit of its memory. */
function devicesOf({ devices, limits }) {
    return devices.flatMap((device) => (device === "gpu" ? limits.map((limit) => ({ device, limit })) : [{ device }]));
}

/** Inputs that cells share, and those cells: all results with these inputs, on each device. */
export function shapesOf(axes) {
    const kinds = ["join", "group"].map((kind) => ({
        kind,
        results: axes.results.filter((result) => kindOf(result) === kind)
    }));
    return axes.bits.flatMap((bits) =>
        axes.columns.flatMap((columns) =>
            kinds
                .filter(({ results }) => results.length > 0)
                .map(({ kind, results }) => ({
                    bits,
                    columns,
                    kind,
                    results,
                    from: axes.from,
                    devices: devicesOf(axes)
                }))
        )
    );
}

/** What `generate` makes the relations of a shape of, by their names. */
export function specsOf({ kind, bits, columns }) {
    const rows = 2 ** bits;
    if (kind === "group") return { rows: factsSpec(rows, { columns, domainRows: groupsOf(bits) }) };
    return { probe: factsSpec(rows, { columns }), build: dimensionSpec(rows, "d", columns) };
}

/** "batches, 2^26 rows a side, 3 columns, from memory, gpu 4GiB" */
export function nameOf({ result, bits, columns, from, device, limit }) {
    const rows = kindOf(result) === "group" ? "rows" : "rows a side";
    const ran = limit === undefined ? device : `${device} ${limit}`;
    const width = columns === 1 ? "1 column" : `${columns} columns`;
    return `${result}, 2^${bits} ${rows}, ${width}, from ${from}, ${ran}`;
}

const rowBytes = (columns) => (1 + columns) * columnBytes;

/** Bytes of the inputs of a shape. */
export function inputBytes({ kind, bits, columns }) {
    return (kind === "group" ? 1 : 2) * 2 ** bits * rowBytes(columns);
}

/** Bytes of the columns that a query reads: to count joined rows takes their keys alone. */
function readBytes({ result, ...shape }) {
    return inputBytes({ kind: kindOf(result), ...shape, columns: result === "count" ? 0 : shape.columns });
}

/** Bytes of a joined result: a key and all payload columns of both sides. */
const joinedBytes = ({ bits, columns }) => 2 ** bits * rowBytes(2 * columns);

/** Bytes of a result that the process keeps, and of one on disk. */
function keptBytes({ result, bits, columns }) {
    if (result === "group-by") return groupsOf(bits) * rowBytes(columns);
    return result === "table" ? joinedBytes({ bits, columns }) : 0;
}

/** The budget of a runtime beside inputs in memory. */
export function hostBudget(cell, memoryBytes) {
    const held = cell.from === "memory" ? inputBytes({ kind: kindOf(cell.result), ...cell }) : 0;
    return Math.max(0, Math.floor((memoryBytes - held) * budgetShare));
}

/** Why a machine with so much memory and disk cannot run a cell; undefined where it can. */
export function misfitOf(cell, { memoryBytes, diskBytes, diskIsMemory }) {
    const inputs = inputBytes({ kind: kindOf(cell.result), ...cell });
    const disk = (cell.from === "files" ? inputs : 0) + (cell.result === "file" ? joinedBytes(cell) : 0);
    if (disk > diskBytes) return `its files take ${gib(disk)} of disk, and ${gib(diskBytes)} are free`;
    const memory = memoryBytes - (diskIsMemory ? disk : 0);
    const least = cell.from === "memory" ? inputs * leastBudgetShare : 0;
    const needed = Math.max(leastBudgetBytes, least, keptBytes(cell));
    if (hostBudget(cell, memory) >= needed) return undefined;
    const held = cell.from === "memory" ? `inputs of ${gib(inputs)}` : "Node";
    const most = `${Math.round(budgetShare * 100)} % of the memory beside ${held}`;
    return `its result and queries take ${gib(needed)}, and ${most} are ${gib(hostBudget(cell, memory))}`;
}

/** What DuckDB may use of memory. */
export const duckdbBudget = ({ memoryBytes }) => Math.floor(memoryBytes * budgetShare);

/** Why DuckDB cannot have the tables of a result, a hash table over half of them, and that result. */
export function duckdbMisfit(cell, room) {
    const needed = Math.ceil(inputBytes({ kind: kindOf(cell.result), ...cell }) * 1.5) + keptBytes(cell);
    if (needed > duckdbBudget(room)) {
        return `its tables and result take ${gib(needed)}, and ${gib(duckdbBudget(room))} are for them`;
    }
    const disk = cell.result === "file" ? joinedBytes(cell) : 0;
    return disk > room.diskBytes ? `its file takes ${gib(disk)}, and ${gib(room.diskBytes)} are free` : undefined;
}

/** What is run, and how often. */
export function workloadOf(cell, { samples, hostBytes, threads }) {
    const { result, from, columns, bits, limit } = cell;
    const payload = Array.from({ length: columns }, () => columnBytes);
    const rows = 2 ** bits;
    const grouped = kindOf(result) === "group";
    return {
        ...{ name: nameOf(cell), result, from, columns },
        rows: grouped ? { probe: rows } : { build: rows, probe: rows },
        ...(grouped ? { groups: groupsOf(bits) } : {}),
        ...{ key_bytes: columnBytes, payload_bytes: grouped ? { probe: payload } : { build: payload, probe: payload } },
        ...(limit === undefined ? {} : { device_limit: limit }),
        ...{ host_limit_bytes: hostBytes, threads, runs: samples }
    };
}

/** Stages of a query with what each was expected to take; of those on the GPU the bytes that they moved. */
function stagesOf(report) {
    return report.stages.map(({ name, actualMs, predictedMs, device }) => ({
        ...{ name, ms: round(actualMs), predicted_ms: round(predictedMs) },
        ...(device?.movedBytes === undefined ? {} : { bytes: device.movedBytes })
    }));
}

/** Bytes over the link: those that stages out of core tell of, else what went to GPU memory and what came back. */
function bytesOnLink(report) {
    if (report.device !== "gpu") return {};
    return { link_bytes: { h2d: report.uploadedBytes, d2h: report.downloadedBytes }, ...linkOf(report) };
}

/** Gigabytes of the result in a second; of what is read where the result is a number or a row of sums. */
function rateOf(cell, resultBytes, medianMs) {
    const few = cell.result === "count" || cell.result === "sums";
    const bytes = few ? readBytes(cell) : resultBytes;
    return {
        ...(few ? { input_bytes: bytes } : { result_bytes: bytes }),
        ...{ gb_per_s: Number((bytes / medianMs / 1e6).toPrecision(4)), gb_per_s_of: few ? "input" : "result" }
    };
}

/** The record of a cell from what its process measured. */
export function recordOf(cell, measured, setting) {
    const { samples, hostBytes, threads, device, date, commit } = setting;
    const about = { experiment: "node-delivery", workload: workloadOf(cell, { samples, hostBytes, threads }) };
    if (measured.refused !== undefined) return { ...about, refused: measured.refused, device, date, commit };
    const { report, times, coldMs, coldOf, rows, checksum, resident } = measured;
    const median_ms = round(medianOf(times));
    const onDevice = report.device === "gpu" ? { device: report.devicePeakBytes } : {};
    return {
        ...about,
        algorithm: report.stages.map((stage) => stage.algorithm).join("; "),
        ...{ median_ms, samples_ms: times.map(round), cold_ms: round(coldMs), cold_of: coldOf },
        ...{ rows_in: report.rowsIn, rows_out: rows, ...rateOf(cell, report.bytesOut, median_ms) },
        ...{ predicted_ms: round(report.predictedMs), stages: stagesOf(report), ...bytesOnLink(report) },
        ...(resident.peak === undefined
            ? {}
            : {
                  peak_bytes: { host: resident.peak, ...onDevice },
                  resident_bytes: Math.max(0, resident.peak - resident.before)
              }),
        ...{ resident_before_bytes: resident.before, resident_after_bytes: resident.after },
        ...{ checksum, device, date, commit }
    };
}
