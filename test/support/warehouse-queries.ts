// SPDX-License-Identifier: Apache-2.0
// Trees of joins and group-bys over the tables of a warehouse, of which a planner has to estimate the rows.
import type { Query, Relation, Runtime } from "spillway";
import { filtered, tableOf, type Columns } from "./warehouse.js";

type Source = Relation | Query;
type Tables = Record<string, Relation>;

/** What a tree gives, by name. `groups`: its rows are groups. */
export interface WarehouseQuery {
    readonly name: string;
    readonly groups: boolean;
    readonly query: Query;
}

const relationsOf = (runtime: Runtime, tables: Record<string, Columns>, texts: readonly string[]): Tables =>
    Object.fromEntries(
        Object.entries(tables).map(([name, columns]) => [name, runtime.fromTable(tableOf(columns, texts))])
    );

/** A runtime for queries whose columns the compiler does not know. */
interface Untyped {
    join(options: object): unknown;
    groupBy(input: Source, options: object): unknown;
}

class Builder {
    public readonly queries: WarehouseQuery[] = [];

    public constructor(private readonly runtime: Untyped) {}

    public join(name: string, left: Source, right: Source, on: Record<string, string>, type = "inner"): Query {
        const query = this.runtime.join({ left, right, on, type }) as Query;
        this.queries.push({ name, groups: false, query });
        return query;
    }

    public group(name: string, source: Source, keys: readonly string[]): Query {
        const query = this.runtime.groupBy(source, { keys, aggregates: { rows: { count: "*" } } }) as Query;
        this.queries.push({ name, groups: true, query });
        return query;
    }
}

/** Over TPC-H's tables. */
export function tpchQueries(runtime: Runtime, tables: Record<string, Columns>): WarehouseQuery[] {
    const asia = filtered(tables["nation"]!, (row) => tables["nation"]!["n_regionkey"]![row] === 2);
    const building = filtered(tables["customer"]!, (row) => tables["customer"]!["c_mktsegment"]![row] === 1);
    const year = filtered(tables["orders"]!, (row) => Math.floor(tables["orders"]!["o_orderdate"]![row]! / 365) === 3);
    const late = filtered(tables["lineitem"]!, (row) => tables["lineitem"]!["l_shipdate"]![row]! > 1200);
    const brass = filtered(tables["part"]!, (row) => tables["part"]!["p_type"]![row] === 7);
    const all = { ...tables, asia, building, year, late, brass };
    return tpchTrees(new Builder(runtime), relationsOf(runtime, all, ["n_name", "r_name"]));
}

/** Named by the queries of TPC-H that they are taken from. */
function tpchTrees(make: Builder, t: Tables): WarehouseQuery[] {
    const { orders, lineitem, customer, supplier, part, partsupp, nation, region } = t as Record<string, Relation>;
    const [asia, building, year, late, brass] = [t["asia"]!, t["building"]!, t["year"]!, t["late"]!, t["brass"]!];
    const lines = make.join("lines of orders", orders!, lineitem!, { o_orderkey: "l_orderkey" });
    make.group("... by date", lines, ["o_orderdate"]);
    make.group("... by order and its date", lines, ["o_orderkey", "o_orderdate", "o_shippriority"]);
    make.group("... by ship mode and priority", lines, ["l_shipmode", "o_orderpriority"]);
    make.group("q1", lineitem!, ["l_returnflag", "l_linestatus"]);
    make.group("lines by flags and date", lineitem!, ["l_returnflag", "l_linestatus", "l_shipdate"]);
    const ofBuilding = make.join("q3 orders", building, orders!, { c_custkey: "o_custkey" });
    const q3 = make.join("q3 lines", ofBuilding, lineitem!, { o_orderkey: "l_orderkey" });
    make.group("q3", q3, ["o_orderkey", "o_orderdate", "o_shippriority"]);
    make.group("q3 by customer", q3, ["c_custkey"]);
    const q3Late = make.join("q3 late lines", ofBuilding, late, { o_orderkey: "l_orderkey" });
    make.group("q3 late by order", q3Late, ["o_orderkey", "o_orderdate"]);
    const q4 = make.join("q4", year, late, { o_orderkey: "l_orderkey" }, "semi");
    make.group("q4 by priority", q4, ["o_orderpriority"]);
    const inAsia = make.join("q5 customers", asia, customer!, { n_nationkey: "c_nationkey" });
    const asiaOrders = make.join("q5 orders", inAsia, year, { c_custkey: "o_custkey" });
    const asiaLines = make.join("q5 lines", asiaOrders, lineitem!, { o_orderkey: "l_orderkey" });
    const q5 = make.join("q5 local", asiaLines, supplier!, { l_suppkey: "s_suppkey", n_nationkey: "s_nationkey" });
    make.group("q5 by nation", q5, ["n_name"]);
    const bought = make.join("customers of lines", lines, customer!, { o_custkey: "c_custkey" });
    const sold = make.join("suppliers of lines", bought, supplier!, { l_suppkey: "s_suppkey" });
    make.group("q7 by nations", sold, ["c_nationkey", "s_nationkey"]);
    const named = make.join("nations of customers", bought, nation!, { c_nationkey: "n_nationkey" });
    make.group("... by name", named, ["n_name"]);
    make.group("... by name and date", named, ["n_name", "o_orderdate"]);
    make.group("... by region", make.join("regions", named, region!, { n_regionkey: "r_regionkey" }), [
        "r_name",
        "n_name"
    ]);
    const brassLines = make.join("q8 lines of parts", lineitem!, brass, { l_partkey: "p_partkey" });
    const brassOrders = make.join("q8 orders of parts", brassLines, year, { l_orderkey: "o_orderkey" });
    make.group("q8 by date", brassOrders, ["o_orderdate"]);
    make.group("q8 by part", brassLines, ["l_partkey", "p_brand"]);
    const supplied = make.join("q9 offers of lines", lineitem!, partsupp!, {
        l_partkey: "ps_partkey",
        l_suppkey: "ps_suppkey"
    });
    make.join("q9 brass", supplied, brass, { l_partkey: "p_partkey" });
    make.join("q9 all offers", lineitem!, partsupp!, { l_partkey: "ps_partkey" });
    make.group("q10", bought, ["o_custkey", "c_nationkey"]);
    const offers = make.join(
        "q11 offers",
        make.join("q11 suppliers", asia, supplier!, { n_nationkey: "s_nationkey" }),
        partsupp!,
        {
            s_suppkey: "ps_suppkey"
        }
    );
    make.group("q11 by part", offers, ["ps_partkey"]);
    const perCustomer = make.group("q13 orders of customers", orders!, ["o_custkey"]);
    make.join("q13 customers", customer!, perCustomer, { c_custkey: "o_custkey" }, "left");
    make.join("q13 of building", perCustomer, building, { o_custkey: "c_custkey" });
    const perOrder = make.group("q18 lines per order", lineitem!, ["l_orderkey"]);
    const large = make.join("q18 orders", perOrder, year, { l_orderkey: "o_orderkey" });
    make.join("q18 customers", large, customer!, { o_custkey: "c_custkey" });
    make.join("q22", customer!, orders!, { c_custkey: "o_custkey" }, "anti");
    make.join("customers with orders of a year", customer!, year, { c_custkey: "o_custkey" }, "semi");
    make.join("lines of no brass", lineitem!, brass, { l_partkey: "p_partkey" }, "anti");
    make.group("parts of late lines", make.join("parts", late, part!, { l_partkey: "p_partkey" }), [
        "p_brand",
        "p_size"
    ]);
    return make.queries;
}

/** Over the Star Schema Benchmark's. */
export function ssbQueries(runtime: Runtime, tables: Record<string, Columns>): WarehouseQuery[] {
    const { lineorder, customer, supplier, part, date } = tables;
    const where = (columns: Columns, name: string, ...values: number[]): Columns =>
        filtered(columns, (row) => values.includes(columns[name]![row]!));
    const all = {
        ...{ lineorder: lineorder!, date: date!, part: part! },
        ...{ year: where(date!, "d_year", 1993), month: where(date!, "d_yearmonth", 30) },
        ...{
            category: where(part!, "p_category", 12),
            brand: where(part!, "p_brand1", 221),
            mfgr: where(part!, "p_mfgr", 0, 1)
        },
        ...{ asianSuppliers: where(supplier!, "s_region", 2), usSuppliers: where(supplier!, "s_nation", 9) },
        ...{ asianCustomers: where(customer!, "c_region", 2), usCustomers: where(customer!, "c_nation", 9) },
        ...{ citySuppliers: where(supplier!, "s_city", 91, 95), cityCustomers: where(customer!, "c_city", 91, 95) }
    };
    return ssbTrees(
        new Builder(runtime),
        relationsOf(runtime, all, ["p_brand1", "c_city", "c_nation", "s_city", "s_nation"])
    );
}

function ssbTrees(make: Builder, t: Tables): WarehouseQuery[] {
    const { lineorder, date, category, brand, mfgr } = t as Record<string, Relation>;
    const by = {
        date: { lo_orderdate: "d_datekey" },
        part: { lo_partkey: "p_partkey" },
        supplier: { lo_suppkey: "s_suppkey" },
        customer: { lo_custkey: "c_custkey" }
    };
    make.join("1.1 a year", lineorder!, t["year"]!, by.date);
    make.join("1.2 a month", lineorder!, t["month"]!, by.date);
    const ofCategory = make.join("2.1 parts", lineorder!, category!, by.part);
    const soldInAsia = make.join("2.1 suppliers", ofCategory, t["asianSuppliers"]!, by.supplier);
    make.group("2.1", make.join("2.1 dates", soldInAsia, date!, by.date), ["d_year", "p_brand1"]);
    const ofBrand = make.join(
        "2.3 suppliers",
        make.join("2.3 parts", lineorder!, brand!, by.part),
        t["asianSuppliers"]!,
        by.supplier
    );
    make.group("2.3", make.join("2.3 dates", ofBrand, date!, by.date), ["d_year", "p_brand1"]);
    const bought = make.join("3.1 customers", lineorder!, t["asianCustomers"]!, by.customer);
    const traded = make.join("3.1 suppliers", bought, t["asianSuppliers"]!, by.supplier);
    make.group("3.1", make.join("3.1 dates", traded, date!, by.date), ["c_nation", "s_nation", "d_year"]);
    const us = make.join(
        "3.2 suppliers",
        make.join("3.2 customers", lineorder!, t["usCustomers"]!, by.customer),
        t["usSuppliers"]!,
        by.supplier
    );
    const usDates = make.join("3.2 dates", us, date!, by.date);
    make.group("3.2", usDates, ["c_city", "s_city", "d_year"]);
    make.group("3.2 by city and nation", usDates, ["c_city", "c_nation"]);
    make.group("3.2 by customer and nation", usDates, ["lo_custkey", "c_nation"]);
    const cities = make.join(
        "3.3 suppliers",
        make.join("3.3 customers", lineorder!, t["cityCustomers"]!, by.customer),
        t["citySuppliers"]!,
        by.supplier
    );
    make.join("3.4 a month", cities, t["month"]!, by.date);
    make.group("3.3", make.join("3.3 dates", cities, date!, by.date), ["c_city", "s_city", "d_year"]);
    const all = make.join("4.1 parts", traded, mfgr!, by.part);
    make.group("4.1", make.join("4.1 dates", all, date!, by.date), ["d_year", "c_nation"]);
    make.group("4.2", make.join("4.2 a year", all, t["year"]!, by.date), ["d_year", "s_nation", "p_category"]);
    make.group("4.3", make.join("4.3 a year", ofBrand, t["year"]!, by.date), ["d_year", "s_city", "p_brand1"]);
    return make.queries;
}
