// SPDX-License-Identifier: Apache-2.0
// Types whose sizes multiply or add up beyond a word, nest deeply, or have rows without a byte of data.
import {
    Binary,
    Bool,
    DenseUnion,
    Dictionary,
    FixedSizeBinary,
    FixedSizeList,
    Int32,
    Int64,
    Int8,
    LargeUtf8,
    List,
    Map_,
    Null,
    SparseUnion,
    Struct,
    Utf8,
    Utf8View,
    Schema
} from "apache-arrow";
import { field } from "../layouts.mjs";
import { batchPart } from "../parts.mjs";
import { keyedFile, keyedSchema, none, oneBatch, schemaOnly } from "./keyed.mjs";

const item = (type) => field("item", type);
const half = 2 ** 30;
const widest = 2 ** 31 - 1;

/** List sizes from the leaf outwards, named by their product modulo 2^64. */
const products = {
    "2^26": [2 ** 13, 2 ** 13],
    "2^31": [2, half],
    "2^32": [4, half],
    "2^33": [8, half],
    "2^40": [2 ** 20, 2 ** 20],
    "2^61": [2, half, half],
    "2^62": [4, half, half],
    "2^63": [8, half, half],
    "2^64": [16, half, half],
    "2^64 + 256": [256, 65537, 2 ** 31 - 2 ** 15, 2 ** 9],
    "-1": [65535, 65537, 641, 6700417],
    0: [0, half, half]
};

const leaves = {
    null: () => new Null(),
    bool: () => new Bool(),
    int8: () => new Int8(),
    int64: () => new Int64(),
    bytes: () => new FixedSizeBinary(16),
    utf8: () => new Utf8(),
    largeUtf8: () => new LargeUtf8(),
    view: () => new Utf8View(),
    list: () => new List(item(new Int32())),
    struct: () => new Struct([field("a", new Utf8()), field("b", new Int32())]),
    structOfNothing: () => new Struct([]),
    dense: () => new DenseUnion([0, 1], [field("a", new Int32()), field("b", new Utf8())]),
    sparse: () => new SparseUnion([0, 1], [field("a", new Int32()), field("b", new Utf8())]),
    dictionary: () => new Dictionary(new Utf8(), new Int32(), 1)
};

const chained = (leaf, sizes) => sizes.reduce((type, size) => new FixedSizeList(size, item(type)), leaf);

/** What may stand between the lists of a chain or around it. */
const wrappers = {
    struct: (type) => new Struct([field("a", type)]),
    list: (type) => new List(item(type)),
    map: (type) => new Map_(field("entries", new Struct([field("key", new Utf8()), field("value", type)]))),
    dense: (type) => new DenseUnion([0], [field("a", type)]),
    sparse: (type) => new SparseUnion([0], [field("a", type)]),
    dictionary: (type) => new Dictionary(type, new Int8(), 9)
};

function chains() {
    const cases = {};
    for (const [leaf, make] of Object.entries(leaves)) {
        for (const [product, sizes] of Object.entries(products)) {
            cases[`lists of ${leaf}, ${product}`] = () => schemaOnly(chained(make(), sizes));
        }
    }
    for (const [wrapper, wrap] of Object.entries(wrappers)) {
        const [first, ...rest] = products["2^62"];
        cases[`lists in ${wrapper}`] = () => schemaOnly(wrap(chained(new Utf8(), products["2^62"])));
        cases[`${wrapper} in lists`] = () => schemaOnly(chained(wrap(chained(new Utf8(), [first])), rest));
        cases[`two ${wrapper}s of lists`] = () =>
            schemaOnly(wrap(chained(new Utf8(), products["2^32"])), wrap(chained(new Utf8(), products["2^63"])));
    }
    // Four rows times 2^62 items are none modulo 2^64, and so the nodes say.
    for (const [leaf, buffers] of [
        ["utf8", [none, Int32Array.of(0), none]],
        ["int8", [none, none]],
        ["bool", [none, none]]
    ]) {
        const nodes = [[4], [4 * half], [4n * 2n ** 60n], [0]];
        cases[`four rows of lists of ${leaf}, 2^62`] = () =>
            oneBatch(chained(leaves[leaf](), products["2^62"]), 4, { nodes, buffers: [none, none, none, ...buffers] });
    }
    return cases;
}

function widths() {
    const cases = {};
    const wide = () => new FixedSizeBinary(widest);
    for (const count of [1, 2, 3, 5, 9]) {
        cases[`${count} columns of 2^31 - 1 bytes`] = () => schemaOnly(...Array.from({ length: count }, wide));
        const fields = () => Array.from({ length: count }, (_, i) => field(`a${i}`, wide()));
        cases[`struct of ${count} values of 2^31 - 1 bytes`] = () => schemaOnly(new Struct(fields()));
    }
    cases["list of 2 values of 2^31 - 1 bytes"] = () => schemaOnly(new FixedSizeList(2, item(wide())));
    cases["list of 2^31 - 1 values of 2^31 - 1 bytes"] = () => schemaOnly(new FixedSizeList(widest, item(wide())));
    cases["two rows of 2^31 - 1 bytes"] = () => oneBatch(wide(), 2, { nodes: [[2]], buffers: [none, none] });
    cases["values of 64 MiB"] = () => schemaOnly(new FixedSizeBinary(2 ** 26));
    cases["values of 256 KiB, 300 columns"] = () =>
        schemaOnly(...Array.from({ length: 300 }, () => new FixedSizeBinary(2 ** 18)));
    return cases;
}

function depths() {
    const cases = {};
    const shapes = { ...wrappers, fixedList: (type) => new FixedSizeList(1, item(type)) };
    delete shapes.dictionary;
    for (const [shape, wrap] of Object.entries(shapes)) {
        for (const depth of [31, 63, 64, 65, 127, 400]) {
            cases[`${shape} ${depth} levels deep`] = () => {
                let type = new Int32();
                for (let i = 0; i < depth; ++i) type = wrap(type);
                return schemaOnly(type);
            };
        }
    }
    const children = (count, make) => Array.from({ length: count }, (_, i) => field(`a${i}`, make()));
    cases["struct of 5,000 children"] = () => schemaOnly(new Struct(children(5000, () => new Null())));
    cases["union of 127 children"] = () => {
        const ids = Int32Array.from({ length: 127 }, (_, i) => i);
        return schemaOnly(
            new DenseUnion(
                ids,
                children(127, () => new Utf8())
            )
        );
    };
    cases["500 columns"] = () => schemaOnly(...Array.from({ length: 500 }, () => new Utf8()));
    return cases;
}

function rowsWithoutData() {
    const cases = {};
    const many = { "2^31": 2 ** 31, "2^52": 2 ** 52 };
    const schema = () => new Schema([field("k", new Null()), field("p", new Struct([]))]);
    for (const [name, rows] of Object.entries(many)) {
        const batch = () => batchPart({ rows, nodes: [[rows, rows], [rows]], buffers: [none] });
        cases[`${name} rows without data`] = () => keyedFile(schema(), [batch()]);
        // Three times 2^52 is beyond 2^53, up to which JavaScript counts one by one.
        cases[`three times ${name} rows without data`] = () => keyedFile(schema(), [batch(), batch(), batch()]);
    }
    for (const size of [10 ** 6, 2 * 10 ** 8, widest]) {
        const struct = () => new FixedSizeList(size, item(new Struct([])));
        cases[`a list of ${size} structs of nothing`] = () =>
            oneBatch(struct(), 1, { nodes: [[1], [size]], buffers: [none, none] });
        cases[`a list of ${size} nulls`] = () =>
            oneBatch(new FixedSizeList(size, item(new Null())), 1, { nodes: [[1], [size, size]], buffers: [none] });
        const offsets = Int32Array.of(0, size);
        cases[`a list that says ${size} nulls`] = () =>
            oneBatch(new List(item(new Null())), 1, { nodes: [[1], [size, size]], buffers: [none, offsets] });
    }
    cases["a union of nothing"] = () => schemaOnly(new DenseUnion([], []));
    cases["rows of a union of nothing"] = () =>
        keyedFile(keyedSchema(new SparseUnion([], [])), [
            batchPart({ rows: 2, nodes: [[2], [2]], buffers: [none, Int32Array.of(1, 2), new Int8Array(2)] })
        ]);
    cases["a union with one id twice"] = () =>
        schemaOnly(new DenseUnion([1, 1], [field("a", new Int32()), field("b", new Binary())]));
    for (const count of [1, 3]) {
        const fields = Array.from({ length: count }, (_, i) => field(`a${i}`, new Utf8()));
        cases[`a map of ${count} children`] = () => schemaOnly(new Map_(field("entries", new Struct(fields))));
    }
    cases["a map of numbers"] = () => schemaOnly(new Map_(field("entries", new Int32())));
    return cases;
}

export const nested = { ...chains(), ...widths(), ...depths(), ...rowsWithoutData() };
