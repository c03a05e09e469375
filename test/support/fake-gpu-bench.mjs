// SPDX-License-Identifier: Apache-2.0
// Stands in for spillway_gpu_bench: writes an object as the program does, and ends as fake.json beside it says.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const args = process.argv.slice(2);
const valueOf = (name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);
const fake = JSON.parse(readFileSync(join(dirname(process.argv[1]), "fake.json"), "utf8"));

if (fake.noDevice) {
    console.error("Nothing was measured: no GPU can be used (invented).");
    process.exit(2);
}
if (fake.crash) process.kill(process.pid, "SIGSEGV");
while (fake.hang);
const [buildRows, probeRows] = [Number(valueOf("--build-rows")), Number(valueOf("--probe-rows"))];
const verified = fake.wrong !== true;
const outcome = {
    workload: { build_rows: buildRows, probe_rows: probeRows, zipf: Number(valueOf("--zipf")), seed: 1 },
    algorithm: valueOf("--algorithm"),
    median_ms: fake.median_ms,
    samples_ms: Array(Number(valueOf("--samples"))).fill(fake.median_ms),
    phases: { transform_ms: fake.median_ms / 2, join_ms: fake.median_ms / 2 },
    rows_in: buildRows + probeRows,
    rows_out: probeRows,
    g_tuples_per_s: (buildRows + probeRows) / fake.median_ms / 1e6,
    verified,
    ...(verified ? {} : { problem: "invented" }),
    peak_bytes: { device: 1024 },
    device: "NVIDIA H200"
};
if (args[0] === "out-of-core") {
    const limit = Number(valueOf("--memory-limit"));
    const inputBytes = 16 * (buildRows + probeRows);
    const filterWords = Number(valueOf("--filter-words"));
    Object.assign(outcome.workload, { result: valueOf("--result"), memory_limit_bytes: limit });
    outcome.sizes = filterWords > 0 ? { filter_words: filterWords } : {};
    Object.assign(outcome, {
        phases: { build_ms: fake.median_ms, probe_ms: 0, spilled_ms: 0 },
        link_bytes: { h2d: inputBytes, d2h: 0 },
        link_gb_per_s: { h2d: inputBytes / fake.median_ms / 1e6, d2h: 0 },
        link_efficiency: fake.link_efficiency ?? 0.95,
        spilled_rows: { build: buildRows / 4, probe: probeRows / 4 },
        peak_bytes: { device: limit / 2, host: 1024 }
    });
}

const problem = verified ? {} : { problem: "invented" };
const timed = { median_ms: fake.median_ms, samples_ms: [fake.median_ms], verified, ...problem };
const device = "NVIDIA H200";

/** All fan-outs of a partitioner, of which shared memory allows 2^11. */
function partitionLines() {
    const fanOuts = valueOf("--bits").split(",").map(Number);
    const rows = Number(valueOf("--rows"));
    const lines = [];
    for (const bits of fanOuts.filter((some) => some <= 11)) {
        const workload = { rows, bits, source: valueOf("--source"), form: valueOf("--form"), seed: 1 };
        const rates = { g_tuples_per_s: 2.5, gb_per_s: 40, planned_link_bytes: { h2d: 16 * rows, d2h: 16 * rows } };
        const shares = { planned_link_ms: 4, link_efficiency: 0.8, both_ways_ms: 4.5, both_ways_share: 0.9 };
        lines.push({ workload, partitioner: valueOf("--partitioner"), ...timed, ...rates, ...shares, device });
    }
    return lines;
}

function groupLines() {
    const [rows, groups] = [Number(valueOf("--rows")), Number(valueOf("--groups"))];
    const workload = { key_bytes: 8, payload_bytes: 8, rows, groups, aggregate: valueOf("--aggregate"), seed: 1 };
    const bytes = { h2d: 17 * rows, d2h: rows + 16 * groups };
    return [
        {
            ...{ workload, ...timed, phases: { read_ms: 1, resident_ms: 2, spilled_ms: 3 }, rows_in: rows, groups },
            ...{ g_rows_per_s: rows / fake.median_ms / 1e6, link_bytes: bytes, planned_link_bytes: bytes },
            ...{ copy_gb_per_s: { h2d: 50, d2h: 40 }, link_efficiency: 0.9, spilled_rows: rows / 8 },
            ...{ spilled_bytes: rows, device }
        }
    ];
}

function tierLines() {
    const bytes = Number(valueOf("--bytes"));
    const stream = (more, gb_per_s) => ({ measure: "stream", ...more, bytes, ...timed, gb_per_s });
    const read = { direction: "read", order: "together" };
    return [
        { device },
        { measure: "allocation", kind: "cuda_host_alloc", bytes, median_ms: 1, samples_ms: [1], gb_per_s: 3 },
        stream({ tier: "host", ...read }, 50),
        stream({ tier: "interleaved", device_share: 1, peer_share: 0, host_share: 1, stripe_mib: 2, ...read }, 99)
    ];
}

/** Joins of the same rows by each algorithm. */
function joinLines() {
    const named = args.flatMap((name, i) => (name === "--algorithm" ? [args[i + 1]] : []));
    return named.map((algorithm) => ({ ...outcome, algorithm }));
}

const others = { partition: partitionLines, "out-of-core-group-by": groupLines, tiers: tierLines };
const lines = others[args[0]] ?? (args[0] === "out-of-core" ? () => [outcome] : joinLines);
for (const line of lines()) console.log(JSON.stringify(line));
process.exitCode = verified ? 0 : 1;
