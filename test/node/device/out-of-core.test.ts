// SPDX-License-Identifier: Apache-2.0
// Joins of relations larger than GPU memory, against the CPU engine: every type of join, keys and columns of every
// width, NULLs, several batches and chunks, resident and spilled partitions.
import {
    Bool,
    DateDay,
    Decimal,
    FixedSizeBinary,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    TimeMicrosecond,
    TimestampMillisecond,
    Uint32,
    Uint8,
    type DataType,
    type Table
} from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { randomValue } from "../../support/domains.js";
import { useGpu } from "../../support/gpu.js";
import { Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import {
    buildTable,
    distributions,
    drawIndices,
    keyColumn,
    keySource,
    randomShape,
    withNulls,
    type PlainColumn
} from "../../support/relations.js";
import { resultRows } from "../../support/result-rows.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

useGpu();

const memory = { host: "256MiB", device: "64MiB" };
const shares = [0, 0.5, 1];
let cpu: Runtime;
let gpus: Runtime[] = [];

beforeAll(async () => {
    cpu = await openRuntime({ device: "cpu", threads: 2, memory });
    gpus = [];
    for (const [i, residentShare] of shares.entries()) {
        const debug = { outOfCore: true, chunkRows: [64, 192, 4096][i]!, radixBits: [0, 3, 9][i]!, residentShare };
        gpus.push(
            await openRuntime({ device: "gpu", threads: 2, memory, ...knobs({ ...debug, workers: [3, 12, 3][i]! }) })
        );
    }
});
afterAll(async () => {
    for (const runtime of [cpu, ...gpus]) await runtime.close();
});

const both = (type: DataType): [DataType, DataType] => [type, type];
const keySets: Record<string, [DataType, DataType][]> = {
    int32: [both(new Int32())],
    int64: [both(new Int64())],
    "int16 and int64": [[new Int16(), new Int64()]],
    "uint8 and int32": [[new Uint8(), new Int32()]],
    bool: [both(new Bool())],
    date: [both(new DateDay())],
    timestamp: [both(new TimestampMillisecond())],
    time: [both(new TimeMicrosecond())],
    float64: [both(new Float64())],
    "float32 and float64": [[new Float32(), new Float64()]],
    bytes8: [both(new FixedSizeBinary(8))],
    "int32, int16": [both(new Int32()), both(new Int16())],
    "uint32, int8, bool": [both(new Uint32()), both(new Int8()), both(new Bool())]
};
const payloads: DataType[] = [
    ...[new Int8(), new Int16(), new Int32(), new Int64(), new Float32(), new Float64(), new Bool(), new DateDay()],
    ...[new FixedSizeBinary(16), new Decimal(3, 30, 128), new FixedSizeBinary(2)]
];
const widths = new Map<DataType, number>([1, 2, 4, 8, 4, 8, 1, 4, 16, 16, 2].map((width, i) => [payloads[i]!, width]));

/** Rows stay below 32 bytes with a key of 8 and a byte of validity for each column; floats are no keys alone. */
function payload(random: Random, rows: number, prefix: string, keyBytes: number): PlainColumn[] {
    const columns: PlainColumn[] = [];
    for (let left = 32 - keyBytes; columns.length < 4;) {
        const fitting = payloads.filter((type) => widths.get(type)! + 1 <= left);
        if (fitting.length === 0 || random.chance(0.2)) break;
        const type = random.pick(fitting);
        const values = Array.from({ length: rows }, () => randomValue(random, type));
        const column = { name: `${prefix}${columns.length}`, type, values };
        columns.push({ ...column, values: withNulls(random, values, random.pick([0, 0.2, 1])) });
        left -= widths.get(type)! + 1;
    }
    return columns;
}

function tables(random: Random, kind: string): [Table, Table] {
    const rows = [random.pick([0, 1, 90, 700]), random.pick([0, 1, 150, 900])] as const;
    const size = random.pick([1, 40, 400]);
    const nullRatio = random.pick([0, 0, 0.1]);
    const keys = keySets[kind]!.map((types) => keySource(random, types, size));
    const distribution = random.pick(size === 1 ? (["uniform"] as const) : distributions);
    return ([0, 1] as const).map((side) => {
        // Few pairs of rows with one key: they are compared one by one.
        const count = size === 1 ? Math.min(rows[side], 60) : rows[side];
        const indices = drawIndices(random, count, size, distribution === "hot" ? "uniform" : distribution);
        const columns = keys.map((source, i) =>
            keyColumn(`k${i}`, source, side, indices, (values) => withNulls(random, values, nullRatio))
        );
        // A key that is carried beside its normalized value: floats, or one of several that may be NULL.
        const carried = columns.reduce((sum, { type }) => sum + (/(\d+)/.test(String(type)) ? 9 : 5), 8);
        const all = [...columns, ...payload(random, count, side === 0 ? "l" : "r", Math.min(carried, 32))];
        return buildTable(all, randomShape(random, count));
    }) as [Table, Table];
}

describe("joins out of core", () => {
    for (const [index, kind] of Object.keys(keySets).entries()) {
        test(`on ${kind}`, async () => {
            using sandbox = new Sandbox();
            for (const [at, type] of joinTypes.entries()) {
                const random = new Random(1000 * index + at);
                const [left, right] = tables(random, kind);
                const twoTypes = keySets[kind]!.some(([a, b]) => String(a) !== String(b));
                if (type === "full" && twoTypes) continue; // one column cannot hold both
                const files = [left, right].map((table) => (random.chance(0.5) ? sandbox.write(table) : undefined));
                const queryOn = async (runtime: Runtime): Promise<Query> => {
                    const [l, r] = await Promise.all(
                        [left, right].map(async (table, side) => {
                            const file = files[side];
                            return file === undefined ? runtime.fromTable(table) : await runtime.fromArrowFile(file);
                        })
                    );
                    const hints = { buildSide: random.pick(["left", "right"] as const) };
                    return runtime.join({
                        left: l!,
                        right: r!,
                        on: keySets[kind]!.map((_, i) => `k${i}`),
                        type,
                        hints
                    });
                };
                const reference = await queryOn(cpu);
                const expected = rowTexts(cellTable(await reference.toTable()));
                for (const gpu of gpus) {
                    const query = await queryOn(gpu);
                    const what = `${type} join on ${kind}, seed ${1000 * index + at}`;
                    expectSameRows(await resultRows(random, query, sandbox), expected, what);
                    const stage = query.report()?.stages[0];
                    expect(stage?.device?.outOfCore, what).toBeDefined();
                    expect(await query.count(), what).toBe(expected.length);
                }
            }
        });
    }
});
