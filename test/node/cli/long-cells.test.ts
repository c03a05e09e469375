// SPDX-License-Identifier: Apache-2.0
// Values of any length: a table shows the beginning and how much more there is, --json writes all of it in pieces.
import {
    Binary,
    Field,
    FixedSizeList,
    Int32,
    Int64,
    List,
    makeData,
    Map_,
    Null,
    RecordBatch,
    Schema,
    Struct,
    Uint64,
    Utf8,
    type Data,
    type DataType
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { cellText } from "../../../src/cli/render/cells.js";
import { batchAsJsonLines, RowTable } from "../../../src/cli/render/rows.js";
import { columnReader } from "../../../src/values/readers.js";
import { buildData, type PlainValue } from "../../support/arrow-data.js";
import { jsonLines } from "./in-process.js";

const width = 40;

function batchOf(...columns: readonly Data[]): RecordBatch {
    const schema = new Schema(columns.map(({ type }, index) => new Field(`c${index}`, type, true)));
    const { length } = columns[0]!;
    const data = makeData({ type: new Struct(schema.fields), length, nullCount: 0, children: [...columns] });
    return new RecordBatch(schema, data);
}

const cell = (data: Data, charsMax = width): string => cellText(columnReader(batchOf(data), 0)(0), charsMax).text;
const built = (type: DataType, value: PlainValue): Data => buildData(type, [value]);
const listOf = (type: DataType): List => new List(new Field("item", type, true));

/** One row with a list of so many NULLs, which take no bytes at all. */
function endless(items: number): Data {
    const child = makeData({ type: new Null(), length: items });
    return makeData({
        type: new FixedSizeList(items, new Field("x", child.type, true)),
        length: 1,
        nullCount: 0,
        child
    });
}

describe("a table cell shows the beginning of", () => {
    const numbers = Array.from({ length: 1000 }, (_, index) => index);

    test.each([
        ["a list", built(listOf(new Int32()), numbers), "[0,1,2,3,4,5,6,7,8,9,10,11,… 988 more]"],
        [
            "a list that just fits",
            built(listOf(new Int32()), numbers.slice(0, 14)),
            "[0,1,2,3,4,5,6,7,8,9,10,11,12,13]"
        ],
        ["2 x 10^8 items", endless(2e8), "[null,null,null,null,… 199,999,996 more]"],
        [
            "lists of lists",
            built(
                listOf(listOf(new Int32())),
                numbers.map(() => [1, 2, 3])
            ),
            "[[1,2,3],[1,2,3],[1,2,3],… 997 more]"
        ],
        ["one long item", built(listOf(new Utf8()), ["x".repeat(1e6), "y"]), `["${"x".repeat(40)}…`],
        ["a long text", built(new Utf8(), "é".repeat(1e6)), `${"é".repeat(40)}…`],
        ["long bytes", built(new Binary(), new Uint8Array(1e6)), `0x${"0".repeat(38)}…`]
    ] as [string, Data, string][])("%s", (_, data, expected) => {
        const started = performance.now();
        expect(cell(data)).toBe(expected);
        expect(performance.now() - started).toBeLessThan(500);
    });

    test("a struct of 100,000 members and a map", () => {
        const members = Array.from({ length: 100_000 }, (_, index) => index);
        const struct = new Struct(members.map((index) => new Field(`m${index}`, new Int32(), true)));
        expect(cell(built(struct, members))).toBe('{"m0":0,"m1":1,"m2":2,… 99,997 more}');
        const entry = new Struct([new Field("key", new Utf8(), false), new Field("value", new Int32(), true)]);
        const map = new Map_(new Field("entries", entry as never, false));
        expect(
            cell(
                built(
                    map,
                    numbers.map((index) => [`k${index}`, index])
                )
            )
        ).toBe('{"k0":0,"k1":1,"k2":2,"k3":3,… 996 more}');
    });

    test("no cell is wider than its column, and no character is cut in two", () => {
        const faces = built(new Utf8(), "\u{1f600}".repeat(30));
        const table = new RowTable(batchOf(faces, endless(2e8)).schema, 10);
        expect([...table.add(batchOf(faces, endless(2e8)))]).toEqual([]);
        const [, rule, row] = table.lines();
        expect(rule!.split("  ").map(({ length }) => length)).toEqual([39, 40]);
        expect(row).toMatch(/^\u{1f600}{19}… {2}\[null,/u);
    });
});

describe("--json writes", () => {
    test("long values exactly", () => {
        const text = `"\\\u0001é\u{1f600}東`.repeat(20_000);
        const bytes = Uint8Array.from({ length: 50_000 }, (_, index) => index % 251);
        const list = Array.from({ length: 30_000 }, (_, index) => (index % 7 === 0 ? null : `${index}é`));
        const nested = [list.slice(0, 3), null, [], list];
        const batch = batchOf(
            built(new Utf8(), text),
            built(new Binary(), bytes),
            built(listOf(listOf(new Utf8())), nested)
        );
        const row = { c0: text, c1: `0x${Buffer.from(bytes).toString("hex")}`, c2: nested };
        expect(JSON.parse(jsonLines(batch))).toEqual(row);
    });

    test("every 64-bit integer with all digits", () => {
        const signed = [0n, -1n, 2n ** 31n, -(2n ** 31n), 2n ** 32n - 1n, -(2n ** 32n), 2n ** 53n, 2n ** 53n + 1n];
        const edges = [-(2n ** 53n) - 1n, 2n ** 63n - 1n, -(2n ** 63n), 10n, -10n, 99n, 100n, 999_999_999n];
        const values = [...signed, ...edges];
        const unsigned = values.map((value) => BigInt.asUintN(64, value));
        const batch = batchOf(buildData(new Int64(), values), buildData(new Uint64(), unsigned));
        const expected = values.map((value, row) => `{"c0":${value},"c1":${unsigned[row]}}\n`);
        expect(jsonLines(batch)).toBe(expected.join(""));
    });

    test("a row of 2 x 10^8 items in small blocks, of which the first is there at once", () => {
        const started = performance.now();
        const lengths = [];
        for (const block of batchAsJsonLines(batchOf(endless(2e8)))) {
            lengths.push(block.length);
            if (lengths.length === 100) break;
        }
        expect(Math.max(...lengths)).toBeLessThan(64 * 1024);
        expect(performance.now() - started).toBeLessThan(2000);
    });

    test("names of maps, but none that is too long for a name", () => {
        const entry = new Struct([new Field("key", listOf(new Int32()), false), new Field("value", new Int32(), true)]);
        const map = new Map_(new Field("entries", entry as never, false));
        expect(jsonLines(batchOf(built(map, [[[1, 2], 3]])))).toBe('{"c0":{"[1,2]":3}}\n');
        const key = Array.from({ length: 300_000 }, () => 1000);
        expect(() => jsonLines(batchOf(built(map, [[key, 3]])))).toThrow(/--output/);
    });
});
