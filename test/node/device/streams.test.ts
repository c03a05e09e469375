// SPDX-License-Identifier: Apache-2.0
// Streams of batches on the GPU: what their iterators do while the query runs (fail, hang, wait, run queries of their
// own), that no more is read than is used, that nothing is left behind, and that their rows are read once.
import { setTimeout } from "node:timers/promises";

import { Dictionary, Int32, List, makeData, makeVector, Table, Utf8, Vector, vectorFromArray } from "apache-arrow";
import type { Query, Relation, Runtime, RuntimeOptions } from "spillway";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { behave, withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { Sandbox, until } from "../../support/sandbox.js";

useGpu();

let sandbox: Sandbox;
beforeEach(() => (sandbox = new Sandbox()));
afterEach(() => {
    behave(undefined);
    expect(sandbox.leftovers()).toEqual([]);
    sandbox[Symbol.dispose]();
});

const batchRows = 5000;
const batchCount = 20;
const rows = batchRows * batchCount;

async function withGpu<T>(body: (runtime: Runtime) => Promise<T>, options: RuntimeOptions = {}): Promise<T> {
    const memory = { host: "64MiB", device: "256MiB", spillDirectory: sandbox.spill };
    return await withRuntime({ device: "gpu", memory, ...options }, async (runtime) => {
        const result = await body(runtime);
        expect(runtime.memory().host.usedBytes).toBe(0);
        return result;
    });
}

/** Most partitions leave GPU memory, and most of what leaves it goes to disk. */
const spilling = knobs({ outOfCore: true, chunkRows: 256, radixBits: 3, residentShare: 0.2, hostSpillBytes: 2000 });

/** Batch number `at`: each key comes once. */
function batch(at: number): Table {
    const keys = Int32Array.from({ length: batchRows }, (_, i) => at * batchRows + i);
    return new Table({ k: makeVector(keys), v: makeVector(keys.map((key) => key % 7)) });
}

interface Told {
    /** Batches that were asked for. */
    asked: number;
    left: boolean;
}

/** A stream of all batches; `each` runs before each of them. */
function streamOf(
    runtime: Runtime,
    each: (at: number) => unknown = () => undefined,
    {
        rows: stated,
        count = batchCount,
        told = { asked: 0, left: false }
    }: { rows?: number; count?: number; told?: Told } = {}
): Relation {
    const { schema } = batch(0);
    async function* batches(): AsyncGenerator<Table> {
        try {
            for (let at = 0; at < count; ++at) {
                told.asked += 1;
                await each(at);
                yield batch(at);
            }
        } finally {
            told.left = true;
        }
    }
    return runtime.fromBatches(schema, batches, stated === undefined ? { name: "s" } : { name: "s", rows: stated });
}

const groupOf = (stream: Relation): Query =>
    stream.groupBy({ keys: ["v"], aggregates: { n: { count: "*" }, most: { max: "k" } } });

function fileOf(runtime: Runtime): Promise<Relation> {
    const keys = Int32Array.from({ length: rows }, (_, i) => rows - 1 - i);
    return runtime.fromArrowFile(sandbox.write(new Table({ k: makeVector(keys), w: makeVector(keys.slice()) })));
}

/** Queries of one stream, by what it is to them; each is told to wait for `each` before each batch. */
const queries: Record<string, (runtime: Runtime, stream: Relation) => Promise<Query>> = {
    "build side": async (runtime, stream) =>
        stream.join(await fileOf(runtime), { on: "k", hints: { buildSide: "left" }, select: ["v", "w"] }),
    "probe side": async (runtime, stream) =>
        (await fileOf(runtime)).join(stream, { on: "k", hints: { buildSide: "left" }, select: ["v", "w"] }),
    "input of a group-by": (_, stream) => Promise.resolve(groupOf(stream)),
    "leaf of a tree": async (runtime, stream) =>
        stream
            .join(await fileOf(runtime), { on: "k", hints: { buildSide: "left" } })
            .groupBy({ keys: ["v"], aggregates: { sum: { sum: "w" } } })
};
const resultRows = (name: string): number => (name.endsWith("side") ? rows : 7);

describe("a stream of batches on the GPU", () => {
    for (const [name, queryOf] of Object.entries(queries)) {
        for (const [placed, options] of Object.entries({ "in GPU memory": {}, spilling })) {
            for (const stated of [1, rows / 10, rows, rows * 10, undefined]) {
                test(`as ${name}, ${placed}, of ${stated ?? "nobody knows how many"} rows`, async () => {
                    await withGpu(async (runtime) => {
                        const more = stated === undefined ? {} : { rows: stated };
                        const query = await queryOf(runtime, streamOf(runtime, undefined, more));
                        const table = await query.toTable();
                        expect(table.numRows).toBe(resultRows(name));
                        const report = query.report();
                        const read = name === "input of a group-by" ? rows : 2 * rows;
                        expect(report).toMatchObject({ device: "gpu", rowsIn: read, deviceReason: null });
                        expect(await query.count()).toBe(resultRows(name));
                    }, options);
                });
            }
        }

        test(`as ${name}: what the iterator throws ends the query, and other iterators are told`, async () => {
            await withGpu(async (runtime) => {
                const failure = new Error("the caller's own");
                const told = { asked: 0, left: false };
                const each = (at: number): void => {
                    if (at === 12) throw failure;
                };
                const query = await queryOf(runtime, streamOf(runtime, each, { told }));
                await expect(query.count()).rejects.toBe(failure);
                await expect(query.toTable()).rejects.toBe(failure);
                expect(told).toMatchObject({ asked: 26, left: true });
            }, spilling);
        });

        test(`as ${name}: an abort does not wait for a batch that never comes`, async () => {
            await withGpu(async (runtime) => {
                const controller = new AbortController();
                const each = (at: number): unknown => (at === 3 ? new Promise(() => undefined) : undefined);
                const told = { asked: 0, left: false };
                const query = await queryOf(runtime, streamOf(runtime, each, { told }));
                const counted = query.count({ signal: controller.signal });
                await until(() => told.asked === 4, 5000);
                controller.abort();
                await expect(counted).rejects.toMatchObject({ name: "AbortError" });
            });
        });

        test(`as ${name}: its iterator may run queries of its own on the GPU`, async () => {
            await withGpu(async (runtime) => {
                const found: number[] = [];
                const each = async (at: number): Promise<void> => {
                    if (at % 8 !== 1) return;
                    const inner = groupOf(runtime.fromTable(batch(at)));
                    found.push(await inner.count());
                    expect(inner.report()?.device).toBe("gpu");
                };
                const query = await queryOf(runtime, streamOf(runtime, each, { rows }));
                expect(await query.count()).toBe(resultRows(name));
                expect(found).toEqual([7, 7, 7]);
            });
        });

        test(`as ${name}: no batches at all`, async () => {
            await withGpu(async (runtime) => {
                for (const stated of [0, rows]) {
                    const query = await queryOf(runtime, streamOf(runtime, undefined, { rows: stated, count: 0 }));
                    expect((await query.toTable()).numRows).toBe(0);
                    expect(query.report()?.device).toBe("gpu");
                }
            });
        });

        test.skipIf(usesRealGpu)(`as ${name}: a GPU that is lost later takes no rows to the CPU engine`, async () => {
            const memory = { host: "64MiB", device: "256MiB", spillDirectory: sandbox.spill };
            await withRuntime({ memory, ...knobs({ gpu: true, outOfCore: true, chunkRows: 256 }) }, async (runtime) => {
                const told = { asked: 0, left: false };
                const query = await queryOf(runtime, streamOf(runtime, undefined, { told }));
                expect(await query.count()).toBe(resultRows(name));
                behave("lost-build");
                const counted = query.count();
                // As a probe side it was not asked for a batch yet: the CPU engine can have all.
                if (name === "probe side") expect(await counted).toBe(rows);
                else await expect(counted).rejects.toMatchObject({ code: "NO_DEVICE" });
                behave(undefined);
            });
        });
    }
});

describe("a stream of batches on the GPU is read as fast as it is used", () => {
    test("a reader that pauses lets the iterator pause", async () => {
        await withGpu(async (runtime) => {
            const told = { asked: 0, left: false };
            const count = 4000;
            const stream = streamOf(runtime, undefined, { told, count });
            const file = await fileOf(runtime);
            const query = file.join(stream, {
                on: "k",
                type: "right",
                hints: { buildSide: "left" },
                select: ["v", "w"]
            });
            const reader = query.batches({ batchRows: 1000 });
            expect((await reader.next()).done).toBe(false);
            let before = -1;
            // It stops by itself when what lies between reader and iterator is full.
            for (; before !== told.asked; await setTimeout(300)) before = told.asked;
            expect(told.asked).toBeGreaterThan(0);
            expect(told.asked).toBeLessThan(count / 2);
            expect(told.left).toBe(false);
            await reader.return?.();
            await until(() => told.left, 5000);
        });
    });

    test("a slow iterator loses no rows", async () => {
        await withGpu(async (runtime) => {
            const query = groupOf(streamOf(runtime, () => setTimeout(5)));
            const table = await query.toTable();
            expect(
                table
                    .toArray()
                    .map((row) => Number(row?.n))
                    .reduce((sum, n) => sum + n, 0)
            ).toBe(rows);
        });
    });
});

describe("what a stream cannot be on the GPU", () => {
    const lists = vectorFromArray(
        [[1], [2, 3]],
        new List(new Table({ item: makeVector(Int32Array.of(1)) }).schema.fields[0]!)
    );
    const words = vectorFromArray(["a", "b"], new Dictionary(new Utf8(), new Int32()));
    const numbers = makeVector(BigInt64Array.of(1n, 2n));
    const one = (columns: Record<string, Vector>) => {
        const table = new Table(columns);
        return (runtime: Runtime, name: string): Relation =>
            runtime.fromBatches(
                table.schema,
                async function* () {
                    yield table;
                },
                { name }
            );
    };
    const cases: [string, (runtime: Runtime) => Query, RegExp][] = [
        [
            "a nested column in its result",
            (r) =>
                one({ k: numbers, list: lists })(r, "a").join(one({ k: numbers })(r, "b"), {
                    on: "k",
                    select: ["list"]
                }),
            /column `list` \(nested\) of the stream `a` cannot be in GPU memory/
        ],
        [
            "dictionaries of both sides",
            (r) => one({ k: numbers, x: words })(r, "a").join(one({ k: numbers, y: words })(r, "b"), { on: "k" }),
            /column `[xy]` has a dictionary of the stream `[ab]`, which is not known before/
        ],
        [
            "a nested column of a tree",
            (r) =>
                one({ k: numbers, list: lists })(r, "a")
                    .join(one({ k: numbers })(r, "b"), { on: "k" })
                    .join(one({ k: numbers })(r, "c"), { on: "k" }),
            /column `list` \(nested\) of the stream `a` cannot be in GPU memory/
        ]
    ];
    for (const [name, query, reason] of cases) {
        test(name, async () => {
            await withGpu(async (runtime) => {
                await expect(query(runtime).toTable()).rejects.toMatchObject({
                    code: "UNSUPPORTED_TYPE",
                    details: { option: "device", reason: expect.stringMatching(reason) as string }
                });
            });
            const memory = { host: "64MiB", device: "256MiB", spillDirectory: sandbox.spill };
            await withRuntime({ memory, debug: { gpu: true } }, async (runtime) => {
                const made = query(runtime);
                expect((await made.toTable()).numRows).toBe(2);
                expect(made.report()).toMatchObject({
                    device: "cpu",
                    deviceReason: expect.stringMatching(reason) as string
                });
            });
        });
    }

    test("a batch of another schema, and one that was damaged", async () => {
        await withGpu(async (runtime) => {
            const other = new Table({ k: numbers });
            const { schema } = batch(0);
            const stream = runtime.fromBatches(schema, async function* () {
                yield batch(0);
                yield other;
            });
            const failure = { code: "INVALID_ARGUMENT", details: { option: "schema" } };
            await expect(groupOf(stream).count()).rejects.toMatchObject(failure);
            // Offsets of a text that point behind its bytes.
            const texts = new Vector([
                makeData({ type: new Utf8(), length: 1, valueOffsets: Int32Array.of(0, 99), data: Uint8Array.of(65) })
            ]);
            const damaged = new Table({ t: texts });
            const torn = runtime.fromBatches(damaged.schema, async function* () {
                yield damaged;
            });
            const counted = torn.groupBy({ keys: ["t"], aggregates: { n: { count: "*" } } }).count();
            await expect(counted).rejects.toMatchObject({ name: "SpillwayError" });
        });
    });
});
