// SPDX-License-Identifier: Apache-2.0
// Group-bys of few texts, which workers encode to dictionaries of their own: lengths around the steps of hashes and
// comparisons, texts that differ in the middle, NUL bytes, empty and NULL ones, with other keys beside them, under
// budgets from tiny to ample, against DuckDB.
import { type DataType, Int32, LargeUtf8, Utf8, Utf8View } from "apache-arrow";
import { openRuntime, type RuntimeOptions } from "spillway";
import { afterAll, beforeAll, expect, test } from "vitest";
import { plainTable, type PlainColumn } from "../../support/arrow-data.js";
import { cellTable } from "../../support/cells.js";
import { dictionaryOf } from "../../support/domains.js";
import { DuckDB } from "../../support/duckdb.js";
import { forSeeds, type Random } from "../../support/random.js";
import { hashRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

const textTypes = () => [new Utf8(), new LargeUtf8(), new Utf8View(), dictionaryOf(new Utf8())];
const lengths = [0, 1, 7, 8, 15, 16, 17, 24, 31, 32, 33, 60, 64, 65, 200, 4096];

const modes: RuntimeOptions[] = [
    {},
    { debug: { inlineTexts: true } },
    { debug: { algorithm: "hash", workers: 3, morselRows: 700 } },
    { debug: { algorithm: "hash", hashMask: 0xffn } },
    { memory: { host: "16MiB" } },
    { memory: { host: "32MiB" }, debug: { workers: 1 } }
];

/** So many texts of one length, or of up to it, that begin and end alike. */
function alike(random: Random, count: number, bytes: number): string[] {
    const found = new Set<string>();
    const isOneLength = random.chance(0.5);
    const alphabet = [...random.pick(["ab", "\0a", "0123456789"])];
    for (let i = 0; i < 2 * count && found.size < count; i++) {
        const length = isOneLength ? bytes : random.below(bytes + 1);
        const middle = Array.from({ length: Math.min(length, 12) }, () => random.pick(alphabet)).join("");
        const before = random.pick([0, (length - middle.length) >> 1, length - middle.length]);
        found.add("a".repeat(before) + middle + "a".repeat(length - middle.length - before));
    }
    return [...found];
}

function columnsOf(random: Random, rows: number, longest: number): PlainColumn[] {
    const columns: PlainColumn[] = [];
    for (let k = random.pick([1, 1, 2, 3]); k > 0; k--) {
        const domain = alike(
            random,
            random.pick([1, 5, 40, 300, 3000]),
            random.pick(lengths.filter((l) => l <= longest))
        );
        const nulls = random.pick([0, 0, 0.1]);
        const values = Array.from({ length: rows }, () => (random.chance(nulls) ? null : random.pick(domain)));
        columns.push({ name: `k${k}`, type: random.pick<DataType>(textTypes()), values });
    }
    if (random.chance(0.3)) {
        const values = Array.from({ length: rows }, () => BigInt(random.below(9) - 4));
        columns.push({ name: "k0", type: new Int32(), values });
    }
    return columns;
}

let duckdb: DuckDB;
beforeAll(async () => {
    duckdb = await DuckDB.open();
});
afterAll(async () => {
    await duckdb[Symbol.asyncDispose]();
});

test("group-bys of few texts equal DuckDB's", async () => {
    await forSeeds(830_000, 16, async (random) => {
        using sandbox = new Sandbox();
        const mode = random.pick(modes);
        const rows = random.pick([3000, 10_000, 20_000]);
        const columns = columnsOf(random, rows, rows > 3000 ? 200 : 4096);
        const keys = columns.map(({ name }) => name);
        const value = { name: "v", type: new Int32(), values: columns[0]!.values.map((_, row) => BigInt(row)) };
        const text = `${rows} rows by ${columns.map(({ name, type }) => `${name}: ${String(type)}`).join(", ")}`;
        const plain = columns.map((column) => (column.name === "k0" ? column : { ...column, type: new Utf8() }));
        await duckdb.load("t", plainTable([...plain, value], rows, rows));
        const list = keys.join(", ");
        const expected = await duckdb.query(`SELECT ${list}, count(*), sum(v), min(v), max(v) FROM t GROUP BY ${list}`);

        const memory = { host: "256MiB", ...mode.memory, spillDirectory: sandbox.spill };
        await using runtime = await openRuntime({ threads: 2, device: "cpu", ...mode, memory });
        const relation = runtime.fromTable(plainTable([...columns, value], rows, random.pick([1000, 7001, rows])));
        const query = relation.groupBy({
            keys,
            aggregates: { rows: { count: "*" }, sum: { sum: "v" }, low: { min: "v" }, high: { max: "v" } }
        });
        const found = rowTexts(cellTable(await query.toTable()));
        expect(found.length, text).toBe(rowTexts(expected).length);
        expect(hashRows(found), text).toBe(hashRows(rowTexts(expected)));
    });
});
