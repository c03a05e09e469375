// SPDX-License-Identifier: Apache-2.0
import { types } from "node:util";

import { SpillwayError } from "../errors.js";
import type { KeptMemory } from "../model/column-type.js";
import { formatBytes } from "../model/sizes.js";

// No budget counts them, so that they have to fit into what a process may take beside its budget.
const filledBytesMax = 64 * 2 ** 20;

type Transfer = (this: ArrayBuffer, newLength?: number) => ArrayBuffer;

function canResize(buffer: ArrayBufferLike): boolean {
    return (buffer as { resizable?: boolean }).resizable === true;
}

const guarded = new WeakSet<ArrayBufferLike>();

/**
 * Gives the buffer a `transfer` of its own that does the same, but leaves the memory where it is: V8 of Node 22 gives
 * it another address where the length changes. False: the object is frozen.
 */
function guardTransfers(buffer: ArrayBufferLike): boolean {
    if (guarded.has(buffer)) return true;
    for (const name of ["transfer", "transferToFixedLength"]) {
        const original = (ArrayBuffer.prototype as unknown as Record<string, Transfer | undefined>)[name];
        if (original === undefined) continue;
        const value = function (this: ArrayBuffer, newLength?: number): ArrayBuffer {
            if (newLength === undefined || this !== buffer) return original.call(this, newLength);
            const resized = new ArrayBuffer(newLength);
            const whole = new Uint8Array(original.call(this));
            new Uint8Array(resized).set(whole.subarray(0, resized.byteLength));
            return resized;
        };
        if (!Reflect.defineProperty(buffer, name, { value, configurable: true, writable: true })) return false;
    }
    guarded.add(buffer);
    return true;
}

/**
 * Bytes of Arrow JS columns as the engine may read them on its own threads: where they lie, or a copy where they might
 * not stay there (resizable buffers can shrink) or where others may write to them between a check and its use (shared
 * memory). Equal views share a copy, as the slices of one column do.
 */
export class SteadyBytes {
    readonly #copies = new Map<ArrayBufferLike, Map<string, Uint8Array>>();
    #filledBytes = 0;

    public constructor(private readonly kept: KeptMemory) {}

    /** Values, which may be anything. */
    public values(array: ArrayBufferView | undefined | null): Uint8Array {
        return this.#bytes(array, false);
    }

    /** What says where values are: offsets, views, indices, type ids, and which rows are NULL. */
    public structure(array: ArrayBufferView | undefined | null): Uint8Array {
        return this.#bytes(array, true);
    }

    /**
     * At least `needed` bytes, the missing ones 0. A column that Arrow JS padded with NULLs (columns of unequal length
     * in one table) has a longer validity bitmap but its old, short buffers. The rows of a table that came from a
     * stranger's bytes may be any number, so there is an end to what is filled in.
     */
    public padded(bytes: Uint8Array, needed: number): Uint8Array {
        if (bytes.byteLength >= needed) return bytes;
        this.#filledBytes += needed;
        if (this.#filledBytes > filledBytesMax) {
            throw new SpillwayError(
                "INVALID_ARGUMENT",
                `The table has columns whose memory is shorter than their rows; filling it up takes more than ` +
                    `${formatBytes(filledBytesMax)}; give all columns the same number of rows`,
                { option: "table" }
            );
        }
        const longer = new Uint8Array(needed);
        longer.set(bytes);
        return longer;
    }

    #bytes(array: ArrayBufferView | undefined | null, isStructure: boolean): Uint8Array {
        if (array === undefined || array === null) return new Uint8Array(0);
        const { buffer, byteOffset, byteLength } = array;
        const bytes = new Uint8Array(buffer, byteOffset, byteLength);
        return this.#isSteady(buffer, isStructure) ? bytes : this.#copy(bytes);
    }

    #isSteady(buffer: ArrayBufferLike, isStructure: boolean): boolean {
        // Shared memory can only grow, where it is.
        if (types.isSharedArrayBuffer(buffer)) return !isStructure;
        if (canResize(buffer)) return false;
        return this.kept === "always" || (this.kept === "unlessResized" && guardTransfers(buffer));
    }

    #copy(bytes: Uint8Array): Uint8Array {
        const copies = this.#copies.get(bytes.buffer) ?? new Map<string, Uint8Array>();
        this.#copies.set(bytes.buffer, copies);
        const place = `${bytes.byteOffset}:${bytes.byteLength}`;
        const copy = copies.get(place) ?? bytes.slice();
        copies.set(place, copy);
        return copy;
    }
}
