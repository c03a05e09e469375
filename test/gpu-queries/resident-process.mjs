// SPDX-License-Identifier: Apache-2.0
// node test/gpu-queries/resident-process.mjs JSON: the process of a case of resident-memory.mjs. Runs a join and a
// group-by twice; prints what was resident, as JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { openRuntime } from "../../dist/index.js";

/** Bytes of one line of /proc/self/status. */
function statusBytes(name) {
    const found = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(readFileSync("/proc/self/status", "utf8"));
    if (found === null) throw new Error(`This kernel does not report ${name} in /proc/self/status.`);
    return Number(found[1]) * 1024;
}

const actions = {
    count: async (query) => await query.count(),
    batches: async (query) => {
        let rows = 0;
        for await (const batch of query) rows += batch.numRows;
        return rows;
    },
    file: async (query, folder) => await query.toArrowFile(join(folder, "resident.arrow"), { overwrite: true })
};

async function runCase({ runtime: runtimeOptions, files, action, folder }) {
    const beforeBytes = statusBytes("VmRSS");
    const runtime = await openRuntime(runtimeOptions);
    const left = await runtime.fromArrowFile(files.left);
    const right = await runtime.fromArrowFile(files.right);
    const aggregates = { lines: { count: "*" }, total: { sum: "value" } };
    const made = {
        join: left.join(right, { on: { l_key: "r_key" } }),
        "group-by": right.groupBy({ keys: ["r_key"], aggregates })
    };
    const queries = {};
    for (let run = 0; run < 2; run++) {
        for (const [name, query] of Object.entries(made)) {
            const rows = await actions[action](query, folder);
            const { device, deviceReason, elapsedMs } = query.report();
            queries[name] = { rows, device, deviceReason, elapsedMs };
        }
    }
    const peakBytes = statusBytes("VmHWM");
    const kinds = ["RssAnon", "RssFile", "RssShmem", "VmRSS"];
    const resident = Object.fromEntries(kinds.map((kind) => [kind, statusBytes(kind)]));
    await runtime.close();
    process.stdout.write(JSON.stringify({ peakBytes, beforeBytes, resident, queries }));
}

await runCase(JSON.parse(process.argv[2]));
