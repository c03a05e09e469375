// SPDX-License-Identifier: Apache-2.0
// Values that cross the link to the GPU and back in as many bits as they need: results are the same as without, and
// reports say what there was to copy and what crossed.
import {
    Bool,
    Decimal,
    Dictionary,
    Float64,
    Int32,
    Int64,
    Int8,
    Table,
    Utf8,
    vectorFromArray,
    type DataType
} from "apache-arrow";
import type { DebugKnobs, ExperimentOptions, Query, Relation, RunReport, Runtime, RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { rowsOf } from "../../support/named-joins.js";
import { Random } from "../../support/random.js";

useGpu();

/** Whole blocks of 1,024 values, each of which has a header of 16 bytes. */
const blocks = 8;
const rows = 1024 * blocks;
const headerBytes = 16 * blocks;
const memory = { host: "64MiB", device: "64MiB" };

type Make = (row: number) => unknown;
const column = (type: DataType, make: Make, count = rows) =>
    vectorFromArray(
        Array.from({ length: count }, (_, row) => make(row)),
        type
    );
/** A NULL in every seventh row. */
const nullable =
    (make: Make): Make =>
    (row) =>
        row % 7 === 3 ? null : make(row);

/** Values of all kinds, some of which pack and some of which do not. */
function mixed(seed: number): Table {
    const random = new Random(seed);
    const small: Make = (row) => BigInt((row % 100) - 50);
    const decimal: Make = (row) => Uint32Array.of(row % 100, 0, 0, 0);
    return new Table({
        k: column(new Int32(), (row) => (row * 7) % rows),
        small: column(new Int64(), small),
        some: column(new Int64(), nullable(small)),
        byte: column(
            new Int8(),
            nullable((row) => (row % 9) - 4)
        ),
        any: column(new Int64(), () => (BigInt(random.below(2 ** 32)) << 31n) - 2n ** 62n),
        float: column(new Float64(), () => random.below(1e9) / 7 - 5e7),
        bool: column(
            new Bool(),
            nullable((row) => row % 3 === 0)
        ),
        text: column(
            new Utf8(),
            nullable((row) => `text ${row % 50}`)
        ),
        word: column(new Dictionary(new Utf8(), new Int32()), (row) => `word ${row % 30}`),
        decimal: column(new Decimal(2, 30, 128), decimal)
    });
}

const numbers = (make: Make, count = rows): Table =>
    new Table({ k: column(new Int32(), (row) => row, count), v: column(new Int64(), make, count) });

async function onGpu<T>(
    turned: DebugKnobs & ExperimentOptions,
    body: (runtime: Runtime) => Promise<T>,
    more: RuntimeOptions = {}
): Promise<T> {
    return await withRuntime({ device: "gpu", memory, ...knobs(turned), ...more }, body);
}

function joinOf(runtime: Runtime, left: Table, right: Table): Query {
    return runtime.fromTable(left).join(runtime.fromTable(right), { on: "k", hints: { buildSide: "left" } });
}

/** Reports of stages of this name, of a query that has run. */
function devicesOf(report: RunReport | undefined, name: string) {
    const found = report?.stages.filter((stage) => stage.name === name) ?? [];
    return found.map(({ device }) => {
        if (device === undefined) throw new Error(`${name} has no figures of a GPU`);
        return device;
    });
}

/** Rows of a result and what its run says, by whether values are packed. */
async function joinedReport(packLink: boolean, left: Table, right: Table) {
    return await onGpu({ packLink, workers: 1 }, async (runtime) => {
        const query = joinOf(runtime, left, right);
        await query.toTable();
        const report = query.report();
        return { report, uploads: devicesOf(report, "upload"), deliver: devicesOf(report, "deliver")[0]! };
    });
}

describe("results are the same, packed or not", () => {
    const [left, right] = [mixed(1), mixed(2)];
    const queries: Record<string, (l: Relation, r: Relation) => Query> = {
        "a join": (l, r) => l.join(r, { on: "k" }),
        "a join of all rows of both sides": (l, r) => l.join(r, { on: "k", type: "full" }),
        "a group-by": (l) =>
            l.groupBy({
                keys: ["word"],
                aggregates: { sum: { sum: "small" }, least: { min: "any" }, n: { count: "some" }, d: { max: "byte" } }
            }),
        "a group-by of a join": (l, r) =>
            l.join(r, { on: "k" }).groupBy({ keys: ["small"], aggregates: { sum: { sum: "byte_right" } } })
    };
    for (const [name, make] of Object.entries(queries)) {
        for (const [place, turned] of Object.entries({
            "in GPU memory": {},
            "out of core": { outOfCore: true, chunkRows: 2048, radixBits: 3, residentShare: 0.5 }
        })) {
            test(`${name}, ${place}`, async () => {
                const run = async (runtime: Runtime): Promise<string[]> =>
                    await rowsOf(make(runtime.fromTable(left), runtime.fromTable(right)));
                const expected = await withRuntime({ device: "cpu", memory }, run);
                for (const packLink of [true, false]) {
                    expect(await onGpu({ ...turned, packLink, workers: 3 }, run)).toEqual(expected);
                }
                expect(await onGpu(turned, run)).toEqual(expected);
            });
        }
    }
});

describe("reports of copies", () => {
    const values = numbers((row) => BigInt((row % 100) - 50));
    const random = new Random(3);
    const anything = numbers(() => BigInt(random.below(2)) * (2n ** 63n - 1n) - BigInt(random.below(2)) * 2n ** 63n);

    test("say that fewer bytes crossed the link than there are where values need few bits", async () => {
        const [packed, raw] = [await joinedReport(true, values, values), await joinedReport(false, values, values)];
        for (const [at, upload] of packed.uploads.entries()) {
            // Bytes of the table are the same; a key has 10 bits in a block, a value 7.
            expect(upload.movedBytes).toBe(raw.uploads[at]!.movedBytes);
            expect(upload.sentBytes).toBeLessThan(upload.movedBytes! / 4);
            expect(upload.sentBytes).toBeGreaterThanOrEqual((rows * (10 + 7)) / 8);
        }
        expect(packed.deliver.movedBytes).toBe(raw.deliver.movedBytes);
        expect(packed.deliver.sentBytes).toBeLessThan(raw.deliver.sentBytes!);
        expect(packed.report).toMatchObject({
            uploadedBytes: raw.report?.uploadedBytes,
            downloadedBytes: raw.report?.downloadedBytes
        });
    });

    test("say that all bytes crossed it as they are, with the knob off", async () => {
        const { uploads, deliver } = await joinedReport(false, values, anything);
        for (const { movedBytes, sentBytes } of [...uploads, deliver]) {
            expect(sentBytes).toBeGreaterThan(0);
            expect(sentBytes).toBeLessThanOrEqual(movedBytes!);
        }
        for (const { sentBytes } of uploads) expect(sentBytes).toBe(12 * rows);
    });

    test("say that values which need all of their bits crossed it with no more than headers of blocks", async () => {
        const { uploads, deliver } = await joinedReport(true, anything, anything);
        for (const { movedBytes, sentBytes } of uploads) {
            expect(sentBytes).toBeGreaterThan(8 * rows);
            expect(sentBytes).toBeLessThanOrEqual(movedBytes! + 2 * headerBytes);
        }
        // A key and two values of 8 bytes.
        expect(deliver.sentBytes).toBeGreaterThan(16 * rows);
        expect(deliver.sentBytes).toBeLessThanOrEqual(deliver.movedBytes! + 3 * headerBytes);
    });

    // The headers of an upload lie in pinned memory, too, from where kernels read them over the link.
    test("count the headers of blocks on their way in as on their way out", async () => {
        const constant = numbers(() => 77n);
        const { uploads, deliver } = await joinedReport(true, constant, constant);
        // Keys have 10 bits and a header, values nothing but that.
        for (const { sentBytes } of uploads) expect(sentBytes).toBe((rows * 10) / 8 + 2 * headerBytes);
        expect(deliver.sentBytes).toBeGreaterThanOrEqual(3 * headerBytes);
    });

    test("say that nothing crossed it where there is nothing", async () => {
        const none = numbers(() => 0n, 0);
        for (const packLink of [true, false]) {
            const { report, uploads } = await joinedReport(packLink, none, none);
            expect(uploads.map(({ movedBytes, sentBytes }) => [movedBytes, sentBytes])).toEqual([
                [0, 0],
                [0, 0]
            ]);
            expect(devicesOf(report, "deliver").map(({ sentBytes }) => sentBytes)).toEqual([0]);
        }
    });

    test("are not of rows that are only counted, nor of the CPU engine", async () => {
        await onGpu({ packLink: true }, async (runtime) => {
            const query = joinOf(runtime, values, values);
            expect(await query.count()).toBe(rows);
            expect(query.report()?.stages.map(({ device }) => device?.sentBytes !== undefined)).toEqual([
                true,
                true,
                false
            ]);
            expect(query.report()?.downloadedBytes).toBe(0);
        });
        await withRuntime({ device: "cpu", memory }, async (runtime) => {
            const query = joinOf(runtime, values, values);
            await query.toTable();
            expect(query.report()).toMatchObject({ uploadedBytes: 0, downloadedBytes: 0 });
            expect(query.report()?.stages.every((stage) => stage.device === undefined)).toBe(true);
        });
    });
});

describe("reports of operations out of core", () => {
    const values = numbers((row) => BigInt((row % 100) - 50));
    const aggregates = { most: { max: "k" } } as const;
    const queries: Record<string, (l: Relation, r: Relation) => Query> = {
        join: (l, r) => l.join(r, { on: "k" }),
        "group-by": (l) => l.groupBy({ keys: ["v"], aggregates }),
        tree: (l, r) => l.join(r, { on: "k" }).join(r, { on: "k", type: "semi" })
    };

    /** All that was read stays in GPU memory, so that nothing comes back. */
    const figuresOf = async (packLink: boolean, make: (runtime: Runtime) => Query) =>
        await onGpu({ packLink, outOfCore: true, chunkRows: 2048, residentShare: 1 }, async (runtime) => {
            const query = make(runtime);
            await query.toTable();
            const stages = query.report()?.stages ?? [];
            expect(stages).toHaveLength(1);
            const device = stages[0]?.device;
            const figures = device?.outOfCore ?? device?.outOfCoreGroupBy ?? device?.outOfCoreTree;
            if (figures === undefined) throw new Error("it did not run out of core");
            return { ...figures, movedBytes: device?.movedBytes };
        });

    test.each(Object.entries(queries))("say what packed values saved of the link: a %s", async (of, make) => {
        const query = (runtime: Runtime): Query => make(runtime.fromTable(values), runtime.fromTable(values));
        const [packed, raw] = [await figuresOf(true, query), await figuresOf(false, query)];
        expect(raw.savedBytes).toBe(0);
        expect(packed.savedBytes).toBeGreaterThan(0);
        expect(packed.h2dBytes).toBeLessThan(raw.h2dBytes / 2);
        const bytes = packed.h2dBytes + packed.savedBytes;
        if (usesRealGpu) expect(bytes / raw.h2dBytes).toBeCloseTo(1, 2);
        else expect(bytes).toBe(raw.h2dBytes);
        expect(raw.d2hSavedBytes).toBe(0);
        expect(packed.d2hBytes + packed.d2hSavedBytes).toBe(raw.d2hBytes);
        if (of === "group-by") expect(packed.d2hSavedBytes).toBe(0);
        else expect(packed.d2hSavedBytes).toBeGreaterThan(raw.d2hBytes / 2);
        for (const { movedBytes, h2dBytes, d2hBytes } of [packed, raw]) expect(movedBytes).toBe(h2dBytes + d2hBytes);
    });

    test("say of streams that nothing was saved, as they cross it as they are", async () => {
        async function* batches(): AsyncGenerator<Table> {
            yield values;
        }
        const stream = (runtime: Runtime): Query =>
            runtime.fromBatches(values.schema, batches).groupBy({ keys: ["v"], aggregates });
        expect(await figuresOf(true, stream)).toMatchObject({ savedBytes: 0 });
    });
});

describe("explain", () => {
    test("says of an upload what is expected to cross the link, and nothing of bits with the knob off", async () => {
        const values = numbers((row) => BigInt(row % 100));
        const textOf = async (packLink: boolean): Promise<string> =>
            await onGpu({ packLink }, async (runtime) => String(await joinOf(runtime, values, values).explain()));
        expect(await textOf(true)).toMatch(/2 columns, 96 KiB as [\d.]+ KiB: in as many bits as values need/);
        const raw = await textOf(false);
        expect(raw).toMatch(/2 columns, 96 KiB$/m);
        expect(raw).not.toContain("bits as values need");
    });
});
