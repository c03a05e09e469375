// SPDX-License-Identifier: Apache-2.0
import { clamp } from "../../model/sizes.js";
import { deviceConstants } from "../../model/device-constants.js";
import { attempt, NotOnDevice } from "../device-support.js";

export const radixBitsMin = 5;
export const radixBitsMax = deviceConstants.firstPassBitsMax;
/** What a partition takes for itself: gaps in chunks and packed runs, lists, counters, extremes of its fields. */
const bytesPerPartition = 18 * 1024;
const partitionsShare = 1 / 8;

export interface RadixBits {
    /** As few as there may be where the usual number does not fit. */
    readonly least: number;
    readonly usual: number;
    readonly most: number;
}

/** A partition should be no larger share of a limit of GPU memory. */
const partitionShareMax = 1 / 16;

/** Radix bits that make partitions of `bytes` no larger than `partitionBytes`, nor than the limit allows. */
export function bitsOfPartitions(bytes: number, partitionBytes: number, limitBytes: number): number {
    const bytesMax = Math.max(1, Math.min(partitionBytes, limitBytes * partitionShareMax));
    return Math.ceil(Math.log2(bytes / bytesMax));
}

/** `wanted` bits make partitions small enough; a limit of GPU memory affords so many; `forced`: the knob. */
export function radixBitsFor(wanted: number, limitBytes: number, forced: number | undefined): RadixBits {
    if (forced !== undefined) {
        const bits = Math.min(forced, radixBitsMax);
        return { least: bits, usual: bits, most: bits };
    }
    const affordable = Math.floor(Math.log2((limitBytes * partitionsShare) / bytesPerPartition));
    const most = clamp(affordable, radixBitsMin, radixBitsMax);
    return { least: radixBitsMin, usual: clamp(wanted, radixBitsMin, most), most };
}

/**
 * What is made with the usual number of bits, or with fewer where the buffers of as many partitions have no room. So a
 * limit that an error names suffices, though more partitions would be affordable in it. Throws NotOnDevice where the
 * fewest do not fit.
 */
export function withBitsThatFit<T>({ least, usual }: RadixBits, make: (radixBits: number) => T): T {
    for (let bits = usual; bits > least; --bits) {
        const made = attempt(() => make(bits));
        if (!(made instanceof NotOnDevice)) return made;
    }
    return make(least);
}
