// SPDX-License-Identifier: Apache-2.0
// Experiments that are written as the sizes of a grid become the lists of workloads that test/bench/gpu.mjs runs. Only
// built-in modules: a GPU machine may have no others.
import { drawnWorkloads } from "./gpu-drawn.mjs";
import { farGroupCell } from "./gpu-far-group-by.mjs";
import { outOfCoreCell } from "./gpu-out-of-core.mjs";
import { partitionCell } from "./gpu-partition.mjs";
import { tierCell } from "./gpu-tiers.mjs";

function power(rows) {
    const bits = Math.log2(rows);
    return Number.isInteger(bits) ? `2^${bits}` : String(rows);
}

const percent = (share) => `${Number((share * 100).toPrecision(3))} %`;

function* product(axes) {
    const [first, ...others] = Object.entries(axes);
    if (first === undefined) return void (yield {});
    const [name, values] = first;
    for (const value of values)
        for (const rest of product(Object.fromEntries(others))) yield { [name]: value, ...rest };
}

function widths(columns, bytes) {
    return Array.from({ length: columns }, () => bytes);
}

function joinCell({ rows, columns, bytes, match_ratio, zipf }) {
    const [build_rows, probe_rows] = rows.map((bits) => 2 ** bits);
    const [key_bytes, payload] = bytes;
    const about = [
        `${power(build_rows)} x ${power(probe_rows)}`,
        `${columns}+${columns}`,
        `${key_bytes} B keys ${payload} B payloads`,
        match_ratio === 1 ? "" : `match ratio ${percent(match_ratio)}`,
        zipf === 0 ? "" : `Zipf ${zipf.toFixed(1)}`
    ];
    return {
        name: about.filter((part) => part !== "").join(", "),
        key_bytes,
        payload_bytes: { build: widths(columns, payload), probe: widths(columns, payload) },
        ...{ build_rows, probe_rows, match_ratio, zipf }
    };
}

function groupCell({ rows, groups, columns, bytes, zipf, hot_share = 0, aggregate = "max" }) {
    const [key_bytes, payload] = bytes;
    const about = [
        `${power(2 ** rows)} rows`,
        `g = ${power(2 ** groups)}`,
        `${columns} x ${payload} B by ${key_bytes} B`,
        aggregate === "max" ? "" : aggregate,
        zipf === 0 ? "" : `Zipf ${Number.isInteger(zipf) ? zipf.toFixed(1) : zipf}`,
        hot_share === 0 ? "" : `one key ${percent(hot_share)}`
    ];
    return {
        name: about.filter((part) => part !== "").join(", "),
        key_bytes,
        payload_bytes: widths(columns, payload),
        ...{ rows: 2 ** rows, groups: 2 ** groups, zipf },
        ...(hot_share === 0 ? {} : { hot_share }),
        ...(aggregate === "max" ? {} : { aggregate })
    };
}

const cellsOf = {
    "group-by": groupCell,
    "out-of-core": outOfCoreCell,
    "out-of-core-group-by": farGroupCell,
    partition: partitionCell,
    tiers: tierCell
};

/**
 * Cells of one operator; each grid is all combinations of its axes, and a cell of two grids is one. `targets_ms`: of
 * cells by their names.
 */
export function gridWorkloads({ operator, grids, targets_ms = {} }) {
    const cell = cellsOf[operator] ?? joinCell;
    const withTarget = (workload) =>
        targets_ms[workload.name] === undefined ? workload : { ...workload, target_ms: targets_ms[workload.name] };
    const cells = grids.flatMap((axes) => [...product(axes)].map(cell).map(withTarget));
    const unknown = Object.keys(targets_ms).find((name) => cells.every((workload) => workload.name !== name));
    if (unknown !== undefined) throw new Error(`There is no cell with the name '${unknown}' for its target.`);
    return [...new Map(cells.map((workload) => [workload.name, workload])).values()];
}

/**
 * The parts of an experiment, each with the workloads of one operator: one for a list of workloads, those of `parts`
 * for a grid and for cells that are drawn.
 */
export function experimentParts(config) {
    if (config.parts === undefined) return [config];
    return config.parts.map((part) => ({
        baselines: [],
        ...part,
        experiment: config.experiment,
        workloads: part.drawn === undefined ? gridWorkloads(part) : drawnWorkloads(part)
    }));
}
