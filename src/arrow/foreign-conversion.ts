// SPDX-License-Identifier: Apache-2.0
// The commands that make Arrow files of other formats; docs/troubleshooting.md explains them.

/** Formats that are told apart by foreign-format.ts. */
export type ForeignFormat =
    | "Parquet"
    | "Feather version 1"
    | "ORC"
    | "Avro"
    | "SQLite"
    | "DuckDB"
    | "Excel"
    | "ZIP"
    | "gzip"
    | "Zstandard"
    | "LZ4"
    | "xz"
    | "bzip2"
    | "CSV"
    | "JSON"
    | "Git LFS pointer"
    | "HTML"
    | "text";

/** What a file is called, and what its user can do. */
export interface Conversion {
    readonly what: string;
    readonly wayOut: string;
}

// Neither a shell, nor SQL, nor Python reads more into such a path than its letters.
const plainPath = /^(?!-)[\p{L}\p{N}_./+@%:=,-]+$/u;

function named(path: string): string {
    return plainPath.test(path) ? path : `in${/\.\w{1,10}$/.exec(path)?.[0] ?? ""}`;
}

function withExtension(path: string, extension: string): string {
    const inner = path.replace(/\.(gz|zstd?)$/i, "");
    return `${inner.replace(/(?<=[^/])\.\w{1,10}$/, "")}${extension}`;
}

/** `from`: the FROM clause, of the path as it may stand in the command. */
function byDuckDb(path: string, from: (path: string) => string, database = ""): string {
    const input = named(path);
    const load = "INSTALL nanoarrow FROM community; LOAD nanoarrow";
    const copy = `COPY (FROM ${from(input)}) TO '${withExtension(input, ".arrows")}' (FORMAT arrows)`;
    return `convert it, for instance with DuckDB: duckdb ${database}-c "${load}; ${copy}"`;
}

function byPyArrow(path: string, module: string): string {
    const input = named(path);
    const output = withExtension(input, ".arrow");
    const imports = [...new Set([module, "pyarrow.feather"])].join(", ");
    const options = `'${output}', compression='uncompressed'`;
    const write = `pyarrow.feather.write_feather(${module}.read_table('${input}'), ${options})`;
    return `convert it, for instance with pyarrow: python3 -c "import ${imports}; ${write}"`;
}

/** DuckDB reads text in gzip and Zstandard as it is; all else is decompressed. */
function decompress(path: string, program: string, suffix: RegExp): string {
    const inner = path.replace(suffix, "");
    if (["gzip", "zstd"].includes(program)) {
        if (/\.(csv|tsv|psv|tab)$/i.test(inner)) return byDuckDb(path, (input) => `read_csv('${input}')`);
        if (/\.(json|jsonl|ndjson)$/i.test(inner)) return byDuckDb(path, (input) => `read_json('${input}')`);
    }
    const input = named(path);
    const output = input.replace(suffix, "");
    return `decompress it: ${program} -dc ${input} > ${output === input ? `${input}.arrow` : output}`;
}

const ofTable = ", with the name of the table for my_table";

/** `options`: what read_csv has to be told of the text. */
const conversions: Record<ForeignFormat, (path: string, options: string) => Conversion> = {
    Parquet: (path) => ({ what: "a Parquet file", wayOut: byDuckDb(path, (input) => `read_parquet('${input}')`) }),
    "Feather version 1": (path) => ({
        what: "a Feather file of version 1",
        wayOut: byPyArrow(path, "pyarrow.feather")
    }),
    ORC: (path) => ({ what: "an ORC file", wayOut: byPyArrow(path, "pyarrow.orc") }),
    Avro: (path) => ({ what: "an Avro file", wayOut: byDuckDb(path, (input) => `read_avro('${input}')`) }),
    SQLite: (path) => ({
        what: "an SQLite database",
        wayOut: `${byDuckDb(path, (input) => `sqlite_scan('${input}', 'my_table')`)}${ofTable}`
    }),
    DuckDB: (path) => ({
        what: "a DuckDB database",
        wayOut: `${byDuckDb(path, () => "my_table", `${named(path)} `)}${ofTable}`
    }),
    Excel: (path) => ({ what: "an Excel workbook", wayOut: byDuckDb(path, (input) => `read_xlsx('${input}')`) }),
    ZIP: (path) => ({ what: "a ZIP archive", wayOut: `unpack it: unzip ${named(path)}` }),
    gzip: (path) => ({ what: "a file compressed with gzip", wayOut: decompress(path, "gzip", /\.gz$/i) }),
    Zstandard: (path) => ({ what: "a file compressed with Zstandard", wayOut: decompress(path, "zstd", /\.zstd?$/i) }),
    LZ4: (path) => ({ what: "a file compressed with LZ4", wayOut: decompress(path, "lz4", /\.lz4$/i) }),
    xz: (path) => ({ what: "a file compressed with xz", wayOut: decompress(path, "xz", /\.xz$/i) }),
    bzip2: (path) => ({ what: "a file compressed with bzip2", wayOut: decompress(path, "bzip2", /\.bz2$/i) }),
    CSV: (path, options) => ({
        what: "a CSV file",
        wayOut: byDuckDb(path, (input) => `read_csv('${input}'${options})`)
    }),
    JSON: (path) => ({ what: "a JSON file", wayOut: byDuckDb(path, (input) => `read_json('${input}')`) }),
    "Git LFS pointer": () => ({
        what: "a pointer of Git LFS in place of the file",
        wayOut: "download the file itself: git lfs pull"
    }),
    HTML: () => ({
        what: "an HTML page",
        wayOut: "if a server has sent it in place of a file, download that again"
    }),
    text: (path, options) => ({
        what: "a text file",
        wayOut: `if it holds a table, ${byDuckDb(path, (input) => `read_csv('${input}'${options})`)}`
    })
};

export function conversion(format: ForeignFormat, path: string, isUtf8 = true): Conversion {
    return conversions[format](path, isUtf8 ? "" : ", encoding = 'latin-1'");
}
