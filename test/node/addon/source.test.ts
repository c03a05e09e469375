// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { NativeColumnType, NativeSourceSpec } from "../../../src/native/binding.js";
import { buffersOf } from "../../support/engine-batch.js";
import { binding, integerKey, int64Column, memorySource, openEngine, partitionSpec } from "./support.js";

const engine = openEngine();
const job = binding.createJob(engine);
const options = { sampleRows: 1000, exactRange: true, workers: 2 };

describe("record batches in memory", () => {
    test("are read where they are", async () => {
        const source = await binding.openSource(engine, memorySource(1000));
        const statistics = await binding.keyStatistics(job, source, [integerKey], options);
        expect(statistics).toMatchObject({ rows: 1000, nulls: 0, min: 0n, max: 999n });
    });

    test("unsigned keys keep their sign", async () => {
        const spec = memorySource(1, 1);
        const columns = [{ ...int64Column("key"), order: "unsigned" as const }, int64Column("payload")];
        const largest = new Uint8Array(BigUint64Array.of(2n ** 64n - 1n).buffer);
        const batch = { ...spec.batches[0]!, memory: [null, largest, null, new Uint8Array(8)] };
        const source = await binding.openSource(engine, { ...spec, columns, batches: [batch] });
        const statistics = await binding.keyStatistics(job, source, [integerKey], options);
        expect(statistics).toMatchObject({ min: 2n ** 64n - 1n, max: 2n ** 64n - 1n });
    });

    test("that were transferred away are an error, not a crash", async () => {
        const spec = memorySource(1000, 1);
        const source = await binding.openSource(engine, spec);
        const buffer = spec.batches[0]!.memory[1]!.buffer as ArrayBuffer;
        structuredClone(buffer, { transfer: [buffer] });
        await expect(binding.keyStatistics(job, source, [integerKey], options)).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            message: expect.stringContaining("transferred")
        });
        const partitions = binding.createPartitions(job, partitionSpec());
        await expect(binding.partitionSource(job, partitions, source)).rejects.toThrow(/transferred/);
    });

    test("may lie in shared memory and begin anywhere", async () => {
        const rows = 100;
        const shared = new SharedArrayBuffer(16 + 8 * rows);
        new BigInt64Array(shared, 16).set(Array.from({ length: rows }, (_, row) => BigInt(row + 5)));
        const spec = memorySource(rows, 1);
        const memory = [null, new Uint8Array(shared, 16), null, new Uint8Array(8 * rows)];
        const source = await binding.openSource(engine, { ...spec, batches: [{ ...spec.batches[0]!, memory }] });
        const statistics = await binding.keyStatistics(job, source, [integerKey], options);
        expect(statistics).toMatchObject({ rows, min: 5n, max: 104n });
    });
});

describe("pairs of equal keys", () => {
    const rows = 1 << 19;
    const sampleRows = 1 << 16;
    const sourceOf = async (keyOf: (row: number) => number) => {
        const spec = memorySource(rows, 1);
        const keys = BigInt64Array.from({ length: rows }, (_, row) => BigInt(keyOf(row)));
        const memory = [null, new Uint8Array(keys.buffer), null, new Uint8Array(8 * rows)];
        return await binding.openSource(engine, { ...spec, batches: [{ ...spec.batches[0]!, memory }] });
    };
    const shuffled = (factor: number) => (row: number) => (row * factor) % rows;
    const sampled = async (left: (row: number) => number, right: (row: number) => number) => {
        const [own, other] = [await sourceOf(left), await sourceOf(right)];
        return await binding.keyPairs(job, own, [integerKey], other, [integerKey], sampleRows);
    };
    const pairs = async (...sides: Parameters<typeof sampled>): Promise<number> => (await sampled(...sides)).pairs;

    test("are found by samples of both sides", async () => {
        // 8,192 pairs among the samples: their number varies by 1.1 %, and in pieces of neighbours a little more.
        const all = await pairs(shuffled(2_654_435), shuffled(40_503));
        expect(all / rows).toBeGreaterThan(0.85);
        expect(all / rows).toBeLessThan(1.15);
        const quarter = await pairs(shuffled(2_654_435), (row) => 4 * shuffled(40_503)(row));
        expect(quarter / rows).toBeGreaterThan(0.2);
        expect(quarter / rows).toBeLessThan(0.3);
        const eight = await pairs((row) => shuffled(2_654_435)(row) >> 3, shuffled(40_503));
        expect(eight / rows).toBeGreaterThan(0.8);
        expect(eight / rows).toBeLessThan(1.2);
        expect(await pairs(shuffled(2_654_435), (row) => rows + row)).toBe(0);
    });

    test("are not all seen where both sides are sorted alike", async () => {
        const both = await sampled(
            (row) => row,
            (row) => row
        );
        expect(both.pairs / rows).toBeGreaterThan(0.4);
        expect(both.pairs / rows).toBeLessThan(2.5);
        // They come of few pieces: 2,048 of each side were read, and a quarter of them have keys of each other.
        expect(both.pieces).toBeGreaterThan(256);
        expect(both.pieces).toBeLessThan(1024);
        expect((await sampled(shuffled(2_654_435), shuffled(40_503))).pieces).toBeGreaterThan(4000);
    });

    test("of few rows are counted, and of none there are none", async () => {
        const few = await binding.openSource(engine, memorySource(10, 1));
        const none = await binding.openSource(engine, memorySource(0));
        const found = await binding.keyPairs(job, few, [integerKey], few, [integerKey], sampleRows);
        expect(found).toEqual({ pairs: 10, pieces: 1 });
        const nothing = await binding.keyPairs(job, few, [integerKey], none, [integerKey], sampleRows);
        expect(nothing).toEqual({ pairs: 0, pieces: 0 });
        const refused = binding.keyPairs(job, few, [integerKey], few, [integerKey], 0);
        await expect(refused).rejects.toThrow(/sampleRows/);
    });
});

describe("samples of values", () => {
    const rows = 1 << 16;
    /** A block of 1,024 values has a header of 16 bytes. */
    const header = 1 / 8;
    const words = (valueOf: (row: number) => bigint, count = rows): Uint8Array =>
        new Uint8Array(BigInt64Array.from({ length: count }, (_, row) => valueOf(row)).buffer);
    /** Of one column, whose values are these bytes. */
    const sampleOf = async (values: Uint8Array, type: Partial<NativeColumnType> = {}, valid?: Uint8Array) => {
        const column = { ...int64Column("v"), ...type };
        const count = values.byteLength / column.byteWidth;
        const nodes = Float64Array.of(count, valid === undefined ? 0 : 1, 0);
        const batch = { rows: count, nodes, memory: [valid ?? null, values], variadicCounts: [], dictionaries: [] };
        const none = { dictionaries: [], files: null, links: [] };
        const source = await binding.openSource(engine, { columns: [column], ...none, batches: [batch] });
        const [sample] = await binding.sampleValues(job, source, [0]);
        binding.closeSource(source);
        return sample!;
    };
    const bitsOf = async (...given: Parameters<typeof sampleOf>) => (await sampleOf(...given)).bits;

    test("are those in which values of a block differ, wherever these lie", async () => {
        expect(await bitsOf(words(() => 77n))).toBe(header);
        const thousand = (first: bigint) => words((row) => first + BigInt(row % 1000));
        for (const first of [0n, -500n, -(2n ** 63n), 2n ** 63n - 1000n, 10n ** 15n]) {
            expect(await bitsOf(thousand(first)), String(first)).toBe(10 + header);
        }
        // Rows in their order: a block has 1,024 of them in a row.
        expect(await bitsOf(words(BigInt))).toBe(10 + header);
        expect(await bitsOf(words((row) => (row % 2 === 0 ? 2n ** 63n - 1n : -(2n ** 63n))))).toBe(64 + header);
    });

    test("of narrow values are of their width at most, negative or not", async () => {
        const small = (_: unknown, row: number): number => (row % 16) - 8;
        const wide = (_: unknown, row: number): number => row * 0x9e3779b1;
        const arrays = [
            [Int8Array.from({ length: rows }, small), Int8Array.from({ length: rows }, wide)],
            [Int16Array.from({ length: rows }, small), Int16Array.from({ length: rows }, wide)],
            [Int32Array.from({ length: rows }, small), Int32Array.from({ length: rows }, wide)]
        ] as const;
        for (const [few, all] of arrays) {
            const byteWidth = few.BYTES_PER_ELEMENT;
            expect(await bitsOf(new Uint8Array(few.buffer), { byteWidth })).toBe(4 + header);
            expect(await bitsOf(new Uint8Array(all.buffer), { byteWidth })).toBe(8 * byteWidth + header);
        }
    });

    test("of decimals are those of their low and of their high words, of which each block has a header", async () => {
        const decimals = (valueOf: (row: number) => bigint): Uint8Array =>
            words((at) => BigInt.asIntN(64, valueOf(at >> 1) >> (at % 2 === 0 ? 0n : 64n)), 2 * rows);
        const type = { byteWidth: 16, order: "decimal" } as const;
        expect(
            await bitsOf(
                decimals((row) => BigInt(row % 1000)),
                type
            )
        ).toBe(10 + 2 * header);
        // The sign is a bit of the high word.
        expect(
            await bitsOf(
                decimals((row) => BigInt(row % 1000) - 500n),
                type
            )
        ).toBe(11 + 2 * header);
    });

    test("of floats are those of their patterns, nearly all of them where signs and sizes differ", async () => {
        const floats = (valueOf: (row: number) => number): Uint8Array =>
            new Uint8Array(Float64Array.from({ length: rows }, (_, row) => valueOf(row)).buffer);
        const type = { order: "float" } as const;
        expect(
            await bitsOf(
                floats(() => 0.1),
                type
            )
        ).toBe(header);
        expect(
            await bitsOf(
                floats((row) => Math.sin(row) * 10 ** (row % 9)),
                type
            )
        ).toBe(64 + header);
    });

    test("count what lies under NULLs, which crosses the link as well", async () => {
        // The least value is 1.
        const values = words((row) => (row % 2 === 0 ? 2n ** 40n : BigInt(row % 1000)));
        const valid = new Uint8Array(rows / 8).fill(0b10101010);
        expect(await bitsOf(values, { nullable: true }, valid)).toBe(40 + header);
    });

    test("are the mean of blocks from the first to the last, and of what there is of few rows", async () => {
        // The blocks of the first half are constant, those of the other one need 20 bits.
        const mean = await bitsOf(words((row) => (row < rows / 2 ? 0n : BigInt(row * 0x9e3779b1) & 0xfffffn)));
        expect(mean).toBeGreaterThan(8);
        expect(mean).toBeLessThan(12);
        expect(await bitsOf(words(BigInt, 5))).toBe(3 + header);
        expect(await bitsOf(words(() => 9n, 1))).toBe(header);
        expect(await bitsOf(new Uint8Array(0))).toBe(0);
    });

    test("have a magnitude, by their sign and width", async () => {
        const magnitudeOf = async (...given: Parameters<typeof sampleOf>) => (await sampleOf(...given)).magnitude;
        expect(await magnitudeOf(words((row) => BigInt(row) - 5n, 8))).toBe(5);
        expect(await magnitudeOf(words(() => -(2n ** 63n)))).toBe(2 ** 63);
        expect(
            await magnitudeOf(
                words(() => -1n),
                { order: "unsigned" }
            )
        ).toBe(2 ** 64);
        expect(await magnitudeOf(Uint8Array.of(1, 255, 3), { byteWidth: 1 })).toBe(3);
        expect(await magnitudeOf(Uint8Array.of(1, 255, 3), { byteWidth: 1, order: "unsigned" })).toBe(255);
        // Low words first: -2, and 2 ** 64.
        const decimals = words((row) => [-2n, -1n, 0n, 1n][row]!, 4);
        expect(await magnitudeOf(decimals.slice(0, 16), { byteWidth: 16, order: "decimal" })).toBe(2);
        expect(await magnitudeOf(decimals, { byteWidth: 16, order: "decimal" })).toBe(2 ** 64);
        expect(await magnitudeOf(new Uint8Array(0))).toBe(0);
    });

    test("come for the columns that are asked for, in their order", async () => {
        const source = await binding.openSource(engine, memorySource(rows, 7));
        // The payload is twice the key.
        const [key, payload] = await binding.sampleValues(job, source, [0, 1]);
        expect(key?.bits).toBeCloseTo(10 + header, 1);
        expect(payload!.bits - key!.bits).toBeCloseTo(1, 5);
        expect(await binding.sampleValues(job, source, [1, 0, 1])).toEqual([payload, key, payload]);
        expect(await binding.sampleValues(job, source, [])).toEqual([]);
    });

    test.each([
        ["booleans", { layout: "bool", order: "unsigned", byteWidth: 1 }],
        ["values of three bytes", { order: "bytes", byteWidth: 3 }],
        ["decimals of 32 bytes", { order: "decimal", byteWidth: 32 }]
    ] as const)("are not to be had of %s", async (_, type) => {
        const refused = bitsOf(new Uint8Array(96), type);
        await expect(refused).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
        await expect(refused).rejects.toThrow(/1, 2, 4, 8 or 16 bytes/);
    });

    test("are not to be had of columns that a source lacks", async () => {
        const source = await binding.openSource(engine, memorySource(10, 1));
        for (const column of [-1, 2, 0.5]) {
            const refused = Promise.resolve().then(() => binding.sampleValues(job, source, [column]));
            await expect(refused).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
        }
    });
});

describe("a dictionary", () => {
    const utf8: NativeColumnType = { ...int64Column("value"), layout: "binary", byteWidth: 4, utf8: true };
    const column: NativeColumnType = {
        ...{ ...int64Column("word"), layout: "dictionary", byteWidth: 1, indexSigned: true, nullable: true },
        children: [utf8]
    };
    const text = "pearapplefig";
    const node = { variadicCounts: [] };
    const spec: NativeSourceSpec = {
        columns: [column],
        files: null,
        links: [],
        dictionaries: [
            {
                valueType: utf8,
                batches: [
                    {
                        ...{ ...node, rows: 3, nodes: Float64Array.of(3, 0, 0), dictionaries: [] },
                        memory: [
                            null,
                            new Uint8Array(Int32Array.of(0, 4, 9, 12).buffer),
                            new TextEncoder().encode(text)
                        ]
                    }
                ]
            }
        ],
        batches: [
            {
                ...{ ...node, rows: 2, nodes: Float64Array.of(2, 0, 0), dictionaries: [0] },
                memory: [null, Uint8Array.of(2, 0)]
            }
        ]
    };

    test("is handed out as a batch of its values", async () => {
        const source = await binding.openSource(engine, spec);
        const batch = await binding.sourceDictionary(job, source, [0]);
        expect(batch.rows).toBe(3);
        const [validity, offsets, bytes] = buffersOf(batch, 3);
        expect(validity).toBeNull();
        expect([...new Int32Array(offsets!.slice(0, 16).buffer)]).toEqual([0, 4, 9, 12]);
        expect(new TextDecoder().decode(bytes)).toBe(text);
    });

    test.each([[[]], [[1]], [[0, 0]], [[0, 0, 0]], [[-1]], [["0"]]])("has no path %o", async (path) => {
        const source = await binding.openSource(engine, spec);
        await expect(binding.sourceDictionary(job, source, path as number[])).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            details: { field: expect.stringMatching(/^path/) }
        });
    });
});

describe("ranges of a file", () => {
    const folder = mkdtempSync(join(tmpdir(), "spillway-ranges-"));
    afterAll(() => rmSync(folder, { recursive: true, force: true }));
    const path = join(folder, "ranges.bin");
    writeFileSync(path, "0123456789");
    const read = (offsets: number[], lengths: number[], name = path): Promise<Uint8Array> =>
        binding.readRanges(engine, name, Float64Array.from(offsets), Float64Array.from(lengths));

    test("come one behind the other, in the order asked for", async () => {
        expect(Buffer.from(await read([7, 0, 4, 2], [3, 2, 0, 2])).toString()).toBe("7890123");
        expect(await read([], [])).toHaveLength(0);
    });

    test("at both ends come with the size of the file", async () => {
        const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
        const ends = await binding.readEnds(engine, path, 3, 4);
        expect([ends.fileBytes, text(ends.head), text(ends.tail)]).toEqual([10, "012", "6789"]);
        const old = join(folder, "old.bin");
        writeFileSync(old, "0123456789");
        utimesSync(old, 1e9, 1e9);
        await setTimeout(250); // the time of the change of its times must be over, too
        const { identity } = await binding.readEnds(engine, old, 0, 0);
        expect(identity).toMatch(/^\d+:\d+:10:1000000000\.0:\d+\.\d+$/);
        expect((await binding.readEnds(engine, old, 1, 1)).identity).toBe(identity);
        writeFileSync(old, "9876543210");
        expect((await binding.readEnds(engine, old, 0, 0)).identity).toBeNull();
        const whole = await binding.readEnds(engine, path, 64, 64);
        expect([text(whole.head), text(whole.tail)]).toEqual(["0123456789", "0123456789"]);
        await expect(binding.readEnds(engine, folder, 1, 1)).rejects.toMatchObject({ code: "FILE_UNREADABLE" });
        await expect(binding.readEnds(engine, join(folder, "none"), 1, 1)).rejects.toMatchObject({
            code: "FILE_NOT_FOUND"
        });
        await expect(binding.readEnds(engine, path, -1, 1)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    });

    test("behind the end, of no file or of impossible sizes are errors", async () => {
        await expect(read([8], [3])).rejects.toMatchObject({ code: "FILE_TRUNCATED", details: { path } });
        await expect(read([0], [1], join(folder, "none"))).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
        await expect(read([0], [1], folder)).rejects.toMatchObject({ code: "FILE_UNREADABLE" });
        const refused = { code: "INVALID_ARGUMENT" };
        await expect(read([0, 1], [1])).rejects.toMatchObject(refused);
        await expect(read([-1], [1])).rejects.toMatchObject(refused);
        await expect(read([0], [0.5])).rejects.toMatchObject(refused);
        await expect(read([0, 0], [2 ** 30, 1])).rejects.toMatchObject(refused);
    });
});
