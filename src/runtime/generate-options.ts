// SPDX-License-Identifier: Apache-2.0
import {
    checkBoolean,
    checkInteger,
    checkNumber,
    checkOneOf,
    checkOptions,
    checkText,
    invalidArgument,
    readArgument
} from "../model/arguments.js";
import { benchmarkTables, type Benchmark, type SsbTable, type TpchTable } from "./benchmark-tables.js";
import type { GenerateRequest, GeneratedColumn } from "./generate.js";

/** A column of generated values: integers or floats of a width, or readable text. */
export interface GenerateColumn {
    name: string;
    /** Defaults to "int64". Text has about `width` bytes. */
    type?: "int8" | "int16" | "int32" | "int64" | "float32" | "float64" | "utf8";
    /** Mean bytes of text, 1 .. 16384. Defaults to 16. */
    width?: number;
}

export interface GenerateKey {
    /** Defaults to "key". */
    name?: string;
    /** Defaults to "int64". */
    type?: "int32" | "int64";
    /** Unique keys, or keys drawn from those of another relation. Defaults to "primary". */
    role?: "primary" | "foreign";
    /** foreign: number of distinct primary keys that are referred to. Defaults to `rows`. */
    domainRows?: number;
    /** Distance between neighbouring keys. Defaults to 1. */
    stride?: number;
    /** Smallest key. Defaults to 0. */
    offset?: number;
    /** primary: rows per key (m:n joins); `rows` counts all of them. Defaults to 1. */
    duplicates?: number;
    /** foreign: Zipf exponent; 0 = uniform. Defaults to 0. */
    zipf?: number;
    /** foreign: share of rows that have a partner. Defaults to 1. */
    matchRatio?: number;
    /** Defaults to "shuffled". */
    order?: "shuffled" | "sorted";
    /** Scatters the keys over the whole range of their type. Defaults to false. */
    sparse?: boolean;
}

/** A relation of a key and payload columns. The same options always give the same rows. */
export interface GenerateRelationOptions {
    rows: number;
    /** Defaults to 1. */
    seed?: number | bigint;
    key?: GenerateKey;
    /** Payload columns, or how many int64 columns "payload0", "payload1" ... Defaults to 1. */
    payload?: number | readonly GenerateColumn[];
    /** Rows of a record batch. Defaults to about a mebibyte's worth. */
    batchRows?: number;
}

interface GenerateTableOptions {
    /** 1 = 1.5 million orders and about 6 million line items. Above 0, at most 1e6. */
    scale: number;
    /** Defaults to 1. */
    seed?: number | bigint;
    /**
     * Dictionary<Int32, Utf8> rather than Utf8 for the columns that have a closed list of texts, such as
     * `l_shipmode`. Defaults to false.
     */
    dictionary?: boolean;
    /** Makes only this part of `parts`, counted from 1: consecutive rows of the table. Needed with `parts`. */
    part?: number;
    /** How many parts the table is made in, up to a million. All together are its rows. Defaults to 1. */
    parts?: number;
    /**
     * Rows of a record batch; those of lineitem, lineorder and partsupp vary around it. Defaults to about 16 MiB's
     * worth.
     */
    batchRows?: number;
}

/** A table of TPC-H: same columns, types and key relations, own random numbers and comments. */
export interface GenerateTpchOptions extends GenerateTableOptions {
    /** Defaults to "tpch". */
    benchmark?: "tpch";
    table: TpchTable;
}

/**
 * A table of the Star Schema Benchmark; `scale` 1 is about 6 million rows of lineorder. Some names of its tables are
 * those of others in TPC-H.
 */
export interface GenerateSsbOptions extends GenerateTableOptions {
    benchmark: "ssb";
    table: SsbTable;
}

export type GenerateOptions = GenerateRelationOptions | GenerateTpchOptions | GenerateSsbOptions;

const columnTypes = {
    int8: { kind: "int", width: 1 },
    int16: { kind: "int", width: 2 },
    int32: { kind: "int", width: 4 },
    int64: { kind: "int", width: 8 },
    float32: { kind: "float", width: 4 },
    float64: { kind: "float", width: 8 },
    utf8: { kind: "utf8", width: 16 }
} as const;
const columnTypeNames = Object.keys(columnTypes) as (keyof typeof columnTypes)[];

const keyNames = [
    "name",
    "type",
    "role",
    "domainRows",
    "stride",
    "offset",
    "duplicates",
    "zipf",
    "matchRatio",
    "order",
    "sparse"
];

/** Options that mean nothing for a key of the other role. */
const keyRoles = { duplicates: "primary", domainRows: "foreign", zipf: "foreign", matchRatio: "foreign" } as const;

function checkSeed(value: unknown): bigint {
    if (value === undefined) return 1n;
    if (typeof value === "bigint" && BigInt.asUintN(64, value) === value) return value;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return BigInt(value);
    throw invalidArgument("seed", "a whole number from 0 on, up to 2^53 - 1, or a bigint up to 2^64 - 1", value);
}

function or<T>(value: unknown, fallback: T, check: (value: unknown) => T): T {
    return value === undefined ? fallback : check(value);
}

function checkColumn(value: unknown, index: number): GeneratedColumn {
    const where = `payload[${index}]`;
    if (value === undefined) throw invalidArgument(where, 'a column such as { name: "price" }', value);
    const given = checkOptions(value, where, ["name", "type", "width"]);
    const name = checkText(given["name"], `${where}.name`);
    const type = or(given["type"], "int64" as const, (t) => checkOneOf(t, `${where}.type`, columnTypeNames));
    const { kind, width } = columnTypes[type];
    if (given["width"] === undefined) return { name, kind, width };
    if (kind !== "utf8") {
        throw invalidArgument(`${where}.width`, `nothing, as "${type}" has its own width,`, given["width"]);
    }
    return { name, kind, width: checkInteger(given["width"], `${where}.width`, 1, 16384) };
}

function checkPayload(value: unknown): GeneratedColumn[] {
    if (readArgument("payload", () => Array.isArray(value))) {
        return readArgument("payload", () => (value as unknown[]).map(checkColumn));
    }
    const count = or(value, 1, (n) => checkInteger(n, "payload", 0, 4096));
    return Array.from({ length: count }, (_, i) => ({ name: `payload${i}`, kind: "int", width: 8 }));
}

function checkKey(value: unknown, rows: number): Extract<GenerateRequest, { kind: "relation" }>["key"] {
    const given = checkOptions(value, "key", keyNames);
    const role = or(given["role"], "primary" as const, (r) => checkOneOf(r, "key.role", ["primary", "foreign"]));
    for (const [name, of] of Object.entries(keyRoles)) {
        if (given[name] === undefined || role === of) continue;
        const expected = `nothing, as only a key of \`role\` "${of}" has it,`;
        throw invalidArgument(`key.${name}`, expected, given[name]);
    }
    const integer = (name: string, fallback: number, min: number): number =>
        or(given[name], fallback, (n) => checkInteger(n, `key.${name}`, min));
    return {
        name: or(given["name"], "key", (n) => checkText(n, "key.name")),
        width:
            or(given["type"], "int64" as const, (t) => checkOneOf(t, "key.type", ["int32", "int64"])) === "int32"
                ? 4
                : 8,
        role,
        domainRows: integer("domainRows", rows, 0),
        keyStride: integer("stride", 1, 1),
        keyOffset: integer("offset", 0, Number.MIN_SAFE_INTEGER),
        duplicates: integer("duplicates", 1, 1),
        zipf: or(given["zipf"], 0, (z) => checkNumber(z, "key.zipf", 0, 10)),
        matchRatio: or(given["matchRatio"], 1, (r) => checkNumber(r, "key.matchRatio", 0, 1)),
        order: or(given["order"], "shuffled" as const, (o) => checkOneOf(o, "key.order", ["shuffled", "sorted"])),
        sparse: or(given["sparse"], false, (s) => checkBoolean(s, "key.sparse"))
    };
}

const benchmarkNames = Object.keys(benchmarkTables) as Benchmark[];
const tableNames = ["benchmark", "table", "scale", "seed", "dictionary", "part", "parts", "batchRows"];
const partsMax = 1_000_000;

function checkTableName(value: unknown, benchmark: Benchmark): string {
    const tablesOf = (name: Benchmark): readonly unknown[] => benchmarkTables[name];
    const other = benchmarkNames.find((name) => tablesOf(name).includes(value));
    if (other === undefined || tablesOf(benchmark).includes(value)) {
        return checkOneOf(value, "table", benchmarkTables[benchmark]);
    }
    const own = benchmarkTables[benchmark].map((table) => `"${table}"`).join(", ");
    throw invalidArgument("table", `\`benchmark: "${other}"\` beside it, or one of ${own}`, value);
}

function checkTable(options: unknown): GenerateRequest {
    const given = checkOptions(options, "", tableNames);
    const benchmark = or(given["benchmark"], "tpch" as const, (b) => checkOneOf(b, "benchmark", benchmarkNames));
    const parts = or(given["parts"], 1, (n) => checkInteger(n, "parts", 1, partsMax));
    if (parts > 1 && given["part"] === undefined) {
        throw invalidArgument("part", `a whole number from 1 to ${parts}, as \`parts\` is ${parts}`, given["part"]);
    }
    return {
        kind: "table",
        benchmark,
        table: checkTableName(given["table"], benchmark),
        scale: checkNumber(given["scale"], "scale", 0, 1e6),
        seed: checkSeed(given["seed"]),
        dictionary: or(given["dictionary"], false, (d) => checkBoolean(d, "dictionary")),
        part: or(given["part"], 1, (n) => checkInteger(n, "part", 1, parts)),
        parts,
        batchRows: or(given["batchRows"], 0, (n) => checkInteger(n, "batchRows", 1, 2 ** 31 - 1))
    };
}

/** Checks the options of `generate`. */
export function checkGenerateOptions(options: unknown): GenerateRequest {
    const isTable = readArgument("options", () => {
        return typeof options === "object" && options !== null && "table" in options;
    });
    if (isTable) return checkTable(options);
    const given = checkOptions(options, "", ["rows", "seed", "key", "payload", "batchRows"]);
    const rows = checkInteger(given["rows"], "rows", 0);
    return {
        kind: "relation",
        rows,
        seed: checkSeed(given["seed"]),
        key: checkKey(given["key"], rows),
        payload: checkPayload(given["payload"]),
        batchRows: or(given["batchRows"], 0, (n) => checkInteger(n, "batchRows", 1, 2 ** 31 - 1))
    };
}
