// SPDX-License-Identifier: Apache-2.0
// Batches as the engine hands them over.
import type { NativeOutputBatch } from "../../src/native/binding.js";

/** A node, and of each of its buffers the bytes; null: an absent one. */
export interface EngineNode {
    length: number;
    nullCount?: number;
    buffers: readonly (ArrayBufferView | ArrayBuffer | null)[];
}

/** A batch of these nodes in pre-order, whose buffers are in one memory, each padded as the engine pads them. */
export function engineBatch(rows: number, nodes: readonly EngineNode[], padding = 64): NativeOutputBatch {
    const layout: number[] = [];
    const parts: Uint8Array[] = [];
    let end = 0;
    for (const { length, nullCount = 0, buffers } of nodes) {
        layout.push(length, nullCount);
        for (const buffer of buffers) {
            if (buffer === null || buffer.byteLength === 0) {
                layout.push(-1, 0, 0);
                continue;
            }
            layout.push(0, end, buffer.byteLength);
            const bytes = ArrayBuffer.isView(buffer)
                ? new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)
                : new Uint8Array(buffer);
            parts.push(bytes);
            end += Math.ceil(buffer.byteLength / padding) * padding;
        }
    }
    const memory = new Uint8Array(end);
    let at = 0;
    for (const part of parts) {
        memory.set(part, at);
        at += Math.ceil(part.byteLength / padding) * padding;
    }
    return { rows, layout: Float64Array.from(layout), memory: end === 0 ? [] : [memory.buffer] };
}

/** A batch of columns of numbers without NULLs, which takes no more memory than these have. */
export function numbersBatch(...columns: readonly (Int32Array | BigInt64Array)[]): NativeOutputBatch {
    const rows = columns[0]?.length ?? 0;
    const nodes = columns.map((values) => ({ length: values.length, buffers: [null, values] }));
    return engineBatch(rows, nodes, 4);
}

/** The buffers of a batch of one column that has so many of them; null: an absent one. */
export function buffersOf({ layout, memory }: NativeOutputBatch, count: number): (Uint8Array | null)[] {
    return Array.from({ length: count }, (_, i) => {
        const [index, offset, bytes] = [...layout.subarray(2 + 3 * i, 5 + 3 * i)] as [number, number, number];
        return index < 0 ? null : new Uint8Array(memory[index] as ArrayBuffer, offset, bytes);
    });
}
