// SPDX-License-Identifier: Apache-2.0
import { makeData, Struct, type Data, type DataType, type Field, type RecordBatch } from "apache-arrow";
import { setTimeout } from "node:timers/promises";

import { SpillwayError } from "../errors.js";
import { formatBytes, mebibyte } from "../model/sizes.js";
import type { Binding, NativeRead } from "../native/binding.js";
import { collectGarbage } from "./dropped-batches.js";

/** What readers may keep of results at a time, where the budget is smaller. */
const keptBytesMin = 64 * mebibyte;
/** A reader that hands batches on, to a stream or a worker thread, may need some time to let go of them. */
const pausesMs: readonly number[] = [0, 1, 10, 50, 100, 200, 400, 800];

interface Memory {
    readonly binding: Binding;
    /** Empty when it was released. */
    buffers: readonly ArrayBuffer[];
}

const memoryOf = new WeakMap<RecordBatch, Memory>();

/** Notes whose memory it is: releaseBatch() can give it back. */
export function noteRead(batch: RecordBatch, binding: Binding, buffers: readonly ArrayBuffer[]): void {
    memoryOf.set(batch, { binding, buffers });
}

/**
 * Its values are gone: all of them read as NULL, where a view without elements would make false or NaN of them, and one
 * of detached memory cannot be sliced.
 */
function blank(data: Data, zeros: (length: number) => Uint8Array): void {
    for (const part of ["values", "valueOffsets", "typeIds"] as const) {
        const view: unknown = data[part];
        if (!ArrayBuffer.isView(view)) continue;
        Object.assign(data, { [part]: new (view.constructor as new (length: number) => ArrayBufferView)(0) });
    }
    Object.assign(data, { nullBitmap: zeros(data.length), _nullCount: data.length });
    for (const child of data.children) blank(child, zeros);
}

/**
 * Gives the memory of a batch back at once instead of when it is collected as garbage. The batch has no rows from then
 * on, and vectors and typed arrays that were taken from it have no values. A second call does nothing.
 */
export function releaseBatch(batch: RecordBatch): void {
    const memory = memoryOf.get(batch);
    if (memory === undefined) {
        throw new SpillwayError(
            "INVALID_ARGUMENT",
            "releaseBatch() takes a batch that batches() has given; the memory of a table, and of batches of other " +
                "origin, is given back when they are collected as garbage"
        );
    }
    const { binding, buffers } = memory;
    memory.buffers = [];
    if (buffers.length === 0) return;
    binding.releaseMemory(buffers);
    const bitmaps = new Map<number, Uint8Array>();
    const zeros = (length: number): Uint8Array => {
        const bitmap = bitmaps.get(length) ?? new Uint8Array(Math.ceil(length / 8));
        bitmaps.set(length, bitmap);
        return bitmap;
    };
    for (const child of batch.data.children) blank(child, zeros);
    const { fields } = batch.schema;
    const children = fields.map((field: Field) => {
        return makeData({ type: field.type as DataType, length: 0, nullCount: 0 } as never) as Data;
    });
    Object.assign(batch, { data: makeData({ type: new Struct(fields), length: 0, nullCount: 0, children }) });
}

/** Do readers keep more of earlier results than the budget is? */
export function keepTooMuch({ readBytes, limitBytes }: NativeRead): boolean {
    return readBytes > Math.max(limitBytes, keptBytesMin);
}

/**
 * Before the next batch is handed over: waits while what readers keep of earlier ones is more than the budget, and
 * throws BUDGET_TOO_SMALL when they keep it for longer. `check` throws when the query is to end.
 */
export async function waitForReaders(memory: () => NativeRead, check: () => void): Promise<void> {
    for (const pause of pausesMs) {
        if (!keepTooMuch(memory())) return;
        await collectGarbage();
        if (pause > 0) await setTimeout(pause);
        check();
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
