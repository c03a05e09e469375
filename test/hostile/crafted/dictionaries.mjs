// SPDX-License-Identifier: Apache-2.0
// Dictionaries that grow, are replaced, lack, come too late, contain one another, or hold less than indices ask for.
import { Bool, Dictionary, Int16, Int32, Int64, Int8, List, Struct, Uint64, Utf8, Utf8View } from "apache-arrow";
import { dataOf, field } from "../layouts.mjs";
import { dictionaryPart, fileOf, schemaPart, streamOf } from "../parts.mjs";
import { keyedBatch, keyedSchema, none } from "./keyed.mjs";

const text = () => new Dictionary(new Utf8(), new Int32(), 1);

/** A dictionary batch of words. */
function words(id, list, isDelta = false) {
    const offsets = Int32Array.from({ length: list.length + 1 }, (_, i) => list.slice(0, i).join("").length);
    const buffers = [none, offsets, Buffer.from(list.join(""))];
    return dictionaryPart(id, { rows: list.length, nodes: [[list.length]], buffers }, isDelta);
}

/** A batch of these indices. */
const codes = (...values) =>
    keyedBatch(values.length, { nodes: [[values.length]], buffers: [none, Int32Array.from(values)] });

const ab = () => words(1, ["a", "b"]);
const cd = (isDelta) => words(1, ["c", "d"], isDelta);

/** Sequences of messages behind the schema, each as a file and as a stream. */
const sequences = {
    "a delta": () => [ab(), codes(0, 1), cd(true), codes(2, 3)],
    "a delta of nothing": () => [cd(true), codes(0, 1)],
    "a delta of no words": () => [ab(), words(1, [], true), codes(0, 1)],
    "an index that only the delta behind it has": () => [ab(), codes(2, 3), cd(true), codes(2, 3)],
    "2,000 deltas": () => [ab(), ...Array.from({ length: 2000 }, () => cd(true)), codes(4001)],
    "a replacement": () => [ab(), codes(0, 1), words(1, ["x"]), codes(0, 0)],
    "a replacement by fewer words": () => [ab(), codes(0, 1), words(1, ["x"]), codes(1, 1)],
    "a replacement by none": () => [ab(), codes(0, 1), words(1, []), codes(0, 1)],
    "a replacement before a delta": () => [ab(), codes(0), words(1, ["x"]), cd(true), codes(2)],
    "2,000 replacements": () => Array.from({ length: 2000 }, (_, i) => [words(1, [`w${i}`]), codes(0)]).flat(),
    "no dictionary": () => [codes(0, 1)],
    "a dictionary behind its batch": () => [codes(0, 1), ab()],
    "a dictionary of another id": () => [words(7, ["a", "b"]), codes(0, 1)],
    "a dictionary of a large id": () => [words(2 ** 53 - 1, ["a"]), codes(0, 0)],
    "no words": () => [words(1, []), codes(0)],
    "no words and no rows": () => [words(1, []), codes()],
    "indices beyond the end": () => [ab(), codes(0, 2)],
    "indices below zero": () => [ab(), codes(-1, 0)],
    "the largest and least index": () => [ab(), codes(2 ** 31 - 1, -(2 ** 31))],
    "a dictionary with two columns": () => [
        dictionaryPart(1, {
            rows: 1,
            nodes: [[1], [1]],
            buffers: [none, Int32Array.of(0, 1), Buffer.from("a"), none, none]
        }),
        codes(0)
    ],
    "a dictionary of fewer values than it says": () => [
        dictionaryPart(1, { rows: 1000, nodes: [[1]], buffers: [none, Int32Array.of(0, 1), Buffer.from("a")] }),
        codes(0, 999)
    ],
    "a dictionary of more values than bytes": () => [
        dictionaryPart(1, { rows: 1000, nodes: [[1000]], buffers: [none, Int32Array.of(0, 1), Buffer.from("a")] }),
        codes(0, 999)
    ],
    "a dictionary of 2^53 - 1 values": () => [
        dictionaryPart(1, { rows: 2 ** 53 - 1, nodes: [[2 ** 53 - 1]], buffers: [none, none, none] }),
        codes(0)
    ]
};

function simple() {
    const cases = {};
    for (const [name, make] of Object.entries(sequences)) {
        const all = () => [schemaPart(keyedSchema(text())), ...make()];
        cases[`${name}, file`] = () => fileOf(keyedSchema(text()), all());
        cases[`${name}, stream`] = () => streamOf(all());
    }
    return cases;
}

/** Indices of 64 bits, where a comparison with a signed number or a conversion to double goes wrong. */
function wideIndices() {
    const cases = {};
    const indices = {
        "-1": -1n,
        "2^31": 2n ** 31n,
        "2^32": 2n ** 32n,
        "2^53 + 1": 2n ** 53n + 1n,
        "2^63 - 1": 2n ** 63n - 1n,
        "2^63": 2n ** 63n
    };
    for (const [type, make] of Object.entries({ int64: () => new Int64(), uint64: () => new Uint64() })) {
        for (const [name, index] of Object.entries(indices)) {
            cases[`index ${name} of ${type}`] = () => {
                const schema = keyedSchema(new Dictionary(new Utf8(), make(), 1));
                const values = BigInt64Array.of(0n, BigInt.asIntN(64, index));
                const batch = keyedBatch(2, { nodes: [[2]], buffers: [none, values] });
                return fileOf(schema, [schemaPart(schema), ab(), batch]);
            };
        }
    }
    return cases;
}

/** Dictionaries inside of dictionaries, and two columns that share an id and disagree about its values. */
const nestedTypes = {
    "a dictionary of dictionaries": () => [new Dictionary(text(), new Int8(), 2)],
    "a dictionary of itself": () => [new Dictionary(new List(field("item", text())), new Int8(), 1)],
    "a dictionary of lists of dictionaries": () => [new Dictionary(new List(field("item", text())), new Int8(), 2)],
    "a dictionary of structs of dictionaries": () => [
        new Dictionary(new Struct([field("a", text()), field("b", new Utf8())]), new Int8(), 2)
    ],
    "one id, two types": () => [text(), new Dictionary(new Int64(), new Int32(), 1)],
    "one id, two nestings": () => [text(), new Dictionary(new Struct([field("a", new Bool())]), new Int16(), 1)],
    "one id twice": () => [text(), text()],
    "one id in a list and beside it": () => [
        text(),
        new List(field("item", new Dictionary(new Utf8View(), new Int8(), 1)))
    ]
};

function nestedIds() {
    const cases = {};
    for (const [name, types] of Object.entries(nestedTypes)) {
        const parts = () => {
            const schema = keyedSchema(...types());
            // Two words for each id, and rows that use them as well as one of 32-bit indices can.
            const rows = types().map(() => ({ nodes: [[2]], buffers: [none, Int32Array.of(0, 1)] }));
            const column = {
                nodes: rows.flatMap(({ nodes }) => nodes),
                buffers: rows.flatMap(({ buffers }) => buffers)
            };
            return { schema, parts: [schemaPart(schema), ab(), words(2, ["c", "d"]), keyedBatch(2, column)] };
        };
        cases[`${name}, no rows`] = () => {
            const { schema, parts: all } = parts();
            return fileOf(schema, all.slice(0, 1));
        };
        cases[`${name}, rows`] = () => {
            const { schema, parts: all } = parts();
            return fileOf(schema, all);
        };
        cases[`${name}, stream`] = () => streamOf(parts().parts);
    }
    return cases;
}

/** Rows that all name one long word: the index is small, what it stands for is not, and keys are decoded. */
function heavyWords() {
    const cases = {};
    for (const [rows, bytes] of [
        [60_000, 1000],
        [2000, 100_000],
        [40, 8_000_000]
    ]) {
        cases[`${rows} rows of a word of ${bytes} bytes`] = () => {
            const schema = keyedSchema(text());
            const batch = keyedBatch(rows, { nodes: [[rows]], buffers: [none, new Int32Array(rows)] });
            return fileOf(schema, [schemaPart(schema), words(1, ["w".repeat(bytes)]), batch]);
        };
    }
    cases["lists of one dictionary"] = () => {
        const schema = keyedSchema(new List(field("item", text())));
        const data = dataOf(new Int32(), 8);
        const column = { nodes: [[2], [8]], buffers: [none, Int32Array.of(0, 4, 8), none, data.values] };
        return fileOf(schema, [schemaPart(schema), ab(), keyedBatch(2, column)]);
    };
    return cases;
}

export const dictionaries = { ...simple(), ...wideIndices(), ...nestedIds(), ...heavyWords() };
