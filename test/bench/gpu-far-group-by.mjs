// SPDX-License-Identifier: Apache-2.0
// Group-bys beyond GPU memory in the GPU benchmark: their workloads, what the program is told of them, their table.
// Only built-in modules: a GPU machine may have no others.
import { bytesPerTuple, targetsOf } from "./gpu-link-plan.mjs";
import { table } from "./gpu-report.mjs";

const gib = 2 ** 30;

/** One cell of a grid; keys and the one column have 8 bytes. */
export function farGroupCell(axes) {
    const { rows, groups, limit_gib, zipf = 0, aggregate = "sum" } = axes;
    const about = [
        `2^${rows} rows`,
        `g = 2^${groups}`,
        `${limit_gib} GiB`,
        aggregate === "sum" ? "" : aggregate,
        zipf === 0 ? "" : `Zipf ${zipf.toFixed(1)}`
    ];
    const aims = ["target_g_rows_per_s", "target_link_efficiency"];
    return {
        name: about.filter((part) => part !== "").join(", "),
        key_bytes: 8,
        payload_bytes: 8,
        ...{ rows: 2 ** rows, groups: 2 ** groups, zipf, aggregate, memory_limit_bytes: limit_gib * gib },
        ...Object.fromEntries(aims.filter((aim) => axes[aim] !== undefined).map((aim) => [aim, axes[aim]]))
    };
}

/** Arguments of spillway_gpu_bench for one run, whose options have all sizes; `extra` has others by name. */
export function farGroupArguments({ workload, options: own = {} }, extra = {}) {
    const { key_bytes, payload_bytes, rows, groups, zipf, aggregate, memory_limit_bytes } = workload;
    const options = {
        ...{ "key-bytes": key_bytes, payload: payload_bytes, rows, groups, zipf, aggregate },
        ...own,
        ...extra,
        "memory-limit": memory_limit_bytes // what the workload is about: no option changes it
    };
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    return ["out-of-core-group-by", ...given.flatMap(([name, value]) => [`--${name}`, String(value)])];
}

/** The record with the planned time of each phase: one follows the other, links' directions are free of each other. */
export function withGroupPrediction(record, { workload }) {
    const { workload: of, copy_gb_per_s: rates, spilled_bytes, groups, planned_link_bytes: planned } = record;
    const time = (h2d, d2h) => Number(Math.max(h2d / rates.h2d / 1e6, d2h / rates.d2h / 1e6).toPrecision(6));
    const phases = {
        read_ms: time(of.rows * (of.key_bytes + of.payload_bytes), spilled_bytes),
        // Results of resident and of spilled partitions are told apart by no counter: all of them here.
        results_ms: time(spilled_bytes, groups * (of.key_bytes + (of.aggregate === "max" ? of.payload_bytes : 8)))
    };
    return {
        ...record,
        link_bytes_per_tuple: bytesPerTuple(record.link_bytes, of.rows),
        planned_link_bytes_per_tuple: bytesPerTuple(planned, of.rows),
        predicted: { phases, ms: Number((phases.read_ms + phases.results_ms).toPrecision(6)) },
        ...targetsOf(workload)
    };
}

function verdict(record, { target_g_rows_per_s, target_link_efficiency }) {
    const rate = record.g_rows_per_s / target_g_rows_per_s;
    const said = [
        target_g_rows_per_s === undefined ? "" : rate >= 1 ? "met" : `MISSED by ${((1 - rate) * 100).toFixed(0)} %`,
        record.link_efficiency < target_link_efficiency ? "LINK" : ""
    ];
    return said.filter((part) => part !== "").join(", ");
}

/** One line per run: rows per second, time by phase beside the planned, share of the link, what was spilled. */
export function farGroupTable(results) {
    const one = (value) => (value === undefined ? "-" : value.toFixed(1));
    const two = (value) => (value === undefined ? "-" : value.toFixed(2));
    const rows = results.map(({ run: { workload, algorithm }, record }) => {
        const setting = [workload.name, algorithm];
        if (record === null) return [...setting, ...Array(11).fill("-"), "FAILED"];
        const { median_ms, phases, predicted, planned_link_bytes_per_tuple: planned } = record;
        return [
            ...setting,
            two(record.g_rows_per_s),
            ...[median_ms, predicted?.ms, phases.read_ms, phases.resident_ms, phases.spilled_ms].map(one),
            ...[planned?.h2d, planned?.d2h, record.link_efficiency].map(two),
            `${((record.spilled_rows / workload.rows) * 100).toFixed(0)} %`,
            record.verified ? "yes" : "NO",
            verdict(record, workload)
        ];
    });
    const titles = ["workload", "algorithm", "G rows/s", "median ms", "predicted", "read", "resident", "spilled"];
    return table([...titles, "B in", "B out", "link", "spilled rows", "verified", ""], rows);
}
