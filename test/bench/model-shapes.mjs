// SPDX-License-Identifier: Apache-2.0
// Records of the GPU benchmark as the shapes that the planner's cost models take (src/planner/device-cost/shapes.ts).
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { groupsMet } from "./gpu-drawn.mjs";

export const root = fileURLToPath(new URL("../..", import.meta.url));

/** A module of the built package. */
export async function built(path) {
    const file = join(root, "dist", path);
    if (!existsSync(file)) throw new Error("The package is not built; run npm run build first.");
    return await import(pathToFileURL(file).href);
}

/** Names that the benchmark gave algorithms before the planner had names for them. */
const aliases = {
    "row-wise radix hash join": "phj-tr",
    hash: "hgb",
    partitioned: "pgb-tr",
    sorted: "sgb-ur"
};
export const algorithmName = (name) => aliases[name] ?? name;

/** Share of the most frequent of `keys` keys with Zipf frequencies: 1 / the sum of i^-zipf, its tail as an integral. */
export function zipfShare(zipf, keys) {
    if (zipf === 0) return 1 / keys;
    const counted = Math.min(keys, 10_000);
    let sum = 0;
    for (let i = 1; i <= counted; i++) sum += i ** -zipf;
    const [from, to] = [counted + 0.5, keys + 0.5];
    if (keys > counted) {
        sum += zipf === 1 ? Math.log(to / from) : (to ** (1 - zipf) - from ** (1 - zipf)) / (1 - zipf);
    }
    return 1 / sum;
}

/** The sides whose rows without a partner a join of each type keeps. The left side is the probe side. */
const keptSides = { left: "probe", right: "build", full: "build probe", anti: "probe", "right-anti": "build" };

function joinShape({ workload, rows_out, pairs = rows_out }) {
    const { build_rows, probe_rows, match_ratio, key_bytes, payload_bytes, zipf, type = "inner" } = workload;
    const kept = keptSides[type] ?? "";
    const distinct = workload.distinct ?? workload.distinct_keys;
    const unique = distinct === undefined || distinct === 0;
    const keys = unique ? build_rows : distinct;
    const possible = Math.round(keys / match_ratio); // keys that the probe side may have
    return {
        buildRows: build_rows,
        probeRows: probe_rows,
        pairs,
        matchRatio: match_ratio,
        buildMatchRatio: groupsMet(probe_rows, possible, zipf) / possible,
        // The keys of the build side are dense: others are out of their range.
        inRangeShare: match_ratio,
        keyBytes: key_bytes,
        // Keys of the probe side are below the number of the build side's by the share that matches.
        keyBits: Math.ceil(Math.log2(Math.max(2, keys / match_ratio))),
        buildPayload: payload_bytes.build,
        probePayload: payload_bytes.probe,
        uniqueBuildKeys: unique,
        buildRowsPerKey: build_rows / keys,
        buildKeyRange: keys,
        // For whoever does not ask withSamples().
        arrayKeys: false,
        buildHeaviestShare: 1 / keys,
        probeHeaviestShare: zipfShare(zipf, keys),
        emit: /^right-/.test(type) ? "buildOnce" : /^(semi|anti)$/.test(type) ? "probeOnce" : "pairs",
        ...{ keepsBuild: kept.includes("build"), keepsProbe: kept.includes("probe") }
    };
}

/** The shape of a join as a sample of its build side has it: unique keys of the benchmark are 0, 1, 2 ... shuffled. */
export async function withSamples() {
    const { defaultPolicy } = await built("planner/policy.js");
    const { joinSampleRows } = await built("planner/statistics.js");
    const { fitsArray } = await built("planner/perfect-keys.js");
    return (shape) => {
        const { buildRows: rows, buildKeyRange: range, uniqueBuildKeys } = shape;
        const { sampledFromRows, deviceSampledFromPairs } = defaultPolicy;
        const isSmall = rows < sampledFromRows && rows * shape.probeRows < deviceSampledFromPairs;
        if (!uniqueBuildKeys || isSmall) return shape;
        const sampledRows = Math.min(rows, joinSampleRows(rows, defaultPolicy));
        const sample = { rows, nulls: 0, sampledRows, sampledDistinct: sampledRows, heaviestShare: 1 / sampledRows };
        const statistics = { ...sample, min: 0n, max: BigInt(range - 1) };
        return { ...shape, arrayKeys: fitsArray(statistics, range, defaultPolicy) };
    };
}

function groupShape({ workload }) {
    const { rows, key_bytes, payload_bytes, zipf, hot_share = 0, aggregate = "max" } = workload;
    // What a sample shows: of skewed keys fewer are met than there are.
    const groups = workload.expected_groups ?? workload.groups;
    return {
        rows,
        groups,
        keyBytes: key_bytes,
        values: payload_bytes,
        extremes: aggregate === "max",
        narrow: true,
        heaviestShare: Math.max(hot_share, zipfShare(zipf, groups)),
        sorted: false
    };
}

/** What was grouped or joined, and by which operator. */
export function shapeOf(record) {
    return record.workload.groups === undefined
        ? { operator: "join", shape: joinShape(record) }
        : { operator: "group-by", shape: groupShape(record) };
}

/** Verified records of a results file by the name of their workload, with the algorithm that ran. */
export function readCells(file) {
    const cells = new Map();
    for (const record of JSON.parse(readFileSync(file, "utf8"))) {
        if (!record.verified) continue;
        const cell = cells.get(record.workload.name) ?? [];
        const ran = record.gave_way_to ?? algorithmName(record.algorithm);
        cells.set(record.workload.name, [...cell, { ...record, algorithm: ran }]);
    }
    return cells;
}
