// SPDX-License-Identifier: Apache-2.0
// Files of other formats are called by their names, with a command that converts them, and never corrupt.
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { DuckDBInstance } from "@duckdb/node-api";
import { tableFromArrays, tableToIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRuntime, type Runtime } from "spillway";
import { foreignFileError } from "../../../src/arrow/foreign-format.js";
import { Sandbox } from "../../support/sandbox.js";
import { command } from "../cli/in-process.js";

const sandbox = new Sandbox();
let runtime: Runtime;
beforeAll(async () => {
    runtime = await openRuntime({ device: "cpu", threads: 1 });
});
afterAll(async () => {
    await runtime.close();
    sandbox[Symbol.dispose]();
});

const tail = (bytes: Buffer): Buffer => bytes.subarray(-64);
const refused = (bytes: Buffer | string, path = "data"): unknown => {
    const all = Buffer.from(bytes as string, "latin1");
    return foreignFileError(path, all, tail(all));
};
const unsupported = (format: string, words: RegExp | string): unknown =>
    expect.objectContaining({
        code: "UNSUPPORTED_TYPE",
        details: expect.objectContaining({ format }) as unknown,
        message: (typeof words === "string" ? expect.stringContaining(words) : expect.stringMatching(words)) as unknown
    });

describe("a file that another program has written", () => {
    beforeAll(async () => {
        const database = await DuckDBInstance.create(sandbox.path("rows.duckdb"));
        const connection = await database.connect();
        await connection.run("CREATE TABLE rows AS SELECT range AS id, 'name ' || range AS name FROM range(20000)");
        for (const name of ["rows.parquet", "rows.csv", "rows.json", "small.parquet", "small.csv"]) {
            const from = name.startsWith("small") ? "(FROM rows LIMIT 3)" : "rows";
            await connection.run(`COPY ${from} TO '${sandbox.path(name)}'`);
        }
        connection.closeSync();
        database.closeSync();
        writeFileSync(sandbox.path("rows.csv.gz"), gzipSync(readFileSync(sandbox.path("rows.csv"))));
        const arrow = tableToIPC(tableFromArrays({ id: Int32Array.of(1) }), "file");
        writeFileSync(sandbox.path("rows.arrow.gz"), gzipSync(arrow));
        writeFileSync(sandbox.path("export"), readFileSync(sandbox.path("rows.csv")));
    });

    test.each([
        ["rows.parquet", "Parquet", /is a Parquet file, .*read_parquet\('.*rows\.parquet'\)\) TO '.*rows\.arrows'/],
        ["small.parquet", "Parquet", /is a Parquet file/],
        ["rows.csv", "CSV", /is a CSV file, .*read_csv\(/],
        ["small.csv", "CSV", /is a CSV file/],
        ["export", "CSV", /is a CSV file, .*TO '.*export\.arrows'/],
        ["rows.json", "JSON", /is a JSON file, .*read_json\(/],
        ["rows.duckdb", "DuckDB", /is a DuckDB database, .*duckdb \S+rows\.duckdb -c .*FROM my_table/],
        ["rows.csv.gz", "gzip", /compressed with gzip, .*read_csv\('.*rows\.csv\.gz'\)\) TO '.*rows\.arrows'/],
        [
            "rows.arrow.gz",
            "gzip",
            /compressed with gzip, .*decompress it: gzip -dc \S+rows\.arrow\.gz > \S+rows\.arrow$/
        ]
    ])("is called by its name: %s", async (name, format, words) => {
        const path = sandbox.path(name);
        await expect(runtime.fromArrowFile(path)).rejects.toEqual(unsupported(format, words));
        const { code, stderr } = await command(["join", path, path, "--on", "id", "--threads", "1"]);
        expect([code, stderr]).toEqual([1, expect.stringMatching(/^UNSUPPORTED_TYPE: .*\ndocs\/troubleshooting\.md/)]);
    });

    test("was cut off where the mark at its end is missing", async () => {
        const path = sandbox.path("cut.parquet");
        writeFileSync(path, readFileSync(sandbox.path("rows.parquet")).subarray(0, -9));
        await expect(runtime.fromArrowFile(path)).rejects.toMatchObject({
            code: "FILE_TRUNCATED",
            message: expect.stringMatching(/begins as a Parquet file but does not end with "PAR1"/) as unknown
        });
    });

    test("is empty", async () => {
        const path = sandbox.path("empty.arrow");
        writeFileSync(path, "");
        const { code, stderr } = await command(["groupby", path, "--keys", "a", "--threads", "1"]);
        expect([code, stderr]).toEqual([1, `FILE_TRUNCATED: '${path}' is empty; write or copy it again.\n`]);
    });
});

describe("bytes", () => {
    const zeros = "\0".repeat(100);

    test.each([
        ["PARE" + zeros + "PARE", "Parquet", "a Parquet file"],
        ["FEA1" + zeros + "FEA1", "Feather version 1", "pyarrow.feather.read_table('data')"],
        ["ORC" + zeros + "ORC\x17", "ORC", "pyarrow.orc.read_table('data')"],
        ["Obj\x01" + zeros, "Avro", "read_avro('data')"],
        ["SQLite format 3\0" + zeros, "SQLite", "sqlite_scan('data', 'my_table')"],
        ["\x01\x02\x03\x04\x05\x06\x07\0DUCK" + zeros, "DuckDB", "a DuckDB database"],
        ["PK\x03\x04" + zeros + "xl/workbook.xml", "Excel", "read_xlsx('data')"],
        ["PK\x03\x04" + zeros, "ZIP", "unzip data"],
        ["\x1f\x8b\x08" + zeros, "gzip", "gzip -dc data > data.arrow"],
        ["\x28\xb5\x2f\xfd" + zeros, "Zstandard", "zstd -dc"],
        ["\x04\x22\x4d\x18" + zeros, "LZ4", "lz4 -dc"],
        ["\xfd7zXZ\0" + zeros, "xz", "xz -dc"],
        ["BZh91AY&SY" + zeros, "bzip2", "bzip2 -dc"],
        ["version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer", "git lfs pull"],
        ["\n<!DOCTYPE html>\n<html>", "HTML", "an HTML page"],
        ['{"a":1}\n{"a":2}\n', "JSON", "read_json"],
        ["\xef\xbb\xbf[1,2]", "JSON", "read_json"],
        ["a\tb\r\n1\t2\r\n", "CSV", "read_csv"],
        ["PAR1,PAR2\n1,2\n", "CSV", "read_csv"],
        ["ORCHARD;APPLES\n1;2\n", "CSV", "read_csv"],
        ["stra\xdfe;gr\xf6\xdfe\n1;2\n", "CSV", "read_csv('data', encoding = 'latin-1')"],
        ["hello, world\nthis is text", "text", "if it holds a table"]
    ])("%j are %s", (bytes, format, words) => {
        expect(refused(bytes)).toEqual(unsupported(format, words));
    });

    test("of text are what the name says where they say nothing", () => {
        expect(refused("id\n1\n", "ids.csv")).toEqual(unsupported("CSV", "a CSV file"));
        expect(refused("{x},y\n1,2\n", "odd.TSV")).toEqual(unsupported("CSV", "a CSV file"));
        expect(refused("1\n2\n", "numbers.ndjson")).toEqual(unsupported("JSON", "a JSON file"));
        expect(refused("PAR1 binary\0 no end", "rows.csv")).toMatchObject({ code: "FILE_TRUNCATED" });
    });

    // Cut inside of a character, as the first bytes of a long file are.
    test("of a text in another script are text", () => {
        const text = Buffer.from("日本,語\n".repeat(1000));
        for (let end = 4000; end < 4010; end++) {
            const start = text.subarray(0, end);
            expect(foreignFileError("x", start, tail(text))).toEqual(unsupported("CSV", "a CSV file"));
        }
    });

    test.each([
        ["\0\0\0\0" + zeros],
        ["\xff\xff\xff\xff\xff\xff\xff\xff"],
        ["ORC" + zeros],
        ["PK" + zeros],
        [""],
        ["text\0"]
    ])("%j are of no known format", (bytes) => {
        expect(refused(bytes)).toBeUndefined();
    });

    test("of a damaged Arrow file are still corrupt", async () => {
        const bytes = Buffer.from(tableToIPC(tableFromArrays({ id: Int32Array.of(1, 2, 3) }), "file"));
        bytes.fill(0x07, 0, 6);
        const path = sandbox.path("damaged.arrow");
        writeFileSync(path, bytes);
        await expect(runtime.fromArrowFile(path)).rejects.toMatchObject({ code: "FILE_CORRUPT" });
    });
});

test("a command has no part of a path that a shell or SQL could read otherwise", () => {
    for (const path of ["my file.csv", "a';DROP TABLE x;--.csv", '$(id)".csv', "`id`.csv", "-c.csv", "a\nb.csv"]) {
        expect(refused("a,b\n1,2\n", path)).toEqual(unsupported("CSV", "(FROM read_csv('in.csv')) TO 'in.arrows'"));
    }
    expect(refused("\x1f\x8b\x08\0", "x y.gz")).toEqual(unsupported("gzip", "gzip -dc in.gz > in"));
    expect(refused("a,b\n1,2\n", "größe/a-b_1.csv")).toEqual(unsupported("CSV", "TO 'größe/a-b_1.arrows'"));
});
