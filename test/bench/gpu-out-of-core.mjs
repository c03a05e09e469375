// SPDX-License-Identifier: Apache-2.0
// Joins beyond GPU memory in the GPU benchmark: their workloads, what the program is told of them, their table. Only
// built-in modules: a GPU machine may have no others.
import { runLabel, table, without } from "./gpu-report.mjs";

const gib = 2 ** 30;
const aims = ["target_g_tuples_per_s", "reference_g_tuples_per_s", "target_link_efficiency", "target_times_duckdb"];

const percent = (share) => `${Number((share * 100).toPrecision(3))} %`;

/** Sides as powers of two, with halves, or as shares of a power of two. */
function sides({ rows, total, ratio }) {
    if (ratio !== undefined) {
        const build_rows = Math.floor(2 ** total / (1 + ratio));
        return { name: `1:${ratio} of 2^${total} rows`, build_rows, probe_rows: build_rows * ratio };
    }
    const [build_rows, probe_rows] = rows.map((bits) => Math.floor(2 ** bits));
    return { name: rows.map((bits) => `2^${bits}`).join(" x "), build_rows, probe_rows };
}

/**
 * One cell of a grid. Keys and columns have 8 bytes; dense payloads are row numbers, which take few bits where rows are
 * spilled, and random ones take all of theirs. filter_bits, of a Bloom filter for each key of the build side, are of
 * staged alone.
 */
export function outOfCoreCell(axes) {
    const {
        limit_gib,
        columns = 1,
        values = "dense",
        match_ratio = 1,
        filter_bits = 0,
        zipf = 0,
        result = "sums",
        inputs = "host",
        spill = inputs
    } = axes;
    const { name, build_rows, probe_rows } = sides(axes);
    const widths = Array.from({ length: columns }, () => 8);
    const about = [
        name,
        `${limit_gib} GiB`,
        columns === 1 ? "" : `${8 * (columns + 1)} B rows`,
        values === "dense" ? "" : `${values} payloads`,
        match_ratio === 1 ? "" : `match ratio ${percent(match_ratio)}`,
        filter_bits === 0 ? "" : `filter of ${filter_bits} bits a key`,
        zipf === 0 ? "" : `Zipf ${zipf.toFixed(1)}`,
        inputs === "host" ? "" : `inputs of a ${inputs}`,
        spill === inputs ? "" : `spilled to ${spill === "host" ? "the host" : "a peer"}`,
        result
    ];
    return {
        name: about.filter((part) => part !== "").join(", "),
        key_bytes: 8,
        payload_bytes: { build: widths, probe: widths },
        payload_values: values,
        ...{ build_rows, probe_rows, match_ratio, zipf, result, inputs },
        ...(spill === inputs ? {} : { spill }),
        ...(filter_bits === 0 ? {} : { filter_bits }),
        memory_limit_bytes: limit_gib * gib,
        ...Object.fromEntries(aims.filter((aim) => axes[aim] !== undefined).map((aim) => [aim, axes[aim]]))
    };
}

/**
 * Arguments of spillway_gpu_bench for one run, whose options have all sizes; `extra` has others by name. Bits of a
 * filter are among the sizes as words, which is all that the program is told of them.
 */
export function outOfCoreArguments({ workload, algorithm, options: own = {} }, extra = {}) {
    const options = {
        "key-bytes": workload.key_bytes,
        "build-payload": workload.payload_bytes.build.join(",") || "none",
        "probe-payload": workload.payload_bytes.probe.join(",") || "none",
        "payload-values": workload.payload_values,
        "build-rows": workload.build_rows,
        "probe-rows": workload.probe_rows,
        "match-ratio": workload.match_ratio,
        zipf: workload.zipf,
        result: workload.result,
        inputs: workload.inputs,
        spill: workload.spill,
        algorithm,
        ...without(own, "filter-bits"),
        ...without(extra, "filter-bits"),
        "memory-limit": workload.memory_limit_bytes // what the workload is about: no option changes it
    };
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    return ["out-of-core", ...given.flatMap(([name, value]) => [`--${name}`, String(value)])];
}

const shortOf = (share) => (share >= 1 ? "met" : `MISSED by ${((1 - share) * 100).toFixed(0)} %`);

function verdict({ g_tuples_per_s, link_efficiency }, workload, { reference, cliff }) {
    const { target_g_tuples_per_s: rate, target_times_duckdb: times, target_link_efficiency } = workload;
    const said = [
        rate === undefined ? "" : shortOf(g_tuples_per_s / rate),
        times === undefined ? "" : `${times}x ${shortOf(g_tuples_per_s / reference / times)}`,
        link_efficiency < target_link_efficiency ? "LINK" : "",
        cliff ? "CLIFF" : ""
    ];
    return said.filter((part) => part !== "").join(", ");
}

const number = (value) => (value === undefined ? "-" : value.toFixed(2));

function cells({ run, record, skipped }, { step, cliff, measured }) {
    const { workload } = run;
    const setting = [workload.name, runLabel(run)];
    const target = number(workload.target_g_tuples_per_s);
    if (record === null) return [...setting, "-", target, ...Array(9).fill("-"), skipped ?? "FAILED"];
    const { g_tuples_per_s, link_gb_per_s, spilled_rows, peak_bytes } = record;
    const reference = run.baseline ? undefined : (measured ?? workload.reference_g_tuples_per_s);
    const faster = reference === undefined ? "-" : `${(g_tuples_per_s / reference).toFixed(1)}x`;
    const rows = workload.build_rows + workload.probe_rows;
    const into = link_gb_per_s === undefined ? undefined : link_gb_per_s.h2d + (link_gb_per_s.peer ?? 0);
    const out = link_gb_per_s === undefined ? undefined : link_gb_per_s.d2h + (link_gb_per_s.peer_out ?? 0);
    const spilled = spilled_rows === undefined ? undefined : (spilled_rows.build + spilled_rows.probe) / rows;
    return [
        ...setting,
        number(g_tuples_per_s),
        target,
        faster,
        step === undefined ? "-" : `${step < 0 ? "" : "+"}${(step * 100).toFixed(0)} %`,
        record.median_ms.toFixed(1),
        ...[into, out, record.link_efficiency].map(number),
        spilled === undefined ? "-" : `${(spilled * 100).toFixed(0)} %`,
        number(peak_bytes === undefined ? undefined : peak_bytes.device / gib),
        record.verified ? "yes" : "NO",
        run.baseline ? "" : verdict(record, workload, { reference, cliff })
    ];
}

// What another engine reached in the same run, which is a better reference than what it once did.
function measuredReference(results, { workload, baseline }) {
    if (baseline) return undefined;
    const other = results.find(({ run }) => run.algorithm === "duckdb" && run.workload.name === workload.name);
    return other?.record?.g_tuples_per_s;
}

/**
 * One line per run: how many rows of both sides it joins in a second and how many times the reference's, the step from
 * the workload before (a CLIFF is a fall of more than `step_max`), GB/s of the link in and out, and the share of the
 * time that what had to pass the link takes at the link's rate (LINK: less than its target).
 */
export function outOfCoreTable(results, { step_max } = {}) {
    const rows = results.map((result, index) => {
        const before = index === 0 ? undefined : results[index - 1].record?.g_tuples_per_s;
        const known = step_max !== undefined && before !== undefined && result.record !== null;
        const step = known ? result.record.g_tuples_per_s / before - 1 : undefined;
        return cells(result, { step, cliff: step < -step_max, measured: measuredReference(results, result.run) });
    });
    const titles = ["workload", "algorithm", "G tuples/s", "target", "faster", "step", "median ms", "in GB/s"];
    return table([...titles, "out GB/s", "link", "spilled", "peak GiB", "verified", ""], rows);
}

const phases = ["build_ms", "probe_ms", "spilled_ms"];

/**
 * One line per run whose phases are known: each phase's time beside the one that its bytes take at the links' rates,
 * then all of it, and the bytes per row of both sides that were planned before the join and that it moved.
 */
export function breakdownTable(results) {
    const ms = (value) => (value === undefined ? "-" : value.toFixed(1));
    const both = (actual, planned) => [ms(actual), ms(planned)];
    const rows = results
        .filter(({ record }) => record?.phases !== undefined && record.link_bytes_per_tuple !== undefined)
        .map(({ run, record }) => {
            const { predicted, link_bytes_per_tuple: moved } = record;
            const into = (bytes) => (bytes === undefined ? "-" : number(bytes.h2d + (bytes.peer ?? 0)));
            const out = (bytes) => (bytes === undefined ? "-" : number(bytes.d2h + (bytes.peer_out ?? 0)));
            const planned = predicted?.bytes_per_tuple;
            return [
                ...[run.workload.name, runLabel(run)],
                ...phases.flatMap((phase) => both(record.phases[phase], predicted?.phases[phase])),
                ...both(record.median_ms, predicted?.ms),
                predicted === undefined ? "-" : number(predicted.ms / record.median_ms),
                ...[into(moved), into(planned), out(moved), out(planned)]
            ];
        });
    if (rows.length === 0) return "";
    const titles = ["build", "probe", "spilled", "all"].flatMap((phase) => [`${phase} ms`, "planned"]);
    return table(["workload", "algorithm", ...titles, "share", "B in", "planned", "B out", "planned"], rows);
}

export function outOfCoreTables(results, config) {
    return [outOfCoreTable(results, config), breakdownTable(results)].filter((part) => part !== "").join("\n\n");
}
