// SPDX-License-Identifier: Apache-2.0
// What a process has resident with the GPU open (VmHWM): each case in a process of its own, as the peak is the
// process's. The promise is that of docs/memory.md.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { mebibyte, parseBytes } from "../../dist/model/sizes.js";
import { check, measure, options } from "./checks.mjs";

/** What Node.js and the code take beside the budget, and what the driver of the GPU does. */
const besideBudgetBytes = 128 * mebibyte;
const driverBytes = 256 * mebibyte;

function inProcess(given) {
    const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [fileURLToPath(new URL("resident-process.mjs", import.meta.url)), JSON.stringify(given)],
        { encoding: "utf8" }
    );
    if (status !== 0) throw new Error(`The process ended with ${status}: ${stderr}`);
    return JSON.parse(stdout);
}

async function writeFiles(cpu, folder, rows) {
    const files = { left: join(folder, "resident-left.arrow"), right: join(folder, "resident-right.arrow") };
    await cpu.generate(
        { rows, key: { name: "l_key" }, payload: [{ name: "text", type: "utf8", width: 12 }] },
        { path: files.left }
    );
    const key = { name: "r_key", role: "foreign", domainRows: rows };
    await cpu.generate({ rows: 2 * rows, seed: 2, key, payload: [{ name: "value" }] }, { path: files.right });
    return files;
}

const cases = [
    ["64MiB", undefined, "batches"],
    ["256MiB", undefined, "count"],
    ["256MiB", undefined, "batches"],
    ["256MiB", "256MiB", "batches"],
    ["1GiB", undefined, "file"],
    ["1GiB", "256MiB", "file"]
];

export async function residentMemory(cpu, folder) {
    // What a GPU of plain C++ holds is resident in the process, too: with few rows that stays small beside the promise.
    const files = await writeFiles(cpu, folder, options.small ? 100_000 : 16_000_000);
    for (const [host, device, action] of cases) {
        const limit = device === undefined ? "" : `, ${device} of GPU memory`;
        await check(`resident memory with the GPU open: ${action} in ${host}${limit}`, () => {
            const memory = { host, spillDirectory: folder, ...(device === undefined ? {} : { device }) };
            // Wherever the GPU can run the query, whatever the predicted times.
            const runtime = { device: "auto", memory, debug: { gpu: true } };
            const { peakBytes, ...told } = inProcess({ runtime, files, action, folder });
            const besideBytes = peakBytes - parseBytes(host, "host");
            measure({ peak_bytes: peakBytes, beside_budget_bytes: besideBytes, ...told });
            if (!Object.values(told.queries).some((query) => query.device === "gpu")) return "nothing ran on the GPU";
            return besideBytes <= besideBudgetBytes + driverBytes ? null : `${besideBytes} bytes beside the budget`;
        });
    }
}
