// SPDX-License-Identifier: Apache-2.0
import { readdirSync } from "node:fs";

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

/** Device files of NVIDIA's drivers: of a card, of a Jetson, of WSL. */
export const gpuFile = /^(nvidia\d+|nvhost-gpu|dxg)$/;

/**
 * Does the machine show signs of a GPU? Takes microseconds and wakes no driver; whether it can be used only
 * `Runtime.devices()` tells. A plugin that is named by SPILLWAY_GPU_FOLDER brings a GPU of its own.
 */
export function showsGpu(): boolean {
    if ((process.env["SPILLWAY_GPU_FOLDER"] ?? "") !== "") return true;
    try {
        return readdirSync("/dev").some((name) => gpuFile.test(name));
    } catch {
        return false;
    }
}

/** What the engine found of GPUs. */
export interface FoundGpus {
    gpus: readonly { name: string; memoryBytes: number; computeCapability: string; reason: string | null }[];
    /** Why there is none; null if there are some. */
    unavailable: string | null;
}

/**
 * The CPU and the GPUs of this machine, each with the reason why it is not used. `wanted`: what the runtime was opened
 * for; queries use the first GPU that the plugin has code for.
 */
export function listDevices(machine: MachineInfo, found: FoundGpus, wanted: "auto" | "cpu" | "gpu"): DeviceInfo[] {
    const name = `${machine.cpuModel || machine.architecture} (${machine.cores} cores)`;
    const onGpu = wanted === "gpu" ? 'the runtime was opened with device "gpu"' : null;
    const devices: DeviceInfo[] = [{ kind: "cpu", name, used: onGpu === null, reason: onGpu }];
    const first = found.gpus.findIndex(({ reason }) => reason === null);
    found.gpus.forEach(({ name: gpu, memoryBytes, computeCapability, reason }, i) => {
        const unused =
            reason ??
            (wanted === "cpu"
                ? 'the runtime was opened with device "cpu"'
                : i === first
                  ? null
                  : "queries use one GPU in this version");
        devices.push({ kind: "gpu", name: gpu, used: unused === null, reason: unused, memoryBytes, computeCapability });
    });
    if (found.gpus.length === 0) {
        devices.push({ kind: "gpu", name: "none", used: false, reason: found.unavailable ?? "none was found" });
    }
    return devices;
}
