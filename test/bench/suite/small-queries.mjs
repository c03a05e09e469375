// SPDX-License-Identifier: Apache-2.0
// Queries of few rows, where what a query costs beside its rows is all that counts.
import { groupBy, join, table } from "./description.mjs";

const [left, right] = ["small_left", "small_right"].map(table);
const joined = join(left, right, "k");

/** Rows of a side of the small data sets. */
export const smallRows = [10, 1_000, 100_000];
/** Queries that are asked for at once, of this many rows a side. */
const [manyQueries, manyRows] = [2_000, 1_000];

/** Those of so many rows a side; `repeat`: runs in a sample, which is their mean. */
export function smallQueries(rows) {
    const repeat = rows > manyRows ? 5 : 50;
    const sized = (name) => `${name}, ${rows.toLocaleString("en")} rows a side`;
    const total = { total: { sum: "a" }, rows: { count: "*" } };
    const queries = [
        { name: sized("small join, count"), result: "count", source: joined, repeat },
        { name: sized("small join, table"), result: "table", source: joined, repeat },
        { name: sized("small group-by, table"), result: "table", source: groupBy(left, ["g"], total), repeat }
    ];
    if (rows === manyRows) {
        const name = sized(`${manyQueries.toLocaleString("en")} small joins at once, count`);
        queries.push({ name, result: "count", source: joined, atOnce: manyQueries });
    }
    return queries;
}

const [customer, orders, lineitem, supplier, nation] = ["customer", "orders", "lineitem", "supplier", "nation"].map(
    table
);
const ordered = join(orders, lineitem, { o_orderkey: "l_orderkey" });
const chain = join(join(customer, orders, { c_custkey: "o_custkey" }), lineitem, { o_orderkey: "l_orderkey" });
const star = join(join(chain, supplier, { l_suppkey: "s_suppkey" }), nation, { s_nationkey: "n_nationkey" });

/** Those over TPC-H's tables at scale 0.01. */
export const smallTpchQueries = [
    { name: "scale 0.01: orders x lineitem, count", result: "count", source: ordered, repeat: 5 },
    {
        name: "scale 0.01: orders x lineitem, 3 columns, table",
        result: "table",
        source: join(
            orders,
            lineitem,
            { o_orderkey: "l_orderkey" },
            { select: ["o_orderkey", "o_orderdate", "l_quantity"] }
        ),
        repeat: 5
    },
    {
        name: "scale 0.01: star of 5 tables by n_name and c_mktsegment, table",
        result: "table",
        source: groupBy(star, ["n_name", "c_mktsegment"], { revenue: { sum: "l_extendedprice" } }),
        repeat: 5
    }
];
