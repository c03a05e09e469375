// SPDX-License-Identifier: Apache-2.0
import {
    Binary,
    Bool,
    DataType,
    Date_,
    Decimal,
    Dictionary,
    Duration,
    Field,
    FixedSizeBinary,
    FixedSizeList,
    Float,
    Int,
    Int32,
    Interval,
    LargeBinary,
    LargeList,
    LargeUtf8,
    List,
    Map_,
    Null,
    Schema,
    Struct,
    Time,
    Timestamp,
    Union,
    Utf8
} from "apache-arrow";

/** Hands out dictionary ids that are unique inside one schema. */
class DictionaryIds {
    #next = 0;
    public take(): number {
        return this.#next++;
    }
}

/** A type without children of this copy of the library: its functions know no classes but their own. */
function ownScalar(type: DataType): DataType {
    if (type instanceof DataType) return type;
    const foreign: DataType = type;
    if (DataType.isNull(foreign)) return new Null();
    if (DataType.isBool(foreign)) return new Bool();
    if (DataType.isInt(foreign)) return new Int(foreign.isSigned, foreign.bitWidth);
    if (DataType.isFloat(foreign)) return new Float(foreign.precision);
    if (DataType.isDecimal(foreign)) return new Decimal(foreign.scale, foreign.precision, foreign.bitWidth);
    if (DataType.isDate(foreign)) return new Date_(foreign.unit);
    if (DataType.isTime(foreign)) return new Time(foreign.unit, foreign.bitWidth);
    if (DataType.isTimestamp(foreign)) return new Timestamp(foreign.unit, foreign.timezone);
    if (DataType.isInterval(foreign)) return new Interval(foreign.unit);
    if (DataType.isDuration(foreign)) return new Duration(foreign.unit);
    if (DataType.isFixedSizeBinary(foreign)) return new FixedSizeBinary(foreign.byteWidth);
    if (DataType.isUtf8(foreign)) return new Utf8();
    if (DataType.isLargeUtf8(foreign)) return new LargeUtf8();
    if (DataType.isBinary(foreign)) return new Binary();
    return new LargeBinary();
}

function withType({ name, nullable, metadata }: Field, type: DataType): Field {
    return new Field(name, type, nullable, metadata);
}

function resultType(type: DataType, ids: DictionaryIds): DataType {
    const child = (field: Field): Field => withType(field, resultType(field.type as DataType, ids));
    const first = (): Field => child(type.children[0] as Field);
    if (DataType.isUtf8View(type)) return new Utf8();
    if (DataType.isBinaryView(type)) return new Binary();
    // The order of a unified dictionary is the order of first appearance, so the promise of `isOrdered` ends here.
    if (DataType.isDictionary(type)) {
        const id = ids.take();
        return new Dictionary(resultType(type.dictionary, ids), new Int32(), id, false);
    }
    if (DataType.isList(type)) return new List(first());
    if (DataType.isLargeList(type)) return new LargeList(first());
    if (DataType.isMap(type)) return new Map_(first() as Field<Struct>, type.keysSorted);
    if (DataType.isFixedSizeList(type)) return new FixedSizeList(type.listSize, first());
    if (DataType.isStruct(type)) return new Struct(type.children.map(child));
    if (DataType.isUnion(type)) return new Union(type.mode, Array.from(type.typeIds), type.children.map(child));
    return ownScalar(type);
}

/**
 * The schema in which the engine delivers `fields`: views as Utf8 and Binary, dictionaries with Int32 indices and ids
 * 0, 1, ... in pre-order, so that columns of two relations never share an id by accident.
 */
export function resultSchema(fields: readonly Field[]): Schema {
    const ids = new DictionaryIds();
    return new Schema(fields.map((field) => withType(field, resultType(field.type as DataType, ids))));
}
