// SPDX-License-Identifier: Apache-2.0
import type { Data, RecordBatch, Table, TypeMap, Vector, DataType } from "apache-arrow";

import { childrenOf, recordBatchesOf } from "../arrow/memory-layout.js";
import { SpillwayError } from "../errors.js";
import { checkInteger, invalidArgument, readArgument } from "../model/arguments.js";
import type { PlainJson, PlainRow, PlainValue } from "./plain-types.js";
import { dataReader, Items, LongText, type LazyValue, type Members, type Reader } from "./readers.js";

function wholeText(value: LongText): string {
    try {
        return [...value.pieces()].join("");
    } catch (error) {
        throw new SpillwayError(
            "UNSUPPORTED_TYPE",
            `A value of ${value.bytes.byteLength} bytes is longer than a JavaScript string may be; ` +
                "read the bytes of the Arrow column itself",
            { valueBytes: value.bytes.byteLength },
            error
        );
    }
}

/** Sets a property of that name, whatever the name: a mere assignment to `__proto__` would change the prototype. */
function setProperty(object: Record<string, PlainJson>, name: string, value: PlainJson): void {
    if (Object.hasOwn(object, name)) {
        throw new SpillwayError(
            "DUPLICATE_COLUMN",
            `Two values are called \`${name}\`, which no object of JavaScript can hold; rename one of them, ` +
                "or read the columns one by one with plainValue",
            { column: name }
        );
    }
    if (name !== "__proto__") object[name] = value;
    else Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

function membersJson(members: Members): PlainJson {
    const at = (index: number): PlainJson => plainJson(members.value(index));
    if (members.kind === "map") {
        return Array.from({ length: members.length }, (_, index) => [plainJson(members.name(index)), at(index)]);
    }
    const object: Record<string, PlainJson> = {};
    for (let index = 0; index < members.length; index++) {
        setProperty(object, String(members.name(index) ?? ""), at(index));
    }
    return object;
}

/** What JSON holds without a loss: JSON.stringify refuses a BigInt and turns NaN into null. */
function plainJson(value: LazyValue): PlainJson {
    switch (typeof value) {
        case "bigint":
            return value.toString();
        case "number":
            return Number.isFinite(value) ? value : String(value);
        case "object":
            if (value === null) return null;
            if (value instanceof LongText) return wholeText(value);
            if (value instanceof Items) {
                return Array.from({ length: value.length }, (_, index) => plainJson(value.item(index)));
            }
            return membersJson(value);
        default:
            return value;
    }
}

// plainValue is called for one row after the other of the same arrays, so that these have their reader in a property.
// A WeakMap might keep them beyond young collections, as execute/read-batches.ts says.
const readerKey = Symbol("reader");

function readerOf(data: Data & { [readerKey]?: Reader }): Reader {
    const known = data[readerKey];
    if (known !== undefined) return known;
    const reader = dataReader(data);
    if (Object.isExtensible(data)) Object.defineProperty(data, readerKey, { value: reader });
    return reader;
}

/** The arrays of a vector of any copy of Arrow JS. */
function arraysOf(vector: unknown): readonly Data[] {
    const data: unknown = readArgument("vector", () => (vector as { data?: unknown } | null | undefined)?.data);
    const isData = (value: unknown): boolean => typeof value === "object" && value !== null && "nullCount" in value;
    const isVector = !("schema" in Object(vector)) && Array.isArray(data) && data.every(isData);
    if (isVector) return data as readonly Data[];
    throw invalidArgument("vector", 'a vector, such as table.getChild("price")', vector);
}

/**
 * One value of a column as JavaScript has it, exactly, and as `JSON.stringify` takes it: decimals and 64-bit integers
 * as text, dates and times in ISO 8601 with all digits of their unit, lists as arrays; see {@link PlainValue}. NULL is
 * null. Throws INVALID_ARGUMENT for an index beyond the vector.
 */
export function plainValue<D extends DataType>(vector: Vector<D>, index: number): PlainValue<D> {
    const arrays = arraysOf(vector);
    const rows = arrays.reduce((sum, { length }) => sum + length, 0);
    if (rows === 0) throw invalidArgument("index", "a vector with rows", index);
    let row = checkInteger(index, "index", 0, rows - 1);
    for (const data of arrays) {
        if (row < data.length) return plainJson(readerOf(data)(row)) as PlainValue<D>;
        row -= data.length;
    }
    return null;
}

function batchRows(batch: RecordBatch, rows: Record<string, PlainJson>[]): void {
    const arrays = childrenOf(batch.data);
    const columns = batch.schema.fields.map(({ name }: { name: string | null }, column) => {
        const data = arrays[column];
        const read = data === undefined ? (): null => null : dataReader(data); // those made up hold NULLs
        return { name: name ?? "", read };
    });
    for (let row = 0; row < batch.numRows; row++) {
        const object: Record<string, PlainJson> = {};
        for (const { name, read } of columns) setProperty(object, name, plainJson(read(row)));
        rows.push(object);
    }
}

/**
 * The rows of a table or record batch as plain objects, which `JSON.stringify` and `console.table` take: each column
 * by its name, each value as {@link plainValue} gives it. Columns come in their order, but for names such as "1", which
 * JavaScript puts first in every object. Takes all rows at once: use `table.slice(0, 10)` for the first ones, and one
 * batch after the other for a result that is large.
 */
export function plainRows<T extends TypeMap>(rows: Table<T> | RecordBatch<T>): PlainRow<T>[] {
    const found = Array.isArray(rows) ? undefined : readArgument("rows", () => recordBatchesOf(rows));
    if (found === undefined) throw invalidArgument("rows", "an Arrow table or a record batch", rows);
    const objects: Record<string, PlainJson>[] = [];
    for (const batch of found.batches) batchRows(batch, objects);
    return objects as PlainRow<T>[];
}
