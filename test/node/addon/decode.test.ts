// SPDX-License-Identifier: Apache-2.0
// Every field of every object that crosses the border: missing, unknown, of the wrong type, out of range.
import { describe, expect, test } from "vitest";
import {
    allBits,
    arrayJoinSpec,
    binding,
    generateSpec,
    int64Column,
    integerKey,
    joinSpec,
    memorySource,
    openEngine,
    partitionSpec
} from "./support.js";

type Loose = Record<string, unknown>;

const engine = openEngine();
const job = binding.createJob(engine);

function errorOf(call: () => unknown): Loose {
    try {
        call();
    } catch (error) {
        return error as Loose;
    }
    throw new Error("nothing was thrown");
}

/** What the engine says to a partition spec with one field changed. */
function partitionError(change: Loose): Loose {
    return errorOf(() => binding.createPartitions(job, { ...partitionSpec(), ...change }));
}

describe("a field that is", () => {
    test.each(Object.keys(partitionSpec()))("missing: %s", (name) => {
        expect(partitionError({ [name]: undefined })).toMatchObject({
            code: "INVALID_ARGUMENT",
            message: `the field 'spec.${name}' is missing`,
            details: { field: `spec.${name}` }
        });
    });

    test("unknown", () => {
        expect(partitionError({ radixBit: 3 })).toMatchObject({
            code: "INVALID_ARGUMENT",
            message: "unknown field 'spec.radixBit'"
        });
        expect(partitionError({ keys: [{ ...integerKey, order: 1 }] })).toMatchObject({
            details: { field: "spec.keys[0].order" }
        });
    });

    const illTyped: [string, unknown, string][] = [
        ["radixBits", "3", "'spec.radixBits' must be an integer from 0 to 14, got '3'"],
        ["radixBits", 1.5, "'spec.radixBits' must be an integer from 0 to 14, got 1.5"],
        ["radixBits", NaN, "'spec.radixBits' must be an integer from 0 to 14, got NaN"],
        ["radixBits", 15, "'spec.radixBits' must be an integer from 0 to 14, got 15"],
        ["spill", 1, "'spec.spill' must be true or false, got 1"],
        ["keys", {}, "'spec.keys' must be an array, got an object"],
        ["keys", [1], "'spec.keys[0]' must be an object, got 1"],
        ["hashMask", 1, "'spec.hashMask' must be a bigint from 0n to 2n ** 64n - 1n, got 1"],
        ["hashMask", -1n, "'spec.hashMask' must be a bigint from 0n to 2n ** 64n - 1n, got a bigint"],
        ["hashMask", allBits + 1n, "'spec.hashMask' must be a bigint from 0n to 2n ** 64n - 1n, got a bigint"],
        ["nullKeys", "drip", "'spec.nullKeys' must be one of 'drop', 'keep', 'equal', got 'drip'"],
        ["nullKeys", null, "'spec.nullKeys' must be one of 'drop', 'keep', 'equal', got null"],
        ["pageBytes", 5000, "'spec.pageBytes' must be a power of two from 1024 to 2097152, got 5000"],
        ["carry", [2], "'spec.carry[0]' must be an integer from -1 to 1, got 2"],
        ["morselRows", 0, "'spec.morselRows' must be an integer from 1 to 9007199254740991, got 0"],
        ["workers", Infinity, "'spec.workers' must be an integer from 1 to 4096, got Infinity"]
    ];
    test.each(illTyped)("ill-typed: %s = %s", (name, value, message) => {
        expect(partitionError({ [name]: value })).toMatchObject({ code: "INVALID_ARGUMENT", message });
    });

    const keys: [Loose, string][] = [
        [{ column: 2 }, "spec.keys[0].column"],
        [{ width: 4 }, "spec.keys[0].width"],
        [{ width: 3 }, "spec.keys[0].width"],
        [{ kind: "bytes" }, "spec.keys[0].kind"],
        [{ kind: "float" }, "spec.keys[0].kind"],
        [{ kind: "fixedBytes", width: 16 }, "spec.keys[0].width"],
        [{ kindOfValue: "dictionaryIndex" }, "spec.keys[0].kindOfValue"]
    ];
    test.each(keys)("not fit for the column: key %o", (change, field) => {
        expect(partitionError({ keys: [{ ...integerKey, ...change }] })).toMatchObject({
            code: "INVALID_ARGUMENT",
            details: { field }
        });
    });

    const columns: [Loose, string][] = [
        [{ byteWidth: 0 }, "byteWidth"],
        [{ layout: "list", byteWidth: 3, children: [int64Column("item")] }, "byteWidth"],
        [{ layout: "list", byteWidth: 4 }, "children"],
        [{ layout: "unionDense", typeIds: [0, 1], children: [int64Column("a")] }, "children"],
        [{ layout: "unionDense", typeIds: [128], children: [int64Column("a")] }, "typeIds[0]"],
        [{ layout: "dictionary", byteWidth: 3, children: [int64Column("value")] }, "byteWidth"],
        [{ children: [int64Column("a")] }, "children"],
        [{ layout: "tree" }, "layout"]
    ];
    test.each(columns)("impossible in a type: %o", (change, field) => {
        const error = partitionError({ columns: [{ ...int64Column("a"), ...change }, int64Column("b")] });
        expect(error).toMatchObject({ code: "INVALID_ARGUMENT", details: { field: `spec.columns[0].${field}` } });
    });

    test("nested too deeply", () => {
        let type = int64Column("leaf");
        for (let depth = 0; depth < 70; ++depth) type = { ...type, layout: "struct", children: [type] };
        expect(partitionError({ columns: [type] }).message).toMatch(/nested at most 64 levels deep/);
    });
});

describe("a source", () => {
    const sourceError = async (change: (batch: Loose) => Loose): Promise<Loose> => {
        const spec = memorySource(10, 1);
        const batch = { ...spec.batches[0]!, ...change(spec.batches[0] as unknown as Loose) };
        return binding.openSource(engine, { ...spec, batches: [batch] }).then(
            () => ({ message: "opened" }),
            (error: unknown) => error as Loose
        );
    };
    const changes: [string, Loose, string][] = [
        ["half a node", { nodes: new Float64Array(2) }, "spec.batches[0].nodes"],
        ["a fraction", { nodes: Float64Array.of(1.5, 0, 0, 10, 0, 0) }, "spec.batches[0].nodes[0]"],
        ["another typed array", { memory: [null, new Int32Array(4)] }, "spec.batches[0].memory[1]"],
        ["a dictionary that is not there", { dictionaries: [0] }, "spec.batches[0].dictionaries[0]"],
        ["negative rows", { rows: -1 }, "spec.batches[0].rows"]
    ];
    test.each(changes)("with %s is refused", async (_, change, field) => {
        expect(await sourceError(() => change)).toMatchObject({ code: "INVALID_ARGUMENT", details: { field } });
    });

    test("with more NULLs than rows is refused by who knows the column", async () => {
        const error = await sourceError(() => ({ nodes: Float64Array.of(10, 11, 0, 10, 0, 0) }));
        expect(error).toMatchObject({ code: "INVALID_ARGUMENT", details: { column: "key", batch: "0" } });
    });

    test("with buffers too short for its rows is refused", async () => {
        const error = await sourceError(() => ({ memory: [null, new Uint8Array(79), null, new Uint8Array(80)] }));
        expect(error).toMatchObject({ code: expect.stringMatching(/^(FILE_CORRUPT|INVALID_ARGUMENT)$/) });
    });
});

describe("stages", () => {
    test("refuse outputs and partitions that do not exist", async () => {
        const source = await binding.openSource(engine, memorySource(100));
        const sides = [0, 1].map(() => binding.createPartitions(job, partitionSpec()));
        for (const side of sides) {
            await binding.partitionSource(job, side, source);
            await binding.finishPartitions(job, side);
        }
        const join = (change: Loose) =>
            binding.joinPartitions(job, sides[0]!, sides[1]!, joinSpec(change), binding.createCountSink(job));
        const output = { side: "build", buildField: 2, probeField: -1 };
        await expect(join({ outputs: [output] })).rejects.toMatchObject({
            details: { field: "spec.outputs[0].buildField" }
        });
        await expect(join({ schedule: Int32Array.of(8) })).rejects.toThrow(/partition 8, which does not exist/);
        await expect(join({ schedule: Int32Array.of(1, 1) })).rejects.toThrow(/partition 1, which is there already/);
        await expect(join({ schedule: [1] })).rejects.toThrow(/'spec.schedule' must be an Int32Array, got an array/);
        // Nothing of that has used the rows up.
        expect(await join({})).toBe(100);
    });

    test("refuse sides that do not fit each other", async () => {
        const sides = [3, 4].map((radixBits) => binding.createPartitions(job, partitionSpec({ radixBits })));
        for (const side of sides) await binding.finishPartitions(job, side);
        const join = binding.joinPartitions(job, sides[0]!, sides[1]!, joinSpec(), binding.createCountSink(job));
        await expect(join).rejects.toThrow(/3 and 4 radix bits/);
    });

    test("refuse an array join that cannot be one, and say when its keys are not dense", async () => {
        const source = await binding.openSource(engine, memorySource(100));
        const sink = () => binding.createCountSink(job);
        const join = (change: Loose, probe: Loose = {}) => {
            const [build, other] = [partitionSpec(), partitionSpec(probe)];
            return binding.joinArray(job, source, build, source, other, arrayJoinSpec(change), sink());
        };
        const wide = { ...integerKey, kind: "fixedBytes" };
        await expect(join({}, { keys: [wide] })).rejects.toThrow(/its key is not one integer/);
        await expect(join({}, { keys: [integerKey, integerKey] })).rejects.toThrow(/its key is not one integer/);
        await expect(join({}, { nullKeys: "equal" })).rejects.toThrow(/its key is not one integer/);
        await expect(join({ outputs: [2] })).rejects.toMatchObject({ details: { field: "spec.outputs[0]" } });
        await expect(join({ emit: "buildOnce" })).rejects.toMatchObject({ details: { field: "spec.emit" } });
        await expect(join({ keyValues: 0 })).rejects.toMatchObject({ details: { field: "spec.keyValues" } });
        await expect(join({ keyValues: 99 })).rejects.toMatchObject({ details: { reason: "notDense" } });
        await expect(join({ firstKey: 1n })).rejects.toMatchObject({ details: { reason: "notDense" } });
        await expect(join({ keyValues: 2 ** 50 })).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL" });
        expect(await join({})).toBe(100);
        expect(await join({ emit: "probeOnce", anti: true })).toBe(0);
    });

    test("refuse a source of other columns than planned", async () => {
        const source = await binding.openSource(engine, memorySource(10));
        const columns = [int64Column("key"), { ...int64Column("payload"), byteWidth: 4 }];
        const partitions = binding.createPartitions(job, partitionSpec({ columns }));
        await expect(binding.partitionSource(job, partitions, source)).rejects.toThrow(/column 1 has another layout/);
    });

    test("check what is to be generated", async () => {
        const spec = generateSpec(10);
        const sink = binding.createCountSink(job);
        const generate = (change: Loose) => binding.generate(job, { ...spec, ...change }, sink);
        await expect(generate({ rows: -1 })).rejects.toMatchObject({ details: { field: "spec.rows" } });
        await expect(generate({ key: { ...spec.key, zipf: NaN } })).rejects.toThrow(/'spec.key.zipf' must be a number/);
    });

    test("check what table is to be generated", async () => {
        const sizes = { scale: 0.001, seed: 1n, part: 1, parts: 1, batchRows: 100, workers: 1 };
        const spec = { benchmark: "tpch" as const, table: "part", ...sizes, dictionaryIds: [0, 1, 2, 3] };
        const sink = binding.createCountSink(job);
        const generate = (change: Loose) => binding.generateTable(job, { ...spec, ...change }, sink);
        for (const change of [
            { benchmark: "tpcds" },
            { table: "lineorder" },
            { benchmark: "ssb", table: "orders" },
            { dictionaryIds: [0, 1] },
            { dictionaryIds: "all" }
        ]) {
            const field = `spec.${Object.keys(change).at(-1)}`;
            await expect(generate(change)).rejects.toMatchObject({ code: "INVALID_ARGUMENT", details: { field } });
        }
        await expect(generate({ part: 2 })).rejects.toThrow(/'part' is 2; it must be between 1 and 1/);
        await expect(generate({ scale: 0 })).rejects.toThrow(/'scale' is 0.0+; it must be above 0/);
        expect(await generate({})).toBe(200);
        expect(binding.generatedDictionaries("ssb", "lineorder").map(({ length }) => length)).toEqual([5, 1, 7]);
        expect(errorOf(() => binding.generatedDictionaries("ssb", "orders"))).toMatchObject({
            code: "INVALID_ARGUMENT"
        });
    });
});
