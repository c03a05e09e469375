// SPDX-License-Identifier: Apache-2.0
// Partitioners over far memory in the GPU benchmark: their workloads, what the program is told of them, their table.
// Only built-in modules: a GPU machine may have no others.
import { bytesPerTuple } from "./gpu-link-plan.mjs";
import { table, without } from "./gpu-report.mjs";

/** One cell of a grid: a number of partitions, 2^bits, from one place into another. */
export function partitionCell(axes) {
    const { rows, bits, source = "host", destination = "host", form = "pages", histogram, grid, tuple = 16 } = axes;
    const about = [
        `2^${rows} rows`,
        tuple === 16 ? "" : `${tuple} B`,
        `${source} to ${destination}`,
        form,
        histogram === undefined ? "" : `histogram by ${histogram.toUpperCase()}`,
        grid === undefined ? "" : `${grid} blocks`,
        `fan-out 2^${bits}`
    ];
    return {
        name: about.filter((part) => part !== "").join(", "),
        rows: Math.floor(2 ** rows),
        tuple_bytes: tuple,
        ...{ bits, source, destination, form, histogram, grid }
    };
}

/** Runs that one process makes, since they have rows and memory in common: all fan-outs of a partitioner. */
export function partitionGroups(runs) {
    const groups = new Map();
    for (const run of runs) {
        const key = JSON.stringify([run.algorithm, without(run.workload, "name", "bits"), run.options]);
        groups.set(key, [...(groups.get(key) ?? []), run]);
    }
    return [...groups.values()];
}

/** Arguments of spillway_gpu_bench for runs that differ in their bits alone. */
export function partitionArguments(runs, extra = {}) {
    const [{ workload, algorithm, options: own = {} }] = runs;
    const bits = runs.map((run) => run.workload.bits);
    const { tuple_bytes, rows, source, destination, form, histogram, grid } = workload;
    const options = {
        ...{ rows, "tuple-bytes": tuple_bytes, bits: bits.join(",") },
        ...{ partitioner: algorithm, source, destination, form, histogram, grid },
        ...own,
        ...extra
    };
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    return ["partition", ...given.flatMap(([name, value]) => [`--${name}`, String(value)])];
}

/**
 * The record with the bytes of each link per row, which are arithmetic, and the time that they take as fast as kernels
 * stream: both ways at once where both are used. What the CPU counts is not in it; between places of one GPU there is
 * no link.
 */
export function withPartitionPrediction(record) {
    const { planned_link_bytes: planned, planned_link_ms = 0, both_ways_ms, rows_in } = record;
    const ms = both_ways_ms ?? planned_link_ms;
    return {
        ...record,
        ...(planned === undefined ? {} : { planned_link_bytes_per_tuple: bytesPerTuple(planned, rows_in) }),
        ...(ms > 0 ? { predicted: { ms } } : {})
    };
}

/**
 * One line per run: GB/s of the rows, each once; the time that what must pass each link takes as fast as kernels stream
 * that do nothing else, one way at a time and both ways at once, and what share of the measured time that is.
 */
export function partitionTable(results) {
    const ms = (value) => (value === undefined ? "-" : value.toFixed(1));
    const share = (value) => (value === undefined ? "-" : value.toFixed(2));
    const rows = results.map(({ run: { workload, algorithm }, record, skipped }) => {
        const setting = [workload.name, algorithm];
        if (record === null) return [...setting, ...Array(8).fill("-"), skipped ?? "FAILED"];
        const { median_ms, phases, gb_per_s, planned_link_ms, link_efficiency, both_ways_ms, both_ways_share } = record;
        return [
            ...setting,
            ...[record.g_tuples_per_s, gb_per_s].map(share),
            ms(median_ms),
            ms(phases?.histogram_ms),
            ...[ms(planned_link_ms), share(link_efficiency)],
            ...[ms(both_ways_ms), share(both_ways_share)],
            record.verified ? "yes" : "NO"
        ];
    });
    const titles = ["workload", "partitioner", "G tuples/s", "GB/s", "median ms", "histogram ms", "link ms", "share"];
    return table([...titles, "both ways ms", "share", "verified"], rows);
}
