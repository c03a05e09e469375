// SPDX-License-Identifier: Apache-2.0
/**
 * `node test/bench/plot-out-of-core.mjs [docs/results/h200]`: figures of the records of that folder, beside them as
 * SVG: of joins, partitioners, group-bys and memory beyond that of the GPU. What has no records has no figure.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { barFigure, byX, lineFigure, power, settingOf, unique } from "./plot-figures.mjs";
import { breakdownFigure, interleaveFigure, joinBars, joinLineFigure, smShareFigure } from "./plot-joins.mjs";

const gib = 2 ** 30;
const algorithmsOf = (records) => unique(records.map(({ algorithm }) => algorithm));

function fanOutFigure(records) {
    return lineFigure({
        title: `Partitioners, ${records[0].workload.tuple_bytes}-byte rows`,
        subtitle: settingOf(records[0]),
        values: records.map(({ workload, algorithm, gb_per_s }) => ({
            ...{ x: workload.bits, y: gb_per_s, line: algorithm },
            panel: `${workload.source} to ${workload.destination}, ${workload.form}`
        })),
        ...{ x: "log2 of the fan-out", y: "GB/s of rows", lines: algorithmsOf(records) }
    });
}

function histogramFigure(records) {
    const values = records.map(({ workload, algorithm, gb_per_s }) => ({
        ...{ x: workload.bits, y: gb_per_s, line: `histogram by the ${workload.histogram.toUpperCase()}` },
        panel: algorithm
    }));
    return lineFigure({
        title: "Partitioners into one piece of host memory: who counts the keys before",
        subtitle: settingOf(records[0]),
        ...{ values, x: "log2 of the fan-out", y: "GB/s of rows", lines: unique(values.map(({ line }) => line)) }
    });
}

function groupFigure(records) {
    const values = records.flatMap(({ workload, g_rows_per_s, predicted, rows_in }) => {
        const line = `${workload.memory_limit_bytes / gib} GiB of GPU memory`;
        const x = Math.log2(workload.groups);
        const planned = predicted && { x, y: rows_in / predicted.ms / 1e6, line: `planned, ${line}` };
        return [{ x, y: g_rows_per_s, line }, planned ?? []].flat();
    });
    return lineFigure({
        title: `Group-by of ${power(records[0].workload.rows)} rows of 16 bytes in host memory`,
        subtitle: [settingOf(records[0]), "dashed: planned, inputs once, spilled rows out and in again, groups out"],
        ...{ values: byX(values), x: "log2 of the groups", y: "G rows per second" },
        lines: unique(values.map(({ line }) => line))
    });
}

/** Of ranges of stripes, beside what their slower part would give alone, in proportion. */
function tierFigure(records) {
    const streams = records.filter(
        ({ algorithm, workload }) => algorithm === "stream" && workload.order === "together"
    );
    const ranges = streams.filter(({ workload }) => workload.tier === "interleaved");
    const places = ["device", "peer", "host"];
    const values = ranges.map(({ workload, gb_per_s }) => {
        const shares = places.map((place) => workload[`${place}_share`] ?? 0);
        const slow = shares[2] > 0 ? 2 : 1;
        const same = ({ workload: { tier, direction } }) => tier === places[slow] && direction === workload.direction;
        const alone = streams.find(same)?.gb_per_s;
        const whole = shares[0] + shares[1] + shares[2];
        const used = places.map((place, index) => ({ place, share: shares[index] })).filter(({ share }) => share > 0);
        const turns = used.map(({ place, share }) => `${share} ${place}`).join(" : ");
        return {
            ...{
                panel: workload.direction === "both" ? "read and write" : workload.direction,
                row: used.length > 1 ? turns : used[0].place
            },
            ...{ part: `stripes of ${workload.stripe_mib} MiB`, value: gb_per_s },
            planned: alone === undefined || shares[slow] === 0 ? undefined : (alone * whole) / shares[slow]
        };
    });
    if (values.length === 0) return undefined;
    return barFigure({
        title: "Kernels that stream through ranges of stripes of several memories",
        subtitle: [settingOf(streams[0]), "rows: stripes in turns; black tick: the slower memory alone, in proportion"],
        ...{ values, x: "GB/s", parts: unique(values.map(({ part }) => part)), beside: true }
    });
}

// Those with a filter would be second points of the same lines.
const ofShapes = (test) => (records) =>
    records.filter(({ workload }) => workload.filter_bits === undefined && test(workload));
// The largest join of the experiment is as wide as another one, but of other rows.
const ofOneSize = (select) => (records) => {
    const selected = select(records);
    return selected.filter(({ workload }) => workload.build_rows === selected[0]?.workload.build_rows);
};
const bytesOf = ({ key_bytes, payload_bytes }) =>
    payload_bytes.build.reduce((total, bytes) => total + bytes, key_bytes);
const square = ({ build_rows, probe_rows, name }) => build_rows === probe_rows && !name.startsWith("1:");
const plain = (workload) => workload.match_ratio === 1 && workload.zipf === 0 && square(workload);
const standard = (workload) => square(workload) && bytesOf(workload) === 16;
const limitOf = ([{ workload }]) => `at most ${workload.memory_limit_bytes / gib} GiB of GPU memory`;
const sideOf = ([{ workload }]) => `${power(workload.build_rows)} rows with as many`;

/** A figure of those records of one experiment that `select` takes, all of them unless said otherwise. */
const lines = (experiment, axis, select = (records) => records) => ({
    experiment,
    select,
    draw: (records) => joinLineFigure(records, { ...axis, title: axis.title(records) })
});
const drawn = (experiment, draw) => ({ experiment, select: (records) => records, draw });

/** Figures by name: of records of their experiments, which are not empty. */
export const figures = {
    "out-of-core-sizes": lines("out-of-core-sizes", {
        title: (records) => `Joins of two relations, ${limitOf(records)}`,
        x: "log2 of the rows of each side, 16 bytes",
        xOf: ({ build_rows }) => Math.log2(build_rows)
    }),
    "out-of-core-device-limit": lines("out-of-core-device-limit", {
        title: (records) => `Joins of ${sideOf(records)}`,
        ...{ x: "GiB of GPU memory at most", scale: "log" },
        xOf: ({ memory_limit_bytes }) => memory_limit_bytes / gib
    }),
    "out-of-core-shapes-ratios": lines(
        "out-of-core-shapes",
        {
            title: (records) => `Joins of 2^30 rows in all, ${limitOf(records)}: ratio of the sides`,
            ...{ x: "probe rows for each build row", scale: "log" },
            xOf: ({ build_rows, probe_rows }) => probe_rows / build_rows
        },
        ofShapes(({ name }) => name.startsWith("1:"))
    ),
    "out-of-core-shapes-widths": lines(
        "out-of-core-shapes",
        {
            title: (records) => `Joins of ${sideOf(records)}, ${limitOf(records)}: width of the rows`,
            ...{ x: "bytes of a row (8: a count of keys)", scale: "linear", xOf: bytesOf }
        },
        ofOneSize(ofShapes(plain))
    ),
    "out-of-core-shapes-skew": lines(
        "out-of-core-shapes",
        {
            title: (records) => `Joins of ${sideOf(records)}, ${limitOf(records)}: skew of the probe keys`,
            ...{ x: "Zipf exponent", scale: "linear", xOf: ({ zipf }) => zipf }
        },
        ofShapes((workload) => workload.match_ratio === 1 && standard(workload))
    ),
    "out-of-core-shapes-matches": lines(
        "out-of-core-shapes",
        {
            title: (records) => `Joins of ${sideOf(records)}, ${limitOf(records)}: probe rows with a partner`,
            ...{ x: "% of the probe rows", scale: "linear", xOf: ({ match_ratio }) => match_ratio * 100 },
            lineOf: ({ filter_bits }) => `with${filter_bits === undefined ? "out a" : " a Bloom"} filter`
        },
        (records) => records.filter(({ workload }) => workload.zipf === 0 && standard(workload))
    ),
    "out-of-core-joins": drawn("out-of-core-joins", (records) =>
        joinBars(records, "Joins of relations in host memory, against their targets")
    ),
    "out-of-core-breakdown": drawn("out-of-core-breakdown", breakdownFigure),
    "out-of-core-baselines": drawn("out-of-core-baselines", (records) =>
        joinBars(records, "The join beside other ways to join more than GPU memory holds")
    ),
    "out-of-core-duckdb": drawn("out-of-core-duckdb", (records) =>
        joinBars(records, "The join beside engines on all cores of the host")
    ),
    "out-of-core-partitioners": drawn("out-of-core-partitioners", (records) =>
        joinBars(records, "Joins end to end by partitioner of the first pass")
    ),
    "out-of-core-peer": drawn("out-of-core-peer", (records) =>
        joinBars(records, "Joins with the memory of a second GPU as far memory")
    ),
    "out-of-core-plans": drawn("out-of-core-plans", (records) =>
        joinBars(records, "Joins with sizes that the benchmark chooses, and with those of plans of queries")
    ),
    "out-of-core-sm-share": drawn("out-of-core-sm-share", smShareFigure),
    "out-of-core-interleave": drawn("out-of-core-interleave", interleaveFigure),
    "out-of-core-partition": drawn("out-of-core-partition", fanOutFigure),
    "out-of-core-partition-contiguous": drawn("out-of-core-partition-contiguous", fanOutFigure),
    "out-of-core-partition-peer": drawn("out-of-core-partition-peer", fanOutFigure),
    "out-of-core-histogram": drawn("out-of-core-histogram", histogramFigure),
    "out-of-core-multiprocessors": drawn("out-of-core-multiprocessors", (records) =>
        lineFigure({
            title: `Partitioners from host to host memory, fan-out 2^${records[0].workload.bits}`,
            subtitle: settingOf(records[0]),
            values: records.map(({ workload, algorithm, gb_per_s }) => ({
                ...{ x: workload.grid, y: gb_per_s, line: algorithm }
            })),
            ...{ x: "blocks, at most one for each multiprocessor", y: "GB/s", scale: "log" },
            lines: algorithmsOf(records)
        })
    ),
    "out-of-core-group-by": drawn("out-of-core-group-by", groupFigure),
    tiers: drawn("tiers", tierFigure)
};

async function main(folder) {
    for (const [name, { experiment, select, draw }] of Object.entries(figures)) {
        const file = join(folder, `${experiment}.json`);
        if (!existsSync(file)) continue;
        const records = select(JSON.parse(readFileSync(file, "utf8")));
        const picture = records.length === 0 ? undefined : await draw(records);
        if (picture === undefined) continue;
        writeFileSync(join(folder, `${name}.svg`), picture);
        process.stdout.write(`${join(folder, `${name}.svg`)}\n`);
    }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(process.argv[2] ?? "docs/results/h200");
