// SPDX-License-Identifier: Apache-2.0
// Memory of all tiers in the GPU benchmark: what it costs to get, how fast kernels stream through it. Only built-in
// modules: a GPU machine may have no others.
import { table } from "./gpu-report.mjs";

/** The one workload of such an experiment; the program itself knows what there is to be measured. */
export function tierCell({ gib, stripes = "2,16,64" }) {
    return { name: `ranges of ${gib} GiB`, bytes: gib * 2 ** 30, stripes };
}

export function tierArguments({ workload: { bytes, stripes } }, { samples, device } = {}) {
    const given = Object.entries({ bytes, stripes, samples, device }).filter(([, value]) => value !== undefined);
    return ["tiers", ...given.flatMap(([name, value]) => [`--${name}`, String(value)])];
}

function nameOf({ measure, kind, tier, direction, order, stripe_mib, ...shares }) {
    if (measure === "allocation") return kind;
    const stripes = ["device", "peer", "host"].map((place) => shares[`${place}_share`] ?? 0);
    const range = tier === "interleaved" ? `interleaved ${stripes.join(":")}, ${stripe_mib} MiB stripes` : tier;
    return `${range}, ${direction}, ${order}`;
}

/** What the program wrote, a line for each measurement behind one that names the device, as outcomes of runs. */
export function tierOutcomes(written) {
    const [{ device } = {}, ...lines] = written;
    return lines.map(({ median_ms, samples_ms, gb_per_s, verified = true, ...workload }) => {
        const { measure, bytes, ...parameters } = workload;
        const size = measure === "allocation" ? `, ${bytes / 2 ** 20} MiB` : "";
        return {
            run: { workload: { name: `${nameOf(workload)}${size}` }, algorithm: measure },
            outcome: {
                ...{ workload: { bytes, ...parameters }, algorithm: measure },
                ...{ median_ms, samples_ms, gb_per_s, verified, device }
            }
        };
    });
}

// What the same kernels reach in host or peer memory alone, by direction.
function aloneRates(results) {
    const rates = new Map();
    for (const { record } of results) {
        if (record?.algorithm !== "stream" || record.workload.tier === "interleaved") continue;
        const { tier, direction, order } = record.workload;
        rates.set([tier, direction, order].join(), record.gb_per_s);
    }
    return rates;
}

/** One line per measurement; of a range of stripes beside what its slower part would give alone, in proportion. */
export function tierTable(results) {
    const rates = aloneRates(results);
    const rows = results.map(({ run: { workload, algorithm }, record }) => {
        if (record === null) return [workload.name, algorithm, "-", "-", "-", "FAILED"];
        const { tier, direction, order, device_share = 0, peer_share = 0, host_share = 0 } = record.workload;
        const [slow, far] = host_share > 0 ? ["host", host_share] : ["peer", peer_share];
        const alone = rates.get([slow, direction, order].join());
        const bound = tier === "interleaved" && alone ? (alone * (device_share + peer_share + host_share)) / far : null;
        const cells = [record.median_ms.toFixed(2), record.gb_per_s.toFixed(1)];
        return [workload.name, algorithm, ...cells, bound?.toFixed(1) ?? "-", record.verified ? "yes" : "NO"];
    });
    return table(["memory", "measure", "median ms", "GB/s", "bound GB/s", "verified"], rows);
}
