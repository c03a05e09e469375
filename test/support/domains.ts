// SPDX-License-Identifier: Apache-2.0
// Values to draw from for each Arrow type, edges of its range first, and random types.
import type { Int } from "apache-arrow";
import {
    Binary,
    BinaryView,
    Bool,
    DataType,
    DateDay,
    DateMillisecond,
    Decimal,
    DenseUnion,
    Dictionary,
    DurationMicrosecond,
    Field,
    FixedSizeBinary,
    FixedSizeList,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    IntervalDayTime,
    IntervalMonthDayNano,
    IntervalYearMonth,
    LargeBinary,
    LargeList,
    LargeUtf8,
    List,
    Map_,
    Null,
    SparseUnion,
    Struct,
    TimeMicrosecond,
    TimeMillisecond,
    TimestampMillisecond,
    TimestampNanosecond,
    TimestampSecond,
    Type,
    Uint16,
    Uint32,
    Uint64,
    Uint8,
    Utf8,
    Utf8View,
    type FixedSizeList as FixedSizeListType
} from "apache-arrow";
import type { PlainValue } from "./arrow-data.js";
import { fixedWidth } from "./cells.js";
import type { Random } from "./random.js";

const integers = () => [
    ...[new Int8(), new Int16(), new Int32(), new Int64()],
    ...[new Uint8(), new Uint16(), new Uint32(), new Uint64()]
];

/** Types a key column can have; two relations of a join may hold the same values in any one `family`. */
export const keyTypes: Record<string, () => DataType[]> = {
    signed: () => [new Int32(), new Int64(), new Int16(), new Int8()],
    unsigned: () => [new Uint32(), new Uint64(), new Uint16(), new Uint8()],
    bool: () => [new Bool()],
    float: () => [new Float64(), new Float32()],
    date: () => [new DateDay()],
    dateMillisecond: () => [new DateMillisecond()],
    time: () => [new TimeMillisecond()],
    timeMicrosecond: () => [new TimeMicrosecond()],
    timestampSecond: () => [new TimestampSecond()],
    timestampNanosecond: () => [new TimestampNanosecond()],
    timestampZone: () => [new TimestampMillisecond("Europe/Berlin")],
    duration: () => [new DurationMicrosecond()],
    decimal: () => [new Decimal(2, 20, 128)],
    decimalWide: () => [new Decimal(5, 50, 256)],
    fixedSizeBinary: () => [new FixedSizeBinary(6)],
    fixedSizeBinaryWide: () => [new FixedSizeBinary(24)],
    text: () => [new Utf8(), new LargeUtf8(), new Utf8View(), dictionaryOf(new Utf8()), dictionaryOf(new LargeUtf8())],
    binary: () => [new Binary(), new LargeBinary(), new BinaryView()],
    dictionaryOfIntegers: () => [dictionaryOf(new Int64())]
};

export function dictionaryOf(value: DataType, indices: Int = new Int32()): Dictionary {
    return new Dictionary(value as never, indices as never);
}

const scalarTypes = (): DataType[] => [
    ...integers(),
    ...Object.values(keyTypes).flatMap((family) => family()),
    ...[new IntervalYearMonth(), new IntervalDayTime(), new IntervalMonthDayNano(), new Null()],
    dictionaryOf(new Utf8(), new Uint8())
];

/** Any type a payload column can have; nested types contain types of less depth. */
export function randomType(random: Random, depth = 2): DataType {
    if (depth === 0 || random.chance(0.6)) return random.pick(scalarTypes());
    const inner = () => randomType(random, depth - 1);
    const field = (name: string) => new Field(name, inner(), true);
    switch (random.below(7)) {
        case 0:
            return new List(field("item"));
        case 1:
            return new LargeList(field("item"));
        case 2:
            return new FixedSizeList(random.between(1, 3), field("item"));
        case 3:
            return new Struct([field("x"), field("y")]);
        case 4: {
            const entries = new Struct([new Field("key", new Utf8(), false), field("value")]);
            return new Map_(new Field("entries", entries as never, false));
        }
        case 5:
            return new DenseUnion([3, 5], [field("one"), field("two")]);
        default:
            return new SparseUnion([0, 1], [field("one"), field("two")]);
    }
}

function integerValue(random: Random, bits: number, signed: boolean): bigint {
    const low = signed ? -(1n << BigInt(bits - 1)) : 0n;
    const high = low + (1n << BigInt(bits)) - 1n;
    const edges = [0n, 1n, low, high, high - 1n, signed ? -1n : 2n];
    if (random.chance(0.15)) return random.pick(edges);
    // Small numbers half of the time: dense keys are the common case and overlap between the relations.
    if (random.chance(0.5)) return BigInt(random.between(signed ? -60 : 0, 60));
    return BigInt.asUintN(bits, random.bits64()) + low;
}

function textValue(random: Random): string {
    const letters = ["a", "b", "Z", "0", " ", '"', "ä", "漢", "😀", "\u0000", "%"];
    const length = random.chance(0.1) ? 0 : random.between(1, random.chance(0.2) ? 40 : 9);
    return Array.from({ length }, () => random.pick(letters)).join("");
}

function floatValue(random: Random): number {
    if (random.chance(0.2)) return random.pick([0, -0, NaN, Infinity, -Infinity, 1, -1]);
    // Quarters: sums of a few thousand of them are exact in any order, in float32 columns too.
    return random.between(-4000, 4000) / 4;
}

/** Time of day, inside the range that the type allows. */
const dayUnits: Record<number, bigint> = { 0: 86_400n, 1: 86_400_000n, 2: 86_400_000_000n, 3: 86_400_000_000_000n };

function fixedValue(random: Random, type: DataType, width: number): PlainValue {
    if (DataType.isFloat(type)) return floatValue(random);
    if (DataType.isInt(type)) return integerValue(random, width * 8, type.isSigned);
    if (DataType.isDecimal(type)) {
        const limit = 10n ** BigInt(Math.min(type.precision, 17));
        return random.chance(0.5) ? BigInt(random.between(-200, 200)) : (random.bits64() % limit) - limit / 2n;
    }
    if (DataType.isTime(type)) return random.bits64() % dayUnits[type.unit]!;
    if (DataType.isFixedSizeBinary(type) || DataType.isInterval(type)) return random.bytes(width);
    if (DataType.isDate(type) && type.unit !== 0) return BigInt(random.between(-30_000, 30_000)) * 86_400_000n;
    if (DataType.isDate(type)) return BigInt(random.between(-100_000, 100_000));
    // Timestamps and durations: within a century or so in any unit, negative too.
    return BigInt(random.between(-2_000_000_000, 2_000_000_000));
}

function nestedValue(random: Random, type: DataType): PlainValue {
    const child = (index: number): PlainValue =>
        random.chance(0.15) ? null : randomValue(random, type.children[index]!.type);
    const items = (count: number) => Array.from({ length: count }, () => child(0));
    switch (type.typeId) {
        case Type.FixedSizeList:
            return items((type as FixedSizeListType).listSize);
        case Type.Struct:
            return type.children.map((_, index) => child(index));
        case Type.Map: {
            const valueType = type.children[0]!.type.children[1]!.type;
            const value = () => (random.chance(0.15) ? null : randomValue(random, valueType));
            return Array.from({ length: random.below(4) }, (_, index) => [`k${index}`, value()]);
        }
        case Type.Union: {
            const index = random.below(type.children.length);
            return [index, child(index)];
        }
        default:
            return items(random.below(5));
    }
}

/** Arrow JS 21 writes the views of a sliced column wrongly (the offset counts twice): not for files of many batches. */
export function hasViews(type: DataType): boolean {
    const children = DataType.isDictionary(type) ? [] : (type.children ?? []);
    const view = type.typeId === Type.Utf8View || type.typeId === Type.BinaryView;
    return view || children.some((field) => hasViews(field.type));
}

/** A value of the type; never null, except for the Null type. */
export function randomValue(random: Random, type: DataType): PlainValue {
    const width = fixedWidth(type);
    if (width !== null) return fixedValue(random, type, width);
    if (DataType.isNull(type)) return null;
    if (DataType.isBool(type)) return random.chance(0.5);
    if (DataType.isUtf8(type) || DataType.isLargeUtf8(type) || DataType.isUtf8View(type)) return textValue(random);
    if (DataType.isBinary(type) || DataType.isLargeBinary(type) || DataType.isBinaryView(type)) {
        return random.bytes(random.below(random.chance(0.2) ? 40 : 10));
    }
    if (DataType.isDictionary(type)) return randomValue(random, type.dictionary as DataType);
    return nestedValue(random, type);
}

/** Does the value fit the type? Domains are made for one type and used for narrower ones of the same family. */
export function fits(type: DataType, value: PlainValue): boolean {
    if (!DataType.isInt(type) || value === null) return true;
    const number = value as bigint;
    return (type.isSigned ? BigInt.asIntN(type.bitWidth, number) : BigInt.asUintN(type.bitWidth, number)) === number;
}
