// SPDX-License-Identifier: Apache-2.0
// View columns: many views of the same bytes, views outside of their buffers, and counts of buffers that lie.
import { BinaryView, Dictionary, FixedSizeList, Int32, List, Struct, Utf8View } from "apache-arrow";
import { field } from "../layouts.mjs";
import { dictionaryPart } from "../parts.mjs";
import { keyedBatch, keyedFile, keyedSchema, none, oneBatch } from "./keyed.mjs";

/** `views`: [length, prefix or inline bytes, buffer, offset]. */
function viewBytes(views) {
    const bytes = Buffer.alloc(views.length * 16);
    views.forEach(([length, text, buffer, offset], row) => {
        bytes.writeInt32LE(length, row * 16);
        bytes.write(text, row * 16 + 4, 12, "latin1");
        if (buffer === undefined) return;
        bytes.writeInt32LE(buffer, row * 16 + 8);
        bytes.writeInt32LE(offset, row * 16 + 12);
    });
    return bytes;
}

const alike = (count, length) => viewBytes(Array.from({ length: count }, () => [length, "aaaa", 0, 0]));
const data = (length) => Buffer.alloc(length, 97);

/** Columns of `count` views of the same `length` bytes, in one row or in as many. */
const holders = {
    plain: (count, length) =>
        oneBatch(new Utf8View(), count, {
            nodes: [[count]],
            buffers: [none, alike(count, length), data(length)],
            variadic: [1]
        }),
    list: (count, length) =>
        oneBatch(new List(field("item", new Utf8View())), 1, {
            nodes: [[1], [count]],
            buffers: [none, Int32Array.of(0, count), none, alike(count, length), data(length)],
            variadic: [1]
        }),
    // Rows of lists that all begin at the first view are none that a sound writer makes: offsets do not overlap.
    "list of each row": (count, length) =>
        oneBatch(new List(field("item", new BinaryView())), 64, {
            nodes: [[64], [count]],
            buffers: [
                none,
                Int32Array.from({ length: 65 }, (_, row) => Math.floor((row * count) / 64)),
                none,
                alike(count, length),
                data(length)
            ],
            variadic: [1]
        }),
    "fixed list": (count, length) =>
        oneBatch(new FixedSizeList(count, field("item", new Utf8View())), 1, {
            nodes: [[1], [count]],
            buffers: [none, none, alike(count, length), data(length)],
            variadic: [1]
        }),
    struct: (count, length) =>
        oneBatch(new Struct([field("a", new Utf8View()), field("b", new Utf8View())]), count, {
            nodes: [[count], [count], [count]],
            buffers: [none, none, alike(count, length), data(length), none, alike(count, length), data(length)],
            variadic: [1, 1]
        }),
    dictionary: (count, length) => {
        const schema = keyedSchema(new Dictionary(new Utf8View(), new Int32(), 1));
        const words = dictionaryPart(1, {
            rows: count,
            nodes: [[count]],
            buffers: [none, alike(count, length), data(length)],
            variadic: [1]
        });
        const codes = Int32Array.from({ length: 8 }, (_, row) => row % count);
        return keyedFile(schema, [words, keyedBatch(8, { nodes: [[8]], buffers: [none, codes] })]);
    }
};

const sizes = [
    [1000, 20],
    [512, 65_536],
    [32_768, 131_072],
    [3, 5_000_000]
];

function sharedBytes() {
    const cases = {};
    for (const [holder, make] of Object.entries(holders)) {
        for (const [count, length] of sizes) {
            cases[`${holder}: ${count} views of ${length} bytes`] = () => make(count, length);
        }
    }
    return cases;
}

const widest = 2 ** 31 - 1;
const wrongViews = {
    "length below zero": [-1, "aaaa", 0, 0],
    "least length": [-(2 ** 31), "aaaa", 0, 0],
    "inline, length 12": [12, "aaaaaaaaaaaa"],
    "inline bytes, length 13": [13, "aaaaaaaaaaaa"],
    "largest length": [widest, "aaaa", 0, 0],
    "one byte too many": [101, "aaaa", 0, 0],
    "beyond the end": [20, "aaaa", 0, 81],
    "offset below zero": [20, "aaaa", 0, -1],
    "least offset": [20, "aaaa", 0, -(2 ** 31)],
    "largest offset": [20, "aaaa", 0, widest],
    "sum that wraps": [widest, "aaaa", 0, widest],
    "no such buffer": [20, "aaaa", 1, 0],
    "buffer below zero": [20, "aaaa", -1, 0],
    "largest buffer": [20, "aaaa", widest, 0],
    "prefix of other bytes": [20, "zzzz", 0, 0]
};

function wrong() {
    const cases = {};
    const column = (views, variadic, buffers) => ({
        nodes: [[views.length]],
        buffers: [none, viewBytes(views), ...buffers],
        variadic
    });
    for (const [name, view] of Object.entries(wrongViews)) {
        const views = [[20, "aaaa", 0, 0], view, [3, "abc"]];
        cases[`a view: ${name}`] = () => oneBatch(new Utf8View(), 3, column(views, [1], [data(100)]));
        cases[`a view without a buffer: ${name}`] = () => oneBatch(new BinaryView(), 3, column(views, [0], []));
    }
    const sound = [[20, "aaaa", 0, 0]];
    for (const counts of [[], [0], [2], [-1], [2 ** 31], [1, 1], [2 ** 53]]) {
        cases[`one buffer, said to be ${JSON.stringify(counts)}`] = () =>
            oneBatch(new Utf8View(), 1, column(sound, counts, [data(100)]));
        cases[`no buffer, said to be ${JSON.stringify(counts)}`] = () =>
            oneBatch(new Utf8View(), 1, column(sound, counts, []));
    }
    cases["1,000 buffers"] = () =>
        oneBatch(
            new Utf8View(),
            1,
            column(
                [[20, "aaaa", 999, 0]],
                [1000],
                Array.from({ length: 1000 }, () => data(24))
            )
        );
    cases["buffers that are all the whole body"] = () => {
        const whole = { offset: 0, length: 128 };
        return oneBatch(new Utf8View(), 1, { nodes: [[1]], buffers: [data(128), whole, whole, whole], variadic: [2] });
    };
    return cases;
}

export const views = { ...sharedBytes(), ...wrong() };
