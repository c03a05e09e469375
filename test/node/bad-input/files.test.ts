// SPDX-License-Identifier: Apache-2.0
// Files that are missing, damaged or of a kind that is not read: one SpillwayError each, with the way out.
import { mkdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tableFromArrays, tableToIPC } from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectError } from "../../support/errors.js";
import { foreignTypes, writeCompressed, writeForeignSchema, writeOldCompressed } from "../../support/foreign-files.js";
import { Sandbox } from "../../support/sandbox.js";

const table = tableFromArrays({
    key: Int32Array.from({ length: 100 }, (_, i) => i),
    text: Array.from({ length: 100 }, String)
});
let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } });
});
afterAll(async () => {
    await runtime.close();
    await sandbox.expectClean();
    sandbox[Symbol.dispose]();
});

function file(name: string, bytes: Uint8Array): string {
    const path = sandbox.path(name);
    writeFileSync(path, bytes);
    return path;
}

const damaged = ["FILE_CORRUPT", "FILE_TRUNCATED"] as const;

describe("a file that", () => {
    test("is missing", async () => {
        const path = sandbox.path("nowhere.arrow");
        await expectError(() => runtime.fromArrowFile(path), "FILE_NOT_FOUND", path);
        const good = sandbox.write(table, "good.arrow");
        await expectError(() => runtime.fromArrowFile([good, path]), "FILE_NOT_FOUND", path);
    });

    test("is a folder", async () => {
        const path = sandbox.path("folder.arrow");
        mkdirSync(path);
        await expectError(() => runtime.fromArrowFile(path), ["FILE_UNREADABLE", "FILE_CORRUPT"], path);
    });

    test("is empty", async () => {
        const path = file("empty.arrow", new Uint8Array());
        await expectError(() => runtime.fromArrowFile(path), damaged, path);
    });

    test("is something else", async () => {
        for (const text of ["a", "id,name\n1,one\n2,two\n", "PAR1 and more and more and PAR1"]) {
            const path = file("other.arrow", Buffer.from(text));
            await expectError(() => runtime.fromArrowFile(path), "UNSUPPORTED_TYPE", path, /convert it/);
        }
        for (const text of ["ARROW1", "ARROW1\0\0", "\0\0\0\0"]) {
            const path = file("other.arrow", Buffer.from(text));
            await expectError(() => runtime.fromArrowFile(path), damaged, path);
        }
    });

    test("became shorter after it was opened", async () => {
        const path = sandbox.write(table, "shrinking.arrow");
        const relation = await runtime.fromArrowFile(path);
        truncateSync(path, statSync(path).size / 2);
        const run = () => relation.join(relation, { on: "key" }).toTable();
        await expectError(run, "FILE_CHANGED", path);
    });

    test("was removed after it was opened is read on or refused", async () => {
        const path = sandbox.write(table, "removed.arrow");
        const relation = await runtime.fromArrowFile(path);
        rmSync(path);
        const rows = await relation
            .join(relation, { on: "key" })
            .count()
            .catch((error: { code: string }) => error.code);
        expect([100, "FILE_NOT_FOUND"]).toContain(rows);
    });

    test.each(Object.entries(foreignTypes))("has a column of type %s", async (name, type) => {
        const path = sandbox.path(`${name}.arrow`);
        writeForeignSchema(path, type);
        const error = await expectError(() => runtime.fromArrowFile(path), "UNSUPPORTED_TYPE", /cast|convert|write/i);
        expect(error.message).toMatch(new RegExp(name.replace(/(?<!^)([A-Z])/g, "[ -]?$1"), "i"));
    });

    test("is big-endian", async () => {
        const path = sandbox.path("big-endian.arrow");
        writeForeignSchema(path, 6, true);
        await expectError(
            () => runtime.fromArrowFile(path),
            ["UNSUPPORTED_TYPE", "FILE_UNREADABLE", "FILE_CORRUPT"],
            /endian/i
        );
    });

    test.each([
        [0, /LZ4/i],
        [1, /ZSTD|Zstandard/i]
    ] as const)("has compressed bodies (codec %i)", async (codec, name) => {
        const path = sandbox.path(`compressed-${codec}.arrow`);
        writeCompressed(path, codec);
        const run = async () => (await runtime.fromArrowFile(path)).groupBy({ keys: ["key"] }).count();
        await expectError(run, "UNSUPPORTED_TYPE", name, /uncompressed|without compression/i);
    });

    test.each([
        ["LZ4", /LZ4/],
        ["lz4", /LZ4/],
        ["ZSTD", /ZSTD/],
        ["zstd", /ZSTD/]
    ] as const)("has bodies compressed as Arrow 0.17 did it (%s)", async (codec, name) => {
        const path = sandbox.path(`compressed-${codec}-0.17.arrow`);
        writeOldCompressed(path, codec);
        await expectError(() => runtime.fromArrowFile(path), "UNSUPPORTED_TYPE", path, name, /uncompressed/);
    });

    test("has another schema than the file before it", async () => {
        const first = sandbox.write(table, "first.arrow");
        const second = sandbox.write(tableFromArrays({ key: Float64Array.of(1), text: ["a"] }), "second.arrow");
        await expectError(
            () => runtime.fromArrowFile([first, second]),
            ["INVALID_ARGUMENT", "KEY_TYPE_MISMATCH"],
            second,
            "key"
        );
    });

    test("is no path at all", async () => {
        for (const path of [undefined, null, 7, "", [], [7], {}] as unknown[]) {
            await expectError(() => runtime.fromArrowFile(path as string), "INVALID_ARGUMENT", "path");
        }
    });
});

describe("files that are fine", () => {
    test("without rows, with and without a batch", async () => {
        const none = tableFromArrays({ key: new Int32Array(0), text: [] as string[] });
        const empty = await runtime.fromArrowFile(sandbox.write(none, "no-rows.arrow"));
        const full = await runtime.fromArrowFile(sandbox.write(table, "full.arrow"));
        expect(empty.rows).toBe(0);
        expect(await full.join(full, { on: "key" }).count()).toBe(100);
        expect(await empty.groupBy({ aggregates: { rows: { count: "*" } } }).count()).toBe(1);
    });

    test("in stream format", async () => {
        const path = file("stream.arrow", tableToIPC(table, "stream"));
        const relation = await runtime.fromArrowFile(path);
        expect(await relation.join(relation, { on: "key" }).count()).toBe(100);
    });
});
