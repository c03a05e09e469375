// SPDX-License-Identifier: Apache-2.0
import type { Field } from "apache-arrow";
import { DataType, Schema } from "apache-arrow";

import { SpillwayError } from "../errors.js";
import { checkPath, invalidArgument, readArgument } from "../model/arguments.js";
import type { ColumnType, SourceLayout } from "../model/column-type.js";
import type { FileToScan } from "../model/files.js";
import { columnTypeOf } from "./column-type-of.js";
import { corruptFile, readSchema, type FileReader } from "./ipc-messages.js";
import { UnreadType } from "./metadata-check.js";
import { readingFailure } from "./reading-failure.js";
import { schemaDifference } from "./schema-difference.js";
import { fileFacts, withNullability, type SourceFacts } from "./source-facts.js";
import { withNames } from "./with-names.js";

/** A relation in files. */
export interface OpenedFiles {
    paths: readonly string[];
    schema: Schema;
    layout: SourceLayout;
    facts: SourceFacts;
    /** What is taken of the budget as long as the relation is there. */
    heldBytes: number;
}

/** One path or several, as strings. */
export function checkPaths(value: unknown): string[] {
    return readArgument("path", () => {
        const list: unknown[] = Array.isArray(value) ? value : [value];
        if (list.length === 0) throw invalidArgument("path", "at least one file", value);
        return list.map((path, index) => {
            return checkPath(path, Array.isArray(value) ? `path[${index}]` : "path", "the path of an Arrow file");
        });
    });
}

/** Anything that went wrong while reading `path`, with the path in it. */
function fileError(path: string, error: unknown): SpillwayError {
    if (error instanceof UnreadType) {
        const { column, type, wayOut } = error;
        const message = `Column \`${column}\` of '${path}' has type ${type}, which cannot be read; ${wayOut}`;
        return new SpillwayError("UNSUPPORTED_TYPE", message, { path, column, type }, error);
    }
    if (error instanceof SpillwayError) {
        if ("path" in error.details) return error;
        return new SpillwayError(error.code, `'${path}': ${error.message}`, { ...error.details, path }, error);
    }
    // Whatever else Arrow JS throws means metadata that it cannot make sense of.
    return corruptFile(path, readingFailure(error), error);
}

/** Ids of the dictionary nodes of fields, in pre-order. */
function dictionaryIds(fields: readonly Field[]): number[] {
    return fields.flatMap((field) => {
        const type = field.type as DataType;
        return DataType.isDictionary(type) ? [type.id] : dictionaryIds(type.children ?? []);
    });
}

interface OpenedSchema {
    schema: Schema;
    columns: ColumnType[];
    file: FileToScan;
}

async function openSchema(path: string, reader: FileReader): Promise<OpenedSchema> {
    try {
        const { schema: found, facts, format, stamp, begin } = await readSchema(reader, path);
        if (facts.bigEndian) {
            throw new SpillwayError(
                "UNSUPPORTED_TYPE",
                `'${path}' holds big-endian data, which cannot be read; rewrite it on a little-endian machine`,
                { path }
            );
        }
        const schema = withNames(found);
        const columns = schema.fields.map((field) => columnTypeOf(field));
        const { hasUnion } = facts;
        const file = { path, stamp, format, begin, hasUnion, dictionaryIds: dictionaryIds(schema.fields) };
        return { schema, columns, file };
    } catch (error) {
        throw fileError(path, error);
    }
}

export function requireUniqueColumns(schema: Schema, where: string): void {
    const names = schema.fields.map((field) => field.name);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice === undefined) return;
    throw new SpillwayError("DUPLICATE_COLUMN", `${where} has two columns \`${twice}\`; rename one of them`, {
        column: twice
    });
}

/** First schema, with each column nullable if any file says so. */
function mergeSchemas(schemas: readonly Schema[]): Schema {
    const [first] = schemas as [Schema];
    const fields = first.fields.map((field: Field<DataType>, i) => {
        const nullable = schemas.some((schema) => schema.fields[i]?.nullable);
        return field.clone({ nullable });
    });
    return new Schema(fields, first.metadata, first.dictionaries, first.metadataVersion);
}

/** Opens one or several Arrow IPC files as one relation: footers and message headers are read, rows are not. */
export async function openArrowFiles(path: unknown, reader: FileReader): Promise<OpenedFiles> {
    const paths = checkPaths(path);
    const files: OpenedSchema[] = [];
    for (const name of paths) {
        const file = await openSchema(name, reader);
        const first = files[0];
        const difference = first === undefined ? undefined : schemaDifference(first.schema, file.schema);
        if (difference !== undefined) {
            throw new SpillwayError(
                "INVALID_ARGUMENT",
                `The files of one relation need one schema, but '${paths[0]}' and '${name}' differ: ${difference}; ` +
                    "write one of them anew with the columns and types of the other",
                { option: "path", path: name }
            );
        }
        files.push(file);
    }
    const schema = mergeSchemas(files.map((file) => file.schema));
    requireUniqueColumns(schema, `'${paths[0]}'`);
    const [{ columns }] = files as [OpenedSchema];
    const opened = await reader.batches({ columns, files: files.map(({ file }) => file) });
    const layout: SourceLayout = {
        columns: withNullability(columns, opened.nodeHasNulls),
        batches: [],
        dictionaries: [],
        files: opened.batches,
        links: []
    };
    return { paths, schema, layout, facts: fileFacts(opened), heldBytes: opened.heldBytes };
}
