// SPDX-License-Identifier: Apache-2.0
import { Bool, DateDay, Decimal, Dictionary, Field, Int32, Int64, Schema, Utf8, type DataType } from "apache-arrow";

/** A word is one of a closed list of texts, which a dictionary may hold. */
type ColumnKind = "int32" | "int64" | "decimal" | "date" | "bool" | "text" | "word";

interface TableShape {
    /** In the order of native/generate. */
    columns: Readonly<Record<string, ColumnKind>>;
    /** Mean bytes of a row of plain text and numbers, for batch sizes only. */
    rowBytes: number;
    /** About how many rows there are, for progress only. */
    rows: (scale: number) => number;
}

const times = (rows: number) => (scale: number) => Math.round(rows * scale);
const always = (rows: number) => () => rows;

const tpch = {
    region: {
        columns: { r_regionkey: "int32", r_name: "word", r_comment: "text" },
        rowBytes: 90,
        rows: always(5)
    },
    nation: {
        columns: { n_nationkey: "int32", n_name: "word", n_regionkey: "int32", n_comment: "text" },
        rowBytes: 100,
        rows: always(25)
    },
    supplier: {
        columns: {
            s_suppkey: "int64",
            s_name: "text",
            s_address: "text",
            s_nationkey: "int32",
            s_phone: "text",
            s_acctbal: "decimal",
            s_comment: "text"
        },
        rowBytes: 170,
        rows: times(10_000)
    },
    customer: {
        columns: {
            c_custkey: "int64",
            c_name: "text",
            c_address: "text",
            c_nationkey: "int32",
            c_phone: "text",
            c_acctbal: "decimal",
            c_mktsegment: "word",
            c_comment: "text"
        },
        rowBytes: 190,
        rows: times(150_000)
    },
    part: {
        columns: {
            p_partkey: "int64",
            p_name: "text",
            p_mfgr: "word",
            p_brand: "word",
            p_type: "word",
            p_size: "int32",
            p_container: "word",
            p_retailprice: "decimal",
            p_comment: "text"
        },
        rowBytes: 160,
        rows: times(200_000)
    },
    partsupp: {
        columns: {
            ps_partkey: "int64",
            ps_suppkey: "int64",
            ps_availqty: "int32",
            ps_supplycost: "decimal",
            ps_comment: "text"
        },
        rowBytes: 170,
        rows: times(800_000)
    },
    orders: {
        columns: {
            o_orderkey: "int64",
            o_custkey: "int64",
            o_orderstatus: "word",
            o_totalprice: "decimal",
            o_orderdate: "date",
            o_orderpriority: "word",
            o_clerk: "text",
            o_shippriority: "int32",
            o_comment: "text"
        },
        rowBytes: 140,
        rows: times(1_500_000)
    },
    lineitem: {
        columns: {
            l_orderkey: "int64",
            l_partkey: "int64",
            l_suppkey: "int64",
            l_linenumber: "int32",
            l_quantity: "decimal",
            l_extendedprice: "decimal",
            l_discount: "decimal",
            l_tax: "decimal",
            l_returnflag: "word",
            l_linestatus: "word",
            l_shipdate: "date",
            l_commitdate: "date",
            l_receiptdate: "date",
            l_shipinstruct: "word",
            l_shipmode: "word",
            l_comment: "text"
        },
        rowBytes: 180,
        // Four lines an order, on average.
        rows: times(6_000_000)
    }
} as const satisfies Record<string, TableShape>;

// 200,000 more for each doubling of the scale.
const ssbParts = (scale: number): number =>
    scale < 1 ? Math.round(200_000 * scale) : 200_000 * (1 + Math.floor(Math.log2(scale)));

const ssb = {
    lineorder: {
        columns: {
            lo_orderkey: "int64",
            lo_linenumber: "int32",
            lo_custkey: "int64",
            lo_partkey: "int64",
            lo_suppkey: "int64",
            lo_orderdate: "int32",
            lo_orderpriority: "word",
            lo_shippriority: "word",
            lo_quantity: "int32",
            lo_extendedprice: "int32",
            lo_ordtotalprice: "int32",
            lo_discount: "int32",
            lo_revenue: "int32",
            lo_supplycost: "int32",
            lo_tax: "int32",
            lo_commitdate: "int32",
            lo_shipmode: "word"
        },
        rowBytes: 100,
        rows: times(6_000_000)
    },
    customer: {
        columns: {
            c_custkey: "int64",
            c_name: "text",
            c_address: "text",
            c_city: "word",
            c_nation: "word",
            c_region: "word",
            c_phone: "text",
            c_mktsegment: "word"
        },
        rowBytes: 120,
        rows: times(30_000)
    },
    supplier: {
        columns: {
            s_suppkey: "int64",
            s_name: "text",
            s_address: "text",
            s_city: "word",
            s_nation: "word",
            s_region: "word",
            s_phone: "text"
        },
        rowBytes: 110,
        rows: times(2_000)
    },
    part: {
        columns: {
            p_partkey: "int64",
            p_name: "text",
            p_mfgr: "word",
            p_category: "word",
            p_brand1: "word",
            p_color: "word",
            p_type: "word",
            p_size: "int32",
            p_container: "word"
        },
        rowBytes: 120,
        rows: ssbParts
    },
    date: {
        columns: {
            d_datekey: "int32",
            d_date: "text",
            d_dayofweek: "word",
            d_month: "word",
            d_year: "int32",
            d_yearmonthnum: "int32",
            d_yearmonth: "word",
            d_daynuminweek: "int32",
            d_daynuminmonth: "int32",
            d_daynuminyear: "int32",
            d_monthnuminyear: "int32",
            d_weeknuminyear: "int32",
            d_sellingseason: "word",
            d_lastdayinweekfl: "bool",
            d_lastdayinmonthfl: "bool",
            d_holidayfl: "bool",
            d_weekdayfl: "bool"
        },
        rowBytes: 110,
        rows: always(2557)
    }
} as const satisfies Record<string, TableShape>;

const shapes: Readonly<Record<Benchmark, Readonly<Record<string, TableShape>>>> = { tpch, ssb };

export type Benchmark = "tpch" | "ssb";
export type TpchTable = keyof typeof tpch;
export type SsbTable = keyof typeof ssb;

/** Names of the tables of each benchmark, in the order of its specification. */
export const benchmarkTables = {
    tpch: Object.keys(tpch) as TpchTable[],
    ssb: Object.keys(ssb) as SsbTable[]
} as const;

/** A table of a benchmark; both are checked. */
export interface TableName {
    benchmark: Benchmark;
    table: string;
}

function shapeOf({ benchmark, table }: TableName): TableShape {
    return shapes[benchmark][table] as TableShape;
}

const types: Readonly<Record<ColumnKind, () => DataType>> = {
    int32: () => new Int32(),
    int64: () => new Int64(),
    decimal: () => new Decimal(2, 15, 128),
    date: () => new DateDay(),
    bool: () => new Bool(),
    text: () => new Utf8(),
    word: () => new Utf8()
};

/**
 * The schema of a table. With dictionaries, those are numbered from 0 on in the order of their columns, so that the
 * same options give the same file.
 */
export function tableSchema(name: TableName, dictionary: boolean): Schema {
    let dictionaries = 0;
    const fields = Object.entries(shapeOf(name).columns).map(([column, kind]) => {
        const type = types[kind]();
        const encoded = dictionary && kind === "word";
        return new Field(column, encoded ? new Dictionary(type, new Int32(), dictionaries++, false) : type, false);
    });
    return new Schema(fields);
}

export function tableRowBytes(name: TableName): number {
    return shapeOf(name).rowBytes;
}

export function expectedTableRows(name: TableName, scale: number): number {
    return shapeOf(name).rows(scale);
}
