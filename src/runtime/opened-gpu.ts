// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import { isKnownDevice, withDevice } from "../machine/profile.js";
import type { Binding, NativeDevice } from "../native/binding.js";
import type { NativePeer } from "../native/device-binding.js";
import type { PlanQuery } from "../planner/plan-search.js";

/** What plans want to know of the GPU that is open. */
export interface OpenedGpu {
    readonly limitBytes: number;
    /** Memory of another GPU for spilled rows; 0: there is none. */
    readonly peerBytes: number;
    /** How fast copies from it and to it were when it was opened; 0: not measured. */
    readonly peerReadBytesPerMs: number;
    readonly peerWriteBytesPerMs: number;
    /** As its driver calls it. */
    readonly name: string;
    /** Its kernels use memory of the host through the host's page tables. */
    readonly isCoherent: boolean;
    readonly multiprocessors: number;
    /** Its compute capability begins with it. */
    readonly computeMajor: number;
}

/** The first one that the plugin has code for. */
export function usableGpu(gpus: readonly NativeDevice[]): NativeDevice | undefined {
    return gpus.find(({ reason }) => reason === null);
}

/** The first GPU that the plugin has code for. Throws NO_DEVICE, with the reason, where there is none. */
export function requireGpu(binding: Pick<Binding, "devices" | "gpuUnavailableReason">): NativeDevice {
    const gpus = binding.devices();
    const gpu = usableGpu(gpus);
    if (gpu !== undefined) return gpu;
    const reason = gpus[0]?.reason ?? binding.gpuUnavailableReason() ?? "none was found";
    throw new SpillwayError("NO_DEVICE", `There is no GPU to run on: ${reason}; use device "auto" or "cpu"`, {
        option: "device",
        reason
    });
}

export function isCoherent(gpu: NativeDevice | undefined): boolean {
    return gpu !== undefined && gpu.pageableAccess && gpu.hostPageTables;
}

export function openedGpu(gpu: NativeDevice, memory: Pick<OpenedGpu, "limitBytes"> & NativePeer): OpenedGpu {
    const { limitBytes, peerBytes, peerReadBytesPerMs, peerWriteBytesPerMs } = memory;
    const { name, multiprocessors, computeCapability } = gpu;
    return {
        ...{ limitBytes, peerBytes, peerReadBytesPerMs, peerWriteBytesPerMs },
        ...{ name, isCoherent: isCoherent(gpu), multiprocessors },
        computeMajor: Number.parseInt(computeCapability, 10)
    };
}

/**
 * The query with what is known of this GPU. Speeds are those of its name, if the package has them; `isMeasured`: those
 * of the query were measured on this machine.
 */
export function queryFor(opened: OpenedGpu, query: PlanQuery, isMeasured: boolean): PlanQuery {
    const { name, isCoherent: coherentDevice, multiprocessors, computeMajor, peerBytes } = opened;
    const own = { ...query, coherentDevice, multiprocessors, computeMajor, peerBytes };
    if (isMeasured) return { ...own, measuredDevice: true };
    return { ...own, measuredDevice: isKnownDevice(name), profile: withDevice(query.profile, name) };
}
