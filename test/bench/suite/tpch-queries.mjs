// SPDX-License-Identifier: Apache-2.0
// The queries over TPC-H's tables and those that are derived from them (derived-tables.mjs): what a user asks of real
// data, with text keys, stars and wide rows. `result` says how the rows are taken: count, batches, table or file.
import { groupBy, join, limit, table } from "./description.mjs";

const [customer, orders, lineitem, part] = ["customer", "orders", "lineitem", "part"].map(table);
const [partsupp, supplier, nation, clerks] = ["partsupp", "supplier", "nation", "clerks"].map(table);
const [customerNation, supplierNation] = ["customer_nation", "supplier_nation"].map(table);
const [orderNames, names, visits, facts64] = ["order_names", "names", "visits", "facts_64"].map(table);

const onOrder = { o_orderkey: "l_orderkey" };
const onCustomer = { c_custkey: "o_custkey" };
const onPartAndSupplier = { l_partkey: "ps_partkey", l_suppkey: "ps_suppkey" };
const ordered = (options) => join(orders, lineitem, onOrder, options);
const revenue = { revenue: { sum: "l_extendedprice" } };
const lines = { lines: { count: "*" } };
const fourColumns = ["o_orderkey", "o_orderdate", "l_partkey", "l_extendedprice"];

const joins = [
    ["orders x lineitem", "count", ordered()],
    ["orders x lineitem, 4 columns", "batches", ordered({ select: fourColumns })],
    ["orders x lineitem, 4 columns", "table", ordered({ select: fourColumns })],
    ["orders x lineitem, 4 columns", "file", ordered({ select: fourColumns })],
    ["orders x lineitem, 25 columns", "batches", ordered()],
    ["orders x lineitem, 25 columns", "table", ordered()],
    ["orders x lineitem, 25 columns", "file", ordered()],
    [
        "lineitem x supplier, 5 columns",
        "batches",
        join(
            lineitem,
            supplier,
            { l_suppkey: "s_suppkey" },
            { select: [...fourColumns.slice(2), "l_orderkey", "s_name", "s_nationkey"] }
        )
    ],
    [
        "part x lineitem, 4 columns",
        "table",
        join(part, lineitem, { p_partkey: "l_partkey" }, { select: ["l_orderkey", "l_quantity", "p_brand", "p_size"] })
    ],
    ["customer anti join orders", "count", join(customer, orders, onCustomer, { type: "anti" })],
    ["customer anti join orders, 8 columns", "batches", join(customer, orders, onCustomer, { type: "anti" })],
    ["orders semi join lineitem", "count", ordered({ type: "semi" })],
    ["orders semi join lineitem, 9 columns", "batches", ordered({ type: "semi" })],
    [
        "customer left join orders, 4 columns",
        "batches",
        join(customer, orders, onCustomer, {
            type: "left",
            select: ["c_custkey", "c_mktsegment", "o_orderkey", "o_totalprice"]
        })
    ],
    ["lineitem x partsupp on two keys", "count", join(lineitem, partsupp, onPartAndSupplier)],
    [
        "lineitem x partsupp on two keys, 4 columns",
        "batches",
        join(lineitem, partsupp, onPartAndSupplier, {
            select: ["l_orderkey", "l_quantity", "ps_supplycost", "ps_availqty"]
        })
    ],
    [
        "first 10 rows of orders x lineitem, 25 columns",
        "table",
        limit(ordered(), 10),
        { rowKeys: ["l_orderkey", "l_linenumber"] }
    ]
];

const textJoins = [
    ["names x visits, text key of 18 bytes", "count", join(names, visits, { n_key: "v_key" })],
    ["names x visits, text key of 18 bytes, 4 columns", "batches", join(names, visits, { n_key: "v_key" })],
    ["customer x order_names on c_name", "count", join(customer, orderNames, "c_name")],
    [
        "customer x order_names on c_address, 10 to 40 bytes, 4 columns",
        "batches",
        join(customer, orderNames, "c_address", { select: ["c_custkey", "c_address", "o_orderkey", "o_totalprice"] })
    ],
    ["clerks x orders on o_clerk", "count", join(clerks, orders, "o_clerk")],
    [
        "clerks x orders on o_clerk, 4 columns",
        "batches",
        join(clerks, orders, "o_clerk", { select: ["o_clerk", "clerk_orders", "o_orderkey", "o_totalprice"] })
    ]
];

const fiveAggregates = {
    quantity: { sum: "l_quantity" },
    ...revenue,
    mean_price: { mean: "l_extendedprice" },
    discount: { max: "l_discount" },
    ...lines
};
const tenAggregates = {
    ...fiveAggregates,
    tax: { sum: "l_tax" },
    mean_quantity: { mean: "l_quantity" },
    mean_discount: { mean: "l_discount" },
    first: { min: "l_shipdate" },
    last: { max: "l_shipdate" }
};
const sums = (count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`s${i}`, { sum: `f${i}` }]));

const groupBys = [
    [
        "lineitem by l_returnflag and l_linestatus, 5 aggregates",
        "table",
        groupBy(lineitem, ["l_returnflag", "l_linestatus"], fiveAggregates)
    ],
    [
        "lineitem by l_returnflag and l_linestatus, 10 aggregates",
        "table",
        groupBy(lineitem, ["l_returnflag", "l_linestatus"], tenAggregates)
    ],
    ["lineitem by l_shipmode, 2 aggregates", "table", groupBy(lineitem, ["l_shipmode"], { ...revenue, ...lines })],
    [
        "lineitem by l_shipmode, l_shipinstruct and l_shipdate",
        "table",
        groupBy(lineitem, ["l_shipmode", "l_shipinstruct", "l_shipdate"], { ...revenue, ...lines })
    ],
    [
        "lineitem by l_linenumber, 4 sums",
        "table",
        groupBy(lineitem, ["l_linenumber"], {
            quantity: { sum: "l_quantity" },
            ...revenue,
            discount: { sum: "l_discount" },
            tax: { sum: "l_tax" }
        })
    ],
    ["facts_64 by 64 keys, 10 sums of int64", "table", groupBy(facts64, ["k"], sums(10))],
    [
        "orders by o_clerk",
        "table",
        groupBy(orders, ["o_clerk"], { orders: { count: "*" }, total: { sum: "o_totalprice" } })
    ],
    [
        "orders by o_custkey",
        "table",
        groupBy(orders, ["o_custkey"], { orders: { count: "*" }, total: { sum: "o_totalprice" } })
    ],
    ["lineitem by l_partkey", "table", groupBy(lineitem, ["l_partkey"], { ...revenue, ...lines })],
    [
        "lineitem by l_partkey, suppliers counted distinct",
        "table",
        groupBy(lineitem, ["l_partkey"], { suppliers: { countDistinct: "l_suppkey" } })
    ],
    ["lineitem by l_orderkey", "table", groupBy(lineitem, ["l_orderkey"], { quantity: { sum: "l_quantity" } })],
    ["lineitem by l_orderkey", "count", groupBy(lineitem, ["l_orderkey"], lines)],
    [
        "lineitem by l_orderkey and l_linenumber, a group for each row",
        "table",
        groupBy(lineitem, ["l_orderkey", "l_linenumber"], revenue)
    ],
    [
        "lineitem by l_partkey and l_suppkey",
        "table",
        groupBy(lineitem, ["l_partkey", "l_suppkey"], { ...revenue, ...lines })
    ],
    [
        "visits by v_key, text of 18 bytes",
        "table",
        groupBy(visits, ["v_key"], { visits: { count: "*" }, total: { sum: "v_value" } })
    ],
    [
        "customer by c_address, text of 10 to 40 bytes",
        "table",
        groupBy(customer, ["c_address"], { balance: { sum: "c_acctbal" } })
    ],
    [
        "lineitem without keys: sum, min, max and mean",
        "table",
        groupBy(lineitem, [], {
            ...revenue,
            first: { min: "l_shipdate" },
            last: { max: "l_shipdate" },
            mean_quantity: { mean: "l_quantity" }
        })
    ],
    ["facts_64 without keys, 4 sums of int64", "table", groupBy(facts64, [], sums(4))],
    [
        "lineitem without keys, parts counted distinct",
        "table",
        groupBy(lineitem, [], { parts: { countDistinct: "l_partkey" } })
    ]
];

const customerOrders = join(customer, orders, onCustomer);
const chain = join(customerOrders, lineitem, onOrder);
const withSupplier = join(chain, supplier, { l_suppkey: "s_suppkey" });
const withNations = join(join(withSupplier, customerNation, { c_nationkey: "cn_nationkey" }), supplierNation, {
    s_nationkey: "sn_nationkey"
});

const stars = [
    ["orders x lineitem by o_orderdate", "table", groupBy(ordered(), ["o_orderdate"], revenue)],
    [
        "orders x lineitem by o_orderpriority and l_shipmode",
        "table",
        groupBy(ordered(), ["o_orderpriority", "l_shipmode"], { ...revenue, ...lines })
    ],
    ["customer x orders x lineitem", "count", chain],
    [
        "customer x orders x lineitem by c_mktsegment",
        "table",
        groupBy(chain, ["c_mktsegment"], { ...revenue, ...lines })
    ],
    [
        "customer x orders x lineitem by order key, date and priority",
        "table",
        groupBy(chain, ["o_orderkey", "o_orderdate", "o_shippriority"], revenue)
    ],
    [
        "star of 4 tables by c_mktsegment and l_returnflag",
        "table",
        groupBy(withSupplier, ["c_mktsegment", "l_returnflag"], { ...revenue, balance: { max: "s_acctbal" } })
    ],
    [
        "star of 5 tables by n_name and c_mktsegment",
        "table",
        groupBy(join(withSupplier, nation, { s_nationkey: "n_nationkey" }), ["n_name", "c_mktsegment"], revenue)
    ],
    [
        "star of 6 tables by two nations' names",
        "table",
        groupBy(withNations, ["cn_name", "sn_name"], { ...revenue, ...lines })
    ],
    [
        "part x partsupp by p_brand, p_type and p_size, suppliers counted distinct",
        "table",
        groupBy(join(part, partsupp, { p_partkey: "ps_partkey" }), ["p_brand", "p_type", "p_size"], {
            suppliers: { countDistinct: "ps_suppkey" }
        })
    ],
    [
        "part x lineitem by p_brand and p_container",
        "table",
        groupBy(join(part, lineitem, { p_partkey: "l_partkey" }), ["p_brand", "p_container"], {
            ...revenue,
            quantity: { mean: "l_quantity" }
        })
    ],
    [
        "lineitem by l_orderkey, joined with orders, by o_clerk",
        "table",
        groupBy(
            join(orders, groupBy(lineitem, ["l_orderkey"], { quantity: { sum: "l_quantity" } }), onOrder),
            ["o_clerk"],
            { largest: { max: "quantity" }, orders: { count: "*" } }
        )
    ]
];

export const tpchQueries = [...joins, ...textJoins, ...groupBys, ...stars].map(([name, result, source, more]) => ({
    ...{ name: `${name}, ${result}`, result, source },
    ...more
}));
