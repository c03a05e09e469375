// SPDX-License-Identifier: Apache-2.0

export interface NumaNode {
    node: number;
    /** CPU list as the kernel writes it: "0-15,32-47". */
    cpus: string;
    memoryBytes: number;
}

/** What this machine has, as far as the engine cares. */
export interface MachineInfo {
    /** Cores this process may use. */
    cores: number;
    physicalCores: number;
    cpuModel: string;
    architecture: string;
    /** Instruction-set extensions the engine uses. */
    simd: string[];
    l1Bytes: number;
    l2Bytes: number;
    l3Bytes: number;
    cacheLineBytes: number;
    memoryBytes: number;
    availableBytes: number;
    /** Limit of the control group, or null. */
    memoryLimitBytes: number | null;
    pageBytes: number;
    hugePageBytes: number;
    transparentHugePages: string;
    numaNodes: NumaNode[];
}

// Sizes that are common where the system does not tell (containers often hide /sys/devices/system/cpu/*/cache).
const usualCaches = { l1Bytes: 32 * 1024, l2Bytes: 1024 * 1024, l3Bytes: 16 * 1024 * 1024 };
const usualCacheLineBytes = 64;

/** The machine as native code found it, with usual figures where it found none. */
export function machineInfo(found: MachineInfo): MachineInfo {
    const cores = Math.max(1, found.cores);
    return {
        ...found,
        cores,
        physicalCores: Math.max(1, found.physicalCores),
        l1Bytes: found.l1Bytes || usualCaches.l1Bytes,
        l2Bytes: found.l2Bytes || usualCaches.l2Bytes,
        l3Bytes: found.l3Bytes || usualCaches.l3Bytes,
        cacheLineBytes: found.cacheLineBytes || usualCacheLineBytes
    };
}

/** Memory that a process may count on: what is free now, and never more than its control group allows. */
export function usableMemory(machine: MachineInfo): number {
    return Math.min(machine.availableBytes, machine.memoryLimitBytes ?? Infinity);
}
