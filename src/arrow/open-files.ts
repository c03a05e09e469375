// SPDX-License-Identifier: Apache-2.0
import type { Field } from "apache-arrow";
import { Schema, type DataType } from "apache-arrow";

import { SpillwayError } from "../errors.js";
import { checkPath, invalidArgument, readArgument } from "../model/arguments.js";
import type { SourceLayout } from "../model/column-type.js";
import { columnTypeOf } from "./column-type-of.js";
import { fileLayout, type FileLayout } from "./file-layout.js";
import { corruptFile, readContents, type FileReader } from "./ipc-messages.js";
import { UnreadType } from "./metadata-check.js";
import { narrowNullability, sourceFacts, type SourceFacts } from "./source-facts.js";
import { typeText } from "./type-text.js";
import { withNames } from "./with-names.js";

/** A relation in files: where each buffer of each batch lies. */
export interface OpenedFiles {
    paths: readonly string[];
    schema: Schema;
    layout: SourceLayout;
    facts: SourceFacts;
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
    return corruptFile(path, error instanceof Error ? error.message : String(error), error);
}

async function openFile(path: string, file: number, firstDictionary: number, reader: FileReader): Promise<FileLayout> {
    try {
        const contents = await readContents(reader, path);
        if (contents.facts.bigEndian) {
            throw new SpillwayError(
                "UNSUPPORTED_TYPE",
                `'${path}' holds big-endian data, which cannot be read; rewrite it on a little-endian machine`,
                { path }
            );
        }
        return fileLayout(contents, path, file, firstDictionary);
    } catch (error) {
        throw fileError(path, error);
    }
}

/**
 * The first difference between two schemas in words, or undefined. Nullability and metadata may differ. `called`: what
 * the reader knows them by.
 */
export function schemaDifference(
    first: Schema,
    second: Schema,
    called: readonly [string, string] = ["the first", "the second"]
): string | undefined {
    const [one, other] = called;
    const [before, now] = [withNames(first).fields, withNames(second).fields];
    const count = Math.max(before.length, now.length);
    for (let i = 0; i < count; i++) {
        const l = before[i];
        const r = now[i];
        if (l === undefined) return `column ${i + 1} \`${r?.name}\` exists in ${other} only`;
        if (r === undefined) return `column ${i + 1} \`${l.name}\` exists in ${one} only`;
        if (l.name !== r.name) return `column ${i + 1} is called \`${l.name}\` in ${one} and \`${r.name}\` in ${other}`;
        const same =
            String(l.type) === String(r.type) && JSON.stringify(columnTypeOf(l)) === JSON.stringify(columnTypeOf(r));
        if (same) continue;
        const [a, b] = [typeText(l.type as DataType), typeText(r.type as DataType)];
        return `column \`${l.name}\` has type ${a} in ${one} and ${b} in ${other}`;
    }
    return undefined;
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
    if (schemas.length === 1) return first;
    const fields = first.fields.map((field: Field<DataType>, i) => {
        const nullable = schemas.some((schema) => schema.fields[i]?.nullable);
        return field.clone({ nullable });
    });
    return new Schema(fields, first.metadata, first.dictionaries);
}

/** Opens one or several Arrow IPC files as one relation: footers and message headers are read, rows are not. */
export async function openArrowFiles(path: unknown, reader: FileReader): Promise<OpenedFiles> {
    const paths = checkPaths(path);
    const files: FileLayout[] = [];
    let dictionaries = 0;
    for (const [index, name] of paths.entries()) {
        const file = await openFile(name, index, dictionaries, reader);
        dictionaries += file.dictionaries.length;
        const first = files[0];
        const difference = first === undefined ? undefined : schemaDifference(first.schema, file.schema);
        if (difference !== undefined) {
            throw new SpillwayError(
                "INVALID_ARGUMENT",
                `The files of one relation need one schema, but '${paths[0]}' and '${name}' differ: ${difference}`,
                { option: "path", path: name }
            );
        }
        files.push(file);
    }
    const schema = mergeSchemas(files.map((file) => file.schema));
    requireUniqueColumns(schema, `'${paths[0]}'`);
    const layout: SourceLayout = {
        columns: files[0]?.columns ?? [],
        paths,
        stamps: files.map((file) => file.stamp),
        batches: files.flatMap((file) => file.batches),
        dictionaries: files.flatMap((file) => file.dictionaries)
    };
    layout.columns = narrowNullability(layout);
    return { paths, schema, layout, facts: sourceFacts(layout) };
}
