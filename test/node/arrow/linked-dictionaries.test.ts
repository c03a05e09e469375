// SPDX-License-Identifier: Apache-2.0
// Dictionaries of other relations that a column goes through first: which, at which place, each once.
import { Dictionary, Field, Int32, makeData, RecordBatch, Schema, Struct, Utf8, vectorFromArray } from "apache-arrow";
import type { Data, Vector } from "apache-arrow";
import { expect, test } from "vitest";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { linkDictionaries } from "../../../src/arrow/linked-dictionaries.js";
import { memoryLayout } from "../../../src/arrow/memory-layout.js";
import type { SourceLayout } from "../../../src/model/column-type.js";

const coded = (id: number): Dictionary => new Dictionary(new Utf8(), new Int32(), id);
const pair = new Struct([new Field("x", new Int32(), true), new Field("d", coded(2), true)]);
const schema = new Schema([
    new Field("number", new Int32(), true),
    new Field("pair", pair, true),
    new Field("other", coded(3), true),
    new Field("key", coded(4), true)
]);
const key = 3;

/** Columns without a dictionary, with one in a part of them, and two that are dictionaries. */
function layoutOf(...keys: Vector[]): SourceLayout {
    const number = makeData({ type: new Int32(), length: 1, nullCount: 0, data: Int32Array.of(1) });
    const codes = (id: number, dictionary: Vector): Data =>
        makeData({ type: coded(id), length: 1, nullCount: 0, data: Int32Array.of(0), dictionary });
    const batches = keys.map((words) => {
        const inner = makeData({ type: pair, length: 1, nullCount: 0, children: [number, codes(2, wordsOf("p"))] });
        const children = [number, inner, codes(3, wordsOf("o")), codes(4, words)];
        const struct = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children });
        return new RecordBatch(schema, struct);
    });
    const columns = schema.fields.map((field) => columnTypeOf(field));
    return memoryLayout(columns, batches, "always");
}

const wordsOf = (...values: string[]): Vector => vectorFromArray(values, new Utf8());
/** The first letter of each dictionary. */
const texts = (layout: SourceLayout): string[] =>
    layout.dictionaries.map(({ batches }) => String.fromCharCode(batches[0]!.memory[2]![0]!));

test("a column's place among the dictionaries leaves out columns that have none", () => {
    const [left, right] = [layoutOf(wordsOf("l")), layoutOf(wordsOf("r"))];
    const members = [
        { layout: left, column: key },
        { layout: right, column: key }
    ];
    const linked = linkDictionaries(left, new Map([[key, members]]));
    expect(texts(linked)).toEqual(["p", "o", "l", "r"]);
    const parts = [2, 3].map((index) => ({ files: null, node: 0, dictionaries: [index] }));
    expect(linked.links).toEqual([{ node: 2, parts }]);
});

test("dictionaries of several relations are taken over once each", () => {
    const left = layoutOf(wordsOf("l"));
    const shared = wordsOf("a");
    const right = layoutOf(shared, wordsOf("b"), shared, wordsOf("c"));
    const members = [
        { layout: right, column: key },
        { layout: right, column: 2 },
        { layout: left, column: key }
    ];
    const again = [{ layout: right, column: key }];
    const linked = linkDictionaries(
        left,
        new Map([
            [key, members],
            [2, again]
        ])
    );
    // The other column of the right side has a dictionary of its own in each of the four batches.
    expect(texts(linked)).toEqual(["p", "o", "l", "a", "b", "c", "o", "o", "o", "o"]);
    const part = (...dictionaries: number[]) => ({ files: null, node: 0, dictionaries });
    expect(linked.links).toEqual([
        { node: 2, parts: [part(3, 4, 5), part(6, 7, 8, 9), part(2)] },
        { node: 1, parts: [part(3, 4, 5)] }
    ]);
    // Links that there were stay in front.
    const links = linkDictionaries(linked, new Map([[2, again]])).links;
    expect(links.slice(0, 2)).toEqual(linked.links);
    expect(links).toHaveLength(3);
});
