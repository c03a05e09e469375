// SPDX-License-Identifier: Apache-2.0
// Arrow files as tables of DuckDB, value by value: whole columns of a batch are copied into its vectors where their
// bytes are the same in both, and texts of more than 12 bytes one by one. Takes a few seconds for a gigabyte.
import bindings from "@duckdb/node-bindings";
import { DataType, RecordBatchReader } from "apache-arrow";
import { open } from "node:fs/promises";

const chunkRows = 2048;
/** Texts of at most so many bytes lie in the 16 bytes of their value. */
const inlineBytes = 12;

const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

/** Whole numbers by the number of their bits. */
const integers = { 8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT" };

function sqlType({ name, type }, members) {
    if (DataType.isInt(type)) return type.isSigned ? integers[type.bitWidth] : `U${integers[type.bitWidth]}`;
    if (DataType.isFloat(type) && type.precision === 2) return "DOUBLE";
    if (DataType.isDecimal(type) && type.precision <= 18) return `DECIMAL(${type.precision}, ${type.scale})`;
    if (DataType.isDate(type) && type.unit === 0) return "DATE";
    if (DataType.isUtf8(type)) return "VARCHAR";
    if (DataType.isDictionary(type)) return `ENUM (${[...members.get(name).keys()].map(quoted).join(", ")})`;
    throw new Error(`Column "${name}" has type ${type}, which is not loaded into DuckDB here.`);
}

const allRows = (rows, of) => {
    for (let row = 0; row < rows; row++) of(row);
};

function copyFixed(vector, values, begin, rows) {
    const width = values.BYTES_PER_ELEMENT;
    bindings.copy_data_to_vector(vector, 0, values.buffer, values.byteOffset + begin * width, rows * width);
}

/** Decimals of at most 18 digits have 64 bits in DuckDB, which are the lower half of Arrow's. */
function copyDecimals(vector, { values }, begin, rows) {
    const low = new Uint32Array(2 * rows);
    allRows(rows, (row) => {
        low[2 * row] = values[4 * (begin + row)];
        low[2 * row + 1] = values[4 * (begin + row) + 1];
    });
    copyFixed(vector, low, 0, 2 * rows);
}

function copyTexts(vector, { values, valueOffsets, isValid }, begin, rows) {
    const inline = new Uint8Array(16 * rows);
    const lengths = new Uint32Array(inline.buffer);
    const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
    const long = [];
    allRows(rows, (row) => {
        const from = valueOffsets[begin + row];
        const length = isValid(begin + row) ? valueOffsets[begin + row + 1] - from : 0;
        if (length > inlineBytes) return void long.push(row);
        lengths[4 * row] = length;
        for (let i = 0; i < length; i++) inline[16 * row + 4 + i] = bytes[from + i];
    });
    bindings.copy_data_to_vector(vector, 0, inline.buffer, 0, inline.byteLength);
    for (const row of long) {
        const [from, to] = [valueOffsets[begin + row], valueOffsets[begin + row + 1]];
        bindings.vector_assign_string_element(vector, row, bytes.utf8Slice(from, to));
    }
}

/** Entries of an enumeration have as few bytes as their number allows. */
function enumArray(count, rows) {
    if (count <= 2 ** 8) return new Uint8Array(rows);
    return count <= 2 ** 16 ? new Uint16Array(rows) : new Uint32Array(rows);
}

function copyCodes(vector, { values, dictionary, isValid }, members, begin, rows) {
    const codes = Array.from(dictionary, (text) => members.get(text));
    const copied = enumArray(members.size, rows);
    allRows(rows, (row) => (copied[row] = isValid(begin + row) ? codes[values[begin + row]] : 0));
    copyFixed(vector, copied, 0, rows);
}

function copyValidity(vector, isValid, begin, rows) {
    const bits = new Uint8Array(8 * Math.ceil(rows / 64)).fill(0xff);
    allRows(rows, (row) => {
        if (!isValid(begin + row)) bits[row >> 3] &= ~(1 << (row & 7));
    });
    bindings.vector_ensure_validity_writable(vector);
    bindings.copy_data_to_vector_validity(vector, 0, bits.buffer, 0, bits.byteLength);
}

/** A column of a batch with what tells its NULLs. */
function columnOf(data) {
    const { nullBitmap, nullCount, offset } = data;
    const hasNulls = nullCount > 0 && nullBitmap?.length > 0;
    const isValid = hasNulls
        ? (row) => (nullBitmap[(row + offset) >> 3] & (1 << ((row + offset) & 7))) !== 0
        : () => true;
    return { values: data.values, valueOffsets: data.valueOffsets, dictionary: data.dictionary, hasNulls, isValid };
}

function copyColumn(vector, { name, type }, column, members, begin, rows) {
    if (column.hasNulls) copyValidity(vector, column.isValid, begin, rows);
    if (DataType.isDictionary(type)) copyCodes(vector, column, members.get(name), begin, rows);
    else if (DataType.isUtf8(type)) copyTexts(vector, column, begin, rows);
    else if (DataType.isDecimal(type)) copyDecimals(vector, column, begin, rows);
    else copyFixed(vector, column.values, begin, rows);
}

function appendBatch(appender, logicalTypes, batch, members) {
    const columns = batch.data.children.map(columnOf);
    for (let begin = 0; begin < batch.numRows; begin += chunkRows) {
        const rows = Math.min(chunkRows, batch.numRows - begin);
        const chunk = bindings.create_data_chunk(logicalTypes);
        bindings.data_chunk_set_size(chunk, rows);
        for (const [index, field] of batch.schema.fields.entries()) {
            const vector = bindings.data_chunk_get_vector(chunk, index);
            copyColumn(vector, field, columns[index], members, begin, rows);
        }
        bindings.append_data_chunk(appender.appender, chunk);
    }
}

async function* batchesOf(path) {
    const handle = await open(path);
    try {
        const reader = await RecordBatchReader.from(handle);
        for await (const batch of reader) yield batch;
    } finally {
        await handle.close();
    }
}

async function schemaOf(path) {
    const handle = await open(path);
    try {
        const reader = await RecordBatchReader.from(handle);
        await reader.open();
        return reader.schema;
    } finally {
        await handle.close();
    }
}

/** Texts of each dictionary column with their codes: an enumeration wants them all before the first row. */
async function membersOf(path, schema) {
    const coded = schema.fields.filter(({ type }) => DataType.isDictionary(type));
    const members = new Map(coded.map(({ name }) => [name, new Map()]));
    if (coded.length === 0) return members;
    const seen = new Set();
    for await (const batch of batchesOf(path)) {
        for (const { name } of coded) {
            const { dictionary } = batch.data.children[schema.fields.findIndex((field) => field.name === name)];
            if (seen.has(dictionary)) continue;
            seen.add(dictionary);
            const codes = members.get(name);
            for (const text of dictionary) if (!codes.has(text)) codes.set(text, codes.size);
        }
    }
    return members;
}

/** Makes a table of an Arrow file. */
export async function loadArrowFile(connection, table, path) {
    const schema = await schemaOf(path);
    const members = await membersOf(path, schema);
    const columns = schema.fields.map((field) => `"${field.name}" ${sqlType(field, members)}`);
    await connection.run(`CREATE OR REPLACE TABLE ${table} (${columns.join(", ")})`);
    const appender = await connection.createAppender(table);
    const logicalTypes = schema.fields.map((_, index) => bindings.appender_column_type(appender.appender, index));
    for await (const batch of batchesOf(path)) appendBatch(appender, logicalTypes, batch, members);
    appender.closeSync();
}
