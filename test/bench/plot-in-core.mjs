// SPDX-License-Identifier: Apache-2.0
/**
 * `node test/bench/plot-in-core.mjs [docs/results/h200]`: figures of the records of that folder, beside them as SVG: of
 * joins and group-bys in GPU memory by the width of rows and the skew of keys, and of what the planner takes for shapes
 * that were drawn at random. What has no records has no figure.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { useOf } from "./gpu-drawn.mjs";
import { byX, lineFigure, power, settingOf, unique } from "./plot-figures.mjs";

const lowerIsBetter = (record) => settingOf(record, "lower is better");
const algorithmsOf = (records) => unique(records.map(({ algorithm }) => algorithm));
const ofGroups = ({ workload }) => workload.groups !== undefined;

/** Joins whose rows all match, with one width of columns on both sides; `widths`: of key and columns. */
function widthFigure(records) {
    const joins = records.filter(
        (record) => !ofGroups(record) && record.workload.match_ratio === 1 && record.workload.zipf === 0
    );
    const groups = records.filter(ofGroups);
    const joinValues = joins.map(({ workload, algorithm, median_ms }) => ({
        ...{ x: workload.payload_bytes.build.length, y: median_ms, line: algorithm },
        panel: `joins, keys of ${workload.key_bytes} bytes, columns of ${workload.payload_bytes.build[0]} a side`
    }));
    const groupValues = groups.map(({ workload, algorithm, median_ms }) => ({
        ...{ x: workload.payload_bytes.length, y: median_ms, line: algorithm },
        panel: `sums, ${power(workload.groups)} groups of ${power(workload.rows)} rows`
    }));
    const values = byX([...joinValues, ...groupValues]);
    return lineFigure({
        title: `Joins of ${power(joins[0].workload.build_rows)} rows a side and group-bys, by the number of columns`,
        subtitle: lowerIsBetter(records[0]),
        ...{ values, x: "columns", y: "ms", lines: algorithmsOf(records) }
    });
}

function skewFigure(records) {
    const values = records.map(({ workload, algorithm, median_ms }) => ({
        ...{ x: Math.log2(workload.groups), y: median_ms, line: algorithm },
        panel: workload.hot_share === undefined ? `Zipf ${workload.zipf}` : `a key with ${workload.hot_share * 100} %`
    }));
    return lineFigure({
        title: `Two sums of ${power(records[0].workload.rows)} rows by keys of any skew`,
        subtitle: lowerIsBetter(records[0]),
        ...{ values: byX(values), x: "log2 of the groups", y: "ms", lines: algorithmsOf(records) }
    });
}

/** Each pick at its share of the fastest algorithm's time, by that time: a point at 1 is the fastest one. */
function picksFigure(records) {
    const picks = records.filter(({ picked }) => picked === true);
    const values = picks.flatMap((record) => {
        const { workload, median_ms, ratio, predicted_ms } = record;
        const x = Math.log2(median_ms / ratio);
        const panel = ofGroups(record) ? "group-bys" : "joins";
        const use = useOf(workload.name) === "fit" ? "models fitted to it" : "judged";
        return [
            { x, y: ratio, line: use, panel: `${panel}: pick by the fastest` },
            { x, y: predicted_ms / median_ms, line: use, panel: `${panel}: predicted by measured` }
        ];
    });
    return lineFigure({
        title: `What the planner takes for ${picks.length} joins and group-bys that were drawn at random`,
        subtitle: settingOf(records[0], "1 is the fastest algorithm, and a right prediction"),
        ...{ values: byX(values), x: "log2 of the fastest algorithm's ms", y: "ratio" },
        ...{ lines: unique(values.map(({ line }) => line)), points: true }
    });
}

const figures = { "in-core-wide": widthFigure, "in-core-skew": skewFigure, "in-core-picks": picksFigure };

/** Names of the files that were written. */
export async function plotInCore(folder) {
    const written = [];
    for (const [name, figure] of Object.entries(figures)) {
        const file = join(folder, `${name}.json`);
        if (!existsSync(file)) continue;
        writeFileSync(join(folder, `${name}.svg`), await figure(JSON.parse(readFileSync(file, "utf8"))));
        written.push(`${name}.svg`);
    }
    return written;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
    const written = await plotInCore(process.argv[2] ?? "docs/results/h200");
    console.log(written.length === 0 ? "There are no records to plot." : `Wrote ${written.join(", ")}.`);
}
