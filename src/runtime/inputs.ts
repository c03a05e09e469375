// SPDX-License-Identifier: Apache-2.0
import { basename } from "node:path";

import { Schema, type RecordBatch, type Table } from "apache-arrow";

import { columnTypeOf } from "../arrow/column-type-of.js";
import { memoryLayout, recordBatchesOf } from "../arrow/memory-layout.js";
import { requireUniqueColumns, type OpenedFiles } from "../arrow/open-files.js";
import { readingFailure } from "../arrow/reading-failure.js";
import { schemaDifference } from "../arrow/schema-difference.js";
import { streamColumnTypes } from "../arrow/stream-dictionaries.js";
import { narrowNullability, sourceFacts, type SourceFacts } from "../arrow/source-facts.js";
import { checkFieldNames, withNames } from "../arrow/with-names.js";
import { SpillwayError } from "../errors.js";
import { invalidArgument, readArgument } from "../model/arguments.js";
import type { ColumnType, KeptMemory, SourceLayout } from "../model/column-type.js";
import type { InputInfo, InputSource, LogicalColumn } from "../plan/logical.js";
import { defaultPolicy } from "../planner/policy.js";

/** The engine reads a description that cannot change once (native/addon/decode/column_type.cpp). */
function freezeType(type: ColumnType): void {
    Object.freeze(type.typeIds);
    for (const child of type.children) freezeType(child);
    Object.freeze(type.children);
    Object.freeze(type);
}

function makeInput(
    name: string,
    schema: Schema,
    types: readonly ColumnType[],
    facts: SourceFacts,
    where: { inMemory: boolean; streamed: boolean },
    source: InputSource
): InputInfo {
    const columns: LogicalColumn[] = [];
    const input: InputInfo = { name, columns, ...facts, ...where, source };
    schema.fields.forEach((field, column) => {
        const type = types[column] as ColumnType;
        freezeType(type);
        columns.push({ name: field.name, field, type, origin: { input, column } });
    });
    return input;
}

/** A relation of Arrow files. */
export function fileInput(files: OpenedFiles, name: string | undefined): InputInfo {
    const { schema, layout, facts, paths } = files;
    const more = paths.length > 1 ? ` + ${paths.length - 1} more` : "";
    const shown = name ?? basename(paths[0] ?? "") + more;
    const source = { kind: "layout", schema, layout } as const;
    return makeInput(shown, schema, layout.columns, facts, { inMemory: false, streamed: false }, source);
}

function layoutOf(schema: Schema, batches: readonly RecordBatch[], kept: KeptMemory): SourceLayout {
    try {
        const types = schema.fields.map((field) => columnTypeOf(field));
        const layout = memoryLayout(types, batches, kept);
        return { ...layout, columns: narrowNullability(layout) };
    } catch (error) {
        if (error instanceof SpillwayError) throw error;
        const message = `The table cannot be read: ${readingFailure(error)}`;
        throw new SpillwayError("INVALID_ARGUMENT", message, { option: "table" }, error);
    }
}

/** A relation of a table or record batches in memory. */
export function memoryInput(table: unknown, name: string, kept: KeptMemory): InputInfo {
    return readArgument("table", () => tableInput(table, name, kept));
}

function tableInput(table: unknown, name: string, kept: KeptMemory): InputInfo {
    const found = recordBatchesOf(table);
    if (found === undefined) {
        throw invalidArgument("table", "an Arrow table, a record batch or a non-empty array of them", table);
    }
    const { batches } = found;
    const schema = withNames(found.schema);
    checkFieldNames(schema.fields, "table");
    requireUniqueColumns(schema, "The table");
    let compared: Schema | undefined; // many batches have one
    for (const [index, batch] of batches.entries()) {
        if (batch.schema === compared) continue;
        compared = batch.schema;
        const difference = schemaDifference(schema, batch.schema);
        if (difference === undefined) continue;
        throw new SpillwayError(
            "INVALID_ARGUMENT",
            `The record batches of one relation need one schema, but batches 0 and ${index} differ: ${difference}`,
            { option: "table" }
        );
    }
    const layout = layoutOf(schema, batches, kept);
    const source = { kind: "layout", schema, layout } as const;
    return makeInput(name, schema, layout.columns, sourceFacts(layout), { inMemory: true, streamed: false }, source);
}

/** A relation of batches that arrive one after the other. */
export function streamInput(
    stated: unknown,
    open: () => AsyncIterable<RecordBatch | Table>,
    name: string,
    rows: number | undefined
): InputInfo {
    const { schema, types } = readArgument("schema", () => {
        if (!Schema.isSchema(stated)) throw invalidArgument("schema", "an Arrow schema", stated);
        const named = withNames(stated);
        checkFieldNames(named.fields, "schema");
        requireUniqueColumns(named, "The schema");
        return { schema: named, types: streamColumnTypes(named) };
    });
    const none = types.map(() => 0);
    const facts = {
        rows: rows ?? defaultPolicy.unknownRows,
        columnBytes: none,
        dictionaryBytes: none,
        dictionaryRows: none,
        largestBatchRows: 0
    };
    return makeInput(name, schema, types, facts, { inMemory: false, streamed: true }, { kind: "stream", schema, open });
}
