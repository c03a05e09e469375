// SPDX-License-Identifier: Apache-2.0
import { availableParallelism, cpus } from "node:os";

/** "Intel(R) Xeon(R) Processor @ 2.50GHz, 2 cores" */
export function deviceName() {
    return `${cpus()[0]?.model.trim() ?? process.arch}, ${availableParallelism()} cores`;
}

/** The same as a folder name: "intel-xeon-2.50ghz-2-cores". */
export function machineSlug() {
    return deviceName()
        .toLowerCase()
        .replace(/\((r|tm)\)|\b(cpu|processor)\b|@/g, " ")
        .replace(/[^a-z0-9.]+/g, "-")
        .replace(/^-|-$/g, "");
}
