// SPDX-License-Identifier: Apache-2.0
// The arithmetic of joins beyond GPU memory: what each link will carry, known before the join runs, and the time that
// this takes at the links' rates. Only built-in modules: a GPU machine may have no others.
import { droppedShare, filterBits } from "./gpu-filter-plan.mjs";
import { tablePhases } from "./gpu-table-plan.mjs";

const bitsOf = (values) => Math.ceil(Math.log2(Math.max(2, values)));
const sum = (values) => values.reduce((total, value) => total + value, 0);

/**
 * Bytes of a spilled row. Packed, a field takes as many bits as its range within a chunk has: keys come from all of
 * their domain in every chunk, or go as their mixed bits without those that the partition has in common; dense payloads
 * are row numbers and so a chunk's rows, random ones all of their width.
 */
function spilledRowBytes({ workload, sizes }, side, packed) {
    const widths = workload.payload_bytes[side];
    if (!packed) return workload.key_bytes + sum(widths);
    const distinct = workload.distinct_keys ?? workload.build_rows;
    const domain = side === "build" ? distinct : distinct / workload.match_ratio;
    const key = Math.min(bitsOf(domain), 8 * workload.key_bytes - sizes.radix_bits);
    const column = (bytes) => (workload.payload_values === "random" ? 8 * bytes : bitsOf(sizes.chunk_rows));
    return (key + sum(widths.map((bytes) => Math.min(8 * bytes, column(bytes))))) / 8;
}

// The share of rows that stays in GPU memory, of the build side where probe rows are joined as they arrive and of both
// where all are partitioned first; whether the others are packed.
const storage = {
    staged: ({ sizes }) => ({ resident: sizes.resident_partitions / 2 ** sizes.radix_bits, packed: true }),
    "staged-uncached": () => ({ resident: 0, packed: false }),
    "stream-probe": () => ({ resident: 1, packed: false }),
    triton: (record) => ({ resident: nearShare(record), packed: false, joinsLast: true })
};

/**
 * Of the coherent join's pages: told where they take turns, as k of k + m; else as the join counted rows, for how many
 * pages GPU memory had room is up to buffers that no size in the record tells.
 */
function nearShare({ coherent: { device_pages = 0, far_pages = 0 } = {}, spilled_rows, rows_in }) {
    if (device_pages + far_pages > 0) return device_pages / (device_pages + far_pages);
    return 1 - (spilled_rows.build + spilled_rows.probe) / rows_in;
}

/**
 * Bytes by phase and direction. Probe rows of spilled partitions are as many as keys are evenly spread, without those
 * that a filter drops.
 */
function plannedPhases(record, { resident, packed, joinsLast = false }) {
    const { workload } = record;
    const { build_rows, probe_rows } = workload;
    const bytes = { key: workload.key_bytes, build: sum(workload.payload_bytes.build) };
    bytes.probe = sum(workload.payload_bytes.probe);
    const rows = { build: build_rows, probe: probe_rows * (1 - droppedShare(record)) };
    const spilled = (side) => rows[side] * (1 - resident) * spilledRowBytes(record, side, packed);
    const result = workload.result === "rows" ? record.rows_out * (bytes.key + bytes.build + bytes.probe) : 0;
    return {
        build: { inputs: build_rows * (bytes.key + bytes.build), back: 0, spilled: spilled("build"), result: 0 },
        probe: {
            inputs: probe_rows * (bytes.key + bytes.probe),
            ...{ back: 0, spilled: spilled("probe"), result: joinsLast ? 0 : result * resident }
        },
        spilled: {
            ...{ inputs: 0, back: spilled("build") + spilled("probe") },
            ...{ spilled: 0, result: joinsLast ? result : result * (1 - resident) }
        }
    };
}

/**
 * Joined after the CPU has partitioned both sides in host memory, a time of which this knows nothing: unpacked, once.
 * Probe rows of a build partition that cannot be indexed at once come again, which is of skewed keys.
 */
function cpuPartitionedPhases({ workload, rows_out }) {
    const { key_bytes, payload_bytes, build_rows, probe_rows } = workload;
    const [build, probe] = ["build", "probe"].map((side) => sum(payload_bytes[side]));
    const bytes = (columns) => 4 * Math.ceil((key_bytes + columns) / 4);
    const result = workload.result === "rows" ? rows_out * (key_bytes + build + probe) : 0;
    return { spilled: { inputs: build_rows * bytes(build) + probe_rows * bytes(probe), back: 0, spilled: 0, result } };
}

const otherPhases = {
    "cpu-partitioned": cpuPartitionedPhases,
    "npj-far": (record) => tablePhases(record, false),
    "npj-far-perfect": (record) => tablePhases(record, true)
};

function phasesOf(record) {
    const how = storage[record.algorithm]?.(record);
    return how === undefined ? otherPhases[record.algorithm]?.(record) : plannedPhases(record, how);
}

function byLink({ inputs, back, spilled, result }, { inputs: place, spill = "host" }) {
    const links = { h2d: 0, d2h: 0, peer: 0, peer_out: 0 };
    links[place === "peer" ? "peer" : "h2d"] += inputs;
    links[spill === "peer" ? "peer" : "h2d"] += back;
    links[spill === "peer" ? "peer_out" : "d2h"] += spilled;
    links.d2h += result;
    return links;
}

const names = ({ inputs, spill = "host" }) =>
    inputs === "peer" || spill === "peer" ? ["h2d", "d2h", "peer", "peer_out"] : ["h2d", "d2h"];

const directions = { host: ["h2d", "d2h"], peer: ["peer", "peer_out"] };

/**
 * Links are free of each other; both directions of one share what it moves at once, where that was measured. Of copies,
 * that is: between two GPUs they move 391 GB/s in both directions together, where kernels move 650
 * (out-of-core-partition-peer).
 */
function timeOf(links, { algorithm, copy_gb_per_s: rates, copy_both_gb_per_s: measured = {} }) {
    const both = algorithm === "triton" ? { host: measured.host } : measured;
    const time = (bytes, rate) => (bytes === 0 || rate === undefined ? 0 : bytes / rate / 1e6);
    const alone = Object.entries(links).map(([link, bytes]) => time(bytes, rates[link]));
    const shared = Object.entries(directions).map(([link, [into, out]]) => time(links[into] + links[out], both[link]));
    return Math.max(...alone, ...shared);
}

const rounded = (value) => Number(value.toPrecision(6));

/**
 * What a record's join was expected to move and to take, from its workload, its sizes and the links' rates alone;
 * undefined for algorithms whose bytes no formula here knows. One phase follows the other.
 */
export function predictJoin(record) {
    if (record.copy_gb_per_s === undefined || record.sizes === undefined) return undefined;
    const planned = phasesOf(record);
    if (planned === undefined) return undefined;
    const phases = Object.entries(planned).map(([phase, bytes]) => {
        const links = byLink(bytes, record.workload);
        return { phase, links, ms: timeOf(links, record) };
    });
    const total = (link) => sum(phases.map(({ links }) => links[link]));
    const links = names(record.workload);
    const dropped_rows = Math.round(record.workload.probe_rows * droppedShare(record));
    return {
        ...(record.sizes.filter_words === undefined ? {} : { dropped_rows }),
        link_bytes: Object.fromEntries(links.map((link) => [link, Math.round(total(link))])),
        bytes_per_tuple: Object.fromEntries(links.map((link) => [link, rounded(total(link) / record.rows_in)])),
        phases: Object.fromEntries(phases.map(({ phase, ms }) => [`${phase}_ms`, rounded(ms)])),
        ms: rounded(sum(phases.map(({ ms }) => ms)))
    };
}

/** Bytes per link and row. */
export function bytesPerTuple(bytes, rows) {
    return Object.fromEntries(Object.entries(bytes).map(([link, value]) => [link, rounded(value / rows)]));
}

/**
 * The record with its prediction, and the links' actual bytes per row of both sides. Its workload has the bits of the
 * filter that the join had: the program knows words alone, which memory or an option by hand may have made others than
 * were planned.
 */
export function withJoinPrediction(record, { workload, baseline = false }) {
    const { planned_link_bytes: planned, link_bytes: moved, rows_in } = record;
    const predicted = predictJoin(record);
    const filter_bits = filterBits(record);
    return {
        ...record,
        ...(filter_bits === undefined ? {} : { workload: { ...record.workload, filter_bits: rounded(filter_bits) } }),
        ...(moved === undefined ? {} : { link_bytes_per_tuple: bytesPerTuple(moved, rows_in) }),
        ...(planned === undefined ? {} : { planned_link_bytes_per_tuple: bytesPerTuple(planned, rows_in) }),
        ...(predicted === undefined ? {} : { predicted }),
        ...(baseline ? {} : targetsOf(workload))
    };
}

/** A workload's targets, as a record has them. */
export function targetsOf(workload) {
    const found = Object.entries(workload).filter(([name]) => name.startsWith("target_"));
    if (found.length === 0) return {};
    return { targets: Object.fromEntries(found.map(([name, value]) => [name.slice("target_".length), value])) };
}
