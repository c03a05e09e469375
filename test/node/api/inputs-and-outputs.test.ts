// SPDX-License-Identifier: Apache-2.0
// What names a file, what a stream may bring, and which options of generated keys go together.
import { pathToFileURL } from "node:url";
import {
    Field,
    Int32,
    Schema,
    Table,
    tableFromArrays,
    tableFromJSON,
    Utf8,
    vectorFromArray,
    type RecordBatch
} from "apache-arrow";
import { openRuntime, plainRows, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { expectError } from "../../support/errors.js";
import { Sandbox } from "../../support/sandbox.js";

let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } });
});
afterAll(async () => {
    await runtime.close();
    sandbox[Symbol.dispose]();
});

const numbers = tableFromArrays({ id: Int32Array.of(1, 2, 3) });

describe("a file URL", () => {
    test("names a file wherever a path does", async () => {
        const url = pathToFileURL(sandbox.path("a file, generated.arrow"));
        const generated = await runtime.generate({ rows: 10 }, { path: url });
        expect(generated.rows).toBe(10);
        const result = pathToFileURL(sandbox.path("a result.arrow"));
        expect(await generated.groupBy({ keys: ["key"] }).toArrowFile(result)).toBe(10);
        expect((await runtime.fromArrowFile(result)).rows).toBe(10);
    });

    test.each(["https://example.org/a.arrow", "file://elsewhere/a.arrow"])("%s is refused", async (text) => {
        const url = new URL(text);
        const query = runtime.fromTable(numbers).groupBy({ keys: ["id"] });
        await expectError(() => query.toArrowFile(url), "INVALID_ARGUMENT", /`path`/, text);
        await expectError(() => runtime.fromArrowFile(url), "INVALID_ARGUMENT", /`path`/, text);
        await expectError(
            () => runtime.generate({ rows: 1 }, { path: url }),
            "INVALID_ARGUMENT",
            /`target.path`/,
            text
        );
    });
});

test.each([1000, 100_000, 10_000_000])("batches of at most %i rows need no larger budget", async (batchRows) => {
    await using small = await openRuntime({ threads: 2, memory: { host: "2MiB", spillDirectory: sandbox.spill } });
    const ids = Int32Array.from({ length: 200_000 }, (_, i) => i);
    const left = small.fromTable(tableFromArrays({ id: ids, a: ids }));
    const query = left.join(small.fromTable(tableFromArrays({ id: ids, b: ids })), { on: "id" });
    let rows = 0;
    for await (const batch of query.batches({ batchRows })) {
        expect(batch.numRows).toBeLessThanOrEqual(batchRows);
        rows += batch.numRows;
    }
    expect(rows).toBe(ids.length);
    const file = sandbox.path(`batches-${batchRows}.arrow`);
    expect(await query.toArrowFile(file, { batchRows })).toBe(ids.length);
});

describe("a batch of a stream with another schema than the stated one", () => {
    const count = async (table: { batches: RecordBatch[] }): Promise<number> =>
        await runtime
            .fromBatches(numbers.schema, async function* () {
                yield* await Promise.resolve(table.batches as never[]);
            })
            .groupBy({ keys: ["id"] })
            .count();

    test.each([
        [{ id: Float64Array.of(1) }, "has type Int32 in the stated schema and Float64 in the batch"],
        [{ key: Int32Array.of(1) }, "is called `id` in the stated schema and `key` in the batch"],
        [{ id: Int32Array.of(1), more: Int32Array.of(1) }, "column 2 `more` exists in the batch only"]
    ])("is told from it: %o", async (columns, difference) => {
        const table = tableFromArrays(columns as { id: Int32Array });
        await expectError(() => count(table), "INVALID_ARGUMENT", difference);
    });
});

describe("an option of a generated key that its role has no use for", () => {
    test.each([
        ["duplicates", { role: "foreign", duplicates: 4 }, /nothing.*"primary".*`key\.duplicates`.*4/],
        ["zipf", { zipf: 1 }, /nothing.*"foreign".*`key\.zipf`/],
        ["matchRatio", { role: "primary", matchRatio: 0.5 }, /"foreign".*`key\.matchRatio`/],
        ["domainRows", { domainRows: 5 }, /"foreign".*`key\.domainRows`/]
    ] as const)("is refused: %s", async (_, key, message) => {
        await expectError(() => runtime.generate({ rows: 10, key }, "memory"), "INVALID_ARGUMENT", message);
    });

    test("is taken by the other", async () => {
        const foreign = { role: "foreign", domainRows: 5, zipf: 1, matchRatio: 0.5 } as const;
        expect((await runtime.generate({ rows: 10, key: foreign }, "memory")).rows).toBe(10);
        const primary = await runtime.generate({ rows: 10, key: { duplicates: 5 } }, "memory");
        expect(await primary.groupBy({ keys: ["key"] }).count()).toBe(2);
    });
});

describe("a query in a loop", () => {
    const ids = Int32Array.from({ length: 200_000 }, (_, i) => i);

    test("gives its batches, and every loop anew", async () => {
        const query = runtime.fromTable(tableFromArrays({ id: ids })).groupBy({ keys: ["id"] });
        for (let run = 0; run < 2; run++) {
            let rows = 0;
            for await (const batch of query) {
                expectTypeOf(batch).toEqualTypeOf<RecordBatch<{ id: Int32 }>>();
                rows += batch.numRows;
            }
            expect(rows).toBe(ids.length);
        }
        expect(query.report()?.rowsOut).toBe(ids.length);
        // So it can be the stream of another relation.
        const again = runtime.fromBatches(query.schema, () => query);
        expect(await again.groupBy({ keys: ["id"] }).count()).toBe(ids.length);
    });

    test("that is left early is cancelled, and frees its memory", async () => {
        const big = Int32Array.from({ length: 2_000_000 }, (_, i) => i);
        const relation = runtime.fromTable(tableFromArrays({ id: big }));
        const query = relation.join(relation, { on: "id" });
        for await (const batch of query) {
            expect(batch.numRows).toBeGreaterThan(0);
            expect(runtime.memory().host.usedBytes).toBeGreaterThan(0);
            break;
        }
        expect(runtime.memory().host.usedBytes).toBe(0);
        expect(query.report()).toBeUndefined();
        const failing = async (): Promise<void> => {
            for await (const batch of query) throw new Error(`${batch.numRows > 0}`);
        };
        await expect(failing()).rejects.toThrow("true");
        expect(runtime.memory().host.usedBytes).toBe(0);
        expect(query.report()).toBeUndefined();
    });
});

describe("an error about types names a way out that exists", () => {
    test("numbers of plain arrays, which are Float64", async () => {
        const floats = runtime.fromTable(tableFromArrays({ id: [1, 2] }));
        const join = (): unknown => floats.join(runtime.fromTable(numbers), { on: "id" });
        await expectError(join, "KEY_TYPE_MISMATCH", "Float64", "Int32Array.of(1, 2) or vectorFromArray");
    });

    test("dictionaries of tableFromJSON against plain text", async () => {
        const tables = [tableFromJSON([{ s: "x" }]), tableFromJSON([{ s: "y" }, { s: "x" }])];
        const count = async (schema: Schema): Promise<number> =>
            await runtime
                .fromBatches(schema, async function* () {
                    yield* await Promise.resolve(tables);
                })
                .groupBy({ keys: ["s"] })
                .count();
        const plain = new Schema([new Field("s", new Utf8(), true)]);
        await expectError(
            () => count(plain),
            "INVALID_ARGUMENT",
            "batch.schema",
            "vectorFromArray(values, new Utf8())"
        );
        expect(await count(tables[0]!.schema)).toBe(2);
    });

    test("a second join of a table with itself", async () => {
        const own = runtime.fromTable(tableFromArrays({ id: Int32Array.of(1), x: Int32Array.of(1) }));
        const once = own.join(own, { on: "id" });
        await expectError(() => once.join(own, { on: "id" }), "DUPLICATE_COLUMN", "`x_right`", "`suffix`");
        expect(once.join(own, { on: "id", suffix: "_third" }).schema.names).toEqual(["id", "x", "x_right", "x_third"]);
    });
});

test("NULLs of a stream come out, whatever the stated schema says of them", async () => {
    const stated = new Schema<{ id: Int32 }>([new Field("id", new Int32(), false)]);
    const table = new Table({ id: vectorFromArray([1, null], new Int32()) });
    const query = runtime
        .fromBatches(stated, async function* () {
            yield* await Promise.resolve(table.batches);
        })
        .groupBy({ keys: ["id"] });
    expect(query.schema.fields[0]!.nullable).toBe(true);
    expect(plainRows(await query.toTable())).toEqual(expect.arrayContaining([{ id: 1 }, { id: null }]));
});
