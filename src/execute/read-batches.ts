// SPDX-License-Identifier: Apache-2.0
import { DataType, makeData, Struct, type Data, type Field, type RecordBatch } from "apache-arrow";

import { SpillwayError } from "../errors.js";
import { formatBytes, mebibyte } from "../model/sizes.js";
import type { Binding, NativeRead } from "../native/binding.js";
import { collectGarbage } from "./dropped-batches.js";

/** What readers may keep of results at a time, where the budget is smaller. */
const keptBytesMin = 64 * mebibyte;
/** A reader that hands batches on, to a stream or a worker thread, may need some time to let go of them. */
const pausesMs: readonly number[] = [0, 1, 10, 50, 100, 200, 400, 800];
const freedMs: readonly number[] = [1, 5, 20, 50];

interface Memory {
    readonly binding: Binding;
    /** Undefined when it was released. */
    buffers: readonly ArrayBuffer[] | undefined;
}

/**
 * Where a batch has its memory. A WeakMap will not do: V8 makes its table anew after a full collection, and the next
 * young one keeps all values that a new table has. It took another full collection to free those: 13 for 7.0 GB of
 * batches that a reader dropped, which took 175 of the 334 ms of their delivery (H200, 2^26 rows of 13 columns from
 * files).
 */
const memoryKey = Symbol("memory");

interface ReadBatch extends RecordBatch {
    [memoryKey]?: Memory;
}

/** Notes whose memory it is: releaseBatch() can give it back. */
export function noteRead(batch: RecordBatch, binding: Binding, buffers: readonly ArrayBuffer[]): void {
    const memory: Memory = { binding, buffers };
    Object.defineProperty(batch, memoryKey, { value: memory });
}

let zeros = new Uint8Array(0);

/** A bitmap of NULLs, which all that are released share: V8 may collect garbage whenever an ArrayBuffer is made. */
function noneValid(length: number): Uint8Array {
    const bytes = Math.ceil(length / 8);
    if (bytes > zeros.length) zeros = new Uint8Array(2 * bytes);
    return zeros.subarray(0, bytes);
}

/**
 * Its values are gone: all of them read as NULL, where a view without elements would make false or NaN of them, and one
 * of detached memory cannot be sliced.
 */
function blank(data: Data): void {
    const { type, length } = data;
    for (const part of ["values", "valueOffsets", "typeIds"] as const) {
        const view: unknown = data[part];
        if (!ArrayBuffer.isView(view)) continue;
        // A union has no NULLs but those of its children: all rows are NULLs of the first.
        const elements = DataType.isUnion(type) ? length : 0;
        Object.assign(data, { [part]: new (view.constructor as new (length: number) => ArrayBufferView)(elements) });
    }
    if (DataType.isUnion(type)) (data.typeIds as Int8Array).fill(type.typeIds[0] ?? 0);
    // The first child of a union may have had no row.
    else Object.assign(data, { nullBitmap: noneValid(Math.max(1, length)), _nullCount: Math.max(1, length) });
    for (const child of data.children) blank(child);
}

/** Data without rows, whose children are there. */
function emptyData(type: DataType): Data {
    const fields: readonly Field[] = type.children ?? [];
    const children = fields.map((field) => emptyData(field.type as DataType));
    return makeData({ type, length: 0, nullCount: 0, children, child: children[0] } as never) as Data;
}

/**
 * Gives the memory of a batch back at once instead of when it is collected as garbage. The batch has no rows from then
 * on, and vectors and typed arrays that were taken from it have no values. Whatever reads its memory in the background,
 * a write to a file for instance, has to have ended. A second call does nothing.
 */
export function releaseBatch(batch: RecordBatch): void {
    const memory = (batch as ReadBatch | null | undefined)?.[memoryKey];
    if (memory === undefined) {
        throw new SpillwayError(
            "INVALID_ARGUMENT",
            "releaseBatch() takes a batch that batches() has given; the memory of a table, and of batches of other " +
                "origin, is given back when they are collected as garbage"
        );
    }
    const { binding, buffers } = memory;
    if (buffers === undefined) return;
    memory.buffers = undefined;
    binding.releaseMemory(buffers);
    for (const child of batch.data.children) blank(child);
    const { fields } = batch.schema;
    const children = fields.map((field: Field) => emptyData(field.type as DataType));
    Object.assign(batch, { data: makeData({ type: new Struct(fields), length: 0, nullCount: 0, children }) });
}

/** Do readers keep more of earlier results than the budget is? */
export function keepTooMuch({ readBytes, limitBytes }: NativeRead): boolean {
    return readBytes > Math.max(limitBytes, keptBytesMin);
}

/**
 * Before the next batch is handed over: waits while what readers keep of earlier ones is more than the budget, and
 * throws BUDGET_TOO_SMALL when they keep it for longer. `pause` waits for so many milliseconds, or throws when the
 * query is to end.
 */
export async function waitForReaders(memory: () => NativeRead, pause: (ms: number) => Promise<void>): Promise<void> {
    for (const ms of pausesMs) {
        if (!keepTooMuch(memory())) return;
        await collectGarbage();
        await pause(ms);
    }
    // What was dropped in the meantime counts no more. V8 frees it on other threads, which wait for a core.
    await collectGarbage();
    for (const ms of freedMs) {
        if (!keepTooMuch(memory())) return;
        await pause(ms);
    }
    const now = memory();
    if (!keepTooMuch(now)) return;
    const { readBytes, limitBytes } = now;
    throw new SpillwayError(
        "BUDGET_TOO_SMALL",
        `Batches that were read and are still referred to take ${formatBytes(readBytes)}, and \`memory.host\` is ` +
            `${formatBytes(limitBytes)}: drop each batch, or give it to releaseBatch(), before you read the next; ` +
            "get a result that is to be kept by toTable() or toArrowFile(), or raise `memory.host`",
        { tier: "host", wantedBytes: readBytes, limitBytes, option: "memory.host" }
    );
}
