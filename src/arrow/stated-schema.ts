// SPDX-License-Identifier: Apache-2.0
import { DataType, Field, Schema } from "apache-arrow";

import { SpillwayError } from "../errors.js";
import { invalidArgument, nearestName, readArgument } from "../model/arguments.js";
import { requireUniqueColumns } from "./open-files.js";
import { sameType, typeDifference } from "./schema-difference.js";
import { typeText } from "./type-text.js";
import { checkFieldNames, withNames } from "./with-names.js";

const expected = "an Arrow schema, or an object of column types such as { id: new Int64() },";
// More would be no help with a file that is another one altogether.
const differencesMax = 12;

/** The columns that the caller says a file has: those of a schema, or of an object of types by column name. */
export function checkStatedSchema(value: unknown): readonly Field[] {
    return readArgument("schema", () => {
        if (typeof value !== "object" || value === null) throw invalidArgument("schema", expected, value);
        if (Array.isArray(value) || DataType.isDataType(value)) throw invalidArgument("schema", expected, value);
        const schema = Schema.isSchema(value)
            ? withNames(value)
            : withNames(
                  new Schema(
                      Object.entries(value).map(([name, type]: [string, unknown]) => {
                          if (DataType.isDataType(type)) return new Field(name, type, true);
                          throw invalidArgument(`schema.${name}`, "an Arrow type such as new Int64()", type);
                      })
                  )
              );
        checkFieldNames(schema.fields, "schema");
        requireUniqueColumns(schema, "The schema");
        return schema.fields;
    });
}

/** Refuses a file whose columns are not those that were stated, in any order, and names each difference. */
export function requireStatedSchema(stated: readonly Field[], file: Schema, path: string): void {
    const found = new Map(file.fields.map((field) => [field.name, field]));
    const wanted = new Set(stated.map(({ name }) => name));
    const differences: { column: string; text: string }[] = [];
    for (const field of stated) {
        const column = field.name;
        const own = found.get(column);
        if (own === undefined) {
            const near = nearestName(
                column,
                [...found.keys()].filter((name) => !wanted.has(name))
            );
            const hint = near === undefined ? "" : ` (did you mean \`${near}\`?)`;
            differences.push({ column, text: `column \`${column}\` is not in the file${hint}` });
        } else if (!sameType(field, own)) {
            const text = `column \`${column}\` ${typeDifference(field, own, ["`schema`", "the file"])}`;
            differences.push({ column, text });
        }
    }
    for (const { name, type } of file.fields) {
        if (wanted.has(name)) continue;
        differences.push({
            column: name,
            text: `column \`${name}\` (${typeText(type as DataType)}) is in the file only`
        });
    }
    const [first] = differences;
    if (first === undefined) return;
    const shown = differences.slice(0, differencesMax).map(({ text }) => text);
    if (differences.length > shown.length) shown.push(`and ${differences.length - shown.length} more`);
    throw new SpillwayError(
        "INVALID_ARGUMENT",
        `'${path}' does not have the columns that \`schema\` states: ${shown.join("; ")}. State them as they are in ` +
            "the file, or leave `schema` out",
        { option: "schema", path, column: first.column }
    );
}
