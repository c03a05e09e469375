// SPDX-License-Identifier: Apache-2.0
// Dictionaries of results: those of files, of fields inside columns, and of streams, as tables and as files.
import { readFileSync } from "node:fs";
import {
    Dictionary,
    Field,
    Int16,
    Int32,
    makeData,
    RecordBatch,
    Schema,
    Struct,
    Table,
    tableFromIPC,
    Utf8,
    vectorFromArray
} from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { describe, expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";

const words = new Dictionary(new Utf8(), new Int16(), 1);
const others = new Dictionary(new Utf8(), new Int16(), 2);
const nested = new Struct([new Field("n", new Int32(), false), new Field("w", others, false)]);
const schema = new Schema([
    new Field("k", new Int32(), false),
    new Field("d", words, false),
    new Field("s", nested, false)
]);
const row = (k: number, word: string, other: string) => ({ k, d: word, s: { n: k + 1, w: other } });

/** Rows 0, 1, ...: the words of both dictionary fields by their codes. */
function batchOf(codes: readonly number[], values: readonly string[], otherValues: readonly string[]): RecordBatch {
    const { length } = codes;
    const data = Int16Array.from(codes);
    const coded = (type: Dictionary, of: readonly string[]) =>
        makeData({ type, length, nullCount: 0, data, dictionary: vectorFromArray([...of], new Utf8()) });
    const numbers = (from: number) =>
        makeData({ type: new Int32(), length, nullCount: 0, data: Int32Array.from(codes, (_, i) => from + i) });
    const inner = makeData({ type: nested, length, nullCount: 0, children: [numbers(1), coded(others, otherValues)] });
    const children = [numbers(0), coded(words, values), inner];
    return new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length, nullCount: 0, children }));
}

const first = batchOf([0, 1, 0], ["a", "b"], ["x", "y"]);
const second = batchOf([1, 0, 1], ["c", "b"], ["y", "z"]);
const expected = [row(0, "a", "x"), row(1, "b", "y"), row(2, "a", "x")];

async function withRuntime(body: (runtime: Runtime, sandbox: Sandbox) => Promise<void>): Promise<void> {
    using sandbox = new Sandbox();
    const runtime = await openRuntime({ threads: 2, device: "cpu", memory: { spillDirectory: sandbox.spill } });
    try {
        await body(runtime, sandbox);
    } finally {
        await runtime.close();
    }
}

function rowsOf(table: Table) {
    const rows = table
        .toArray()
        .map((each: { toJSON(): object }) => JSON.parse(JSON.stringify(each.toJSON())) as { k: number });
    return rows.sort((a, b) => a.k - b.k);
}

/** The query's rows as a table; those of a file that it writes are the same. */
async function rowsBothWays(query: Query, sandbox: Sandbox) {
    const rows = rowsOf(await query.toTable());
    const path = sandbox.path("result.arrow");
    await query.toArrowFile(path, { overwrite: true });
    expect(rowsOf(tableFromIPC(readFileSync(path)))).toEqual(rows);
    return rows;
}

const keys = new Table({ k: vectorFromArray([0, 1, 2], new Int32()) });

/** The relation's rows, each with its partner. */
const joined = (runtime: Runtime, left: Parameters<Runtime["join"]>[0]["left"]): Query =>
    runtime.join({ left, right: runtime.fromTable(keys), on: "k" });

describe("dictionaries of a result are those", () => {
    test("of a table, also inside a struct", async () => {
        await withRuntime(async (runtime, sandbox) => {
            const relation = runtime.fromTable(new Table([first]));
            expect(await rowsBothWays(joined(runtime, relation), sandbox)).toEqual(expected);
        });
    });

    test("of a file", async () => {
        await withRuntime(async (runtime, sandbox) => {
            const relation = await runtime.fromArrowFile(sandbox.write(new Table([first])));
            expect(await rowsBothWays(joined(runtime, relation), sandbox)).toEqual(expected);
        });
    });

    test("of all batches of a stream", async () => {
        await withRuntime(async (runtime, sandbox) => {
            const open = async function* () {
                yield first;
                yield second;
            };
            const rows = await rowsBothWays(joined(runtime, runtime.fromBatches(schema, open)), sandbox);
            const word = ({ d, s }: ReturnType<typeof row>) => `${s.n}${d}${s.w}`;
            const wanted = [...expected, row(0, "b", "z"), row(1, "c", "y"), row(2, "b", "z")];
            expect((rows as typeof expected).map(word).sort()).toEqual(wanted.map(word).sort());
        });
    });

    test("of a stream without batches: none, and no rows", async () => {
        await withRuntime(async (runtime, sandbox) => {
            const open = async function* (): AsyncGenerator<RecordBatch> {};
            const query = joined(runtime, runtime.fromBatches(schema, open));
            expect(await rowsBothWays(query, sandbox)).toEqual([]);
            const types = (await query.toTable()).schema.fields.map(({ type }) => String(type));
            // Codes of results are of 32 bits.
            const text = "Dictionary<Int32, Utf8>";
            expect(types).toEqual(["Int32", text, `Struct<{n:Int32, w:${text}}>`]);
        });
    });
});
