// SPDX-License-Identifier: Apache-2.0
// Records and table of the GPU benchmark. Only built-in modules: a GPU machine may have no others.

/** "NVIDIA A100-SXM4-80GB" as a folder name: "a100-sxm4-80gb". */
export function gpuSlug(device) {
    return device
        .toLowerCase()
        .replace(/\bnvidia\b/g, " ")
        .replace(/[^a-z0-9.]+/g, "-")
        .replace(/^-|-$/g, "");
}

function canRun({ m_to_n = true, most_groups = Infinity }, { distinct_keys, groups = 0 }) {
    return (m_to_n || distinct_keys === undefined) && groups <= most_groups;
}

/** An object without some of its fields. */
export function without(object, ...names) {
    return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

/** What an algorithm of an experiment has besides its name and limits: options of the program. */
function ownOptions(entry) {
    const options = without(entry, "name", "baseline", "m_to_n", "most_groups");
    return Object.keys(options).length === 0 ? {} : { options };
}

/** "triton, partitioner linear" */
export function runLabel({ algorithm, options = {} }) {
    return [algorithm, ...Object.entries(options).map(([name, value]) => `${name} ${value}`)].join(", ");
}

/** What is to be run: each workload with each algorithm that can do it, baselines last. */
export function planRuns(config, { only = "", algorithm = "" } = {}) {
    const algorithms = [
        ...config.algorithms.map((entry) => ({ ...entry, baseline: false })),
        ...config.baselines.map((entry) => ({ ...entry, baseline: true }))
    ];
    return config.workloads
        .filter((workload) => workload.name.includes(only))
        .flatMap((workload) =>
            algorithms
                .filter((entry) => canRun(entry, workload))
                .map((entry) => ({
                    ...{ workload, algorithm: entry.name, baseline: entry.baseline },
                    ...ownOptions(entry)
                }))
                .filter((run) => runLabel(run).includes(algorithm))
        );
}

/** Options of spillway_gpu_bench that have a value, and algorithms, which one process runs over the same rows. */
function programArguments(options, algorithms) {
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    return [
        ...given.flatMap(([name, value]) => [`--${name}`, String(value)]),
        ...algorithms.flatMap((algorithm) => ["--algorithm", algorithm])
    ];
}

/** Arguments of spillway_gpu_bench for a join by some algorithms; `extra` has options of the program by name. */
export function joinArguments(workload, algorithms, extra = {}) {
    const options = {
        "key-bytes": workload.key_bytes,
        "build-payload": workload.payload_bytes.build.join(",") || "none",
        "probe-payload": workload.payload_bytes.probe.join(",") || "none",
        "build-rows": workload.build_rows,
        "probe-rows": workload.probe_rows,
        "match-ratio": workload.match_ratio,
        zipf: workload.zipf,
        distinct: workload.distinct_keys,
        type: workload.type
    };
    return programArguments({ ...options, ...extra }, algorithms);
}

/** The same for a group-by. */
export function groupByArguments(workload, algorithms, extra = {}) {
    const { key_bytes, payload_bytes, rows, groups, expected_groups, zipf, hot_share, aggregate } = workload;
    const payload = payload_bytes.join(",");
    const options = {
        ...{ "key-bytes": key_bytes, payload, rows, groups, "expected-groups": expected_groups },
        ...{ zipf, "hot-share": hot_share, aggregate }
    };
    return ["group-by", ...programArguments({ ...options, ...extra }, algorithms)];
}

/** A result record in the form every experiment of the project uses, out of what the program wrote. */
export function toRecord(experiment, { workload, algorithm, options }, outcome, setting) {
    const { workload: parameters, device, ...measured } = without(outcome, "algorithm", "partitioner");
    return {
        experiment,
        workload: { name: workload.name, ...parameters },
        algorithm,
        ...(options === undefined ? {} : { options }),
        ...measured,
        device,
        date: setting.date,
        ...(setting.commit == null ? {} : { commit: setting.commit })
    };
}

/** Old records with new ones in their places; runs that are no longer planned go, the order is the plan's. */
export function mergeRecords(plan, before, records) {
    const key = (run) => `${run.workload.name}\n${runLabel(run)}`;
    const newest = new Map([...before, ...records].map((record) => [key(record), record]));
    return plan.flatMap((run) => newest.get(key(run)) ?? []);
}

/** Aligned text; the first two columns are words. */
export function table(titles, rows) {
    const widths = titles.map((title, index) => Math.max(title.length, ...rows.map((row) => row[index].length)));
    const textColumns = 2;
    const line = (cells) =>
        cells
            .map((cell, index) => (index < textColumns ? cell.padEnd(widths[index]) : cell.padStart(widths[index])))
            .join("  ")
            .trimEnd();
    return [line(titles), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)].join("\n");
}

/** Was a target met? Cells of a grid have none. */
function verdictOn({ median_ms }, target_ms) {
    if (target_ms === undefined) return "";
    return median_ms <= target_ms ? "met" : `MISSED by ${((median_ms / target_ms - 1) * 100).toFixed(0)} %`;
}

/** One line per run: times in ms, how many times faster than the reference, whether the result and the target hold. */
export function resultTable(results) {
    const ms = (value) => (value === undefined ? "-" : value.toFixed(2));
    const rows = results.map(({ run: { workload, algorithm, baseline }, record }) => {
        const { target_ms, reference_ms, reference_algorithm } = workload;
        const setting = [workload.name, algorithm];
        const reference = reference_ms === undefined ? "-" : `${ms(reference_ms)} ${reference_algorithm}`;
        const aims = [baseline ? "-" : ms(target_ms), reference];
        if (record === null) return [...setting, "-", "-", "-", ...aims, "-", "-", "FAILED"];
        const faster = reference_ms === undefined ? "-" : `${(reference_ms / record.median_ms).toFixed(2)}x`;
        const { transform_ms, join_ms } = record.phases ?? {};
        const times = [record.median_ms, transform_ms, join_ms].map(ms);
        const verdict = baseline ? "" : verdictOn(record, target_ms);
        return [...setting, ...times, ...aims, faster, record.verified ? "yes" : "NO", verdict];
    });
    const titles = ["workload", "algorithm", "median ms", "transform", "join", "target", "reference", "faster"];
    return table([...titles, "verified", ""], rows);
}

/** One line per run of a group-by: its time, the rate at which it reads its rows, whether the target holds. */
export function groupByTable(results) {
    const rows = results.map(({ run: { workload, algorithm, baseline }, record }) => {
        const ran = record?.gave_way_to;
        const setting = [workload.name, ran === undefined ? algorithm : `${algorithm}, as ${ran}`];
        const target = baseline ? "-" : (workload.target_ms?.toFixed(2) ?? "-");
        if (record === null) return [...setting, "-", target, "-", "-", "FAILED"];
        const verdict = baseline ? "" : verdictOn(record, workload.target_ms);
        const rate = record.input_tb_per_s.toFixed(2);
        return [...setting, record.median_ms.toFixed(2), target, rate, record.verified ? "yes" : "NO", verdict];
    });
    return table(["workload", "algorithm", "median ms", "target", "TB/s of input", "verified", ""], rows);
}
