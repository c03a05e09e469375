// SPDX-License-Identifier: Apache-2.0
// SQL that makes the tables of node-out-of-core.mjs and node-delivery.mjs in DuckDB: for each set its statements, in
// their order. DuckDB reads no Arrow files without an extension from the network, and rows that JavaScript appends take
// too long. So these tables are of the same shape as those of Spillway (src/runtime/generate.ts,
// node-suite-tables.mjs), not of the same values: as many rows, types, distinct values and key relations, the same law
// of skew, and only the columns that queries use.
import { shuffled } from "./gpu-engine.mjs";

/**
 * SQL of 64 random bits for a row and one of its columns 0 ... 15. The number of the pair is hashed because hashes of
 * several arguments would differ from column to column by the same bits in every row.
 */
const random = (row, column) => `hash((${row}) * 16 + ${column})`;

/** SQL of a whole number in [low, low + count). */
const between = (row, column, low, count) => `(CAST(${random(row, column)} % ${count} AS BIGINT) + ${low})`;

const pick = (row, column, values) => {
    const list = values.map((value) => `'${value}'`).join(", ");
    return `[${list}][${between(row, column, 1, values.length)}]`;
};

const decimal = (hundredths) => `CAST((${hundredths}) * 0.01 AS DECIMAL(15, 2))`;
const days = (number) => `CAST(${number} AS INTEGER)`;

/** Rules of native/generate/tpch_rows.cpp; 2406 days from the first date of an order to the last, inclusive. */
function ordersOf({ orders, customers, clerks }) {
    const priorities = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
    // Every third customer has no order.
    const customer = between("n", 0, 0, customers - Math.floor(customers / 3));
    return `CREATE TABLE orders AS SELECT
        ((n >> 3) << 5) | (n & 7) AS o_orderkey,
        customer // 2 * 3 + customer % 2 + 1 AS o_custkey,
        ${decimal(between("n", 1, 100_000, 40_000_000))} AS o_totalprice,
        DATE '1992-01-01' + ${days(between("n", 2, 0, 2406))} AS o_orderdate,
        ${pick("n", 3, priorities)} AS o_orderpriority,
        'Clerk#' || lpad(CAST(${between("n", 4, 1, clerks)} AS VARCHAR), 9, '0') AS o_clerk
        FROM (SELECT n, ${customer} AS customer FROM range(1, ${orders + 1}) numbers(n))`;
}

/** 1 ... 7 lines of each order, in the order of these; each part has four suppliers. */
function lineitemOf({ parts, suppliers }) {
    const modes = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
    const today = "DATE '1995-06-17'";
    const supplier = `(part + nth * (${Math.floor(suppliers / 4)} + (part - 1) // ${suppliers})) % ${suppliers} + 1`;
    return `CREATE TABLE lineitem AS SELECT
        o_orderkey AS l_orderkey, part AS l_partkey, ${supplier} AS l_suppkey,
        CAST(number AS INTEGER) AS l_linenumber,
        ${decimal("quantity * 100")} AS l_quantity,
        ${decimal("quantity * (90000 + part // 10 % 20001 + 100 * (part % 1000))")} AS l_extendedprice,
        CASE WHEN shipped + ${days(between("line", 4, 1, 30))} > ${today} THEN 'N'
             ELSE ${pick("line", 5, ["R", "A"])} END AS l_returnflag,
        CASE WHEN shipped <= ${today} THEN 'F' ELSE 'O' END AS l_linestatus,
        shipped AS l_shipdate,
        ${pick("line", 6, modes)} AS l_shipmode
        FROM (SELECT o_orderkey, number, line, ${between("line", 0, 1, parts)} AS part,
                  ${between("line", 1, 0, 4)} AS nth, ${between("line", 2, 1, 50)} AS quantity,
                  o_orderdate + ${days(between("line", 3, 1, 121))} AS shipped
              FROM (SELECT o_orderkey, o_orderdate, number, o_orderkey * 8 + number AS line
                    FROM (SELECT o_orderkey, o_orderdate,
                              unnest(range(1, ${between("o_orderkey", 7, 2, 7)})) AS number FROM orders)))`;
}

/** Tables of the queries of node-auto-queries.mjs: 1.5 million orders and about 6 million lines times `scale`. */
export function suiteTables(scale) {
    const scaled = (rows, least = 1) => Math.max(least, Math.round(rows * scale));
    const sizes = {
        ...{ orders: scaled(1_500_000), customers: scaled(150_000, 3), parts: scaled(200_000) },
        ...{ suppliers: scaled(10_000), clerks: scaled(1000) }
    };
    const segments = "['AUTOMOBILE', 'BUILDING', 'FURNITURE', 'HOUSEHOLD', 'MACHINERY']";
    const dimension = (table, rows, columns) =>
        `CREATE TABLE ${table} AS SELECT i + 1 AS ${columns} FROM range(${rows}) numbers(i)`;
    const small = (value, name) => `CAST(${value} AS INTEGER) AS ${name}`;
    return [
        // Lines lie in the order of their orders.
        "SET preserve_insertion_order = true",
        ordersOf(sizes),
        lineitemOf(sizes),
        "SET preserve_insertion_order = false",
        dimension(
            "customer",
            sizes.customers,
            `c_custkey, ${small("i % 25", "c_nationkey")}, ${segments}[1 + i % 5] AS c_segment`
        ),
        dimension("part", sizes.parts, `p_partkey, ${small("i % 25", "p_brand")}, ${small("i % 50", "p_size")}`),
        dimension("supplier", sizes.suppliers, `s_suppkey, ${small("i * 7 % 25", "s_nationkey")}`)
    ];
}

/** Columns of 32 random bits in 8 bytes. */
const payload = (prefix, columns, row) =>
    Array.from({ length: columns }, (_, i) => `CAST(${random(row, i + 1)} >> 32 AS BIGINT) AS ${prefix}${i}`).join(
        ", "
    );

/** 2^bits keys, each once, without order. */
const dimension = (table, prefix, bits, columns = 1) =>
    `CREATE TABLE ${table} AS SELECT k, ${payload(prefix, columns, "k")}
     FROM (SELECT ${shuffled("i", bits)} AS k FROM range(${2 ** bits}) numbers(i))`;

/** Rows whose keys are drawn from 2^keyBits. */
const facts = (table, bits, keyBits, columns = 1) =>
    `CREATE TABLE ${table} AS SELECT ${between("i", 0, 0, 2 ** keyBits)} AS k, ${payload("f", columns, "i")}
     FROM range(${2 ** bits}) numbers(i)`;

/** The relations of `largeQueries`, of one key and one column. */
export function largeTables(bits) {
    return [facts("facts", bits, bits - 2), dimension("a", "a", bits - 2), dimension("b", "b", bits - 2)];
}

/** The relations of `namedQueries`. */
export function namedTables(bits) {
    return [facts("facts", bits, bits), dimension("dimension", "d", bits)];
}

/** The relations of node-delivery.mjs: two to join, or one to group, whose keys are drawn from 2^keyBits. */
export function deliveryTables({ kind, bits, columns, keyBits }) {
    const made = facts("facts", bits, keyBits, columns);
    return kind === "group" ? [made] : [made, dimension("dimension", "d", bits, columns)];
}

/** The integral of x^-exponent from 1 on and its inverse, as numbers and as SQL. */
function integralOf(exponent) {
    if (exponent === 1) return { at: Math.log, sql: (x) => `ln(${x})`, inverse: (y) => `exp(${y})` };
    const power = 1 - exponent;
    return {
        at: (x) => (x ** power - 1) / power,
        sql: (x) => `(pow(${x}, ${power}) - 1) / (${power})`,
        inverse: (y) => `pow(1 + (${power}) * ${y}, ${1 / power})`
    };
}

/**
 * Keys by Zipf's law, drawn by rejection-inversion as in native/generate/zipf.cpp (Hormann and Derflinger 1996): the
 * first 2^bits accepted ones, of fewer than 1.3 tries each on average. Frequent keys lie anywhere in the range.
 */
function skewedFacts(table, bits, exponent) {
    const [rows, integral] = [2 ** bits, integralOf(exponent)];
    const [first, last] = [integral.at(1.5) - 1, integral.at(rows + 0.5)];
    const unit = `(${random("i", 0)} >> 11) * ${2 ** -53}::DOUBLE`;
    const rank = `CAST(least(greatest(floor(${integral.inverse("u")} + 0.5), 1), ${rows}) AS BIGINT)`;
    return `CREATE TABLE ${table} AS SELECT ${shuffled("(rank - 1)", bits)} AS k, ${payload("f", 1, "i")}
        FROM (SELECT i, u, ${rank} AS rank
              FROM (SELECT i, ${last}::DOUBLE + ${unit} * (${first - last})::DOUBLE AS u
                    FROM range(${2 * rows + 1000}) numbers(i)))
        WHERE u >= ${integral.sql("(rank + 0.5)")} - pow(rank, ${-exponent}) LIMIT ${rows}`;
}

/** The relations of `wideQueries`, of up to six columns beside the key and with keys by Zipf's law. */
export function wideTables(bits) {
    return [
        ...[facts("facts", bits, bits, 6), dimension("dimension", "d", bits, 6)],
        ...[skewedFacts("facts_zipf_1", bits, 1), skewedFacts("facts_zipf_1_5", bits, 1.5)]
    ];
}
