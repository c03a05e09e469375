// SPDX-License-Identifier: Apache-2.0
/**
 * `node test/bench/plot-out-of-core.mjs [docs/results/h200]`: figures of the records of that folder, beside them as
 * SVG: throughput of joins by size and by limit of GPU memory, of partitioners by fan-out and by share of the GPU.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { predictJoin } from "./gpu-link-plan.mjs";
import { renderFigure } from "./plot.mjs";

const gib = 2 ** 30;

/** Lines over an axis of powers of two. values: [{ x, y, line }], or with `panel` in panels side by side. */
function figure({ title, subtitle, values, x, y, lines }) {
    const legend = { labelLimit: 300 };
    const encoding = {
        x: {
            field: "x",
            type: "quantitative",
            title: x,
            ...(x.includes("log2") ? {} : { scale: { type: "log", base: 2 } }),
            axis: { grid: false }
        },
        y: { field: "y", type: "quantitative", title: y, scale: { zero: true } },
        color: { field: "line", type: "nominal", title: null, legend, scale: { domain: lines, scheme: "tableau10" } },
        strokeDash: {
            field: "line",
            type: "nominal",
            ...{ title: null, legend }, // those of the colour: one legend for both
            scale: { domain: lines, range: lines.map((line) => (line.startsWith("planned") ? [4, 3] : [1, 0])) }
        }
    };
    const mark = { type: "line", point: { size: 25 }, tooltip: false };
    const panels = [...new Set(values.map(({ panel }) => panel))];
    const layout =
        panels.length === 1
            ? { width: 420, height: 260, mark, encoding }
            : {
                  facet: { field: "panel", title: null, sort: panels },
                  spec: { width: 320, height: 240, mark, encoding }
              };
    return renderFigure({ title: { text: title, subtitle, anchor: "start" }, data: { values }, ...layout });
}

const settingOf = ({ device, samples_ms }) => `${device}, median of ${samples_ms.length} runs; higher is better`;

/** Each join's rate, and the one that its bytes allow at the rates of the links. */
function joinValues(records, xOf) {
    return records.flatMap((record) => {
        const x = xOf(record.workload);
        const predicted = predictJoin(record);
        const line = { x, y: record.g_tuples_per_s, line: "measured" };
        if (predicted === undefined) return [line];
        return [line, { x, y: record.rows_in / predicted.ms / 1e6, line: "planned bytes at the link's rate" }];
    });
}

const joinLines = ["measured", "planned bytes at the link's rate"];
const rate = "G rows of both sides per second";

/** Figures by experiment: of its records, which are not empty. */
export const figures = {
    "out-of-core-sizes": (records) =>
        figure({
            title: `Joins of two relations, at most ${records[0].workload.memory_limit_bytes / gib} GiB of GPU memory`,
            subtitle: settingOf(records[0]),
            values: joinValues(records, ({ build_rows }) => Math.log2(build_rows)),
            ...{ x: "log2 of the rows of each side, 16 bytes", y: rate, lines: joinLines }
        }),
    "out-of-core-device-limit": (records) =>
        figure({
            title: `Joins of 2^${Math.log2(records[0].workload.build_rows)} rows with as many`,
            subtitle: settingOf(records[0]),
            values: joinValues(records, ({ memory_limit_bytes }) => memory_limit_bytes / gib),
            ...{ x: "GiB of GPU memory at most", y: rate, lines: joinLines }
        }),
    "out-of-core-partition": (records) => fanOutFigure(records),
    "out-of-core-partition-contiguous": (records) => fanOutFigure(records),
    "out-of-core-partition-peer": (records) => fanOutFigure(records),
    "out-of-core-multiprocessors": (records) =>
        figure({
            title: `Partitioners from host to host memory, fan-out 2^${records[0].workload.bits}`,
            subtitle: settingOf(records[0]),
            values: records.map(({ workload, algorithm, gb_per_s }) => ({
                ...{ x: workload.grid, y: gb_per_s, line: algorithm }
            })),
            ...{ x: "blocks, at most one for each multiprocessor", y: "GB/s", lines: algorithmsOf(records) }
        })
};

const algorithmsOf = (records) => [...new Set(records.map(({ algorithm }) => algorithm))];

function fanOutFigure(records) {
    return figure({
        title: `Partitioners, ${records[0].workload.tuple_bytes}-byte rows`,
        subtitle: settingOf(records[0]),
        values: records.map(({ workload, algorithm, gb_per_s }) => ({
            ...{ x: workload.bits, y: gb_per_s, line: algorithm },
            panel: `${workload.source} to ${workload.destination}, ${workload.form}`
        })),
        ...{ x: "log2 of the fan-out", y: "GB/s of rows", lines: algorithmsOf(records) }
    });
}

async function main(folder) {
    for (const [experiment, draw] of Object.entries(figures)) {
        const file = join(folder, `${experiment}.json`);
        if (!existsSync(file)) continue;
        const records = JSON.parse(readFileSync(file, "utf8"));
        if (records.length === 0) continue;
        const picture = file.replace(/json$/, "svg");
        writeFileSync(picture, await draw(records));
        process.stdout.write(`${picture}\n`);
    }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(process.argv[2] ?? "docs/results/h200");
