// SPDX-License-Identifier: Apache-2.0
import { extname } from "node:path";
import { UsageError } from "../usage-error.js";

/** Formats that are not written here, by the extensions of their files. */
const otherFormats: readonly (readonly [format: string, extensions: readonly string[]])[] = [
    ["Parquet", ["parquet", "parq", "pq"]],
    ["CSV", ["csv", "tsv", "psv", "tab"]],
    ["JSON", ["json", "jsonl", "ndjson"]],
    ["text", ["txt"]],
    ["ORC", ["orc"]],
    ["Avro", ["avro"]],
    ["Excel", ["xls", "xlsx"]],
    ["SQLite or DuckDB", ["db", "sqlite", "sqlite3", "duckdb"]],
    ["compressed", ["gz", "zst", "zstd", "lz4", "xz", "bz2", "zip"]]
];

/** The format that the extension of a path stands for, or null: Arrow, none at all, or one that nobody knows here. */
export function otherFormatOf(path: string): string | null {
    const extension = extname(path).slice(1).toLowerCase();
    return otherFormats.find(([, extensions]) => extensions.includes(extension))?.[0] ?? null;
}

/** Refuses a path by whose extension other programs would take the Arrow file for something else. */
export function refuseOtherFormat(path: string): void {
    const format = otherFormatOf(path);
    if (format === null) return;
    const arrow = `${path.slice(0, -extname(path).length)}.arrow`;
    const lines = format === "JSON" ? `, or give --json in place of --output for rows as JSON lines` : "";
    const convert =
        format === "Parquet" || format === "CSV"
            ? " and convert that file, for instance with DuckDB (INSTALL nanoarrow FROM community; LOAD nanoarrow; " +
              `COPY (FROM read_arrow('x.arrow')) TO 'x${extname(path).toLowerCase()}')`
            : "";
    throw new UsageError(
        `--output writes Arrow files, but "${path}" has the extension of ${format} files; ` +
            `name it "${arrow}"${convert}${lines}.`
    );
}
