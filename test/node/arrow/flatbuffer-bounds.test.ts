// SPDX-License-Identifier: Apache-2.0
// How far the walk of Arrow metadata goes: to the last byte of the buffer, and no further.
import { describe, expect, test } from "vitest";
import { DamagedMetadata, FlatbufferChecker } from "../../../src/arrow/flatbuffer-check.js";

/** A buffer that lies in the middle of a larger one, with 32-bit numbers at some places. */
function bufferOf(bytes: number, words: Record<number, number> = {}): DataView {
    const view = new DataView(new ArrayBuffer(bytes + 32), 16, bytes);
    for (const [at, value] of Object.entries(words)) view.setUint32(Number(at), value, true);
    return view;
}

const checkerOf = ({ buffer, byteOffset, byteLength }: DataView): FlatbufferChecker =>
    new FlatbufferChecker(new Uint8Array(buffer, byteOffset, byteLength));

describe("a number", () => {
    const view = bufferOf(8);
    [0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8].forEach((byte, at) => view.setUint8(at, byte));

    test.each([
        ["int8", 7, -8],
        ["int16", 6, -0x0719],
        ["int32", 4, -0x0718293b]
    ] as const)("%s is little-endian, has a sign and ends with the buffer", (name, last, value) => {
        expect(checkerOf(view)[name](last)).toBe(value);
        for (const outside of [last + 1, -1, 2 ** 32]) {
            expect(() => checkerOf(view)[name](outside)).toThrow(DamagedMetadata);
        }
    });
});

describe("a table", () => {
    /** A table at 8 of `tableBytes`, with one field at `offset`, whose vtable of `vtableBytes` lies at 16. */
    const tableOf = (vtableBytes: number, tableBytes: number, offset: number, bytes = 24): DataView => {
        const view = bufferOf(bytes, { 0: 8 });
        view.setInt32(8, 8 - 16, true);
        [vtableBytes, tableBytes, offset].forEach((value, i) => view.setUint16(16 + i * 2, value, true));
        return view;
    };

    test("says where its fields lie, and which are absent", () => {
        const checker = checkerOf(tableOf(6, 16, 15));
        expect(checker.table(checker.root(), 2)).toEqual({ position: 8, fields: [23, 0] });
        expect(checkerOf(tableOf(6, 8, 0)).table(8, 1).fields).toEqual([0]);
        // The second field has a place in the vtable only when all of it is there.
        expect(checkerOf(tableOf(7, 8, 4)).table(8, 2).fields).toEqual([12, 0]);
    });

    test.each([
        ["a field behind its end", tableOf(6, 8, 8)],
        ["an end behind the buffer's", tableOf(6, 17, 4)],
        ["a vtable that ends behind the buffer", tableOf(10, 8, 4)],
        ["a vtable in front of the buffer", bufferOf(24, { 8: 12 })],
        ["a vtable that begins at the buffer's end", bufferOf(24, { 8: 8 - 24 })]
    ])("with %s is damaged", (_, view) => {
        expect(() => checkerOf(view).table(8, 1)).toThrow(DamagedMetadata);
    });
});

describe("a vector", () => {
    test.each([
        [1, 12],
        [4, 3],
        [24, 1]
    ])("of elements of %i bytes may have %i of them up to the buffer's end", (elementBytes, count) => {
        const vectorOf = (elements: number): DataView => bufferOf(12 + count * elementBytes, { 4: 4, 8: elements });
        expect(checkerOf(vectorOf(count)).vector(4, elementBytes)).toEqual({ first: 12, count });
        expect(() => checkerOf(vectorOf(count + 1)).vector(4, elementBytes)).toThrow(DamagedMetadata);
    });

    test("whose count begins behind the buffer is damaged", () => {
        expect(() => checkerOf(bufferOf(16, { 4: 9 })).vector(4, 4)).toThrow(DamagedMetadata);
        expect(() => checkerOf(bufferOf(16)).vector(13, 4)).toThrow(DamagedMetadata);
    });

    test("that is named over and over ends the walk; text may be", () => {
        // 92 bytes are good for 92 + 1,024 elements: 55 visits are 1,100 of them.
        const checker = checkerOf(bufferOf(92, { 4: 4, 8: 20 }));
        for (let i = 0; i < 1000; i++) checker.string(4);
        for (let i = 0; i < 55; i++) expect(checker.vector(4, 4).count).toBe(20);
        expect(() => checker.vector(4, 4)).toThrow(DamagedMetadata);
        // The last element may be spent.
        const small = checkerOf(bufferOf(16, { 4: 4, 8: 1 }));
        for (let i = 0; i < 16 + 1024; i++) small.vector(4, 4);
        expect(() => small.vector(4, 4)).toThrow(DamagedMetadata);
    });
});

describe("a vector of tables", () => {
    const view = bufferOf(24, { 4: 4, 8: 2, 12: 8, 16: 1 });

    test("is gone through in order, one level deeper", () => {
        const seen: [number, number][] = [];
        checkerOf(view).tables(4, 3, (position, depth) => seen.push([position, depth]));
        expect(seen).toEqual([
            [20, 4],
            [17, 4]
        ]);
    });

    test("may be as deep as 128 levels", () => {
        const depths: number[] = [];
        checkerOf(view).tables(4, 128, (_, depth) => depths.push(depth));
        expect(depths).toEqual([129, 129]);
        expect(() => checkerOf(view).tables(4, 129, () => undefined)).toThrow(DamagedMetadata);
        expect(() => checkerOf(view).tables(0, 129, () => undefined)).toThrow(DamagedMetadata);
    });

    test("costs a visit for each table, whichever names it", () => {
        const table = bufferOf(16, { 0: 8 });
        table.setInt32(8, 4, true);
        table.setUint16(4, 4, true);
        table.setUint16(6, 8, true);
        const checker = checkerOf(table);
        for (let i = 0; i < 16 + 1024; i++) checker.table(8, 0);
        expect(() => checker.table(8, 0)).toThrow(DamagedMetadata);
    });
});
