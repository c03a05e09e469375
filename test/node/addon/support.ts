// SPDX-License-Identifier: Apache-2.0
// The addon by itself, without the TypeScript above it.
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import type {
    Binding,
    EngineHandle,
    NativeArrayJoinSpec,
    NativeColumnType,
    NativeGenerateSpec,
    NativeJoinSpec,
    NativeKeySpec,
    NativeOutputBatch,
    NativePartitionSpec,
    NativeSourceSpec,
    SinkHandle
} from "../../../src/native/binding.js";

/** SPILLWAY_TEST_ADDON: another build of the addon, for runs under a sanitizer. */
export const addonPath =
    process.env["SPILLWAY_TEST_ADDON"] ??
    fileURLToPath(new URL("../../../build/Release/spillway.node", import.meta.url));

export const binding = createRequire(import.meta.url)(addonPath) as Binding;

export const allBits = (1n << 64n) - 1n;

export function openEngine(memoryBytes = 1 << 30): EngineHandle {
    return binding.createEngine({ memoryBytes, spillDirectory: tmpdir(), threads: 2 });
}

export function int64Column(name: string): NativeColumnType {
    return {
        ...{ name, layout: "fixed", order: "signed", byteWidth: 8, nullable: false, utf8: false, listSize: 0 },
        ...{ typeIds: [], children: [] }
    };
}

export const twoColumns = [int64Column("key"), int64Column("payload")];

export const integerKey: NativeKeySpec = { column: 0, kind: "integer", kindOfValue: "integer", width: 8 };

export function generateSpec(rows: number, batchRows = 1 << 14): NativeGenerateSpec {
    return {
        rows,
        seed: 7n,
        key: {
            ...{ name: "key", width: 8, role: "primary", domainRows: rows, keyStride: 1, keyOffset: 0, duplicates: 1 },
            ...{ zipf: 0, matchRatio: 1, order: "shuffled", sparse: false }
        },
        payload: [{ name: "payload", kind: "int", width: 8 }],
        batchRows,
        workers: 2
    };
}

export function partitionSpec(change: Partial<NativePartitionSpec> = {}): NativePartitionSpec {
    return {
        ...{ columns: twoColumns, keys: [integerKey], carry: [0, 1], nullKeys: "drop", radixBits: 3 },
        ...{ pageBytes: 1 << 16, poolBytes: 1 << 28, spillRunBytes: 8192, spillWriteBytes: 65536 },
        ...{ spill: false, packSpilled: true, forceSpill: false },
        ...{ morselRows: 1 << 14, workers: 2, hashMask: allBits },
        ...change
    };
}

export function joinSpec(change: Partial<NativeJoinSpec> = {}): NativeJoinSpec {
    return {
        ...{ emit: "pairs", anti: false, keepUnmatchedBuild: false, keepUnmatchedProbe: false },
        ...{ scheme: "linearProbing", outputs: [], schedule: Int32Array.from({ length: 8 }, (_, i) => i) },
        ...{ secondRadixBits: 0, tableBytes: 1 << 27, buildChunkBytes: 1 << 26, perfectRangeMax: 0 },
        ...{ probeSplitRows: 1 << 20, workers: 2, hashMask: allBits },
        ...change
    };
}

/** Bits for the keys 0 .. 99. */
export function arrayJoinSpec(change: Partial<NativeArrayJoinSpec> = {}): NativeArrayJoinSpec {
    return {
        ...{ emit: "pairs", anti: false, keepUnmatchedProbe: false, outputs: [] },
        ...{ firstKey: 0n, keyValues: 100, buildWorkers: 2, workers: 2 },
        ...change
    };
}

/** `rows` rows (key = row number, payload = 2 x key) in JS memory. */
export function memorySource(rows: number, batches = 2): NativeSourceSpec {
    const each = Math.ceil(rows / batches);
    return {
        columns: twoColumns,
        dictionaries: [],
        files: null,
        links: [],
        batches: Array.from({ length: batches }, (_, batch) => {
            const count = Math.max(0, Math.min(each, rows - batch * each));
            const keys = BigInt64Array.from({ length: count }, (_, row) => BigInt(batch * each + row));
            const payload = keys.map((key) => 2n * key);
            return {
                ...{ rows: count, nodes: Float64Array.of(count, 0, 0, count, 0, 0) },
                memory: [null, new Uint8Array(keys.buffer), null, new Uint8Array(payload.buffer)],
                ...{ variadicCounts: [], dictionaries: [] }
            };
        })
    };
}

/** Takes every batch of a queue. */
export async function drain(sink: SinkHandle): Promise<NativeOutputBatch[]> {
    const batches: NativeOutputBatch[] = [];
    for (;;) {
        const batch = await binding.nextBatch(sink);
        if (batch === null) return batches;
        batches.push(batch);
    }
}

/** Values of a column of a batch whose columns are all of 64 bits: each a node, its validity and its values. */
export function int64Values({ rows, layout, memory }: NativeOutputBatch, column: number): BigInt64Array {
    const [index, offset] = [...layout.subarray(8 * column + 5, 8 * column + 7)] as [number, number];
    return new BigInt64Array(memory[index]!, offset, rows);
}
