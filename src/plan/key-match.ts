// SPDX-License-Identifier: Apache-2.0
import { DataType, DateUnit, IntervalUnit, TimeUnit } from "apache-arrow";

import { typeText } from "../arrow/type-text.js";
import { SpillwayError } from "../errors.js";
import { isNested, type KeySpec } from "../model/column-type.js";
import type { LogicalColumn } from "./logical.js";

/** Value part of a key specification: how a (decoded) value becomes comparable bytes. */
interface ValueKey {
    kind: KeySpec["kindOfValue"];
    width: number;
}

const decimalBytes = (type: { bitWidth: number }): number => type.bitWidth / 8;

/** Type of the values: a dictionary's value type, else the type itself. */
function valueType(column: LogicalColumn): DataType {
    const type = column.field.type as DataType;
    return DataType.isDictionary(type) ? (type.dictionary as DataType) : type;
}

function mismatch(left: LogicalColumn, right: LogicalColumn, advice: string): SpillwayError {
    return new SpillwayError(
        "KEY_TYPE_MISMATCH",
        `Key columns \`${left.name}\` (${typeText(left.field.type as DataType)}) and \`${right.name}\` ` +
            `(${typeText(right.field.type as DataType)}) cannot be compared; ${advice}`,
        {
            left: left.name,
            right: right.name,
            leftType: typeText(left.field.type as DataType),
            rightType: typeText(right.field.type as DataType)
        }
    );
}

// A query converts no column, so each text names the place where that can be done.
const whereMade = "where the table, file or batches are made";
const asInt64 = `an Int64, ${whereMade}`;
const floatsOfArrays =
    ". Arrow JS makes Float64 of an array of numbers: use Int32Array.of(1, 2) or vectorFromArray([1, 2], new Int32())";

function isText(type: DataType): boolean {
    return DataType.isUtf8(type) || DataType.isLargeUtf8(type) || DataType.isUtf8View(type);
}

function isBytes(type: DataType): boolean {
    return DataType.isBinary(type) || DataType.isLargeBinary(type) || DataType.isBinaryView(type);
}

/** How values of one column alone are normalized. */
function valueKey(column: LogicalColumn): ValueKey {
    const type = valueType(column);
    if (isText(type) || isBytes(type)) return { kind: "bytes", width: 0 };
    if (DataType.isBool(type)) return { kind: "integer", width: 1 };
    if (DataType.isInt(type)) return { kind: "integer", width: type.bitWidth / 8 };
    if (DataType.isFloat(type)) return { kind: "float", width: type.precision === 2 ? 8 : 4 };
    if (DataType.isDate(type)) return { kind: "integer", width: type.unit === DateUnit.DAY ? 4 : 8 };
    if (DataType.isTime(type)) return { kind: "integer", width: type.bitWidth / 8 };
    if (DataType.isTimestamp(type) || DataType.isDuration(type)) return { kind: "integer", width: 8 };
    if (DataType.isDecimal(type)) {
        return { kind: type.bitWidth > 64 ? "fixedBytes" : "integer", width: decimalBytes(type) };
    }
    if (DataType.isInterval(type)) return { kind: "fixedBytes", width: [4, 8, 16][type.unit] ?? 16 };
    if (DataType.isFixedSizeBinary(type)) return { kind: "fixedBytes", width: type.byteWidth };
    throw new SpillwayError(
        "UNSUPPORTED_TYPE",
        `Column \`${column.name}\` of type ${typeText(column.field.type as DataType)} cannot be a key; ` +
            (isNested(column.type)
                ? "use its fields as separate columns, or a serialized form"
                : "a key needs numbers, dates, text or bytes"),
        { column: column.name, type: typeText(column.field.type as DataType) }
    );
}

function matchIntegers(left: LogicalColumn, right: LogicalColumn): ValueKey | undefined {
    const l = valueType(left);
    const r = valueType(right);
    if (!DataType.isInt(l) || !DataType.isInt(r)) return undefined;
    if (l.isSigned === r.isSigned) return { kind: "integer", width: Math.max(l.bitWidth, r.bitWidth) / 8 };
    const [signed, unsigned] = l.isSigned ? [l, r] : [r, l];
    // The signed type must hold every unsigned value: one size up, and there is none above 64 bits.
    if (unsigned.bitWidth === 64) {
        const [column, side] = l.isSigned ? [right, "right"] : [left, "left"];
        throw mismatch(left, right, `no integer type holds both: make \`${column.name}\` of the ${side} ${asInt64}`);
    }
    return { kind: "integer", width: Math.max(signed.bitWidth, unsigned.bitWidth * 2) / 8 };
}

function requireEqual<T>(left: LogicalColumn, right: LogicalColumn, l: T, r: T, what: string): void {
    if (l !== r) throw mismatch(left, right, `their ${what} differ: make both alike, ${whereMade}`);
}

function matchTimes(left: LogicalColumn, right: LogicalColumn): boolean {
    const l = valueType(left);
    const r = valueType(right);
    if (DataType.isDate(l) && DataType.isDate(r)) {
        requireEqual(left, right, DateUnit[l.unit], DateUnit[r.unit], "units");
        return true;
    }
    if ((DataType.isTime(l) && DataType.isTime(r)) || (DataType.isDuration(l) && DataType.isDuration(r))) {
        requireEqual(left, right, TimeUnit[l.unit], TimeUnit[r.unit], "units");
        return true;
    }
    if (DataType.isTimestamp(l) && DataType.isTimestamp(r)) {
        requireEqual(left, right, TimeUnit[l.unit], TimeUnit[r.unit], "units");
        // Two zones mean the same instants; a zone against none means an instant against a wall clock.
        requireEqual(left, right, Boolean(l.timezone), Boolean(r.timezone), "kinds (with and without time zone)");
        return true;
    }
    if (DataType.isInterval(l) && DataType.isInterval(r)) {
        requireEqual(left, right, IntervalUnit[l.unit], IntervalUnit[r.unit], "units");
        return true;
    }
    return false;
}

function matchValues(left: LogicalColumn, right: LogicalColumn): ValueKey {
    const own = valueKey(left);
    const other = valueKey(right);
    const l = valueType(left);
    const r = valueType(right);
    const integers = matchIntegers(left, right);
    if (integers !== undefined) return integers;
    if (DataType.isFloat(l) && DataType.isFloat(r)) return { kind: "float", width: Math.max(own.width, other.width) };
    if ((isText(l) && isText(r)) || (isBytes(l) && isBytes(r))) return own;
    if (DataType.isBool(l) && DataType.isBool(r)) return own;
    if (matchTimes(left, right)) return own;
    if (DataType.isDecimal(l) && DataType.isDecimal(r)) {
        requireEqual(left, right, l.scale, r.scale, "scales");
        requireEqual(left, right, l.bitWidth, r.bitWidth, "widths");
        return own;
    }
    if (DataType.isFixedSizeBinary(l) && DataType.isFixedSizeBinary(r)) {
        requireEqual(left, right, l.byteWidth, r.byteWidth, "widths");
        return own;
    }
    const isNumber = (type: DataType): boolean => DataType.isInt(type) || DataType.isFloat(type);
    const hint = isNumber(l) && isNumber(r) ? floatsOfArrays : "";
    throw mismatch(left, right, `give both one type, ${whereMade}${hint}`);
}

function keySpec(column: LogicalColumn, index: number, value: ValueKey): KeySpec {
    const kind = column.type.layout === "dictionary" ? "dictionaryValue" : value.kind;
    return { column: index, kind, kindOfValue: value.kind, width: value.width };
}

/** Key specifications of two columns that are compared; refuses types whose equality would need a cast. */
export function matchKeys(
    left: LogicalColumn,
    leftIndex: number,
    right: LogicalColumn,
    rightIndex: number
): { left: KeySpec; right: KeySpec } {
    const value = matchValues(left, right);
    return { left: keySpec(left, leftIndex, value), right: keySpec(right, rightIndex, value) };
}

/** Key specification of a group-by column: dictionary indices are compared, never decoded. */
export function groupKey(column: LogicalColumn, index: number): KeySpec {
    const value = valueKey(column);
    if (column.type.layout === "dictionary") {
        return { column: index, kind: "dictionaryIndex", kindOfValue: value.kind, width: 4 };
    }
    return keySpec(column, index, value);
}
