// SPDX-License-Identifier: Apache-2.0

export interface NativeJoinOutput {
    side: "build" | "probe" | "either";
    buildField: number;
    probeField: number;
}

/** Mirrors JoinSpec in native/model/stage_spec.hpp. */
export interface NativeJoinSpec {
    emit: "pairs" | "buildOnce" | "probeOnce";
    anti: boolean;
    keepUnmatchedBuild: boolean;
    keepUnmatchedProbe: boolean;
    scheme: "linearProbing" | "bucketChaining" | "perfect";
    outputs: NativeJoinOutput[];
    schedule: Int32Array;
    secondRadixBits: number;
    tableBytes: number;
    buildChunkBytes: number;
    perfectRangeMax: number;
    probeSplitRows: number;
    workers: number;
    hashMask: bigint;
}

/** Mirrors ArrayJoinSpec in native/model/stage_spec.hpp. */
export interface NativeArrayJoinSpec {
    emit: "pairs" | "probeOnce";
    anti: boolean;
    keepUnmatchedProbe: boolean;
    outputs: number[];
    firstKey: bigint;
    keyValues: number;
    buildWorkers: number;
    workers: number;
}
