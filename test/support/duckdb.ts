// SPDX-License-Identifier: Apache-2.0
// DuckDB as second oracle: relations go in as cells, results come back as the same canonical cells.
import {
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    DuckDBBlobValue,
    DuckDBDataChunk,
    DuckDBDateValue,
    DuckDBDecimalValue,
    DuckDBInstance,
    FLOAT,
    INTEGER,
    SMALLINT,
    TINYINT,
    UBIGINT,
    UINTEGER,
    USMALLINT,
    UTINYINT,
    VARCHAR,
    type DuckDBConnection,
    type DuckDBType,
    type DuckDBValue
} from "@duckdb/node-api";
import { DataType, type Table } from "apache-arrow";
import { cellTable, floatCell, nullCell, type CellTable } from "./cells.js";

interface ColumnCodec {
    readonly type: DuckDBType;
    readonly encode: (cell: string) => DuckDBValue;
}

const hexBytes = (cell: string): Uint8Array => Buffer.from(cell.slice(2, -1), "hex");

function integerCodec(width: number, signed: boolean): ColumnCodec {
    const types: Record<number, [DuckDBType, DuckDBType]> = {
        8: [TINYINT, UTINYINT],
        16: [SMALLINT, USMALLINT],
        32: [INTEGER, UINTEGER],
        64: [BIGINT, UBIGINT]
    };
    const type = types[width]![signed ? 0 : 1];
    return { type, encode: width === 64 ? BigInt : Number };
}

function codecOf(type: DataType): ColumnCodec {
    if (DataType.isDictionary(type)) return codecOf(type.dictionary as DataType);
    if (DataType.isInt(type)) return integerCodec(type.bitWidth, type.isSigned);
    if (DataType.isBool(type)) return { type: BOOLEAN, encode: (cell) => cell === "true" };
    if (DataType.isFloat(type)) return { type: type.precision === 2 ? DOUBLE : FLOAT, encode: Number };
    if (DataType.isUtf8(type) || DataType.isLargeUtf8(type) || DataType.isUtf8View(type)) {
        return { type: VARCHAR, encode: (cell) => JSON.parse(cell) as string };
    }
    const binary = DataType.isBinary(type) || DataType.isLargeBinary(type) || DataType.isBinaryView(type);
    if (binary || DataType.isFixedSizeBinary(type)) {
        return { type: BLOB, encode: (cell) => new DuckDBBlobValue(hexBytes(cell)) };
    }
    if (DataType.isDate(type) && type.unit === 0)
        return { type: DATE, encode: (cell) => new DuckDBDateValue(Number(cell)) };
    if (DataType.isDecimal(type) && type.precision <= 38) {
        const { precision, scale } = type;
        return {
            type: DECIMAL(precision, scale),
            encode: (cell) => new DuckDBDecimalValue(BigInt(cell), precision, scale)
        };
    }
    const wholeNumber = DataType.isDate(type) || DataType.isTime(type) || DataType.isTimestamp(type);
    if (wholeNumber || DataType.isDuration(type)) return { type: BIGINT, encode: BigInt };
    // Anything else as its canonical text, which is equal exactly when the values are.
    return { type: VARCHAR, encode: (cell) => cell };
}

function bytesCell(bytes: Uint8Array): string {
    return `x'${Buffer.from(bytes).toString("hex")}'`;
}

/** A value that DuckDB returned, as the cell an Arrow column of the natural type would have. */
function cellOf(value: DuckDBValue, type: DuckDBType): string {
    if (value === null) return nullCell;
    if (typeof value === "number") return type === FLOAT || type === DOUBLE ? floatCell(value) : String(value);
    if (typeof value === "bigint" || typeof value === "boolean") return String(value);
    if (typeof value === "string") return JSON.stringify(value);
    if (value instanceof DuckDBDateValue) return String(value.days);
    if (value instanceof DuckDBDecimalValue) return value.value.toString();
    if (value instanceof DuckDBBlobValue) return bytesCell(value.bytes);
    throw new Error(`no cell for DuckDB's ${String(type)}`);
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
const chunkRows = 2048;

export class DuckDB implements AsyncDisposable {
    readonly #instance: DuckDBInstance;
    readonly #connection: DuckDBConnection;

    private constructor(instance: DuckDBInstance, connection: DuckDBConnection) {
        this.#instance = instance;
        this.#connection = connection;
    }

    static async open(): Promise<DuckDB> {
        const instance = await DuckDBInstance.create(":memory:", { threads: "2" });
        return new DuckDB(instance, await instance.connect());
    }

    /** Makes a table of the columns named (all by default) and a row number column `row`. */
    async load(name: string, source: Table | CellTable, columns?: readonly string[]): Promise<void> {
        const table = "cells" in source ? source : cellTable(source);
        const picked = (columns ?? table.names).map((column) => table.names.indexOf(column));
        const codecs = picked.map((index) => codecOf(table.types[index]!));
        const declarations = picked.map((index, i) => `${quoted(table.names[index]!)} ${codecs[i]!.type.toString()}`);
        await this.#connection.run(
            `CREATE OR REPLACE TABLE ${quoted(name)} (${["row INTEGER", ...declarations].join(", ")})`
        );
        const appender = await this.#connection.createAppender(name);
        const types = [INTEGER, ...codecs.map((codec) => codec.type)];
        for (let first = 0; first < table.rows; first += chunkRows) {
            const rows = Math.min(chunkRows, table.rows - first);
            const chunk = DuckDBDataChunk.create(types, rows);
            chunk.setColumnValues(
                0,
                Array.from({ length: rows }, (_, i) => first + i)
            );
            picked.forEach((index, i) => {
                const cells = table.cells[index]!.slice(first, first + rows);
                const values = cells.map((cell) => (cell === nullCell ? null : codecs[i]!.encode(cell)));
                chunk.setColumnValues(i + 1, values);
            });
            appender.appendDataChunk(chunk);
        }
        appender.closeSync();
    }

    async query(sql: string): Promise<CellTable> {
        const result = await this.#connection.run(sql);
        const names = result.deduplicatedColumnNames();
        const duckTypes = result.columnTypes();
        const columns = await result.getColumns();
        const cells = names.map((_, index) => (columns[index] ?? []).map((value) => cellOf(value, duckTypes[index]!)));
        return { names, types: [], cells, rows: cells[0]?.length ?? 0 };
    }

    /** Row numbers of the joined pairs; -1 where a side has no partner. */
    async joinPairs(
        tables: readonly [string, string],
        keys: readonly (readonly [string, string])[],
        type: string,
        nullEquality: boolean
    ): Promise<[number, number][]> {
        const equals = nullEquality ? "IS NOT DISTINCT FROM" : "=";
        const condition = keys.map(([left, right]) => `l.${quoted(left)} ${equals} r.${quoted(right)}`).join(" AND ");
        const leftOnly = type === "semi" || type === "anti";
        const selected = leftOnly ? "l.row, -1" : "coalesce(l.row, -1), coalesce(r.row, -1)";
        const { cells } = await this.query(
            `SELECT ${selected} FROM ${quoted(tables[0])} l ` +
                `${type.toUpperCase()} JOIN ${quoted(tables[1])} r ON ${condition}`
        );
        return (cells[0] ?? []).map((left, i) => [Number(left), Number(cells[1]![i])]);
    }

    [Symbol.asyncDispose](): Promise<void> {
        this.#connection.closeSync();
        this.#instance.closeSync();
        return Promise.resolve();
    }
}
