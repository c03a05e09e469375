// SPDX-License-Identifier: Apache-2.0
// Figures of joins beyond GPU memory.
import { predictJoin } from "./gpu-link-plan.mjs";
import { runLabel } from "./gpu-report.mjs";
import { barFigure, byX, lineFigure, settingOf, unique } from "./plot-figures.mjs";

const rate = "G rows of both sides per second";
const plannedLine = "planned bytes at the link's rate";
const joinLines = ["measured", plannedLine];
const ticks = "black tick: the planned bytes at the links' rates";

/** The rate that its bytes allow a join at the rates of the links. */
function plannedRate(record) {
    const predicted = record.copy_gb_per_s === undefined ? undefined : predictJoin(record);
    return predicted === undefined ? undefined : record.rows_in / predicted.ms / 1e6;
}

/** Each join's rate, and the planned one; `namesOf`: what their lines are called. */
function joinValues(records, xOf, namesOf) {
    const values = records.flatMap((record) => {
        const x = xOf(record.workload);
        const planned = plannedRate(record);
        const [measuredName, plannedName] = namesOf(record.workload);
        const line = { x, y: record.g_tuples_per_s, line: measuredName };
        return planned === undefined ? [line] : [line, { x, y: planned, line: plannedName }];
    });
    return byX(values);
}

/**
 * Lines over what `xOf` says of a workload, of their own for each that `lineOf` names, if it is there; undefined: there
 * is one place alone.
 */
export function joinLineFigure(records, { title, x, xOf, scale, lineOf }) {
    const kinds = lineOf === undefined ? [] : unique(records.map(({ workload }) => lineOf(workload)));
    const several = kinds.length > 1;
    const named = (kind) => [kind, `planned, ${kind}`];
    const values = joinValues(records, xOf, (workload) => (several ? named(lineOf(workload)) : joinLines));
    if (unique(values.map((value) => value.x)).length < 2) return undefined; // no line
    const setting = settingOf(records[0]);
    const subtitle = several ? [setting, "dashed: planned bytes at the link's rate"] : setting;
    const lines = several ? kinds.flatMap(named) : joinLines;
    return lineFigure({ title, subtitle, values, x, y: rate, scale, lines });
}

/** Its rate, or so many times DuckDB's in the same run. */
function targetOf({ targets = {}, workload }, records) {
    if (targets.g_tuples_per_s !== undefined || targets.times_duckdb === undefined) return targets.g_tuples_per_s;
    const other = records.find((one) => one.algorithm === "duckdb" && one.workload.name === workload.name);
    return other === undefined ? undefined : targets.times_duckdb * other.g_tuples_per_s;
}

/** A bar per run, in a panel per workload where there are several algorithms. */
export function joinBars(records, title) {
    const several = unique(records.map(runLabel)).length > 1;
    const values = records.map((record) => ({
        ...(several ? { panel: record.workload.name, row: runLabel(record) } : { row: record.workload.name }),
        ...{ value: record.g_tuples_per_s, planned: plannedRate(record), target: targetOf(record, records) }
    }));
    const aims = values.some(({ target }) => target !== undefined) ? "; red line: target" : "";
    const subtitle = [settingOf(records.find(({ link_bytes }) => link_bytes) ?? records[0]), `${ticks}${aims}`];
    return barFigure({ title, subtitle, values, x: rate });
}

const phases = { build_ms: "build side in", probe_ms: "probe side in", spilled_ms: "spilled partitions" };

/** Time per row, so that sizes can be compared. */
export function breakdownFigure(records) {
    const values = records.flatMap((record) => {
        const perRow = (ms) => (ms * 1e6) / record.rows_in;
        const total = perRow(predictJoin(record)?.ms ?? NaN);
        return Object.entries(phases).map(([phase, part], index) => ({
            ...{ panel: record.algorithm, row: record.workload.name, part, value: perRow(record.phases[phase]) },
            planned: index === 0 && total > 0 ? total : undefined
        }));
    });
    return barFigure({
        title: "Where the time of joins goes, with partitions that stay in GPU memory and without (uncached)",
        subtitle: [settingOf(records[0], "lower is better"), ticks],
        ...{ values, x: "ns per row of both sides", parts: Object.values(phases) }
    });
}

const shareAxes = {
    grid: "blocks of the first pass",
    "gather-grid": "blocks of the second pass",
    "busy-multiprocessors": "multiprocessors that others keep busy"
};

export function smShareFigure(records) {
    const values = records.flatMap(({ algorithm, options = {}, g_tuples_per_s }) =>
        Object.entries(shareAxes)
            .filter(([option]) => options[option] !== undefined)
            .map(([option, panel]) => ({
                ...{ panel, x: options[option], y: g_tuples_per_s },
                line: options.partitioner === undefined ? algorithm : `${algorithm}, ${options.partitioner}`
            }))
    );
    const lines = unique(values.map(({ line }) => line));
    return lineFigure({
        title: `Joins with a share of the GPU's multiprocessors, ${records[0].workload.name}`,
        subtitle: settingOf(records[0]),
        ...{ values, x: "blocks or multiprocessors", y: rate, scale: "linear", lines }
    });
}

export function interleaveFigure(records) {
    const values = records.flatMap((record) => {
        const { options, g_tuples_per_s } = record;
        const [near, far] = [options["device-pages"], options["far-pages"]];
        const [x, line] = [(near / (near + far)) * 100, options.partitioner];
        const planned = plannedRate(record);
        const lines = [{ x, y: g_tuples_per_s, line }];
        return planned === undefined ? lines : [...lines, { x, y: planned, line: `planned, ${line}` }];
    });
    return lineFigure({
        title: `Coherent join, pages of GPU and far memory in turns, ${records[0].workload.name}`,
        subtitle: [settingOf(records[0]), "dashed: planned bytes at the links' rates"],
        ...{ values: byX(values), x: "% of the pages in GPU memory", y: rate, scale: "linear" },
        lines: unique(values.map(({ line }) => line))
    });
}
