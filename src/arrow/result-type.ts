// SPDX-License-Identifier: Apache-2.0
import type { Field } from "apache-arrow";
import {
    Binary,
    DataType,
    Dictionary,
    FixedSizeList,
    Int32,
    LargeList,
    List,
    Map_,
    Schema,
    Struct,
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

function resultType(type: DataType, ids: DictionaryIds): DataType {
    const child = (field: Field): Field => field.clone({ type: resultType(field.type as DataType, ids) });
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
    return type;
}

/**
 * The schema in which the engine delivers `fields`: views as Utf8 and Binary, dictionaries with Int32 indices and ids
 * 0, 1, ... in pre-order, so that columns of two relations never share an id by accident.
 */
export function resultSchema(fields: readonly Field[]): Schema {
    const ids = new DictionaryIds();
    return new Schema(fields.map((field) => field.clone({ type: resultType(field.type as DataType, ids) })));
}
