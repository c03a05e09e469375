// SPDX-License-Identifier: Apache-2.0
// Figures of the GPU benchmark: lines over a quantity, and bars by workload.
import { renderFigure } from "./plot.mjs";

/** What is under a title. */
export const settingOf = ({ device, samples_ms }, better = "higher is better") =>
    `${device}, median of ${samples_ms.length} runs; ${better}`;
export const unique = (values) => [...new Set(values)];
/** "2^30", "2^28.5" */
export const power = (rows) => `2^${Number(Math.log2(rows).toFixed(1))}`;
export const byX = (values) => values.toSorted((a, b) => a.x - b.x);

const legend = { labelLimit: 300, symbolType: "stroke", symbolStrokeWidth: 2 };
const dash = [4, 3];
const barColour = "#4c78a8";
const rowStep = 16;

const titled = (title, subtitle) => ({ title: { text: title, subtitle, anchor: "start" } });

const lineScales = { log: { type: "log", base: 2 }, linear: { zero: true } };

/**
 * Lines over an axis: linear, or log. values: [{ x, y, line }], with `panel` in panels side by side; lines whose names
 * begin with "planned" are dashed, and have the colour of the line that is named after "planned, ". `points`: without
 * lines between them.
 */
export function lineFigure({ title, subtitle, values, x, y, scale, lines, points = false }) {
    const seen = unique(lines.map((line) => line.replace(/^planned, /, "")));
    const data = values.map((value) => ({ ...value, of: value.line.replace(/^planned, /, "") }));
    const paired = seen.length < lines.length;
    const dashes = lines.map((line) => (line.startsWith("planned") ? dash : [1, 0]));
    const encoding = {
        x: {
            ...{ field: "x", type: "quantitative", title: x, axis: { grid: false } },
            ...(scale === undefined ? {} : { scale: lineScales[scale] })
        },
        y: { field: "y", type: "quantitative", title: y, scale: { zero: true } },
        color: {
            ...{ field: paired ? "of" : "line", type: "nominal", title: null, legend },
            scale: { domain: paired ? seen : lines, scheme: "tableau10" }
        },
        strokeDash: paired
            ? {
                  ...{ field: "kind", type: "nominal", legend: null },
                  scale: { domain: ["measured", "planned"], range: [[1, 0], dash] }
              }
            : // That of the colour: one legend for both.
              { field: "line", type: "nominal", title: null, legend, scale: { domain: lines, range: dashes } }
    };
    const kinds = data.map((value) => ({ ...value, kind: value.line.startsWith("planned") ? "planned" : "measured" }));
    const line = { type: "line", point: { size: 25 }, tooltip: false };
    const mark = points ? { type: "point", filled: true, size: 25, tooltip: false } : line;
    const panels = unique(values.map(({ panel }) => panel));
    const layout =
        panels.length === 1
            ? { width: 420, height: 260, mark, encoding }
            : {
                  facet: { field: "panel", title: null, sort: panels, header: { labelLimit: 400 } },
                  ...(points ? { columns: 2 } : {}),
                  spec: { width: 320, height: 240, mark, encoding }
              };
    return renderFigure({ ...titled(title, subtitle), data: { values: kinds }, ...layout });
}

const hasField = (field) => ({ filter: `isValid(datum.${field})` });

// The target's are as high as a row is, so that those of a panel make one line.
const tickMarks = {
    planned: { color: "black", thickness: 2, opacity: 1 },
    target: { color: "#c0392b", thickness: 2, opacity: 1, size: rowStep }
};

/** Layers of one panel: bars, what was planned, the target; without `x` the panel below has the axis. */
function barLayers(values, { x, parts, beside }) {
    const rows = unique(values.map(({ row }) => row));
    const place = { field: "row", type: "nominal", title: null, sort: rows, axis: { labelLimit: 400 } };
    const length = { field: "value", type: "quantitative", title: x ?? null, axis: { labels: x !== undefined } };
    const colours = { domain: parts, scheme: "tableau10" };
    const color = parts && { color: { field: "part", type: "nominal", title: null, scale: colours } };
    const offset = beside ? { yOffset: { field: "part", sort: parts } } : {};
    const order = parts && !beside ? { order: { field: "index", type: "quantitative" } } : {};
    const bar = { type: "bar", tooltip: false, ...(parts ? {} : { color: barColour }) };
    const layers = [{ mark: bar, encoding: { y: place, x: length, ...offset, ...order, ...color } }];
    for (const [field, tick] of Object.entries(tickMarks)) {
        if (values.every((value) => value[field] === undefined)) continue;
        const encoding = { y: place, x: { field, type: "quantitative" }, ...offset };
        layers.push({ transform: [hasField(field)], mark: { type: "tick", tooltip: false, ...tick }, encoding });
    }
    return layers;
}

/**
 * Bars by row, in panels of their own rows below each other. values: [{ panel, row, value, part?, planned?, target? }]:
 * parts of one row are on top of each other, or with `beside` next to each other, in colours; a black tick is what was
 * planned, a red line its target.
 */
export function barFigure({ title, subtitle, values, x, parts, beside = false }) {
    const data = values.map((value) => ({ ...value, index: parts?.indexOf(value.part) ?? 0 }));
    const panels = unique(values.map(({ panel }) => panel));
    const vconcat = panels.map((panel, index) => {
        const mine = data.filter((value) => value.panel === panel);
        const last = index === panels.length - 1;
        return {
            ...(panel === undefined ? {} : { title: { text: panel, anchor: "start", frame: "group", fontSize: 11 } }),
            ...{ data: { values: mine }, width: 400, height: { step: beside ? 10 : rowStep } },
            layer: barLayers(mine, { x: last ? x : undefined, parts, beside })
        };
    });
    return renderFigure({ ...titled(title, subtitle), vconcat, spacing: 12, resolve: { scale: { x: "shared" } } });
}
