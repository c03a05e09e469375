// SPDX-License-Identifier: Apache-2.0
// The queries of node-auto.mjs: joins, group-bys and stars over TPC-H-like tables, as a user would write them.

export const tableNames = ["orders", "lineitem", "customer", "part", "supplier"];

export const count = async (query) => await query.count();
export const table = async (query) => (await query.toTable()).numRows;

export async function batches(query) {
    let rows = 0;
    for await (const batch of query.batches()) rows += batch.numRows;
    return rows;
}

const revenue = { revenue: { sum: "l_extendedprice" } };
const lines = { lines: { count: "*" } };
const total = { total: { sum: "o_totalprice" } };
const by = (input, keys, aggregates) => input.groupBy({ keys, aggregates });

/** The relations and the joins that several queries are made of. */
function partsOf(relations) {
    const { orders, lineitem, customer, part, supplier } = relations;
    const onOrder = { on: { o_orderkey: "l_orderkey" } };
    const byCustomer = (options = {}) => customer.join(orders, { on: { c_custkey: "o_custkey" }, ...options });
    return {
        ...relations,
        ordered: (options = {}) => orders.join(lineitem, { ...onOrder, ...options }),
        byCustomer,
        star: byCustomer().join(lineitem, onOrder),
        parted: part.join(lineitem, { on: { p_partkey: "l_partkey" } }),
        supplied: supplier.join(lineitem, { on: { s_suppkey: "l_suppkey" } })
    };
}

function firstHalf({ orders, lineitem, ordered, byCustomer, parted, star }) {
    return [
        ["orders x lineitem, count", ordered(), count],
        ["lineitem by l_linenumber, 7 groups", by(lineitem, ["l_linenumber"], lines), table],
        ["orders by o_orderdate, sum", by(orders, ["o_orderdate"], total), table],
        ["customer anti join orders, count", byCustomer({ type: "anti" }), count],
        ["orders x lineitem by o_orderdate, sum", by(ordered(), ["o_orderdate"], revenue), table],
        ["lineitem by l_orderkey, count of groups", by(lineitem, ["l_orderkey"], lines), count],
        ["orders by o_clerk (text)", by(orders, ["o_clerk"], { orders: { count: "*" } }), table],
        ["customer x orders, count", byCustomer(), count],
        [
            "orders x lineitem, 4 columns to a table",
            ordered({ select: ["o_orderkey", "o_orderdate", "l_partkey", "l_shipdate"] }),
            table
        ],
        ["lineitem by l_suppkey, sum", by(lineitem, ["l_suppkey"], revenue), table],
        ["customer x orders x lineitem by c_nationkey, sum", by(star, ["c_nationkey"], revenue), table],
        ["part x lineitem, count", parted, count],
        ["lineitem by l_shipdate, sum and count", by(lineitem, ["l_shipdate"], { ...revenue, ...lines }), table],
        [
            "orders x lineitem, 4 columns as batches",
            ordered({ select: ["o_orderkey", "o_orderdate", "l_partkey", "l_shipdate"] }),
            batches
        ]
    ];
}

function secondHalf({ orders, lineitem, ordered, byCustomer, parted, supplied, star }, file) {
    return [
        ["orders semi join lineitem, count", ordered({ type: "semi" }), count],
        [
            "lineitem by l_returnflag and l_linestatus (text)",
            by(lineitem, ["l_returnflag", "l_linestatus"], { ...revenue, ...lines }),
            table
        ],
        ["part x lineitem by p_brand, sum", by(parted, ["p_brand"], revenue), table],
        ["orders by o_custkey, sum, 1 M groups", by(orders, ["o_custkey"], total), table],
        ["supplier x lineitem by s_nationkey, sum", by(supplied, ["s_nationkey"], revenue), table],
        [
            "lineitem by l_partkey and l_suppkey, count of groups",
            by(lineitem, ["l_partkey", "l_suppkey"], lines),
            count
        ],
        ["customer left join orders, count", byCustomer({ type: "left" }), count],
        [
            "sum, min and max of all lines",
            by(lineitem, [], { ...revenue, first: { min: "l_shipdate" }, last: { max: "l_shipdate" } }),
            table
        ],
        ["customer x orders by c_segment (text), sum", by(byCustomer(), ["c_segment"], total), table],
        ["lineitem by l_partkey, sum, 2 M groups", by(lineitem, ["l_partkey"], revenue), table],
        [
            "orders x lineitem, 3 columns to a file",
            ordered({ select: ["o_orderdate", "o_custkey", "l_extendedprice"] }),
            file
        ],
        ["lineitem by l_shipmode (text)", by(lineitem, ["l_shipmode"], lines), table],
        [
            "orders by o_orderpriority (text), min and max",
            by(orders, ["o_orderpriority"], { first: { min: "o_orderdate" }, last: { max: "o_orderdate" } }),
            table
        ],
        ["customer x orders x lineitem, count", star, count],
        ["part x lineitem by p_size and l_linenumber", by(parted, ["p_size", "l_linenumber"], lines), table],
        [
            "lineitem by l_orderkey, sum, 15 M groups",
            by(lineitem, ["l_orderkey"], { quantity: { sum: "l_quantity" } }),
            table
        ]
    ];
}

/** `output`: where a query that writes a file writes it. */
export function queriesOf(relations, output) {
    const parts = partsOf(relations);
    const file = async (query) => await query.toArrowFile(output, { overwrite: true });
    return [...firstHalf(parts), ...secondHalf(parts, file)].map(([name, query, run]) => ({ name, query, run }));
}
