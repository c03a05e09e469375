// SPDX-License-Identifier: Apache-2.0
import { Warn, View, parse } from "vega";
import { compile } from "vega-lite";

/** SVG text of a figure; needs no canvas package because nothing is rasterised. */
export async function renderFigure(specification) {
    const common = {
        $schema: "https://vega.github.io/schema/vega-lite/v6.json",
        background: "white",
        config: { font: "sans-serif", view: { stroke: null } }
    };
    const view = new View(parse(compile({ ...common, ...specification }).spec), { renderer: "none", logLevel: Warn });
    try {
        return await view.toSVG();
    } finally {
        view.finalize();
    }
}

/** SVG text of throughput by case and engine. */
export async function plotRecords(records) {
    const values = records.map(({ engine, workload, g_tuples_per_s }) => ({
        engine: engine === "spillway" ? "Spillway" : "DuckDB",
        case: `${workload.operation}${workload.budget_bytes == null ? "" : ", budget/4"}`,
        workload: `${workload.left_rows / 1e6} M x ${workload.right_rows / 1e6} M, ${workload.keys} keys`,
        rate: g_tuples_per_s * 1000
    }));
    const { device, workload, samples_ms } = records[0];
    const setting = `${device}, ${workload.threads} threads, median of ${samples_ms.length} runs`;
    return renderFigure({
        title: {
            text: "Join of two int64 relations: million input rows per second",
            subtitle: `${setting}; higher is better`,
            anchor: "start"
        },
        data: { values },
        facet: {
            field: "workload",
            columns: 2,
            title: null,
            sort: [...new Set(values.map((value) => value.workload))]
        },
        spec: {
            width: 320,
            height: { step: 14 },
            mark: { type: "bar", tooltip: false },
            encoding: {
                y: { field: "case", type: "nominal", title: null, sort: null },
                yOffset: { field: "engine", sort: ["Spillway", "DuckDB"] },
                x: { field: "rate", type: "quantitative", title: "M rows/s" },
                color: {
                    field: "engine",
                    type: "nominal",
                    title: null,
                    scale: { domain: ["Spillway", "DuckDB"], range: ["#1f6f8b", "#f2b134"] }
                }
            }
        }
    });
}
