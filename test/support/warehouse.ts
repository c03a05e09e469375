// SPDX-License-Identifier: Apache-2.0
// The tables of TPC-H and of the Star Schema Benchmark with the columns that joins and group-bys go by, at any scale:
// as many rows, keys that are as sparse, and as many distinct values as the official generators make.
import { makeVector, Table, Utf8, vectorFromArray, type Vector } from "apache-arrow";

/** Numbers in [0, 1) of a seed (mulberry32): ten times as fast as Random, for tables of millions of rows. */
function numbers(seed: number): () => number {
    let state = seed >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let t = Math.imul(state ^ (state >>> 15), 1 | state);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
}

/** Columns of a table of whole numbers. */
export type Columns = Record<string, Int32Array>;

const column = (rows: number, value: (row: number) => number): Int32Array =>
    Int32Array.from({ length: rows }, (_, i) => value(i));

/** Rows that pass, of all columns. */
export function filtered(columns: Columns, passes: (row: number) => boolean): Columns {
    const [first] = Object.values(columns);
    const rows = Array.from({ length: first?.length ?? 0 }, (_, i) => i).filter(passes);
    return Object.fromEntries(
        Object.entries(columns).map(([name, values]) => [name, column(rows.length, (i) => values[rows[i]!]!)])
    );
}

/** `texts`: columns of which the values are written out. */
export function tableOf(columns: Columns, texts: readonly string[] = []): Table {
    const vectors = Object.entries(columns).map(([name, values]): [string, Vector] => [
        name,
        texts.includes(name)
            ? vectorFromArray(
                  Array.from(values, (value) => `${name}#${value}`),
                  new Utf8()
              )
            : makeVector(values)
    ]);
    return new Table(Object.fromEntries(vectors));
}

const days = 2406;

/** TPC-H; its lineitem has 6,000,000 rows at scale 1. */
export function tpch(scale: number, seed: number): Record<string, Columns> {
    const random = numbers(seed);
    const below = (end: number): number => Math.floor(random() * end);
    const of = (rows: number): number => Math.max(1, Math.round(rows * scale));
    const [customers, parts, suppliers, orderCount] = [of(150_000), of(200_000), of(10_000), of(1_500_000)];
    const nation = {
        n_nationkey: column(25, (i) => i),
        n_name: column(25, (i) => i),
        n_regionkey: column(25, (i) => i % 5)
    };
    const region = { r_regionkey: column(5, (i) => i), r_name: column(5, (i) => i) };
    const customer = {
        c_custkey: column(customers, (i) => i + 1),
        c_nationkey: column(customers, () => below(25)),
        c_mktsegment: column(customers, () => below(5))
    };
    const supplier = { s_suppkey: column(suppliers, (i) => i + 1), s_nationkey: column(suppliers, () => below(25)) };
    const part = {
        p_partkey: column(parts, (i) => i + 1),
        p_brand: column(parts, () => below(25)),
        p_type: column(parts, () => below(150)),
        p_size: column(parts, () => below(50))
    };
    const step = Math.max(1, Math.floor(suppliers / 4));
    const supplierOf = (partkey: number, i: number): number => ((partkey + i * step) % suppliers) + 1;
    const partsupp = {
        ps_partkey: column(parts * 4, (i) => Math.floor(i / 4) + 1),
        ps_suppkey: column(parts * 4, (i) => supplierOf(Math.floor(i / 4) + 1, i % 4)),
        ps_availqty: column(parts * 4, () => below(10_000))
    };
    // A third of the customers have no order, and a quarter of the numbers are those of an order.
    const orders = {
        o_orderkey: column(orderCount, (i) => Math.floor(i / 8) * 32 + (i % 8) + 1),
        o_custkey: column(orderCount, () => Math.min(customers, below(Math.ceil(customers / 3)) * 3 + 1 + below(2))),
        o_orderdate: column(orderCount, () => below(days)),
        o_shippriority: column(orderCount, () => 0),
        o_orderpriority: column(orderCount, () => below(5)),
        o_clerk: column(orderCount, () => below(of(1000)))
    };
    const lines = column(orderCount, () => 1 + below(7));
    const orderOf = new Int32Array(lines.reduce((sum, count) => sum + count, 0));
    let end = 0;
    lines.forEach((count, order) => orderOf.fill(order, end, (end += count)));
    const rows = orderOf.length;
    const l_partkey = column(rows, () => 1 + below(parts));
    const l_shipdate = column(rows, (i) => orders.o_orderdate[orderOf[i]!]! + 1 + below(121));
    const shipped = column(rows, (i) => (l_shipdate[i]! <= 1263 ? 1 : 0));
    const lineitem = {
        l_orderkey: column(rows, (i) => orders.o_orderkey[orderOf[i]!]!),
        l_partkey,
        l_suppkey: column(rows, (i) => supplierOf(l_partkey[i]!, below(4))),
        l_shipdate,
        l_returnflag: column(rows, (i) => (shipped[i] === 1 ? below(2) : 2)),
        l_linestatus: shipped,
        l_shipmode: column(rows, () => below(7)),
        l_quantity: column(rows, () => 1 + below(50))
    };
    return { nation, region, customer, supplier, part, partsupp, orders, lineitem };
}

/** The Star Schema Benchmark; its lineorder has 6,000,000 rows at scale 1. */
export function ssb(scale: number, seed: number): Record<string, Columns> {
    const random = numbers(seed);
    const below = (end: number): number => Math.floor(random() * end);
    const of = (rows: number): number => Math.max(1, Math.round(rows * scale));
    const places = (prefix: string, key: string, rows: number): Columns => {
        const city = column(rows, () => below(250));
        return {
            [key]: column(rows, (i) => i + 1),
            [`${prefix}_city`]: city,
            [`${prefix}_nation`]: city.map((value) => Math.floor(value / 10)),
            [`${prefix}_region`]: city.map((value) => Math.floor(value / 50))
        };
    };
    const brand = column(of(200_000), () => below(1000));
    const part = {
        p_partkey: brand.map((_, i) => i + 1),
        p_mfgr: brand.map((value) => Math.floor(value / 200)),
        p_category: brand.map((value) => Math.floor(value / 40)),
        p_brand1: brand
    };
    const dayCount = 2556;
    const date = {
        d_datekey: column(dayCount, (i) => 19920000 + Math.floor(i / 365.15) * 10_000 + (i % 365)),
        d_year: column(dayCount, (i) => 1992 + Math.floor(i / 365.15)),
        d_yearmonth: column(dayCount, (i) => Math.floor(i / 30.43))
    };
    const rows = of(6_000_000);
    const customers = of(30_000);
    const suppliers = of(2000);
    const lineorder = {
        lo_orderkey: column(rows, (i) => Math.floor(i / 4) + 1),
        lo_custkey: column(rows, () => 1 + below(customers)),
        lo_partkey: column(rows, () => 1 + below(brand.length)),
        lo_suppkey: column(rows, () => 1 + below(suppliers)),
        lo_orderdate: column(rows, () => date.d_datekey[below(days)]!),
        lo_discount: column(rows, () => below(11)),
        lo_quantity: column(rows, () => 1 + below(50))
    };
    return {
        lineorder,
        customer: places("c", "c_custkey", customers),
        supplier: places("s", "s_suppkey", suppliers),
        part,
        date
    };
}
