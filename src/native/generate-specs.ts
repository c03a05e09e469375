// SPDX-License-Identifier: Apache-2.0

export interface NativeGenerateColumn {
    name: string;
    /** Physical type written: signed integer or double of that width; "utf8" = readable text of about `width` bytes. */
    kind: "int" | "float" | "utf8";
    width: number;
}

/** One generated relation; see native/generate/relation_generator.hpp. */
export interface NativeGenerateSpec {
    rows: number;
    seed: bigint;
    /** primary: unique keys 0 .. rows-1 times `keyStride` plus `keyOffset`; foreign: drawn from `domainRows`. */
    key: {
        name: string;
        width: 4 | 8;
        role: "primary" | "foreign";
        /** Number of distinct primary keys the foreign keys refer to. */
        domainRows: number;
        keyStride: number;
        keyOffset: number;
        /** primary: each key appears this many times (m:n); rows counts all of them. */
        duplicates: number;
        /** foreign: 0 = uniform, else Zipf exponent. */
        zipf: number;
        /** foreign: share of rows that have a partner. */
        matchRatio: number;
        order: "shuffled" | "sorted";
        /** Scatter keys over the 64-bit range (invertible mix) instead of dense. */
        sparse: boolean;
    };
    payload: NativeGenerateColumn[];
    batchRows: number;
    workers: number;
}

/** One part of a table of a benchmark; see native/generate/table_generator.hpp. */
export interface NativeTableSpec {
    benchmark: "tpch" | "ssb";
    table: string;
    /** 1 = 1.5 M orders, about 6 M lines. */
    scale: number;
    seed: bigint;
    /** Of `parts`, from 1 on. */
    part: number;
    parts: number;
    /** Ids that the dictionaries of the columns have in a file, in order of the columns; none: text is plain. */
    dictionaryIds: number[];
    batchRows: number;
    workers: number;
}
