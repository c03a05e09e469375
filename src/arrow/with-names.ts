// SPDX-License-Identifier: Apache-2.0
import { DataType, Dictionary, Schema, type Field } from "apache-arrow";

import { checkWellFormed } from "../model/arguments.js";

// The name of a field is optional in the Arrow format: Arrow JS leaves an empty one out when it writes and gives null
// when it reads one that is not there. Everywhere else in this package a name is a string.

function isNamed(field: Field): boolean {
    return typeof (field.name as unknown) === "string" && areNamed(childFields(field.type as DataType));
}

function areNamed(fields: readonly Field[]): boolean {
    return fields.every(isNamed);
}

/** Also of the values of a dictionary, which says so itself; scalars have null or nothing there. */
function childFields(type: DataType): readonly Field[] {
    return (type.children as readonly Field[] | null | undefined) ?? [];
}

function namedType(type: DataType): DataType {
    if (areNamed(childFields(type))) return type;
    if (DataType.isDictionary(type)) {
        return new Dictionary(namedType(type.dictionary as DataType), type.indices, type.id, type.isOrdered);
    }
    // The same type in every other respect: its class, its units, its type ids.
    const copy = Object.create(Object.getPrototypeOf(type) as object) as DataType;
    return Object.assign(copy, type, { children: childFields(type).map(namedField) });
}

function namedField(field: Field): Field {
    if (isNamed(field)) return field;
    const name = (field.name as string | null | undefined) ?? "";
    return field.clone({ name, type: namedType(field.type as DataType) });
}

/** The same schema, whose fields without a name are called "" on every level. */
export function withNames(schema: Schema): Schema {
    if (areNamed(schema.fields)) return schema;
    const dictionaries = new Map([...schema.dictionaries].map(([id, type]) => [id, namedType(type)] as const));
    return new Schema(schema.fields.map(namedField), schema.metadata, dictionaries, schema.metadataVersion);
}

/** Names on every level are text that Arrow files can hold. `option`: what the fields were given as. */
export function checkFieldNames(fields: readonly Field[], option: string): void {
    for (const field of fields) {
        checkWellFormed(field.name, option, "the names of columns");
        checkFieldNames(childFields(field.type as DataType), option);
    }
}
