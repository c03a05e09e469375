// SPDX-License-Identifier: Apache-2.0
import { deviceFarPartitioners } from "./device-constants.js";
import { checkBoolean, checkInteger, checkOneOf, checkOptions, invalidArgument } from "./arguments.js";

export const algorithms = ["radix", "streaming", "array", "hash", "partitioned"] as const;
/** Joins: radix, streaming, array. Group-bys: hash, partitioned. A name that does not fit the query is ignored. */
export type AlgorithmName = (typeof algorithms)[number];

export const hashingSchemes = ["linearProbing", "bucketChaining", "perfect"] as const;
export type HashingScheme = (typeof hashingSchemes)[number];

export const outOfCorePaths = ["staged", "coherent"] as const;
/** Joins out of core: by copy engines and packed rows, or by kernels that read and write host memory themselves. */
export type OutOfCorePathName = (typeof outOfCorePaths)[number];

/** How kernels partition rows of host memory (cuda/far_partition). */
export type FarPartitioner = (typeof deviceFarPartitioners)[number];

/**
 * Overrides of the planner's decisions for tests and experiments. UNSTABLE: names and meanings may change in any
 * release, and a combination that the budget cannot hold fails.
 */
export interface DebugKnobs {
    /** Bits of the hash that are used; 0n sends every row to one partition and one slot. */
    hashMask?: bigint;
    /** Every full page goes to disk. */
    forceSpill?: boolean;
    /** Spilled rows are packed, where that makes them smaller. */
    packSpilled?: boolean;
    /** Page size, a power of two from 1024 to 2097152. */
    pageBytes?: number;
    /** Bits of the first partition pass, 0 .. 14. */
    radixBits?: number;
    /** Bits of the second pass, 0 .. 14. */
    secondRadixBits?: number;
    algorithm?: AlgorithmName;
    scheme?: HashingScheme;
    /** Threads of every stage. */
    workers?: number;
    /** Rows of a morsel. */
    morselRows?: number;
    /** Co-partitions whose build side is larger are joined in chunks of this many bytes. */
    buildChunkBytes?: number;
    /** Probe sides with more rows are shared by several workers. */
    probeSplitRows?: number;
    /** GPU: the result of the last join leaves it in pieces of at most so many rows; 64 is the least. */
    pieceRows?: number;
    /** With device "auto": what the GPU can run runs there, whatever the predicted times. */
    gpu?: boolean;
    /** GPU: joins and group-bys that can run out of core do, also where their tables would fit GPU memory. */
    outOfCore?: boolean;
    /** Out of core: rows of a chunk, 64 at least (`radixBits`: at most 12). */
    chunkRows?: number;
    /** Out of core: share of the build side's partitions, or of a group-by's rows, with room in GPU memory, 0 .. 1. */
    residentShare?: number;
    /** Out of core: bytes of spilled rows in host memory; the others go to disk. */
    hostSpillBytes?: number;
    /** For `openRuntime` with `memory.peer`: number of the GPU whose memory that is, which may be the one itself. */
    peerOrdinal?: number;
    /** Joins out of core: a Bloom filter of the build side's keys, for types of join that may have one; or none. */
    filter?: boolean;
    /** Joins out of core: the way of their rows, where a join can take it. */
    path?: OutOfCorePathName;
    /** On the coherent path: what partitions both sides. */
    partitioner?: FarPartitioner;
    /** On the coherent path: in how many blocks it is partitioned. */
    partitionBlocks?: number;
    /** On the coherent path: blocks that gather partitions, or partition them once more, while others are joined. */
    gatherBlocks?: number;
}

export const debugKnobNames = [
    "hashMask",
    "forceSpill",
    "packSpilled",
    "pageBytes",
    "radixBits",
    "secondRadixBits",
    "algorithm",
    "scheme",
    "workers",
    "morselRows",
    "buildChunkBytes",
    "probeSplitRows",
    "pieceRows",
    "gpu",
    "outOfCore",
    "chunkRows",
    "residentShare",
    "hostSpillBytes",
    "peerOrdinal",
    "filter",
    "path",
    "partitioner",
    "partitionBlocks",
    "gatherBlocks"
] as const satisfies readonly (keyof DebugKnobs)[];

const largestRadixBits = 14; // native/model/stage_spec.hpp
/** More than any GPU has multiprocessors. */
const blocksMax = 1024;
const pageBytesRange = [1024, 2 * 1024 * 1024] as const; // native/memory/page_pool.hpp

export function checkDebugKnobs(value: unknown, where: string): DebugKnobs {
    const given = checkOptions(value, where, debugKnobNames);
    const option = (name: keyof DebugKnobs): string => `${where}.${name}`;
    const knobs: DebugKnobs = {};
    const { hashMask, pageBytes } = given;
    if (hashMask !== undefined) {
        if (typeof hashMask !== "bigint" || BigInt.asUintN(64, hashMask) !== hashMask) {
            throw invalidArgument(option("hashMask"), "a bigint of 64 bits", hashMask);
        }
        knobs.hashMask = hashMask;
    }
    if (pageBytes !== undefined) {
        const bytes = checkInteger(pageBytes, option("pageBytes"), ...pageBytesRange);
        if (!Number.isInteger(Math.log2(bytes))) {
            throw invalidArgument(option("pageBytes"), "a power of two", pageBytes);
        }
        knobs.pageBytes = bytes;
    }
    const integers = [
        ["radixBits", 0, largestRadixBits],
        ["secondRadixBits", 0, largestRadixBits],
        ["workers", 1, 1024],
        ["morselRows", 1, Number.MAX_SAFE_INTEGER],
        ["buildChunkBytes", 1, Number.MAX_SAFE_INTEGER],
        ["probeSplitRows", 1, Number.MAX_SAFE_INTEGER],
        ["pieceRows", 1, Number.MAX_SAFE_INTEGER],
        ["chunkRows", 64, 2 ** 30],
        ["hostSpillBytes", 0, Number.MAX_SAFE_INTEGER],
        ["peerOrdinal", 0, 1023],
        ["partitionBlocks", 1, blocksMax],
        ["gatherBlocks", 1, blocksMax]
    ] as const;
    for (const [name, min, max] of integers) {
        if (given[name] !== undefined) knobs[name] = checkInteger(given[name], option(name), min, max);
    }
    for (const name of ["forceSpill", "packSpilled", "gpu", "outOfCore", "filter"] as const) {
        if (given[name] !== undefined) knobs[name] = checkBoolean(given[name], option(name));
    }
    const { residentShare } = given;
    if (residentShare !== undefined) {
        if (typeof residentShare !== "number" || !(residentShare >= 0 && residentShare <= 1)) {
            throw invalidArgument(option("residentShare"), "a number from 0 to 1", residentShare);
        }
        knobs.residentShare = residentShare;
    }
    if (given["algorithm"] !== undefined) {
        knobs.algorithm = checkOneOf(given["algorithm"], option("algorithm"), algorithms);
    }
    if (given["scheme"] !== undefined) knobs.scheme = checkOneOf(given["scheme"], option("scheme"), hashingSchemes);
    if (given["path"] !== undefined) knobs.path = checkOneOf(given["path"], option("path"), outOfCorePaths);
    if (given["partitioner"] !== undefined) {
        knobs.partitioner = checkOneOf(given["partitioner"], option("partitioner"), deviceFarPartitioners);
    }
    return knobs;
}
