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
    const pairs = async (left: (row: number) => number, right: (row: number) => number): Promise<number> => {
        const [own, other] = [await sourceOf(left), await sourceOf(right)];
        return await binding.keyPairs(job, own, [integerKey], other, [integerKey], sampleRows);
    };

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
        const both = await pairs(
            (row) => row,
            (row) => row
        );
        expect(both / rows).toBeGreaterThan(0.4);
        expect(both / rows).toBeLessThan(2.5);
    });

    test("of few rows are counted, and of none there are none", async () => {
        const few = await binding.openSource(engine, memorySource(10, 1));
        const none = await binding.openSource(engine, memorySource(0));
        const found = await binding.keyPairs(job, few, [integerKey], few, [integerKey], sampleRows);
        expect(found).toBe(10);
        expect(await binding.keyPairs(job, few, [integerKey], none, [integerKey], sampleRows)).toBe(0);
        const refused = binding.keyPairs(job, few, [integerKey], few, [integerKey], 0);
        await expect(refused).rejects.toThrow(/sampleRows/);
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
