// SPDX-License-Identifier: Apache-2.0
// Transfers of memory that V8 of Node 22 would move: undone by a `transfer` of the buffer's own. Node 20 has none in
// ArrayBuffer.prototype, so that one stands there in its place.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SteadyBytes } from "../../../src/arrow/steady-bytes.js";

const names = ["transfer", "transferToFixedLength"] as const;
type Name = (typeof names)[number];
type Moving = ArrayBuffer & Record<Name, (bytes?: unknown) => ArrayBuffer>;
const prototype = ArrayBuffer.prototype as unknown as Record<string, unknown>;

/** What the language says that it does. */
function transferred(buffer: ArrayBuffer, bytes?: unknown): ArrayBuffer {
    const length = bytes === undefined ? buffer.byteLength : Number(bytes);
    if (!(length >= 0)) throw new RangeError("Invalid array buffer length");
    new Uint8Array(buffer); // throws where the memory has gone already
    const old = new Uint8Array(structuredClone(buffer, { transfer: [buffer] }));
    const moved = new ArrayBuffer(length);
    new Uint8Array(moved).set(old.subarray(0, length));
    return moved;
}

/** Calls of the prototype's functions: whose memory, and how long it was to be. */
let calls: [Name, ArrayBuffer, unknown][] = [];
let before: (PropertyDescriptor | undefined)[] = [];
beforeEach(() => {
    calls = [];
    before = names.map((name) => Object.getOwnPropertyDescriptor(prototype, name));
    for (const name of names) {
        const original = prototype[name] as ((bytes?: unknown) => ArrayBuffer) | undefined;
        const value = function (this: ArrayBuffer, bytes?: unknown): ArrayBuffer {
            calls.push([name, this, bytes]);
            return original === undefined ? transferred(this, bytes) : original.call(this, bytes);
        };
        Object.defineProperty(prototype, name, { value, configurable: true, writable: true });
    }
});
afterEach(() => {
    names.forEach((name, i) => {
        delete prototype[name];
        if (before[i] !== undefined) Object.defineProperty(prototype, name, before[i]);
    });
});

const borrow = (buffer: ArrayBuffer): Uint8Array => new SteadyBytes("unlessResized").values(new Uint8Array(buffer));

function filled(bytes: number): Moving {
    const buffer = new ArrayBuffer(bytes) as Moving;
    new Uint8Array(buffer).set(Uint8Array.from({ length: bytes }, (_, i) => i + 1));
    return buffer;
}

function guarded(bytes: number): Moving {
    const buffer = filled(bytes);
    expect(borrow(buffer).buffer).toBe(buffer);
    return buffer;
}

describe.each(names)("%s of memory that the engine reads", (name) => {
    test("does what it does", () => {
        for (const bytes of [undefined, 8, 16, 4, 0, "4"]) {
            const [buffer, other] = [guarded(8), filled(8)];
            const [moved, expected] = [buffer[name](bytes), other[name](bytes)];
            expect(new Uint8Array(moved)).toEqual(new Uint8Array(expected));
            expect(buffer.byteLength).toBe(0);
        }
        expect(() => guarded(8)[name](-1)).toThrow(RangeError);
        const twice = guarded(8);
        twice[name](4);
        expect(() => twice[name](4)).toThrow(TypeError);
    });

    test("never has V8 give it another length, in which case it would move", () => {
        for (const bytes of [undefined, 8, 16, 4, 0]) {
            const buffer = guarded(8);
            buffer[name](bytes);
            expect(calls.map(([called, of, length]) => [called, of === buffer, length])).toEqual([
                [name, true, undefined]
            ]);
            calls = [];
        }
    });

    test("leaves other memory to V8, also when called on it", () => {
        const [buffer, other] = [guarded(8), filled(8)];
        expect(new Uint8Array(buffer[name].call(other, 4))).toEqual(Uint8Array.of(1, 2, 3, 4));
        expect(calls.map(([, of, bytes]) => [of === other, bytes])).toEqual([[true, 4]]);
        expect(buffer.byteLength).toBe(8);
    });

    test("is a property like that of the language", () => {
        const { value, ...others } = Object.getOwnPropertyDescriptor(guarded(8), name)!;
        expect(value).toBeTypeOf("function");
        expect(others).toEqual({ configurable: true, writable: true, enumerable: false });
        expect(Object.keys(guarded(8))).toEqual([]);
    });
});

test("memory is asked once to stay: frozen later, it is still read where it lies", () => {
    const buffer = guarded(8);
    const own = buffer.transfer;
    Object.freeze(buffer);
    expect(borrow(buffer).buffer).toBe(buffer);
    expect(buffer.transfer).toBe(own);
});

test("memory that was frozen before is copied", () => {
    const frozen = Object.freeze(filled(8));
    for (let i = 0; i < 2; i++) {
        const bytes = borrow(frozen);
        expect(bytes.buffer).not.toBe(frozen);
        expect(bytes).toEqual(new Uint8Array(frozen));
    }
});

test("a version of Node that has no such function gets none", () => {
    for (const name of names) delete prototype[name];
    expect(Object.getOwnPropertyNames(guarded(8))).toEqual([]);
    Object.defineProperty(prototype, "transfer", { value: transferred, configurable: true, writable: true });
    expect(Object.getOwnPropertyNames(guarded(8))).toEqual(["transfer"]);
});
