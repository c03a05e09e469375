// SPDX-License-Identifier: Apache-2.0
import { DataType, Decimal, Field, Float64, Int64, Uint64 } from "apache-arrow";

import { typeText } from "../arrow/type-text.js";
import { SpillwayError } from "../errors.js";
import { isNested } from "../model/column-type.js";
import type { AggregateKind, LogicalColumn } from "./logical.js";

function refuse(kind: AggregateKind, column: LogicalColumn, advice: string): SpillwayError {
    const type = typeText(column.field.type as DataType);
    return new SpillwayError(
        "UNSUPPORTED_TYPE",
        `Cannot take \`${kind}\` of column \`${column.name}\` of type ${type}; ${advice}`,
        { column: column.name, type, aggregate: kind }
    );
}

/** Type of the values themselves, also where a dictionary holds them. */
function valueType(column: LogicalColumn): DataType {
    const type = column.field.type as DataType;
    return DataType.isDictionary(type) ? (type.dictionary as DataType) : type;
}

/**
 * Sums keep 64 bits for integers (overflow is the error INTEGER_OVERFLOW) and all digits for decimals: those of 32 and
 * 64 bits would leave a sum as few as one digit, so it has the 38 digits of 128 bits.
 */
function sumType(column: LogicalColumn): DataType {
    const type = valueType(column);
    if (DataType.isInt(type)) return type.isSigned ? new Int64() : new Uint64();
    if (DataType.isFloat(type)) return new Float64();
    if (DataType.isDuration(type)) return type;
    if (DataType.isDecimal(type)) {
        return type.bitWidth > 128 ? new Decimal(type.scale, 76, 256) : new Decimal(type.scale, 38, 128);
    }
    const advice = DataType.isBool(type)
        ? "group by it and use count, or make it an integer where the table, file or batches are made"
        : "only numbers add up";
    throw refuse("sum", column, advice);
}

// Digits of the widest decimal: the engine takes no scale beyond them (kDecimalDigitsMax in native/addon).
const largestScale = 76;

function meanType(column: LogicalColumn): DataType {
    const type = valueType(column);
    if (DataType.isDecimal(type) && Math.abs(type.scale) > largestScale) {
        throw refuse("mean", column, `its scale is beyond ${largestScale} digits`);
    }
    if (DataType.isInt(type) || DataType.isFloat(type) || DataType.isDecimal(type)) return new Float64();
    throw refuse("mean", column, "only numbers have a mean here");
}

/**
 * Digits behind the point of a decimal whose mean is taken: the mean of its unscaled values is divided by that power of
 * ten. 0 for all other aggregates, which no scale changes.
 */
export function decimalScale(kind: AggregateKind, column: LogicalColumn | undefined): number {
    const type = kind === "mean" && column !== undefined ? valueType(column) : undefined;
    return DataType.isDecimal(type) ? type.scale : 0;
}

function checkComparable(kind: AggregateKind, column: LogicalColumn): void {
    const type = valueType(column);
    const values = column.type.layout === "dictionary" ? column.type.children[0] : column.type;
    if (values === undefined || isNested(values)) throw refuse(kind, column, "nested values have no order");
    if (DataType.isInterval(type)) throw refuse(kind, column, "intervals have no order");
    if (DataType.isNull(type)) throw refuse(kind, column, "it holds only NULLs");
}

/** Result field of an aggregate. NULL comes out where a group has no non-NULL value; counts are never NULL. */
export function aggregateField(kind: AggregateKind, column: LogicalColumn | undefined, alias: string): Field {
    if (kind === "countRows" || column === undefined) return new Field(alias, new Int64(), false);
    switch (kind) {
        case "count":
            return new Field(alias, new Int64(), false);
        case "countDistinct":
            if (isNested(column.type)) throw refuse(kind, column, "nested values cannot be compared");
            return new Field(alias, new Int64(), false);
        case "sum":
            return new Field(alias, sumType(column), true);
        case "mean":
            return new Field(alias, meanType(column), true);
        case "min":
        case "max":
            checkComparable(kind, column);
            return new Field(alias, column.field.type as DataType, true);
        case "first":
        case "any":
            return new Field(alias, column.field.type as DataType, true);
    }
}
