// SPDX-License-Identifier: Apache-2.0
import type {
    Bool,
    DataType,
    Dictionary,
    FixedSizeList,
    Float,
    Int,
    Interval,
    LargeList,
    List,
    Map_,
    Null,
    Struct,
    Type,
    TypeMap,
    Union
} from "apache-arrow";

/** What JSON holds. */
export type PlainJson = null | boolean | number | string | PlainJson[] | { [name: string]: PlainJson };

/** A number of the column types that JavaScript's own numbers hold, and text for what JSON would turn into null. */
type PlainFloat = number | "NaN" | "Infinity" | "-Infinity";

type PlainInteger<D> = D extends { readonly TType: Type.Int64 | Type.Uint64 }
    ? string
    : D extends { readonly TType: Type.Int8 | Type.Int16 | Type.Int32 | Type.Uint8 | Type.Uint16 | Type.Uint32 }
      ? number
      : number | string;

/** `{ months }`, `{ days, milliseconds }` or `{ months, days, nanoseconds }`, the last one as text. */
type PlainInterval<D> = D extends { readonly TType: Type.IntervalYearMonth }
    ? { months: number }
    : D extends { readonly TType: Type.IntervalDayTime }
      ? { days: number; milliseconds: number }
      : D extends { readonly TType: Type.IntervalMonthDayNano }
        ? { months: number; days: number; nanoseconds: string }
        : { [part: string]: number | string };

type PlainNested<D> = D extends List<infer V> | LargeList<infer V> | FixedSizeList<infer V>
    ? PlainValue<V>[]
    : D extends Struct<infer T>
      ? PlainRow<T>
      : D extends Map_<infer K, infer V>
        ? [key: PlainValue<K>, value: PlainValue<V>][]
        : D extends Union
          ? PlainJson
          : string;

/**
 * What {@link plainValue} makes of a value of column type `D`; null for NULL.
 *
 * - Bool: boolean. Integers of 8 to 32 bits: number. Those of 64 bits: their digits as text.
 * - Floats: number, but `"NaN"`, `"Infinity"` and `"-Infinity"`.
 * - Decimals: text with all digits of the scale, `"2122309.77"`. Durations: their number of units, as text.
 * - Dates, times, timestamps: ISO 8601 text with all digits of the unit, and `Z` where the type has a time zone.
 * - Intervals: an object of their parts. Text: string. Bytes: `"0x..."`, in hexadecimal.
 * - Lists: array. Structs: object. Maps: array of `[key, value]`. Unions and dictionaries: the value itself.
 */
export type PlainValue<D extends DataType = DataType> =
    | null
    | (DataType extends D
          ? PlainJson
          : D extends Dictionary<infer V>
            ? PlainValue<V>
            : D extends Null
              ? null
              : D extends Bool
                ? boolean
                : D extends Int
                  ? PlainInteger<D>
                  : D extends Float
                    ? PlainFloat
                    : D extends Interval
                      ? PlainInterval<D>
                      : PlainNested<D>);

/** What {@link plainRows} makes of a row of columns `T`. */
export type PlainRow<T extends TypeMap = TypeMap> = { [K in keyof T & string]: PlainValue<T[K]> };
