// SPDX-License-Identifier: Apache-2.0
// Joins of relations larger than GPU memory whose columns or keys do not go there: text, bytes, dictionaries, nested
// and wide values, rows of any width, keys of which a hash is compared. Against the CPU engine.
import { Int32, Int64, type DataType, type Table } from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { hasViews, keyTypes } from "../../support/domains.js";
import { useGpu } from "../../support/gpu.js";
import { Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import {
    buildTable,
    drawIndices,
    keyColumn,
    keySource,
    payloadColumns,
    randomShape,
    withNulls
} from "../../support/relations.js";
import { resultRows } from "../../support/result-rows.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

useGpu();

const memory = { host: "256MiB", device: "64MiB" };
let cpu: Runtime;
let gpus: Runtime[] = [];

beforeAll(async () => {
    cpu = await openRuntime({ device: "cpu", threads: 2, memory });
    gpus = [];
    for (const [i, residentShare] of [0.4, 1].entries()) {
        const debug = { outOfCore: true, chunkRows: [64, 4096][i]!, radixBits: [3, 0][i]!, residentShare };
        gpus.push(await openRuntime({ device: "gpu", threads: 2, memory, ...knobs({ ...debug, workers: 3 }) }));
    }
});
afterAll(async () => {
    for (const runtime of [cpu, ...gpus]) await runtime.close();
});

type Types = [DataType, DataType];
/** Keys of a family, each side with a type of its own. */
const family = (name: string, random: Random): Types => {
    const types = keyTypes[name]!();
    return [random.pick(types), random.pick(types)];
};
const int64: Types = [new Int64(), new Int64()];
/** exact: keys that the GPU compares as they are, for every type of join. */
const keySets: Record<string, { exact: boolean; types: (random: Random) => Types[] }> = {
    int64: { exact: true, types: () => [int64] },
    "int32 and bool": { exact: true, types: (random) => [[new Int32(), new Int32()], family("bool", random)] },
    "dictionary of integers": { exact: true, types: (random) => [family("dictionaryOfIntegers", random)] },
    "bytes of 6": { exact: true, types: (random) => [family("fixedSizeBinary", random)] },
    text: { exact: false, types: (random) => [family("text", random)] },
    bytes: { exact: false, types: (random) => [family("binary", random)] },
    decimal: { exact: false, types: (random) => [family("decimal", random)] },
    "bytes of 24": { exact: false, types: (random) => [family("fixedSizeBinaryWide", random)] },
    "two int64": { exact: false, types: () => [int64, int64] },
    "text and bool": { exact: false, types: (random) => [family("text", random), family("bool", random)] }
};

function tables(random: Random, types: readonly Types[]): [Table, Table] {
    const size = random.pick([1, 40, 300]);
    const keys = types.map((both) => keySource(random, both, size));
    const nullRatio = random.pick([0, 0.1]);
    return ([0, 1] as const).map((side) => {
        const rows = random.pick(size === 1 ? [0, 1, 40] : [0, 1, 130, 600]);
        const indices = drawIndices(random, rows, size, size === 1 ? "uniform" : random.pick(["unique", "zipf"]));
        const columns = keys.map((source, i) =>
            keyColumn(`k${i}`, source, side, indices, (values) => withNulls(random, values, nullRatio))
        );
        const payload = payloadColumns(random, side === 0 ? "l" : "r", random.pick([0, 1, 3, 7]), rows);
        return buildTable([...columns, ...payload], randomShape(random, rows));
    }) as [Table, Table];
}

describe("joins out of core with gathered columns", () => {
    for (const [index, [kind, { exact, types }]] of Object.entries(keySets).entries()) {
        test(`on ${kind}`, async () => {
            using sandbox = new Sandbox();
            for (let at = 0; at < 2 * joinTypes.length; ++at) {
                const seed = 50_000 + 1000 * index + at;
                const random = new Random(seed);
                const keys = types(random);
                const type = exact ? joinTypes[at % joinTypes.length]! : "inner";
                if (type === "full" && keys.some(([a, b]) => String(a) !== String(b))) continue;
                // Eight bytes of a key leave no room for which of them are NULL.
                const nullEquality = (type === "inner" || kind === "int32 and bool") && random.chance(0.4);
                const both = tables(random, keys);
                const sides = type === "semi" || type === "anti" ? both.slice(0, 1) : both;
                const names = [...new Set(sides.flatMap(({ schema }) => schema.fields.map(({ name }) => name)))];
                const some = random.shuffle(names).slice(0, random.between(1, names.length));
                const selected = random.chance(0.3) ? { select: some } : {};
                const files = both.map((table) => {
                    const whole = table.batches.length <= 1 || !String(table.schema).includes("Dictionary");
                    const written = random.chance(0.5) && whole && !table.schema.fields.some((f) => hasViews(f.type));
                    return written ? sandbox.write(table) : undefined;
                });
                const queryOn = async (runtime: Runtime): Promise<Query> => {
                    const [left, right] = await Promise.all(
                        both.map(async (table, side) => {
                            const file = files[side];
                            return file === undefined ? runtime.fromTable(table) : await runtime.fromArrowFile(file);
                        })
                    );
                    const hints = { buildSide: random.pick(["left", "right"] as const) };
                    const on = keys.map((_, i) => `k${i}`);
                    return runtime.join({ left: left!, right: right!, on, type, hints, nullEquality, ...selected });
                };
                const reference = await queryOn(cpu);
                const expected = rowTexts(cellTable(await reference.toTable()));
                for (const gpu of gpus) {
                    const query = await queryOn(gpu);
                    const nulls = nullEquality ? ", NULLs equal" : "";
                    const what = `${type} join on ${kind} (${keys.map(String).join("; ")})${nulls}, seed ${seed}`;
                    expectSameRows(await resultRows(random, query, sandbox), expected, what);
                    expect(query.report()?.stages[0]?.device?.outOfCore, what).toBeDefined();
                    expect(query.report()?.rowsOut, what).toBe(expected.length);
                    expect(await query.count(), what).toBe(expected.length);
                    expect(gpu.memory().host.usedBytes, what).toBe(0);
                }
            }
        });
    }
});
