// SPDX-License-Identifier: Apache-2.0
// The Star Schema Benchmark's queries Q1.1 to Q4.3 (O'Neil, O'Neil, Chen and Revilak 2009). Their filters have been
// applied beforehand (`ssbFilters`, by derived-tables.mjs), for both engines alike: those of dimensions give the small
// tables that are joined, those of the fact table in Q1 a fact table of their own. Where the benchmark adds up a
// product or a difference of columns, the columns themselves are added up.
import { groupBy, join, table } from "./description.mjs";

const between = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => first + i);
const brands = (first, last) => between(first, last).map((number) => `MFGR#${number}`);
const states = "UNITED STATES";
const cities = ["UNITED KI1", "UNITED KI5"];

/** Tables that are made of others: the rows whose columns have one of these values. */
export const ssbFilters = {
    lineorder_1_1: ["lineorder", { lo_discount: between(1, 3), lo_quantity: between(1, 24) }],
    lineorder_1_2: ["lineorder", { lo_discount: between(4, 6), lo_quantity: between(26, 35) }],
    lineorder_1_3: ["lineorder", { lo_discount: between(5, 7), lo_quantity: between(26, 35) }],
    date_1993: ["date", { d_year: [1993] }],
    date_1994_01: ["date", { d_yearmonthnum: [199401] }],
    date_1994_week_6: ["date", { d_year: [1994], d_weeknuminyear: [6] }],
    date_1992_to_1997: ["date", { d_year: between(1992, 1997) }],
    date_1997_and_1998: ["date", { d_year: [1997, 1998] }],
    date_1997_12: ["date", { d_yearmonthnum: [199712] }],
    part_category: ["part", { p_category: ["MFGR#12"] }],
    part_brands: ["part", { p_brand1: brands(2221, 2228) }],
    part_brand: ["part", { p_brand1: ["MFGR#2221"] }],
    part_mfgr: ["part", { p_mfgr: ["MFGR#1", "MFGR#2"] }],
    part_category_14: ["part", { p_category: ["MFGR#14"] }],
    supplier_america: ["supplier", { s_region: ["AMERICA"] }],
    supplier_asia: ["supplier", { s_region: ["ASIA"] }],
    supplier_europe: ["supplier", { s_region: ["EUROPE"] }],
    supplier_states: ["supplier", { s_nation: [states] }],
    supplier_cities: ["supplier", { s_city: cities }],
    customer_america: ["customer", { c_region: ["AMERICA"] }],
    customer_asia: ["customer", { c_region: ["ASIA"] }],
    customer_states: ["customer", { c_nation: [states] }],
    customer_cities: ["customer", { c_city: cities }]
};

const revenue = { revenue: { sum: "lo_revenue" } };
const profit = { ...revenue, cost: { sum: "lo_supplycost" } };
const keys = {
    date: { lo_orderdate: "d_datekey" },
    part: { lo_partkey: "p_partkey" },
    supplier: { lo_suppkey: "s_suppkey" },
    customer: { lo_custkey: "c_custkey" }
};

/** The fact table joined with these dimensions, one after the other. */
const star = (fact, ...dimensions) =>
    dimensions.reduce((joined, name) => join(joined, table(name), keys[name.split("_")[0]]), table(fact));

const grouped = (name, source, by, aggregates) => ({
    ...{ name: `SSB ${name}, table`, result: "table" },
    source: groupBy(source, by, aggregates)
});

const first = [
    ["Q1.1", "lineorder_1_1", "date_1993"],
    ["Q1.2", "lineorder_1_2", "date_1994_01"],
    ["Q1.3", "lineorder_1_3", "date_1994_week_6"]
].map(([name, fact, date]) =>
    grouped(name, star(fact, date), [], { price: { sum: "lo_extendedprice" }, discount: { sum: "lo_discount" } })
);

const second = [
    ["Q2.1", "part_category", "supplier_america"],
    ["Q2.2", "part_brands", "supplier_asia"],
    ["Q2.3", "part_brand", "supplier_europe"]
].map(([name, ...dimensions]) =>
    grouped(name, star("lineorder", ...dimensions, "date"), ["d_year", "p_brand1"], revenue)
);

const third = [
    ["Q3.1", "nation", "customer_asia", "supplier_asia", "date_1992_to_1997"],
    ["Q3.2", "city", "customer_states", "supplier_states", "date_1992_to_1997"],
    ["Q3.3", "city", "customer_cities", "supplier_cities", "date_1992_to_1997"],
    ["Q3.4", "city", "customer_cities", "supplier_cities", "date_1997_12"]
].map(([name, place, ...dimensions]) =>
    grouped(name, star("lineorder", ...dimensions), [`c_${place}`, `s_${place}`, "d_year"], revenue)
);

const fourth = [
    grouped(
        "Q4.1",
        star("lineorder", "customer_america", "supplier_america", "part_mfgr", "date"),
        ["d_year", "c_nation"],
        profit
    ),
    grouped(
        "Q4.2",
        star("lineorder", "customer_america", "supplier_america", "part_mfgr", "date_1997_and_1998"),
        ["d_year", "s_nation", "p_category"],
        profit
    ),
    grouped(
        "Q4.3",
        star("lineorder", "customer_america", "supplier_states", "part_category_14", "date_1997_and_1998"),
        ["d_year", "s_city", "p_brand1"],
        profit
    )
];

export const ssbQueries = [...first, ...second, ...third, ...fourth];
