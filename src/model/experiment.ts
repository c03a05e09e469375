// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import { cpuJoinAlgorithm, isTableJoin, type JoinAlgorithm, type OutOfCoreJoinAlgorithm } from "./algorithms.js";
import { checkBoolean, checkInteger, checkOneOf, checkOptions, invalidArgument } from "./arguments.js";
import { deviceFarPartitioners, deviceStreamProbes } from "./device-constants.js";

/** How kernels partition rows of host memory (cuda/far_partition), as section 4 of the Triton join's paper has it. */
export type FarPartitioner = (typeof deviceFarPartitioners)[number];

/** What a join makes of a build side in GPU memory, past which the probe side streams (cuda/baseline_join). */
export type StreamProbe = (typeof deviceStreamProbes)[number];

const coPartitionJoins = ["hash", "bucket-chaining", "perfect"] as const;
/** How partitions of both sides are joined in shared memory. */
export type CoPartitionJoin = (typeof coPartitionJoins)[number];

const pagePlaces = ["listed", "mapped"] as const;
/** How pages of kernels are found. */
export type PagePlaces = (typeof pagePlaces)[number];

/** Pages or stripes that take turns: so many of GPU memory, then so many of host memory. */
export interface Interleave {
    readonly device: number;
    readonly far: number;
}

/**
 * What the planner decides of a join or group-by and an experiment varies. What is left out the planner decides; no
 * option changes the result. A combination that the memory cannot hold is an error as it is of any other query.
 */
export interface ExperimentOptions {
    /**
     * What partitions rows in the first pass of joins by kernels: `"standard"`, `"linear"`, `"shared"`,
     * `"hierarchical"` or `"bulk"`, as in section 4 of the Triton join's paper (Lutz et al., SIGMOD 2022). Defaults to
     * the one that suits the GPU.
     */
    partitioner?: FarPartitioner;
    /**
     * Pages of joins by kernels take turns: `device` of them in GPU memory, then `far` in that of a second GPU as far
     * as `memory.peer` goes, and in host memory (section 5.3 of that paper); so do stripes of 16 MiB of the table of
     * `"npj-far"`, of GPU and host memory alone. Whole numbers from 0 to 65,536, not both 0. Defaults to as many in GPU
     * memory as fit, spread evenly, or fewer where the machine's speeds predict less time with them.
     */
    interleave?: Interleave;
    /**
     * Where pages of joins by kernels come from: `"listed"`, one by one of GPU and host memory, or `"mapped"`, cut from
     * one range of addresses whose stripes of 2 or 16 MiB of each take turns (section 5.3 of that paper). Where pages
     * are to lie in host memory and the driver maps none of it, that is the error UNSUPPORTED_TYPE. Defaults to
     * `"listed"`.
     */
    pages?: PagePlaces;
    /**
     * Share of what a join or group-by out of core keeps in pages that has room in GPU memory, from 0 to 1: partitions
     * of the build side by copy engines, pages of both sides by kernels, rows of a group-by. Defaults to as much as
     * fits. Not together with `interleave`.
     */
    residentShare?: number;
    /** Rows of a chunk that crosses the link at once, from 64 to 2^30. Defaults to what is predicted best. */
    chunkRows?: number;
    /**
     * Bits of the hash of the first partition pass, which makes 2^n partitions, from 0 to 14; the GPU takes 12 at most.
     * Defaults to what partitions of the right size need.
     */
    radixBits?: number;
    /** The same of the second pass, from 0 to 14; the GPU takes 1 to 8. */
    secondRadixBits?: number;
    /**
     * Tables that join partitions of `triton`'s counts in the shared memory of a block: `"hash"`, with as many buckets
     * as fit it, or `"bucket-chaining"`, with the 2,048 of that paper; either chains the rows of a bucket. Or
     * `"perfect"`, that paper's perfect hashing: what is left of a key without the bits of its partition is the place
     * of its row in an array. It wants one integer key of the build side without repetition, in a range of few values
     * for each row; `INVALID_ARGUMENT` where the planner sees that a named join has no such key, `UNSUPPORTED_TYPE`
     * where the GPU does. Rows of a result are found by an index instead. Defaults to `"hash"`.
     */
    coPartitionJoin?: CoPartitionJoin;
    /** Thread blocks of the first pass of joins by kernels, from 1 to 1,024. Defaults to one per multiprocessor. */
    partitionBlocks?: number;
    /**
     * Thread blocks that gather partitions, or partition them once more, while others are joined (section 5.2 of the
     * paper), from 1 to 1,024. Defaults to a quarter or a half of the multiprocessors.
     */
    gatherBlocks?: number;
    /**
     * `"stream-probe"`: the build side is `"sorted"` once, each chunk of the probe side too, and merged with it; or it
     * is `"partitioned"` by radix, as each chunk is, and joined by hash tables, both as in section 3.4 of the paper by
     * Rui and Tu (SSDBM 2017); or a `"table"`, which is none of theirs: rows of chunks are looked up in one table of
     * linear probing. Defaults to `"sorted"`, which is ahead in the paper's figure 14.
     */
    streamProbe?: StreamProbe;
    /**
     * `"stream-probe"`: a chunk passes the link while the one before is joined (their figures 6 and 14).
     * `"cpu-partitioned"`: the build side does while the CPU partitions the probe side (section 6.2.4 of the Triton
     * join's paper). Or one after the other. Defaults to true.
     */
    overlap?: boolean;
}

const experimentNames = [
    "partitioner",
    "interleave",
    "pages",
    "residentShare",
    "chunkRows",
    "radixBits",
    "secondRadixBits",
    "coPartitionJoin",
    "partitionBlocks",
    "gatherBlocks",
    "streamProbe",
    "overlap"
] as const satisfies readonly (keyof ExperimentOptions)[];

const kernels = [
    "partitioner",
    "chunkRows",
    "radixBits",
    "secondRadixBits",
    "coPartitionJoin",
    "partitionBlocks",
    "gatherBlocks"
] as const satisfies readonly (keyof ExperimentOptions)[];

/** What a join that the user has named takes of these; joins of tables in GPU memory take none. */
const experimentsOf: Readonly<
    Record<OutOfCoreJoinAlgorithm | typeof cpuJoinAlgorithm, readonly (keyof ExperimentOptions)[]>
> = {
    staged: ["residentShare", "chunkRows", "radixBits"],
    triton: [...kernels, "interleave", "pages", "residentShare"],
    "triton-uncached": kernels,
    "stream-probe": ["streamProbe", "chunkRows", "overlap"],
    "npj-far": ["interleave", "chunkRows"],
    "cpu-partitioned": ["residentShare", "chunkRows", "radixBits", "overlap"],
    [cpuJoinAlgorithm]: ["radixBits", "secondRadixBits"]
};

/** Bits of a pass at most, in native/model/stage_spec.hpp. */
const largestRadixBits = 14;
/** More than any GPU has multiprocessors. */
const blocksMax = 1024;
const interleaveMax = 65_536;

function checkInterleave(value: unknown, where: string): Interleave {
    const given = checkOptions(value, where, ["device", "far"]);
    const count = (name: "device" | "far"): number => checkInteger(given[name], `${where}.${name}`, 0, interleaveMax);
    const [device, far] = [count("device"), count("far")];
    if (device + far === 0) throw invalidArgument(where, "pages of GPU or of host memory", 0);
    return { device, far };
}

/** Reads the option `experiment`, which may be left out. */
export function checkExperiment(value: unknown, where = "experiment"): ExperimentOptions {
    const given = checkOptions(value, where, experimentNames);
    const option = (name: keyof ExperimentOptions): string => `${where}.${name}`;
    const experiment: ExperimentOptions = {};
    const integers = [
        ["chunkRows", 64, 2 ** 30],
        ["radixBits", 0, largestRadixBits],
        ["secondRadixBits", 0, largestRadixBits],
        ["partitionBlocks", 1, blocksMax],
        ["gatherBlocks", 1, blocksMax]
    ] as const;
    for (const [name, min, max] of integers) {
        if (given[name] !== undefined) experiment[name] = checkInteger(given[name], option(name), min, max);
    }
    const { residentShare } = given;
    if (residentShare !== undefined) {
        if (typeof residentShare !== "number" || !(residentShare >= 0 && residentShare <= 1)) {
            throw invalidArgument(option("residentShare"), "a number from 0 to 1", residentShare);
        }
        experiment.residentShare = residentShare;
    }
    if (given["interleave"] !== undefined) {
        experiment.interleave = checkInterleave(given["interleave"], option("interleave"));
        if (residentShare !== undefined) {
            const both = "`interleave` and `residentShare`, which both say where pages lie";
            throw new SpillwayError("INVALID_ARGUMENT", `\`${where}\` has ${both}; give one of them`, {
                option: option("interleave")
            });
        }
    }
    const { coPartitionJoin } = given;
    if (coPartitionJoin !== undefined) {
        experiment.coPartitionJoin = checkOneOf(coPartitionJoin, option("coPartitionJoin"), coPartitionJoins);
    }
    if (given["pages"] !== undefined) experiment.pages = checkOneOf(given["pages"], option("pages"), pagePlaces);
    if (given["partitioner"] !== undefined) {
        experiment.partitioner = checkOneOf(given["partitioner"], option("partitioner"), deviceFarPartitioners);
    }
    const { streamProbe, overlap } = given;
    if (streamProbe !== undefined) {
        experiment.streamProbe = checkOneOf(streamProbe, option("streamProbe"), deviceStreamProbes);
    }
    if (overlap !== undefined) experiment.overlap = checkBoolean(overlap, option("overlap"));
    return experiment;
}

/** Throws INVALID_ARGUMENT where a join that was named has nothing that one of the options could change. */
export function checkExperimentOf(algorithm: JoinAlgorithm, experiment: ExperimentOptions): void {
    if (algorithm === "auto") return;
    const taken = isTableJoin(algorithm) ? [] : experimentsOf[algorithm];
    const name = experimentNames.find((one) => experiment[one] !== undefined && !taken.includes(one));
    if (name === undefined) return;
    const what = taken.length === 0 ? "none" : taken.map((one) => `\`${one}\``).join(", ");
    throw new SpillwayError(
        "INVALID_ARGUMENT",
        `\`experiment.${name}\` changes nothing of \`algorithm\` "${algorithm}", which takes ${what}; leave it out`,
        { option: `experiment.${name}`, algorithm }
    );
}
