// SPDX-License-Identifier: Apache-2.0
// Arrow files as tables of DuckDB, value by value. Columns whose bytes are the same in both are copied whole, texts of
// more than 12 bytes one by one.
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
    if (DataType.isBool(type)) return "BOOLEAN";
    if (DataType.isUtf8(type)) return "VARCHAR";
    // A file without rows may have no dictionary, and an enumeration has a text at least.
    if (DataType.isDictionary(type) && members.length === 0) return "VARCHAR";
    if (DataType.isDictionary(type)) return `ENUM (${members.map(quoted).join(", ")})`;
    throw new Error(`Column "${name}" has type ${type}, which is not loaded into DuckDB here.`);
}

function copyFixed(vector, values, begin, rows) {
    const width = values.BYTES_PER_ELEMENT;
    bindings.copy_data_to_vector(vector, 0, values.buffer, values.byteOffset + begin * width, rows * width);
}

/** Decimals of at most 18 digits have 64 bits in DuckDB, which are the lower half of Arrow's. */
function copyDecimals(vector, { values }, begin, rows) {
    const low = new Uint32Array(2 * rows);
    for (let row = 0, at = 4 * begin; row < rows; row++, at += 4) {
        low[2 * row] = values[at];
        low[2 * row + 1] = values[at + 1];
    }
    copyFixed(vector, low, 0, 2 * rows);
}

/** DuckDB has a byte for each, Arrow a bit. */
function copyBools(vector, { values, offset }, begin, rows) {
    const bytes = new Uint8Array(rows);
    for (let row = 0, bit = offset + begin; row < rows; row++, bit++) bytes[row] = (values[bit >> 3] >> (bit & 7)) & 1;
    copyFixed(vector, bytes, 0, rows);
}

function copyTexts(vector, { values, valueOffsets, isValid }, begin, rows) {
    const inline = new Uint8Array(16 * rows);
    const lengths = new Uint32Array(inline.buffer);
    const long = [];
    for (let row = 0; row < rows; row++) {
        const from = valueOffsets[begin + row];
        const length = isValid(begin + row) ? valueOffsets[begin + row + 1] - from : 0;
        if (length > inlineBytes) {
            long.push(row);
            continue;
        }
        lengths[4 * row] = length;
        for (let i = 0; i < length; i++) inline[16 * row + 4 + i] = values[from + i];
    }
    bindings.copy_data_to_vector(vector, 0, inline.buffer, 0, inline.byteLength);
    const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
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

function copyCodes(vector, { values, isValid, codes, members }, begin, rows) {
    const copied = enumArray(members.length, rows);
    for (let row = 0; row < rows; row++) copied[row] = isValid(begin + row) ? codes[values[begin + row]] : 0;
    copyFixed(vector, copied, 0, rows);
}

function copyValidity(vector, { isValid }, begin, rows) {
    const bits = new Uint8Array(8 * Math.ceil(rows / 64)).fill(0xff);
    for (let row = 0; row < rows; row++) if (!isValid(begin + row)) bits[row >> 3] &= ~(1 << (row & 7));
    bindings.vector_ensure_validity_writable(vector);
    bindings.copy_data_to_vector_validity(vector, 0, bits.buffer, 0, bits.byteLength);
}

function copierOf(type) {
    if (DataType.isDictionary(type)) return copyCodes;
    if (DataType.isUtf8(type)) return copyTexts;
    if (DataType.isDecimal(type)) return copyDecimals;
    if (DataType.isBool(type)) return copyBools;
    return (vector, { values }, begin, rows) => copyFixed(vector, values, begin, rows);
}

const alwaysValid = () => true;

/** A column of a batch, with what tells its NULLs and which entry of an enumeration each code of a dictionary is. */
function columnOf({ name, type }, data, members) {
    const { values, valueOffsets, nullBitmap, nullCount, offset, dictionary } = data;
    const hasNulls = nullCount > 0 && nullBitmap?.length > 0;
    const isValid = hasNulls
        ? (row) => (nullBitmap[(row + offset) >> 3] & (1 << ((row + offset) & 7))) !== 0
        : alwaysValid;
    const column = { values, valueOffsets, offset, hasNulls, isValid, copy: copierOf(type) };
    if (!DataType.isDictionary(type)) return column;
    const places = new Map(members[name].map((text, place) => [text, place]));
    return { ...column, members: members[name], codes: Array.from(dictionary, (text) => places.get(text)) };
}

function appendBatch(appender, logicalTypes, batch, members) {
    const columns = batch.schema.fields.map((field, index) => columnOf(field, batch.data.children[index], members));
    for (let begin = 0; begin < batch.numRows; begin += chunkRows) {
        const rows = Math.min(chunkRows, batch.numRows - begin);
        const chunk = bindings.create_data_chunk(logicalTypes);
        bindings.data_chunk_set_size(chunk, rows);
        for (const [index, column] of columns.entries()) {
            const vector = bindings.data_chunk_get_vector(chunk, index);
            if (column.hasNulls) copyValidity(vector, column, begin, rows);
            column.copy(vector, column, begin, rows);
        }
        bindings.append_data_chunk(appender.appender, chunk);
    }
}

/** Calls `use` with an open reader of an Arrow file. */
async function withReader(path, use) {
    const handle = await open(path);
    try {
        const reader = await RecordBatchReader.from(handle);
        await reader.open();
        if (!reader.isFile()) throw new Error(`${path} is a stream; the suite reads Arrow files.`);
        return await use(reader);
    } finally {
        await handle.close();
    }
}

/**
 * What a table of an Arrow file is made with: its columns in SQL, the texts of each dictionary, which are known when
 * the file is opened, and the number of its batches.
 */
export async function tableShape(path) {
    return await withReader(path, async (reader) => {
        const members = {};
        for (const { name, type } of reader.schema.fields) {
            if (!DataType.isDictionary(type)) continue;
            const texts = new Set(reader.dictionaries.get(type.id) ?? []);
            members[name] = [...texts].filter((text) => text !== null);
        }
        const columns = reader.schema.fields.map((field) => `"${field.name}" ${sqlType(field, members[field.name])}`);
        return { columns: columns.join(", "), members, batches: reader.numRecordBatches };
    });
}

/** Makes a table of the batches from `first` to `last`. */
export async function appendBatches(connection, table, path, { columns, members }, [first, last]) {
    await connection.run(`CREATE OR REPLACE TABLE ${table} (${columns})`);
    const appender = await connection.createAppender(table);
    await withReader(path, async (reader) => {
        const logicalTypes = reader.schema.fields.map((_, index) =>
            bindings.appender_column_type(appender.appender, index)
        );
        for (let index = first; index < last; index++) {
            appendBatch(appender, logicalTypes, await reader.readRecordBatch(index), members);
        }
    });
    appender.closeSync();
}
