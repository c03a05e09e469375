// SPDX-License-Identifier: Apache-2.0
// Groups that are joined or grouped again beyond GPU memory: they are held in host memory between two stages.
import { Dictionary, Int32, Int64, Table, Utf8, vectorFromArray } from "apache-arrow";
import { openRuntime, type Query, type Relation, type Runtime, type RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";

useGpu();

const memory = { host: "256MiB", device: "128MiB" };
const small = knobs({ outOfCore: true, chunkRows: 256, radixBits: 3, residentShare: 0.4 });

async function within<T>(options: RuntimeOptions, use: (runtime: Runtime) => Promise<T>): Promise<T> {
    await using runtime = await openRuntime({ threads: 2, memory, ...options });
    return await use(runtime);
}

const facts = (rows: number): Table =>
    new Table({
        k: vectorFromArray(
            Array.from({ length: rows }, (_, i) => BigInt((i * 7919) % rows)),
            new Int64()
        ),
        word: vectorFromArray(
            Array.from({ length: rows }, (_, i) => (i % 11 === 0 ? null : `word ${i % 37}`)),
            new Dictionary(new Utf8(), new Int32())
        ),
        text: vectorFromArray(
            Array.from({ length: rows }, (_, i) => (i % 13 === 0 ? null : `text ${i % 41}`)),
            new Utf8()
        ),
        v: vectorFromArray(
            Array.from({ length: rows }, (_, i) => BigInt(i)),
            new Int64()
        )
    });
const table = facts(3000);

async function rowsOf(query: Query): Promise<string[]> {
    return rowTexts(cellTable(await query.toTable()));
}

/** The same query on both devices; how many stages it had on the GPU. */
async function compare(make: (relation: (runtime: Runtime) => Relation, runtime: Runtime) => Query, streamed = false) {
    const relation = (runtime: Runtime): Relation =>
        streamed
            ? runtime.fromBatches(table.schema, async function* () {
                  for (const batch of table.batches) yield await Promise.resolve(batch);
              })
            : runtime.fromTable(table);
    const expected = await within({ device: "cpu" }, async (runtime) => {
        return await rowsOf(make(() => runtime.fromTable(table), runtime));
    });
    return await within({ device: "gpu", ...small }, async (runtime) => {
        const query = make(relation, runtime);
        expectSameRows(await rowsOf(query), expected, "GPU");
        expect(await make(relation, runtime).count()).toBe(expected.length);
        return query.report()!.stages.map(({ device }) => Object.keys(device ?? {}).sort());
    });
}

const counted = (query: Relation | Query, keys: string[]): Query =>
    query.groupBy({ keys, aggregates: { n: { count: "*" }, sum: { sum: "v" }, mean: { mean: "v" } } });

describe.each([false, true])("groups, streamed: %s,", (streamed) => {
    test("are joined, with text and means", async () => {
        const stages = await compare((relation, runtime) => {
            const groups = counted(relation(runtime), ["text"]);
            return groups.join(runtime.fromTable(table), { on: { text: "text" }, type: "full", suffix: "_2" });
        }, streamed);
        expect(stages).toHaveLength(2);
    });

    test("are joined, with codes of a dictionary in the result", async () => {
        const stages = await compare((relation, runtime) => {
            const groups = counted(relation(runtime), ["word"]);
            return runtime.fromTable(table).join(groups, { on: { word: "word" }, type: "left", suffix: "_2" });
        }, streamed);
        expect(stages).toHaveLength(2);
    });

    test("are grouped again", async () => {
        const stages = await compare((relation, runtime) => {
            const groups = counted(relation(runtime), ["k", "word"].slice(1));
            return groups.groupBy({ keys: ["n"], aggregates: { most: { max: "sum" }, all: { sum: "sum" } } });
        }, streamed);
        expect(stages).toHaveLength(2);
    });
});

test("groups of nothing are joined", async () => {
    const none = new Table(table.schema);
    await within({ device: "gpu", ...small }, async (runtime) => {
        const groups = counted(runtime.fromTable(none), ["text"]);
        expect(await groups.join(runtime.fromTable(table), { on: { text: "text" }, suffix: "_2" }).count()).toBe(0);
    });
});

describe("more groups than were expected", () => {
    const rows = 200_000;
    const many = facts(rows);
    const make = (runtime: Runtime): Query => {
        const options = { keys: ["k"], aggregates: { n: { count: "*" } }, hints: { groups: 10 } } as const;
        const groups = runtime.fromTable(many).groupBy(options);
        return groups.join(runtime.fromTable(many), { on: { k: "k" }, select: ["n"] });
    };

    test("are an error on the GPU, which says what to change", async () => {
        await within({ device: "gpu", ...small }, async (runtime) => {
            await expect(make(runtime).count()).rejects.toMatchObject({
                code: "BUDGET_TOO_SMALL",
                message: expect.stringMatching(/Groups that are joined .*`hints.groups`/) as string,
                details: { tier: "host", option: "memory.host" }
            });
        });
    });

    test("are joined by the CPU engine where any device will do", async () => {
        await within({ device: "auto", ...knobs({ gpu: true, outOfCore: true }) }, async (runtime) => {
            const query = make(runtime);
            expect((await query.toTable()).numRows).toBe(rows);
            expect(query.report()).toMatchObject({ device: "cpu" });
        });
    });
});
