// SPDX-License-Identifier: Apache-2.0
// Relations and outputs at the edges: no rows, no columns, names used twice, streams that break, files that exist.
import { writeFileSync } from "node:fs";
import { Field, Int32, makeData, RecordBatch, Schema, Struct, Table, tableFromArrays, Utf8 } from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildData } from "../../support/arrow-data.js";
import { expectError } from "../../support/errors.js";
import { Sandbox } from "../../support/sandbox.js";

const people = tableFromArrays({ id: Int32Array.of(1, 2, 3), age: Float64Array.of(30, 40, 50) });
const texts = new Table({ id: buildTable(new Utf8(), ["1", "2"]), note: buildTable(new Utf8(), ["a", "b"]) });

function buildTable(type: Utf8, values: string[]) {
    const data = buildData(type, values);
    const schema = new Schema([new Field("c", type, true)]);
    const struct = makeData({ type: new Struct(schema.fields), length: values.length, nullCount: 0, children: [data] });
    return new Table(schema, [new RecordBatch(schema, struct)]).getChildAt(0)! as never;
}

let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } });
});
afterAll(async () => {
    await runtime.close();
    await sandbox.expectClean();
    sandbox[Symbol.dispose]();
});

/** The API as an untyped caller sees it. */
const loose = () => runtime as unknown as Record<string, (...args: unknown[]) => unknown>;

describe("relations in memory", () => {
    test("that are none are refused", async () => {
        for (const value of [undefined, null, 7, "table", {}, [1]]) {
            await expectError(() => loose()["fromTable"]!(value), "INVALID_ARGUMENT", /table|batch/i);
        }
    });

    test("without columns have rows and groups, but no keys", async () => {
        const empty = runtime.fromTable(new Table(new Schema([]), []));
        await expectError(() => empty.join(runtime.fromTable(people), { on: "id" as never }), "UNKNOWN_COLUMN", /id/);
        expect(await empty.groupBy({ aggregates: { rows: { count: "*" } } }).count()).toBe(1);
    });

    test("with far fewer bytes than rows are refused before anything is filled in", async () => {
        const rows = 2 ** 28;
        const short = makeData({ type: new Int32(), length: rows, nullCount: 0, data: Int32Array.of(1) });
        const schema = new Schema([new Field("id", new Int32(), true)]);
        const struct = makeData({ type: new Struct(schema.fields), length: rows, nullCount: 0, children: [short] });
        const relation = () => runtime.fromTable(new RecordBatch(schema, struct));
        const query = async () => relation().join(runtime.fromTable(people), { on: "id" }).count();
        await expectError(query, "INVALID_ARGUMENT", /shorter than their rows.*64 MiB/);
    });

    test("with two columns of one name are refused where the name is used", async () => {
        const schema = new Schema([new Field("id", new Int32(), true), new Field("id", new Int32(), true)]);
        const children = [buildData(new Int32(), [1n]), buildData(new Int32(), [2n])];
        const struct = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children });
        const twice = new RecordBatch(schema, struct);
        const query = async () => {
            const relation = runtime.fromTable(twice);
            return relation.join(runtime.fromTable(people), { on: "id" as never }).count();
        };
        await expectError(query, "DUPLICATE_COLUMN", /id/);
    });

    test("without rows join and group", async () => {
        const none = runtime.fromTable(tableFromArrays({ id: new Int32Array(0) }));
        const some = runtime.fromTable(people);
        expect(await none.join(some, { on: "id" }).count()).toBe(0);
        expect(await none.join(some, { on: "id", type: "right" }).count()).toBe(3);
        expect(await some.join(none, { on: "id", type: "anti" }).count()).toBe(3);
        expect(await none.groupBy({ keys: ["id"] }).count()).toBe(0);
        expect(await none.groupBy({ aggregates: { rows: { count: "*" } } }).count()).toBe(1);
    });

    test("that are tables among batches have the rows of those tables", async () => {
        const twoBatches = people.concat(people);
        const relations = [
            runtime.fromTable([people]),
            runtime.fromTable([people.batches[0]!, twoBatches]),
            runtime.fromBatches(people.schema, async function* () {
                yield twoBatches;
                yield people.batches[0]!;
            })
        ];
        const sums = relations.map(async (relation) => {
            const result = await relation
                .groupBy({ aggregates: { age: { sum: "age" }, n: { count: "id" } } })
                .toTable();
            return [Number(result.get(0)!.age), Number(result.get(0)!.n)];
        });
        expect(await Promise.all(sums)).toEqual([
            [120, 3],
            [360, 9],
            [360, 9]
        ]);
        await expectError(() => runtime.fromTable([people, texts as never]), "INVALID_ARGUMENT", /schema/);
        await expectError(
            () => loose()["fromTable"]!([people, { schema: people.schema }]),
            "INVALID_ARGUMENT",
            /batch/
        );
    });

    test("that arrive as batches: their errors come through, wrong ones are refused", async () => {
        const schema = people.schema;
        const failing = runtime.fromBatches(schema, async function* () {
            yield* people.batches;
            throw new RangeError("the pipe broke");
        });
        await expect(failing.join(runtime.fromTable(people), { on: "id" }).count()).rejects.toThrow("the pipe broke");
        const wrong = runtime.fromBatches(schema, async function* () {
            yield* texts.batches as never[];
        });
        await expectError(
            () => wrong.join(runtime.fromTable(people), { on: "id" }).count(),
            "INVALID_ARGUMENT",
            /schema|column/
        );
        await expectError(() => loose()["fromBatches"]!(schema, 7), "INVALID_ARGUMENT", /open/, /function/);
    });
});

describe("output files", () => {
    const query = () => runtime.join({ left: runtime.fromTable(people), right: runtime.fromTable(people), on: "id" });

    test("that exist are kept unless overwrite is given", async () => {
        const path = sandbox.path("exists.arrow");
        writeFileSync(path, "mine");
        await expectError(() => query().toArrowFile(path), "OUTPUT_EXISTS", path, /overwrite/);
        expect(await query().toArrowFile(path, { overwrite: true })).toBe(3);
        expect((await runtime.fromArrowFile(path)).rows).toBe(3);
    });

    test("in a missing folder, or that are a folder, are refused", async () => {
        const missing = sandbox.path("missing/result.arrow");
        await expectError(() => query().toArrowFile(missing), ["FILE_NOT_FOUND", "OUTPUT_FAILED"], missing);
        await expectError(
            () => query().toArrowFile(sandbox.output),
            ["OUTPUT_EXISTS", "OUTPUT_FAILED"],
            sandbox.output
        );
    });

    test("may replace an input of the query", async () => {
        const path = sandbox.write(people, "both.arrow");
        const relation = await runtime.fromArrowFile(path);
        expect(await relation.join(relation, { on: "id" }).toArrowFile(path, { overwrite: true })).toBe(3);
        const again = await runtime.fromArrowFile(path);
        expect(again.schema.fields.map((field) => field.name)).toEqual(["id", "age", "age_right"]);
    });
});

test("a closed runtime refuses everything", async () => {
    const closed = await openRuntime({ memory: { host: "64MiB", spillDirectory: sandbox.spill } });
    const relation = closed.fromTable(people);
    const query = relation.join(relation, { on: "id" });
    await closed.close();
    await expectError(() => closed.fromTable(people), "CLOSED");
    await expectError(() => closed.fromArrowFile("x.arrow"), "CLOSED");
    await expectError(() => closed.join({ left: relation, right: relation, on: "id" }), "CLOSED");
    await expectError(() => query.count(), "CLOSED");
    await expectError(() => query.batches().next(), "CLOSED");
});
