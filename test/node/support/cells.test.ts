// SPDX-License-Identifier: Apache-2.0
// The tests' own eyes: cells read from raw buffers, written and read back by Arrow JS, agree.
import {
    Field,
    makeData,
    RecordBatch,
    Schema,
    Struct,
    Table,
    tableFromIPC,
    tableToIPC,
    vectorFromArray
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { buildData, type PlainValue } from "../../support/arrow-data.js";
import { cellTable, readCell, vectorCell } from "../../support/cells.js";
import { hasViews, keyTypes, randomType, randomValue } from "../../support/domains.js";
import { forSeeds, Random } from "../../support/random.js";
import { buildTable, payloadColumns, randomShape } from "../../support/relations.js";
import { hashRows } from "../../support/rows.js";

describe("canonical cells", () => {
    test("are the same before and after an IPC file, for random types", async () => {
        await forSeeds(1, 60, async (random) => {
            const rows = random.pick([0, 1, 50, 130]);
            const columns = payloadColumns(random, "c", 4, rows, (type) => !hasViews(type));
            const table = buildTable(columns, { ...randomShape(random, rows), shared: true });
            const back = tableFromIPC(tableToIPC(table, "file"));
            expect(cellTable(back).cells).toEqual(cellTable(table).cells);
        });
    });

    test("of a slice are the rows of the whole", async () => {
        await forSeeds(1, 60, async (random) => {
            const type = randomType(random);
            const values = Array.from({ length: 40 }, () => (random.chance(0.2) ? null : randomValue(random, type)));
            const data = buildData(type, values);
            const [first, rows] = [random.below(20), random.below(20)];
            const slice = data.slice(first, rows);
            for (let row = 0; row < rows; ++row) expect(readCell(slice, row)).toBe(readCell(data, first + row));
        });
    });

    test("agree with Arrow's own values for text, numbers and lists", () => {
        const random = new Random(7);
        for (const family of ["signed", "unsigned", "float", "bool"]) {
            for (const type of keyTypes[family]!()) {
                const values = Array.from({ length: 50 }, () =>
                    random.chance(0.2) ? null : randomValue(random, type)
                );
                const table = tableOf(buildData(type, values));
                const expected = [...table.getChildAt(0)!].map((value) => (value === null ? "NULL" : String(value)));
                const cells = cellTable(table).cells[0]!.map((cell) => (cell === "-0" ? "0" : cell));
                expect(cells).toEqual(expected);
            }
        }
        const text: PlainValue[] = ["a", null, "", '"quoted"', "漢😀"];
        const vector = vectorFromArray(text as string[]);
        expect(text.map((_, row) => vectorCell(vector, row))).toEqual(
            text.map((v) => (v === null ? "NULL" : JSON.stringify(v)))
        );
    });
});

function tableOf(data: ReturnType<typeof buildData>): Table {
    const schema = new Schema([new Field("c", data.type, true)]);
    const struct = makeData({ type: new Struct(schema.fields), length: data.length, nullCount: 0, children: [data] });
    return new Table(schema, [new RecordBatch(schema, struct)]);
}

describe("the hash of a multiset of rows", () => {
    test("does not depend on the order and counts duplicates", () => {
        expect(hashRows(["a", "b", "b"])).toBe(hashRows(["b", "a", "b"]));
        expect(hashRows(["a", "b", "b"])).not.toBe(hashRows(["a", "a", "b"]));
        expect(hashRows(["a", "b"])).not.toBe(hashRows(["a", "b", "b"]));
    });
});
