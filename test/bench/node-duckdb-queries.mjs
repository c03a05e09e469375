// SPDX-License-Identifier: Apache-2.0
// The SQL of each query of node-out-of-core.mjs for DuckDB, by its name (node-auto-queries.mjs, and without the number
// of rows node-generated-queries.mjs), with where its result goes: count, table, batches or file. Likewise that of each
// result of node-delivery.mjs.

const revenue = "sum(l_extendedprice)";
const ordered = "orders JOIN lineitem ON o_orderkey = l_orderkey";
const byCustomer = (join) => `customer ${join} orders ON c_custkey = o_custkey`;
const star = `${byCustomer("JOIN")} JOIN lineitem ON o_orderkey = l_orderkey`;
const parted = "part JOIN lineitem ON p_partkey = l_partkey";
const supplied = "supplier JOIN lineitem ON s_suppkey = l_suppkey";
const fourColumns = `SELECT o_orderkey, o_orderdate, l_partkey, l_shipdate FROM ${ordered}`;
const all = (from) => `SELECT * FROM ${from}`;
const groups = (from, keys, aggregates) => `SELECT ${keys}, ${aggregates} FROM ${from} GROUP BY ${keys}`;

const suite = {
    "orders x lineitem, count": ["count", all(ordered)],
    "lineitem by l_linenumber, 7 groups": ["table", groups("lineitem", "l_linenumber", "count(*)")],
    "orders by o_orderdate, sum": ["table", groups("orders", "o_orderdate", "sum(o_totalprice)")],
    "customer anti join orders, count": ["count", all(byCustomer("ANTI JOIN"))],
    "orders x lineitem by o_orderdate, sum": ["table", groups(ordered, "o_orderdate", revenue)],
    "lineitem by l_orderkey, count of groups": ["count", groups("lineitem", "l_orderkey", "count(*)")],
    "orders by o_clerk (text)": ["table", groups("orders", "o_clerk", "count(*)")],
    "customer x orders, count": ["count", all(byCustomer("JOIN"))],
    "orders x lineitem, 4 columns to a table": ["table", fourColumns],
    "lineitem by l_suppkey, sum": ["table", groups("lineitem", "l_suppkey", revenue)],
    "customer x orders x lineitem by c_nationkey, sum": ["table", groups(star, "c_nationkey", revenue)],
    "part x lineitem, count": ["count", all(parted)],
    "lineitem by l_shipdate, sum and count": ["table", groups("lineitem", "l_shipdate", `${revenue}, count(*)`)],
    "orders x lineitem, 4 columns as batches": ["batches", fourColumns],
    "orders semi join lineitem, count": ["count", all("orders SEMI JOIN lineitem ON o_orderkey = l_orderkey")],
    "lineitem by l_returnflag and l_linestatus (text)": [
        "table",
        groups("lineitem", "l_returnflag, l_linestatus", `${revenue}, count(*)`)
    ],
    "part x lineitem by p_brand, sum": ["table", groups(parted, "p_brand", revenue)],
    "orders by o_custkey, sum, 1 M groups": ["table", groups("orders", "o_custkey", "sum(o_totalprice)")],
    "supplier x lineitem by s_nationkey, sum": ["table", groups(supplied, "s_nationkey", revenue)],
    "lineitem by l_partkey and l_suppkey, count of groups": [
        "count",
        groups("lineitem", "l_partkey, l_suppkey", "count(*)")
    ],
    "customer left join orders, count": ["count", all(byCustomer("LEFT JOIN"))],
    "sum, min and max of all lines": ["table", `SELECT ${revenue}, min(l_shipdate), max(l_shipdate) FROM lineitem`],
    "customer x orders by c_segment (text), sum": [
        "table",
        groups(byCustomer("JOIN"), "c_segment", "sum(o_totalprice)")
    ],
    "lineitem by l_partkey, sum, 2 M groups": ["table", groups("lineitem", "l_partkey", revenue)],
    "orders x lineitem, 3 columns to a file": [
        "file",
        `SELECT o_orderdate, o_custkey, l_extendedprice FROM ${ordered}`
    ],
    "lineitem by l_shipmode (text)": ["table", groups("lineitem", "l_shipmode", "count(*)")],
    "orders by o_orderpriority (text), min and max": [
        "table",
        groups("orders", "o_orderpriority", "min(o_orderdate), max(o_orderdate)")
    ],
    "customer x orders x lineitem, count": ["count", all(star)],
    "part x lineitem by p_size and l_linenumber": ["table", groups(parted, "p_size, l_linenumber", "count(*)")],
    "lineitem by l_orderkey, sum, 15 M groups": ["table", groups("lineitem", "l_orderkey", "sum(l_quantity)")]
};

const joined = "facts JOIN a USING (k)";
const bothJoined = `${joined} JOIN b USING (k)`;

const large = {
    "join, count": ["count", all(joined)],
    "sums over a join": ["table", `SELECT sum(f0), sum(a0), count(*) FROM ${joined}`],
    "groups of a join": ["count", groups(joined, "k", "sum(f0)")],
    "sums over a star": ["table", `SELECT sum(b0), count(*) FROM ${bothJoined}`],
    "group-by, a group of four rows": ["count", groups("facts", "k", "sum(f0)")]
};

const columns = (prefix, count) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

const ofColumns = [2, 6, 12].flatMap((count) => {
    const [own, others] = ["f", "d"].map((prefix) => columns(prefix, count / 2));
    const sums = own.map((name) => `sum(${name})`).join(", ");
    const selected = ["k", ...own, ...others].join(", ");
    return [
        [`join of ${count} columns as batches`, ["batches", `SELECT ${selected} FROM facts JOIN dimension USING (k)`]],
        [`group-by of ${count / 2} sums`, ["count", groups("facts", "k", sums)]]
    ];
});

const skewed = Object.entries({ 0: "facts", 1: "facts_zipf_1", 1.5: "facts_zipf_1_5" }).flatMap(([zipf, facts]) => [
    [`join, Zipf ${zipf}`, ["count", all(`${facts} JOIN dimension USING (k)`)]],
    [`group-by, Zipf ${zipf}`, ["count", groups(facts, "k", "sum(f0)")]]
]);

const queries = new Map([...Object.entries({ ...suite, ...large }), ...ofColumns, ...skewed]);

/** The SQL of a result of node-delivery.mjs with so many payload columns a side, and where it goes. */
export function deliveryQuery(result, count) {
    const [own, others] = ["f", "d"].map((prefix) => columns(prefix, count));
    const sumsOf = (names) => names.map((name) => `sum(${name})`).join(", ");
    const from = "facts JOIN dimension USING (k)";
    const rows = `SELECT ${["k", ...own, ...others].join(", ")} FROM ${from}`;
    if (result === "count") return { result, sql: all(from) };
    if (result === "sums") return { result: "table", sql: `SELECT ${sumsOf([...own, ...others])} FROM ${from}` };
    if (result === "group-by") return { result: "table", sql: groups("facts", "k", sumsOf(own)) };
    return { result, sql: rows };
}

/** The SQL of a query by its name, with or without a number of rows, and where its result goes. */
export function duckdbQuery(name) {
    const shape = name.replace(/, 2\^\d+ rows$/, "");
    // However Spillway makes it.
    const found = queries.get(shape.startsWith("join by ") ? "join, Zipf 0" : shape);
    if (found === undefined) throw new Error(`Expected SQL for '${name}' in node-duckdb-queries.mjs but found none.`);
    const [result, sql] = found;
    return { result, sql };
}
