// SPDX-License-Identifier: Apache-2.0
// Where the fields of a sound flatbuffer lie, so that they can be overwritten in place.

export class Table {
    /** `position`: of the table in `bytes`. */
    constructor(bytes, position) {
        this.bytes = bytes;
        this.position = position;
        this.vtable = position - bytes.readInt32LE(position);
    }

    /** The root table of a flatbuffer that begins at `start`. */
    static root(bytes, start) {
        return new Table(bytes, start + bytes.readUInt32LE(start));
    }

    /** Position of a field by its number in the schema; 0 where the writer left it out. */
    slot(number) {
        const entry = 4 + number * 2;
        if (entry + 2 > this.bytes.readUInt16LE(this.vtable)) return 0;
        const offset = this.bytes.readUInt16LE(this.vtable + entry);
        return offset === 0 ? 0 : this.position + offset;
    }

    /** The table that a field refers to, or null. */
    table(number) {
        const at = this.slot(number);
        return at === 0 ? null : new Table(this.bytes, at + this.bytes.readUInt32LE(at));
    }

    /** Elements of a vector: position of their count, of the first one, and how many there are. */
    vector(number) {
        const at = this.slot(number);
        if (at === 0) return { countAt: 0, first: 0, count: 0 };
        const countAt = at + this.bytes.readUInt32LE(at);
        return { countAt, first: countAt + 4, count: this.bytes.readUInt32LE(countAt) };
    }

    tables(number) {
        const { first, count } = this.vector(number);
        return Array.from({ length: count }, (_, i) => {
            const at = first + i * 4;
            return new Table(this.bytes, at + this.bytes.readUInt32LE(at));
        });
    }

    uint8(number, otherwise = 0) {
        const at = this.slot(number);
        return at === 0 ? otherwise : this.bytes.readUInt8(at);
    }

    int16(number, otherwise = 0) {
        const at = this.slot(number);
        return at === 0 ? otherwise : this.bytes.readInt16LE(at);
    }

    int32(number, otherwise = 0) {
        const at = this.slot(number);
        return at === 0 ? otherwise : this.bytes.readInt32LE(at);
    }

    int64(number, otherwise = 0) {
        const at = this.slot(number);
        return at === 0 ? otherwise : Number(this.bytes.readBigInt64LE(at));
    }
}
