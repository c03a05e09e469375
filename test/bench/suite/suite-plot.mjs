// SPDX-License-Identifier: Apache-2.0
// The figure of the suite: how many times as fast as DuckDB each query is.
import { renderFigure } from "../plot.mjs";
import { settingOf, unique } from "../plot-figures.mjs";

const suites = { tpch: "TPC-H's tables", ssb: "Star Schema Benchmark", small: "few rows" };
const texts = { plain: ", plain text", dictionary: ", dictionaries", "as given": "" };
const places = { files: "Arrow files", memory: "tables in memory" };

function panelOf({ suite, scale, text, inputs, threads }) {
    const tables = suite === "small" ? "" : `, scale ${scale}${texts[text]}`;
    return `${suites[suite]}${tables}, ${places[inputs]}, ${threads} threads`;
}

const colours = { domain: ["faster than DuckDB", "slower"], range: ["#1f6f8b", "#c0392b"] };

function panel(values, title) {
    const rows = { field: "name", type: "nominal", title: null, sort: null, axis: { labelLimit: 700 } };
    const scale = { type: "log" };
    const axis = { title: "time of DuckDB / time of Spillway (log)", format: "~g" };
    const side = { field: "side", type: "nominal", title: null, scale: colours };
    return {
        ...{ data: { values }, width: 380, height: { step: 13 } },
        title: { text: title, anchor: "start", frame: "group", fontSize: 11 },
        layer: [
            {
                mark: { type: "bar", tooltip: false },
                encoding: {
                    y: rows,
                    x: { field: "ratio", type: "quantitative", scale, axis },
                    x2: { datum: 1 },
                    color: side
                }
            },
            {
                mark: { type: "tick", tooltip: false, color: "black", thickness: 2, opacity: 1 },
                encoding: { y: rows, x: { field: "cpu", type: "quantitative" } }
            },
            { mark: { type: "rule", color: "black" }, encoding: { x: { datum: 1, type: "quantitative" } } }
        ]
    };
}

/** SVG text of the ratios by query, in a panel for each set and place of tables; undefined: nothing was compared. */
export async function plotSuite(records) {
    const compared = records.filter(({ ratio }) => ratio !== undefined);
    if (compared.length === 0) return undefined;
    const values = compared.map(({ workload, ratio, cpu_ratio: cpu }) => ({
        ...{ panel: panelOf(workload), name: workload.name, ratio, cpu },
        side: ratio >= 1 ? colours.domain[0] : colours.domain[1]
    }));
    const panels = unique(values.map((value) => value.panel));
    return await renderFigure({
        title: {
            text: "Queries over real data, Spillway's CPU engine and DuckDB",
            subtitle: [settingOf(compared[0], "further right is better"), "black tick: the same by CPU time"],
            anchor: "start"
        },
        vconcat: panels.map((name) =>
            panel(
                values.filter((value) => value.panel === name),
                name
            )
        ),
        spacing: 16,
        resolve: { scale: { x: "shared" } }
    });
}
