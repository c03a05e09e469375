// SPDX-License-Identifier: Apache-2.0
import type { MachineInfo } from "./machine.js";

export interface DeviceInfo {
    kind: "cpu" | "gpu";
    name: string;
    /** Do queries of this runtime run on it? */
    used: boolean;
    /** Why it is not used; null if it is. */
    reason: string | null;
    /** Memory of a GPU, in bytes. */
    memoryBytes?: number;
    /** Compute capability of a GPU: "9.0". */
    computeCapability?: string;
}

/** What the engine found of GPUs. */
export interface FoundGpus {
    gpus: readonly { name: string; memoryBytes: number; computeCapability: string; reason: string | null }[];
    /** Why there is none; null if there are some. */
    unavailable: string | null;
}

const noQueries = "queries run on the CPU engine in this version";

/** The CPU and the GPUs of this machine, each with the reason why it is not used. */
export function listDevices(machine: MachineInfo, found: FoundGpus): DeviceInfo[] {
    const name = `${machine.cpuModel || machine.architecture} (${machine.cores} cores)`;
    const devices: DeviceInfo[] = [{ kind: "cpu", name, used: true, reason: null }];
    for (const { name: gpu, memoryBytes, computeCapability, reason } of found.gpus) {
        devices.push({
            kind: "gpu",
            name: gpu,
            used: false,
            reason: reason ?? noQueries,
            memoryBytes,
            computeCapability
        });
    }
    if (found.gpus.length === 0) {
        devices.push({ kind: "gpu", name: "none", used: false, reason: found.unavailable ?? "none was found" });
    }
    return devices;
}
