// SPDX-License-Identifier: Apache-2.0

/**
 * Bounds checks for the flatbuffers of Arrow metadata. Arrow JS trusts every offset and count it reads: a damaged
 * footer makes it loop over four billion fields or return zeros. So each message is walked here first, and decoded by
 * Arrow JS only when every table, vector and string lies inside the buffer.
 */

/** Thrown inside the arrow room; callers turn it into FILE_CORRUPT with the file's name. */
export class DamagedMetadata extends Error {}

// Deep enough for any real nesting, shallow enough for the stack of this walk and of Arrow JS.
const largestDepth = 128;

export interface TableRef {
    position: number;
    /** Positions of the fields in the buffer; 0 = absent. */
    fields: number[];
}

export class FlatbufferChecker {
    readonly #view: DataView;
    readonly #length: number;
    // Shared tables are legal, cycles are not possible (offsets only point forward), but a small file can name the
    // same table over and over: the walk stops when it has visited more elements than the buffer could hold apart.
    #budget: number;

    public constructor(bytes: Uint8Array) {
        this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
        this.#length = bytes.byteLength;
        this.#budget = bytes.byteLength + 1024;
    }

    #require(position: number, bytes: number): void {
        if (position < 0 || position + bytes > this.#length) {
            throw new DamagedMetadata("an offset points outside of the metadata");
        }
    }

    #spend(elements: number): void {
        this.#budget -= elements;
        if (this.#budget < 0) throw new DamagedMetadata("counts are larger than the metadata");
    }

    public int8(position: number): number {
        this.#require(position, 1);
        return this.#view.getInt8(position);
    }

    public int16(position: number): number {
        this.#require(position, 2);
        return this.#view.getInt16(position, true);
    }

    public int32(position: number): number {
        this.#require(position, 4);
        return this.#view.getInt32(position, true);
    }

    #target(position: number): number {
        this.#require(position, 4);
        return position + this.#view.getUint32(position, true);
    }

    public root(): number {
        return this.#target(0);
    }

    /** Checks a table's head and returns where its first `count` fields lie. */
    public table(position: number, count: number): TableRef {
        this.#spend(1);
        const vtable = position - this.int32(position);
        this.#require(vtable, 4);
        const vtableBytes = this.#view.getUint16(vtable, true);
        const tableBytes = this.#view.getUint16(vtable + 2, true);
        this.#require(vtable, vtableBytes);
        this.#require(position, tableBytes);
        const fields: number[] = [];
        for (let i = 0; i < count; i++) {
            const slot = 4 + i * 2;
            const offset = slot + 2 <= vtableBytes ? this.#view.getUint16(vtable + slot, true) : 0;
            if (offset !== 0 && offset >= tableBytes) throw new DamagedMetadata("a field lies outside of its table");
            fields.push(offset === 0 ? 0 : position + offset);
        }
        return { position, fields };
    }

    /** Sub-table, string or vector that a field refers to. */
    public reference(field: number): number {
        return this.#target(field);
    }

    /** Checks a vector of elements of `elementBytes` and returns its length; 0 when absent. */
    public vector(field: number, elementBytes: number): { first: number; count: number } {
        if (field === 0) return { first: 0, count: 0 };
        const start = this.#target(field);
        this.#require(start, 4);
        const count = this.#view.getUint32(start, true);
        this.#require(start + 4, count * elementBytes);
        // Strings may be shared by many tables, and nothing loops over their bytes.
        if (elementBytes > 1) this.#spend(count);
        return { first: start + 4, count };
    }

    public string(field: number): void {
        this.vector(field, 1);
    }

    /** Runs `check` on every table of a vector of tables. */
    public tables(field: number, depth: number, check: (position: number, depth: number) => void): void {
        if (depth > largestDepth) throw new DamagedMetadata(`nesting is deeper than ${largestDepth}`);
        const { first, count } = this.vector(field, 4);
        for (let i = 0; i < count; i++) check(this.#target(first + i * 4), depth + 1);
    }
}
