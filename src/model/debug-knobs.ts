// SPDX-License-Identifier: Apache-2.0
import { checkBoolean, checkInteger, checkOneOf, checkOptions, invalidArgument } from "./arguments.js";
import { checkExperiment, type ExperimentOptions } from "./experiment.js";

export const algorithms = ["radix", "streaming", "array", "pipeline", "hash", "partitioned"] as const;
/**
 * Joins: radix, streaming, array, pipeline. Group-bys: hash, partitioned. A name that does not fit the query is
 * ignored.
 */
export type AlgorithmName = (typeof algorithms)[number];

export const hashingSchemes = ["linearProbing", "bucketChaining", "perfect"] as const;
export type HashingScheme = (typeof hashingSchemes)[number];

/**
 * Overrides of the planner's decisions for tests. UNSTABLE: names and meanings may change in any release, and a
 * combination that the budget cannot hold fails.
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
    algorithm?: AlgorithmName;
    scheme?: HashingScheme;
    /** Threads of every stage. */
    workers?: number;
    /** Rows of a morsel. */
    morselRows?: number;
    /** Co-partitions whose build side is larger are joined in chunks of this many bytes. */
    buildChunkBytes?: number;
    /** Pipelines: so many passes over the input, where the largest build side can be taken in parts. */
    passes?: number;
    /** Probe sides with more rows are shared by several workers. */
    probeSplitRows?: number;
    /** GPU: the result of the last join leaves it in pieces of at most so many rows; 64 is the least. */
    pieceRows?: number;
    /** GPU: values cross the link in as many bits as they need, or as they are. */
    packLink?: boolean;
    /** With device "auto": what the GPU can run runs there, whatever the predicted times. */
    gpu?: boolean;
    /** GPU: joins and group-bys that can run out of core do, also where their tables would fit GPU memory. */
    outOfCore?: boolean;
    /** Out of core: bytes of spilled rows in host memory; the others go to disk. */
    hostSpillBytes?: number;
    /** For `openRuntime` with `memory.peer`: number of the GPU whose memory that is, which may be the one itself. */
    peerOrdinal?: number;
    /** Joins out of core: a Bloom filter of the build side's keys, for types of join that may have one; or none. */
    filter?: boolean;
    /** CPU engine: short texts lie in the rows themselves, however few rows an input has; or never. */
    inlineTexts?: boolean;
}

export const debugKnobNames = [
    "hashMask",
    "forceSpill",
    "packSpilled",
    "pageBytes",
    "algorithm",
    "scheme",
    "workers",
    "morselRows",
    "buildChunkBytes",
    "passes",
    "probeSplitRows",
    "pieceRows",
    "packLink",
    "gpu",
    "outOfCore",
    "hostSpillBytes",
    "peerOrdinal",
    "filter",
    "inlineTexts"
] as const satisfies readonly (keyof DebugKnobs)[];

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
        ["workers", 1, 1024],
        ["morselRows", 1, Number.MAX_SAFE_INTEGER],
        ["buildChunkBytes", 1, Number.MAX_SAFE_INTEGER],
        ["passes", 1, 1024],
        ["probeSplitRows", 1, Number.MAX_SAFE_INTEGER],
        ["pieceRows", 1, Number.MAX_SAFE_INTEGER],
        ["hostSpillBytes", 0, Number.MAX_SAFE_INTEGER],
        ["peerOrdinal", 0, 1023]
    ] as const;
    for (const [name, min, max] of integers) {
        if (given[name] !== undefined) knobs[name] = checkInteger(given[name], option(name), min, max);
    }
    for (const name of [
        "forceSpill",
        "packSpilled",
        "packLink",
        "gpu",
        "outOfCore",
        "filter",
        "inlineTexts"
    ] as const) {
        if (given[name] !== undefined) knobs[name] = checkBoolean(given[name], option(name));
    }
    if (given["algorithm"] !== undefined) {
        knobs.algorithm = checkOneOf(given["algorithm"], option("algorithm"), algorithms);
    }
    if (given["scheme"] !== undefined) knobs.scheme = checkOneOf(given["scheme"], option("scheme"), hashingSchemes);
    return knobs;
}

/** All that overrules the planner: what tests turn and what experiments vary. */
export interface Knobs extends DebugKnobs, ExperimentOptions {}

/** Reads the options `debug` and `experiment` of whatever has both. */
export function checkKnobs(given: Record<string, unknown>): Knobs {
    return { ...checkDebugKnobs(given["debug"], "debug"), ...checkExperiment(given["experiment"]) };
}
