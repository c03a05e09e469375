// SPDX-License-Identifier: Apache-2.0
// What the options of `generate` become, which are refused under which name, and which columns the others ask for.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tableFromIPC } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { checkGenerateOptions } from "../../../src/runtime/generate-options.js";
import { generatedSchema } from "../../../src/runtime/generate.js";
import { expectRefused } from "../../support/refused.js";
import { repositoryRoot } from "../../support/source-tree.js";

const key = {
    name: "key",
    width: 8,
    role: "primary",
    domainRows: 10,
    keyStride: 1,
    keyOffset: 0,
    duplicates: 1,
    zipf: 0,
    matchRatio: 1,
    order: "shuffled",
    sparse: false
};
const relation = {
    kind: "relation",
    rows: 10,
    seed: 1n,
    key,
    payload: [{ name: "payload0", kind: "int", width: 8 }],
    batchRows: 0
};

const table = { kind: "table", benchmark: "tpch", seed: 1n, dictionary: false, part: 1, parts: 1, batchRows: 0 };

const refused = (options: unknown, option: string, ...words: RegExp[]): void =>
    expectRefused(() => checkGenerateOptions(options), { option }, { words });

describe("options of a generated relation", () => {
    test.each([
        [{}, {}],
        [{ key: {} }, {}],
        [{ key: { name: "id", type: "int64", order: "shuffled" } }, { key: { ...key, name: "id" } }],
        [{ key: { type: "int32", order: "sorted" } }, { key: { ...key, width: 4, order: "sorted" } }],
        [
            { key: { stride: 3, offset: -5, duplicates: 2, sparse: true } },
            { key: { ...key, keyStride: 3, keyOffset: -5, duplicates: 2, sparse: true } }
        ],
        [{ key: { role: "foreign" } }, { key: { ...key, role: "foreign" } }],
        [
            { key: { role: "foreign", domainRows: 4, zipf: 0.5, matchRatio: 0.25 } },
            { key: { ...key, role: "foreign", domainRows: 4, zipf: 0.5, matchRatio: 0.25 } }
        ],
        [{ payload: 0 }, { payload: [] }],
        [
            { payload: 2 },
            {
                payload: [
                    { name: "payload0", kind: "int", width: 8 },
                    { name: "payload1", kind: "int", width: 8 }
                ]
            }
        ],
        [{ payload: [] }, { payload: [] }],
        [{ batchRows: 1 }, { batchRows: 1 }],
        [{ batchRows: 2 ** 31 - 1 }, { batchRows: 2 ** 31 - 1 }]
    ])("%j", (options, expected) => {
        expect(checkGenerateOptions({ rows: 10, ...options })).toEqual({ ...relation, ...expected });
    });

    test.each([
        ["int8", { kind: "int", width: 1 }],
        ["int16", { kind: "int", width: 2 }],
        ["int32", { kind: "int", width: 4 }],
        ["int64", { kind: "int", width: 8 }],
        [undefined, { kind: "int", width: 8 }],
        ["float32", { kind: "float", width: 4 }],
        ["float64", { kind: "float", width: 8 }],
        ["utf8", { kind: "utf8", width: 16 }]
    ])("payload of type %s", (type, column) => {
        const request = checkGenerateOptions({ rows: 10, payload: [{ name: "a", type }, { name: "b" }] });
        const payload = [
            { name: "a", ...column },
            { name: "b", kind: "int", width: 8 }
        ];
        expect(request).toEqual({ ...relation, payload });
    });

    test.each([1, 300, 16384])("text of %i bytes", (width) => {
        const request = checkGenerateOptions({ rows: 10, payload: [{ name: "a", type: "utf8", width }] });
        expect(request).toEqual({ ...relation, payload: [{ name: "a", kind: "utf8", width }] });
    });
});

describe("options of a generated table", () => {
    test.each([
        [{ table: "orders", scale: 0.5 }, {}],
        [{ benchmark: "tpch", table: "region", scale: 1, dictionary: true }, {}],
        [{ table: "partsupp", scale: 1, part: 1 }, {}],
        [{ benchmark: "ssb", table: "customer", scale: 1 }, {}],
        [{ table: "supplier", scale: 1, part: 3, parts: 3 }, {}],
        [{ table: "nation", scale: 1, part: 1_000_000, parts: 1_000_000 }, {}],
        [{ table: "lineitem", scale: 0, seed: 3 }, { seed: 3n }],
        [{ table: "lineitem", scale: 1e6, batchRows: 2 ** 31 - 1 }, { batchRows: 2 ** 31 - 1 }]
    ])("%j", (options, more) => {
        expect(checkGenerateOptions(options)).toEqual({ ...table, ...options, ...more });
    });

    test.each([
        ["table", { table: "nations", scale: 1 }],
        ["benchmark", { benchmark: "tpcds", table: "orders", scale: 1 }],
        ["dictionary", { table: "orders", scale: 1, dictionary: 1 }],
        ["part", { table: "orders", scale: 1, part: 2 }],
        ["part", { table: "orders", scale: 1, part: 0, parts: 2 }],
        ["part", { table: "orders", scale: 1, part: 3, parts: 2 }],
        ["part", { table: "orders", scale: 1, parts: 2 }],
        ["parts", { table: "orders", scale: 1, part: 1, parts: 0 }],
        ["parts", { table: "orders", scale: 1, part: 1, parts: 1_000_001 }],
        ["table", { table: undefined, scale: 1 }],
        ["scale", { table: "orders" }],
        ["scale", { table: "orders", scale: -1 }],
        ["seed", { table: "orders", scale: 1, seed: -1 }],
        ["batchRows", { table: "orders", scale: 1, batchRows: 0 }],
        ["batchRows", { table: "orders", scale: 1, batchRows: 2 ** 31 }],
        ["rows", { table: "orders", scale: 1, rows: 10 }]
    ])("%s is refused in %o", (option, options) => {
        refused(options, option);
    });
});

describe("a table of the other benchmark", () => {
    test.each([
        [{ table: "lineorder", scale: 1 }, /Expected `benchmark: "ssb"` beside it, or one of "region", .*"lineitem"/],
        [
            { benchmark: "ssb", table: "orders", scale: 1 },
            /Expected `benchmark: "tpch"` beside it, or one of "lineorder", .*"date"/
        ]
    ])("is told apart: %j", (options, message) => {
        refused(options, "table", message);
    });
});

describe("a seed", () => {
    test.each([
        [undefined, 1n],
        [0, 0n],
        [7, 7n],
        [2 ** 53 - 1, 2n ** 53n - 1n],
        [0n, 0n],
        [7n, 7n],
        [2n ** 64n - 1n, 2n ** 64n - 1n]
    ])("may be %s", (seed, expected) => {
        expect(checkGenerateOptions({ rows: 10, seed })).toEqual({ ...relation, seed: expected });
    });

    test.each([-1, 0.5, NaN, Infinity, 2 ** 53, -1n, 2n ** 64n, "7", null, true, [7]])("may not be %s", (seed) => {
        refused({ rows: 10, seed }, "seed", /2\^53 - 1/, /2\^64 - 1/);
    });
});

describe("is refused under its name:", () => {
    test.each([
        ["options", null],
        ["options", 7],
        ["options", "orders"],
        ["options", []],
        ["rows", undefined],
        ["rows", {}],
        ["rows", { rows: -1 }],
        ["rows", { rows: 1.5 }],
        ["scale", { rows: 10, scale: 1 }],
        ["batchRows", { rows: 10, batchRows: 0 }],
        ["batchRows", { rows: 10, batchRows: 2 ** 31 }],
        ["payload", { rows: 10, payload: -1 }],
        ["payload", { rows: 10, payload: 4097 }],
        ["payload", { rows: 10, payload: "2" }],
        ["payload", { rows: 10, payload: {} }],
        ["key", { rows: 10, key: 7 }],
        ["key.nmae", { rows: 10, key: { nmae: "id" } }],
        ["key.name", { rows: 10, key: { name: "" } }],
        ["key.type", { rows: 10, key: { type: "int8" } }],
        ["key.role", { rows: 10, key: { role: "secondary" } }],
        ["key.stride", { rows: 10, key: { stride: 0 } }],
        ["key.offset", { rows: 10, key: { offset: 0.5 } }],
        ["key.duplicates", { rows: 10, key: { duplicates: 0 } }],
        ["key.domainRows", { rows: 10, key: { role: "foreign", domainRows: -1 } }],
        ["key.zipf", { rows: 10, key: { role: "foreign", zipf: 11 } }],
        ["key.matchRatio", { rows: 10, key: { role: "foreign", matchRatio: 1.1 } }],
        ["key.order", { rows: 10, key: { order: "random" } }],
        ["key.sparse", { rows: 10, key: { sparse: 1 } }]
    ])("%s of %o", (option, options) => {
        refused(options, option);
    });

    test.each([
        ["payload[0]", [undefined]],
        ["payload[1]", [{ name: "a" }, 7]],
        ["payload[0].name", [{}]],
        ["payload[0].nmae", [{ nmae: "a" }]],
        ["payload[1].type", [{ name: "a" }, { name: "b", type: "int7" }]],
        ["payload[0].width", [{ name: "a", width: 8 }]],
        ["payload[0].width", [{ name: "a", type: "float32", width: 4 }]],
        ["payload[0].width", [{ name: "a", type: "utf8", width: 0 }]],
        ["payload[0].width", [{ name: "a", type: "utf8", width: 16385 }]]
    ])("%s of %o", (option, payload) => {
        refused({ rows: 10, payload }, option);
    });

    test.each([
        ["duplicates", "primary", { role: "foreign", duplicates: 1 }],
        ["domainRows", "foreign", { role: "primary", domainRows: 10 }],
        ["zipf", "foreign", { zipf: 0 }],
        ["matchRatio", "foreign", { matchRatio: 1 }]
    ])("key.%s, which only a %s key has", (name, role, given) => {
        refused({ rows: 10, key: given }, `key.${name}`, new RegExp(role));
    });
});

const columnsOf = (options: unknown) =>
    generatedSchema(checkGenerateOptions(options)).fields.map(({ name, type, nullable }) => {
        expect(nullable).toBe(false);
        return `${name} ${String(type as unknown)}`;
    });

describe("the schema of generated rows, none of which is null,", () => {
    test("is a key and its payload", () => {
        const types = ["int8", "int16", "int32", "int64", "float32", "float64", "utf8"];
        expect(columnsOf({ rows: 1, payload: types.map((type) => ({ name: type, type })) })).toEqual([
            "key Int64",
            ...["int8 Int8", "int16 Int16", "int32 Int32", "int64 Int64"],
            ...["float32 Float32", "float64 Float64", "utf8 Utf8"]
        ]);
        expect(columnsOf({ rows: 1, key: { name: "id", type: "int32" } })).toEqual(["id Int32", "payload0 Int64"]);
    });

    test("is that of TPC-H", () => {
        expect(columnsOf({ table: "orders", scale: 1 })).toEqual([
            ...["o_orderkey Int64", "o_custkey Int64", "o_orderstatus Utf8", "o_totalprice Decimal[15e+2]"],
            ...["o_orderdate Date32<DAY>", "o_orderpriority Utf8", "o_clerk Utf8", "o_shippriority Int32"],
            "o_comment Utf8"
        ]);
        expect(columnsOf({ table: "lineitem", scale: 1 })).toEqual([
            ...["l_orderkey Int64", "l_partkey Int64", "l_suppkey Int64", "l_linenumber Int32"],
            ...["quantity", "extendedprice", "discount", "tax"].map((name) => `l_${name} Decimal[15e+2]`),
            ...["l_returnflag Utf8", "l_linestatus Utf8"],
            ...["l_shipdate Date32<DAY>", "l_commitdate Date32<DAY>", "l_receiptdate Date32<DAY>"],
            ...["l_shipinstruct Utf8", "l_shipmode Utf8", "l_comment Utf8"]
        ]);
    });

    // The official tables have dictionaries.
    test.each(["customer", "lineitem", "nation", "orders", "part", "partsupp"])("is that of TPC-H's %s", (table) => {
        const official = tableFromIPC(readFileSync(join(repositoryRoot, `test/fixtures/tpch/${table}.arrow`))).schema;
        const columns = official.fields.map(({ name, type }) => `${name} ${String(type as unknown)}`);
        expect(columnsOf({ table, scale: 1, dictionary: true })).toEqual(columns);
        expect(columnsOf({ table, scale: 1 })).toEqual(
            columns.map((column) => column.replace("Dictionary<Int32, Utf8>", "Utf8"))
        );
    });

    test("is that of the Star Schema Benchmark", () => {
        const of = (table: string) => columnsOf({ benchmark: "ssb", table, scale: 1, dictionary: true });
        const namesOf = (table: string, type: string) =>
            of(table).flatMap((column) => (column.endsWith(` ${type}`) ? [column.split(" ")[0]] : []));
        expect(of("customer")).toEqual([
            ...["c_custkey Int64", "c_name Utf8", "c_address Utf8"],
            ...["city", "nation", "region"].map((name) => `c_${name} Dictionary<Int32, Utf8>`),
            ...["c_phone Utf8", "c_mktsegment Dictionary<Int32, Utf8>"]
        ]);
        expect(namesOf("lineorder", "Int64")).toEqual(["lo_orderkey", "lo_custkey", "lo_partkey", "lo_suppkey"]);
        expect(of("lineorder")).toHaveLength(17);
        expect(namesOf("date", "Bool")).toHaveLength(4);
        expect(of("date")).toHaveLength(17);
        expect([of("part").length, of("supplier").length]).toEqual([9, 7]);
    });

    test("is that of the other tables of TPC-H", () => {
        expect(columnsOf({ table: "region", scale: 1, dictionary: true })).toEqual([
            ...["r_regionkey Int32", "r_name Dictionary<Int32, Utf8>", "r_comment Utf8"]
        ]);
        expect(columnsOf({ table: "supplier", scale: 1, dictionary: true })).toEqual([
            ...["s_suppkey Int64", "s_name Utf8", "s_address Utf8", "s_nationkey Int32", "s_phone Utf8"],
            ...["s_acctbal Decimal[15e+2]", "s_comment Utf8"]
        ]);
    });
});
