// SPDX-License-Identifier: Apache-2.0
import type {
    Binary,
    DataType,
    Decimal,
    Dictionary,
    Duration,
    Float,
    Float64,
    Int,
    Int32,
    Int64,
    Type,
    TypeMap,
    Uint64,
    Utf8
} from "apache-arrow";

/** Names of the columns of `T`. */
export type Name<T extends TypeMap> = keyof T & string;

/** Do we know the columns at compile time? A file's relation is a plain TypeMap unless the user states its type. */
type Untyped<T extends TypeMap> = string extends keyof T ? true : false;

type Flatten<T> = { [K in keyof T]: T[K] };

/**
 * The type a column has in a result: views come out as plain Utf8 / Binary, dictionaries with Int32 indices into one
 * dictionary that is unified over files and batches; every other type stays as it is.
 */
export type ResultType<D> = D extends { readonly TType: Type.Utf8View }
    ? Utf8
    : D extends { readonly TType: Type.BinaryView }
      ? Binary
      : D extends Dictionary<infer V>
        ? Dictionary<V, Int32>
        : D extends DataType
          ? D
          : never;

export type JoinType = "inner" | "left" | "right" | "full" | "semi" | "anti";

/** Key columns: one name, several names, or `{ left name: right name }`. */
export type JoinOn<L extends TypeMap, R extends TypeMap> =
    (Name<L> & Name<R>) | readonly (Name<L> & Name<R>)[] | { readonly [K in Name<L>]?: Name<R> };

/** Right key columns that share a name with their left partner: the result has such a key once. */
type SharedKeys<On> = On extends string
    ? On
    : On extends readonly (infer K)[]
      ? K & string
      : { [K in keyof On]: On[K] extends K ? K & string : never }[keyof On];

type RightColumns<L extends TypeMap, R extends TypeMap, On, Suffix extends string> = {
    [K in Exclude<Name<R>, SharedKeys<On>> as K extends Name<L> ? `${K}${Suffix}` : K]: ResultType<R[K]>;
};

type LeftColumns<L extends TypeMap> = { [K in Name<L>]: ResultType<L[K]> };

/** Those of a right join, whose shared keys are the right ones: they have a value in every row. */
type LeftOfRightJoin<L extends TypeMap, R extends TypeMap, On> = {
    [K in Name<L>]: ResultType<K extends SharedKeys<On> & Name<R> ? R[K] : L[K]>;
};

/** Columns of a join: all of the left, then those of the right that are no shared key, clashes with the suffix. */
export type JoinColumns<
    L extends TypeMap,
    R extends TypeMap,
    On,
    Kind extends JoinType = "inner",
    Suffix extends string = "_right"
> = true extends Untyped<L> | Untyped<R>
    ? TypeMap
    : Kind extends "semi" | "anti"
      ? LeftColumns<L>
      : Flatten<(Kind extends "right" ? LeftOfRightJoin<L, R, On> : LeftColumns<L>) & RightColumns<L, R, On, Suffix>>;

/** The columns of a projection. */
export type Selected<T extends TypeMap, Names> = [Names] extends [readonly (infer K)[]]
    ? Untyped<T> extends true
        ? TypeMap
        : Flatten<Pick<T, K & Name<T>>>
    : T;

/** One aggregate. `count: "*"` counts rows, `count: "column"` its non-NULL values. */
export type AggregateOf<Column extends string> =
    | { readonly sum: Column }
    | { readonly min: Column }
    | { readonly max: Column }
    | { readonly mean: Column }
    | { readonly first: Column }
    | { readonly any: Column }
    | { readonly count: Column | "*" }
    | { readonly countDistinct: Column };

export type AggregateName = "sum" | "min" | "max" | "mean" | "first" | "any" | "count" | "countDistinct";

type SumType<D> = D extends Decimal
    ? Decimal
    : D extends Duration
      ? D
      : D extends Float
        ? Float64
        : D extends { readonly TType: Type.Uint8 | Type.Uint16 | Type.Uint32 | Type.Uint64 }
          ? Uint64
          : D extends Int
            ? Int64
            : DataType;

type AggregateType<T extends TypeMap, A> = A extends { readonly count: string } | { readonly countDistinct: string }
    ? Int64
    : A extends { readonly mean: string }
      ? Float64
      : A extends { readonly sum: infer C }
        ? SumType<T[C & string]>
        : A extends { readonly [K in "min" | "max" | "first" | "any"]?: infer C }
          ? ResultType<T[C & string]>
          : never;

/** Columns of a group-by: the keys, then the aggregates under their aliases. */
export type GroupColumns<T extends TypeMap, Keys extends readonly string[], Aggregates> =
    Untyped<T> extends true
        ? TypeMap
        : Flatten<
              { [K in Keys[number] & Name<T>]: ResultType<T[K]> } & {
                  [A in keyof Aggregates & string]: AggregateType<T, Aggregates[A]>;
              }
          >;
