// SPDX-License-Identifier: Apache-2.0
import type {
    NativeArrayJoinSpec,
    NativeGroupBySpec,
    NativeJoinSpec,
    NativePartitionSpec,
    NativePipelineSpec
} from "../native/binding.js";
import type {
    ArrayJoinDescription,
    GroupDescription,
    JoinDescription,
    PartitionDescription,
    PipelineDescription
} from "../plan/plan.js";

/** Plan -> native: bigints for hexadecimal text, mutable arrays for frozen ones. */
export function nativePartitionSpec(spec: PartitionDescription, poolBytes: number): NativePartitionSpec {
    return {
        columns: [...spec.columns],
        keys: spec.keys.map((key) => ({ ...key })),
        carry: [...spec.carry],
        ...(spec.carryBytes === undefined ? {} : { carryBytes: [...spec.carryBytes] }),
        nullKeys: spec.nullKeys,
        radixBits: spec.radixBits,
        pageBytes: spec.pageBytes,
        poolBytes,
        spillRunBytes: spec.spillRunBytes,
        spillWriteBytes: spec.spillWriteBytes,
        spill: spec.spill,
        packSpilled: spec.packSpilled,
        forceSpill: spec.forceSpill,
        morselRows: spec.morselRows,
        workers: spec.workers,
        hashMask: BigInt(spec.hashMask)
    };
}

/** What is decided from true sizes when a join begins. */
export interface JoinDecision {
    schedule: readonly number[];
    tableBytes: number;
    buildChunkBytes: number;
    probeSplitRows: number;
}

export function nativeJoinSpec(spec: JoinDescription, decision: JoinDecision): NativeJoinSpec {
    return {
        emit: spec.emit,
        anti: spec.anti,
        keepUnmatchedBuild: spec.keepUnmatchedBuild,
        keepUnmatchedProbe: spec.keepUnmatchedProbe,
        scheme: spec.scheme,
        outputs: spec.outputs.map((output) => ({ ...output })),
        schedule: Int32Array.from(decision.schedule),
        secondRadixBits: spec.secondRadixBits,
        tableBytes: decision.tableBytes,
        buildChunkBytes: decision.buildChunkBytes,
        perfectRangeMax: spec.perfectRangeMax,
        probeSplitRows: decision.probeSplitRows,
        workers: spec.workers,
        hashMask: BigInt(spec.hashMask)
    };
}

export function nativeArrayJoinSpec(spec: ArrayJoinDescription): NativeArrayJoinSpec {
    return { ...spec, outputs: [...spec.outputs], firstKey: BigInt(spec.firstKey) };
}

export function nativePipelineSpec(spec: PipelineDescription): NativePipelineSpec {
    return {
        columns: [...spec.columns],
        joins: spec.joins.map(({ keyColumns, columns, keys, nullKeys, spec: join }) => ({
            keyColumns: keyColumns.map((column) => ({ ...column })),
            columns: [...columns],
            keys: keys.map((key) => ({ ...key })),
            nullKeys,
            spec: nativeJoinSpec(join, { schedule: [], ...join })
        })),
        outputs: spec.outputs.map((column) => ({ ...column })),
        ...(spec.passes === undefined
            ? {}
            : { passes: { join: spec.passes.join, bounds: spec.passes.bounds.map((bound) => BigInt(bound)) } }),
        morselRows: spec.morselRows,
        workers: spec.workers
    };
}

export function nativeGroupBySpec(
    spec: GroupDescription,
    schedule: readonly number[],
    tableBytes: number
): NativeGroupBySpec {
    return {
        keyFields: [...spec.keyFields],
        aggregates: spec.aggregates.map((aggregate) => ({ ...aggregate })),
        rowNumberField: spec.rowNumberField,
        schedule: Int32Array.from(schedule),
        tableBytes,
        workers: spec.workers,
        hashMask: BigInt(spec.hashMask)
    };
}
