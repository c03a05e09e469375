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
    Object.assign(outcome.workload, { result: valueOf("--result"), memory_limit_bytes: limit });
    Object.assign(outcome, {
        phases: { build_ms: fake.median_ms, probe_ms: 0, spilled_ms: 0 },
        link_bytes: { h2d: inputBytes, d2h: 0 },
        link_gb_per_s: { h2d: inputBytes / fake.median_ms / 1e6, d2h: 0 },
        link_efficiency: fake.link_efficiency ?? 0.95,
        spilled_rows: { build: buildRows / 4, probe: probeRows / 4 },
        peak_bytes: { device: limit / 2, host: 1024 }
    });
}
console.log(JSON.stringify(outcome));
process.exitCode = verified ? 0 : 1;
