// SPDX-License-Identifier: Apache-2.0
// Trees of operators out of core as they cross the border: what is refused, and what a right one gives.
import { describe, expect, test } from "vitest";
import type { JobHandle, SinkHandle, SourceHandle } from "../../../src/native/binding.js";
import { useGpu } from "../../support/gpu.js";
import { binding, drain, int64Column, int64Values, integerKey, memorySource, openEngine } from "./support.js";

useGpu();

/* eslint-disable @typescript-eslint/no-explicit-any -- specs are changed anywhere, in ways that no type allows */
type Spec = any;

interface TreeReport {
    rows: number;
    operators: { rows: number; h2dBytes: number; d2hBytes: number }[];
}
const { runTreeOutOfCore } = binding as unknown as {
    runTreeOutOfCore(
        this: void,
        job: JobHandle,
        sources: SourceHandle[],
        spec: unknown,
        sink?: SinkHandle
    ): Promise<TreeReport>;
};

const sizes = {
    ...{
        radixBits: 2,
        chunkRows: 64,
        chunkSlots: 3,
        hostChunkRows: 64,
        hostChunkSlots: 5,
        pageRows: 64,
        pages: 64,
        resultRows: 64,
        resultSlots: 2
    },
    ...{ spillBlockBytes: 4096, peerBytes: 0, spillBytes: 0, diskBlockBytes: 0, diskBlocks: 0 }
};

function join(): Spec {
    return {
        kind: "join",
        join: {
            ...{ keyBytes: 8, keyColumns: 0, buildWidths: [8], probeWidths: [8] },
            ...{ emit: "pairs", anti: false, keepUnmatchedBuild: false, keepUnmatchedProbe: false, result: "rows" },
            outputs: [
                { side: "key", column: 0 },
                { side: "build", column: 0 },
                { side: "probe", column: 0 }
            ],
            sizes: { ...sizes, residentPartitions: 4, filterWords: 0 },
            coherent: null
        }
    };
}

/** A join by kernels alone. */
const coherent = (): Spec => ({
    ...{ deviceBytes: 2 ** 20, partitioner: "auto", partitionBlocks: 0, gatherBlocks: 0 },
    ...{ interleave: null, mapped: false, secondRadixBits: null, tableBuckets: null, perfectHash: false }
});

function group(): Spec {
    return {
        kind: "group",
        group: {
            ...{ keyBytes: 8, widths: [8], nullGroup: false },
            aggregates: [{ kind: "sum", number: "signed", column: 0, decidedBy: null }],
            sizes: { ...sizes, mergeRows: 256, preAggregation: "auto" }
        }
    };
}

const side = (): Spec => ({
    keys: [{ ...integerKey }],
    columns: [{ column: 1, validity: false, part: "whole", fill: "none", distinct: null }],
    ...{ nullByte: -1, numbered: false, packed: false }
});
const part = (value: number): Spec => ({ value, offset: 0, validity: -1, mask: 0 });
const pipe = (): Spec => ({
    ...{ presence: -1, nullByte: -1 },
    keys: [{ key: { ...integerKey }, type: int64Column("key"), parts: [part(0)] }],
    columns: [{ type: int64Column("payload"), validity: false, part: "whole", fill: "none", parts: [part(1)] }]
});
const step = (operator: number, input: number, piped: Spec = null): Spec => ({ operator, input, pipe: piped });

/** (0 join 1) join 2: keys, payload of the first, payload of the last. */
function joinOfJoin(): Spec {
    return {
        operators: [join(), join()],
        flows: [
            { source: 0, side: side(), steps: [step(0, 0)] },
            { source: 2, side: side(), steps: [step(1, 0)] },
            { source: 1, side: side(), steps: [step(0, 1), step(1, 1, pipe())] }
        ],
        result: {
            kind: "join",
            columns: [0, 2, 1].map((value) => ({
                type: int64Column("column"),
                parts: [{ from: "gpu", flow: -1, ...part(value) }]
            })),
            ...{ presence: -1, packed: false },
            rowNumbers: [-1, -1, -1]
        },
        workers: 2
    };
}

/** The same with row numbers of the last source in place of its payload, which is read by them. */
function gatheredJoin(): Spec {
    const spec = joinOfJoin();
    spec.flows[1].side.columns[0].column = -1;
    spec.result.rowNumbers[1] = 1;
    spec.result.columns[2].parts = [{ from: "flow", flow: 1, ...part(1) }];
    return spec;
}

/** Sums of the first payload by key. */
function groupOfJoin(): Spec {
    const column = (value: number): Spec => ({
        ...{
            type: int64Column("column"),
            kind: "copy",
            value,
            high: -1,
            between: [],
            count: -1,
            present: -1,
            offset: 0,
            key: -1
        },
        ...{ bytes: 8, number: "signed", decimalScale: 0, name: "payload" }
    });
    return {
        operators: [join(), group()],
        flows: [
            { source: 0, side: side(), steps: [step(0, 0)] },
            { source: 1, side: side(), steps: [step(0, 1), step(1, 0, pipe())] }
        ],
        result: { kind: "group", columns: [column(0), column(1)], nullByte: -1 },
        workers: 2
    };
}

const engine = openEngine();
const job = binding.createJob(engine);
const sources = await Promise.all([100, 150, 80].map((rows) => binding.openSource(engine, memorySource(rows))));

async function errorOf(spec: Spec): Promise<unknown> {
    try {
        await runTreeOutOfCore(job, sources, spec);
    } catch (error) {
        return error;
    }
    throw new Error("nothing was thrown");
}

/** The field that is refused in a tree with one change. */
async function refused(make: () => Spec, change: (spec: Spec) => void): Promise<unknown> {
    const spec = make();
    change(spec);
    const error = (await errorOf(spec)) as { code: string; details: { field?: string } };
    expect(error.code).toBe("INVALID_ARGUMENT");
    return error.details.field;
}

const pipeOf = (spec: Spec): Spec => spec.flows.at(-1).steps[1].pipe;
const inPipe = "spec.flows[2].steps[1].pipe";

describe("a tree is refused where", () => {
    const wrongFlows: [string, (spec: Spec) => void, string][] = [
        ["there is no operator", (spec) => (spec.operators = []), "spec.operators"],
        ["an operator is of no kind", (spec) => (spec.operators[0].kind = "sort"), "spec.operators[0].kind"],
        [
            "kernels alone cannot make a join",
            (spec) => {
                spec.operators[0].join.coherent = coherent();
                spec.operators[0].join.sizes.filterWords = 2;
            },
            "spec.operators[0].join.coherent"
        ],
        [
            "a join by kernels alone does not read sources",
            (spec) => (spec.operators[1].join.coherent = coherent()),
            "spec.flows[2].steps[1]"
        ],
        ["there is no flow", (spec) => (spec.flows = []), "spec.flows"],
        ["there is no source", (spec) => (spec.flows[0].source = 3), "spec.flows[0].source"],
        ["a flow has no steps", (spec) => (spec.flows[0].steps = []), "spec.flows[0].steps"],
        ["a step has no operator", (spec) => (spec.flows[0].steps[0].operator = 2), "spec.flows[0].steps[0].operator"],
        ["an operator lacks the input", (spec) => (spec.flows[2].steps[1].input = 2), "spec.flows[2].steps[1].input"],
        ["inputs come twice", (spec) => (spec.flows[1].steps[0].operator = 0), "spec.flows[1].steps[0].input"],
        ["inputs come in another order", (spec) => spec.flows.reverse(), "spec.flows[0].steps[0].input"],
        ["an input is missing", (spec) => spec.operators.push(join()), "spec.flows"],
        ["an operator is left out", (spec) => spec.flows[2].steps.pop(), "spec.flows"],
        ["rows go nowhere", (spec) => spec.flows.push({ ...spec.flows[1] }), "spec.flows[2].steps"],
        ["the first step has a pipe", (spec) => (spec.flows[0].steps[0].pipe = pipe()), "spec.flows[0].steps[0].pipe"],
        ["a later step has none", (spec) => (spec.flows[2].steps[1].pipe = null), inPipe],
        ["rows are counted and go on", (spec) => (spec.operators[0].join.result = "count"), "spec.flows[2].steps[1]"],
        ["a join has no keys", (spec) => (spec.flows[0].side.keys = []), "spec.flows[0].side"],
        ["a chunk lacks a column", (spec) => (spec.flows[0].side.columns = []), "spec.flows[0].side.columns"],
        ["the result is of another kind", (spec) => (spec.result.kind = "group"), "spec.result.kind"],
        [
            "a result column is of a source",
            (spec) => (spec.result.columns[0].parts[0].from = "build"),
            "spec.result.columns[0].parts[0].from"
        ],
        [
            "a result column is beyond the outputs",
            (spec) => (spec.result.columns[0].parts[0].value = 3),
            "spec.result.columns[0].parts[0].value"
        ],
        ["presence is no presence", (spec) => (spec.result.presence = 0), "spec.result.presence"]
    ];
    test.each(wrongFlows)("%s", async (_, change, field) => {
        expect(await refused(joinOfJoin, change)).toBe(field);
    });

    const numbers = "spec.result.rowNumbers";
    const gathered = "spec.result.columns[2].parts";
    const wrongNumbers: [string, (spec: Spec) => void, string][] = [
        ["a source has no row numbers", (spec) => (spec.result.rowNumbers[1] = -1), `${gathered}[0].flow`],
        ["a column is of no flow", (spec) => (spec.result.columns[2].parts[0].flow = 3), `${gathered}[0].flow`],
        ["a column is of no output", (spec) => (spec.result.columns[2].parts[0].flow = -1), `${gathered}[0].flow`],
        [
            "an output is of a flow",
            (spec) => (spec.result.columns[0].parts[0].flow = 1),
            "spec.result.columns[0].parts[0].flow"
        ],
        ["a column is not there", (spec) => (spec.result.columns[2].parts[0].value = 2), `${gathered}[0].value`],
        [
            "a column is of two origins",
            (spec) => spec.result.columns[2].parts.push({ from: "gpu", flow: -1, ...part(0) }),
            gathered
        ],
        ["numbers are missing", (spec) => spec.result.rowNumbers.pop(), numbers],
        ["numbers are of keys", (spec) => (spec.result.rowNumbers[1] = 0), `${numbers}[1]`],
        ["numbers are no output", (spec) => (spec.result.rowNumbers[1] = 3), `${numbers}[1]`],
        ["numbers are filled", (spec) => (spec.flows[1].side.columns[0].fill = "zero"), "spec.flows[1].side.columns[0]"]
    ];
    test.each(wrongNumbers)("%s", async (_, change, field) => {
        expect(await refused(gatheredJoin, change)).toBe(field);
    });

    const wrongPipes: [string, (pipe: Spec) => void, string][] = [
        ["it reads no such output", (spec) => (spec.columns[0].parts[0].value = 3), ".columns[0].parts[0].value"],
        ["it reads beyond an output", (spec) => (spec.columns[0].parts[0].offset = 1), ".columns[0].parts[0].offset"],
        ["validity has words", (spec) => (spec.columns[0].parts[0].validity = 0), ".columns[0].parts[0].validity"],
        ["a value has three parts", (spec) => spec.columns[0].parts.push(part(0), part(0)), ".columns[0].parts"],
        ["a value has none", (spec) => (spec.columns[0].parts = []), ".columns[0].parts"],
        ["a column is a half", (spec) => (spec.columns[0].part = "low"), ".columns[0]"],
        ["a column is a flag", (spec) => (spec.columns[0].validity = true), ".columns[0]"],
        ["there is a column more", (spec) => spec.columns.push(spec.columns[0]), ".columns"],
        ["there is a column less", (spec) => spec.columns.pop(), ".columns"],
        ["keys exceed the key", (spec) => spec.keys.push(spec.keys[0]), ".keys"],
        ["NULLs have no room", (spec) => (spec.nullByte = 7), ".keys"],
        ["NULLs have no byte", (spec) => (spec.nullByte = 8), ".nullByte"],
        ["a key is of bytes", (spec) => (spec.keys[0].key.kind = "bytes"), ".keys[0].key.kind"],
        ["a key is narrower", (spec) => (spec.keys[0].key.width = 4), ".keys[0].key.width"],
        ["a half float is a key", (spec) => halfFloat(spec.keys[0]), ".keys[0].key"],
        ["it has no keys", (spec) => (spec.keys = []), ""],
        ["it has something more", (spec) => (spec.more = 1), ".more"]
    ];
    test.each(wrongPipes)("in a pipe %s", async (_, change, field) => {
        expect(await refused(joinOfJoin, (spec) => change(pipeOf(spec)))).toBe(inPipe + field);
    });

    /** The upper join has keys of two words: of the pipe, and of the source. */
    function wideKeys(): Spec {
        const spec = joinOfJoin();
        const key = { ...integerKey };
        Object.assign(spec.operators[1].join, { keyColumns: 1, buildWidths: [8, 8], probeWidths: [8, 8] });
        Object.assign(spec.operators[1].join, {
            outputs: [
                { side: "build", column: 0 },
                { side: "build", column: 1 },
                { side: "probe", column: 1 }
            ]
        });
        const word = { column: -2, validity: false, part: "whole", fill: "none", distinct: null };
        spec.flows[1].side.columns.unshift(word);
        spec.flows[1].side.keys = [key, { ...key }];
        const described = pipeOf(spec).keys[0];
        pipeOf(spec).keys = [described, { ...described, key: { ...key }, parts: [part(0)] }];
        return spec;
    }
    const wrongWords: [string, (spec: Spec) => void, string][] = [
        ["a word has no key", (spec) => pipeOf(spec).keys.splice(0), `${inPipe}.keys`],
        ["there are keys of three words", (spec) => pipeOf(spec).keys.push(pipeOf(spec).keys[0]), `${inPipe}.keys`],
        ["NULLs are told among the keys", (spec) => (pipeOf(spec).nullByte = 15), `${inPipe}.keys`],
        ["NULLs are told behind all words", (spec) => (pipeOf(spec).nullByte = 16), `${inPipe}.nullByte`],
        [
            "words are told as columns",
            (spec) => pipeOf(spec).columns.push(pipeOf(spec).columns[0]),
            `${inPipe}.columns`
        ],
        ["a source's NULLs are among its keys", (spec) => (spec.flows[1].side.nullByte = 8), "spec.flows[1].side.keys"]
    ];
    test.each(wrongWords)("%s", async (_, change, field) => {
        expect(await refused(wideKeys, change)).toBe(field);
    });

    test("groups go on", async () => {
        const change = (spec: Spec): void => {
            spec.operators.push(join());
            spec.flows.splice(1, 0, { source: 2, side: side(), steps: [step(2, 0)] });
            spec.flows[2].steps.push(step(2, 1, pipe()));
        };
        expect(await refused(groupOfJoin, change)).toBe("spec.flows[2].steps[2]");
    });

    test("a group's result is beyond its outputs or key", async () => {
        const change = (spec: Spec): void => void (spec.result.columns[1].value = 2);
        expect(await refused(groupOfJoin, change)).toBe("spec.result.columns[1].value");
        const numbered = await refused(groupOfJoin, (spec) => (spec.flows[0].side.numbered = true));
        expect(numbered).toBe("spec.flows[0].side.numbered");
        expect(await refused(groupOfJoin, (spec) => (spec.result.nullByte = 8))).toBe("spec.result.nullByte");
        for (const bytes of [0, 9, 17]) {
            const wider = await refused(groupOfJoin, (spec) => (spec.result.columns[0].bytes = bytes));
            expect([bytes, wider]).toEqual([
                bytes,
                bytes === 9 ? "spec.result.columns[0]" : "spec.result.columns[0].bytes"
            ]);
        }
        expect(await refused(groupOfJoin, (spec) => (spec.result.columns[1].name = 1))).toBe(
            "spec.result.columns[1].name"
        );
    });
});

function halfFloat(key: Spec): void {
    key.type = { ...key.type, byteWidth: 2, order: "float" };
    Object.assign(key.key, { kind: "float", width: 4 });
}

describe("a tree", () => {
    async function opened(): Promise<SinkHandle> {
        const columns = [int64Column("a"), int64Column("b"), int64Column("c")];
        return binding.createQueueSink(job, columns, {
            batchRows: 64,
            batchBytes: 1 << 20,
            maxBatches: 4,
            kept: false
        });
    }

    test("needs a GPU that has been opened", async () => {
        expect(await errorOf(joinOfJoin())).toMatchObject({ message: expect.stringContaining("openDevice") as string });
        await binding.lookForDevices(engine);
        await binding.openDevice(engine, {
            ...{ ordinal: 0, memoryBytes: 1 << 28, pinnedBytes: 1 << 28, keptPinnedBytes: 0 },
            ...{ peerBytes: 0, peerOrdinal: -1 }
        });
    });

    test.each([
        ["that travel", joinOfJoin],
        ["that are gathered", gatheredJoin]
    ])("gives rows of columns %s, and a report of each operator", async (_, make) => {
        const sink = await opened();
        const report = runTreeOutOfCore(job, sources, make(), sink);
        const batches = await drain(sink);
        expect(await report).toMatchObject({ rows: 80, operators: [{ rows: 100, d2hBytes: 0 }, { rows: 80 }] });
        const rows = batches.flatMap((batch) => {
            const [a, b, c] = [0, 1, 2].map((column) => int64Values(batch, column));
            return [...a!].map((key, row) => [key, b![row], c![row]]);
        });
        const expected = Array.from({ length: 80 }, (_, key) => [key, 2 * key, 2 * key].map(BigInt));
        expect(rows.sort((a, b) => Number(a[0]! - b[0]!))).toEqual(expected);
        binding.closeSink(sink);
    });

    test("counts without a sink", async () => {
        expect(await runTreeOutOfCore(job, sources, groupOfJoin())).toMatchObject({
            ...{
                rows: 100,
                operators: [
                    { rows: 100, d2hBytes: 0 },
                    { rows: 100, h2dBytes: 0, partialRows: 100 }
                ]
            }
        });
        const counted = joinOfJoin();
        counted.operators[1].join.result = "count";
        expect((await runTreeOutOfCore(job, sources, counted)).rows).toBe(80);
    });

    test("tells what its pipes take: a chunk", () => {
        const memory = binding as unknown as Record<string, (spec: Spec) => unknown>;
        const { coherent: _, ...staged } = join().join;
        const { chunkBytes } = memory["stagedJoinMemory"]!(staged) as Spec;
        expect([chunkBytes.build, chunkBytes.probe]).toEqual([1280, 1280]);
        expect(memory["stagedGroupByMemory"]!(group().group)).toMatchObject({ chunkBytes: 1280 });
    });
});
