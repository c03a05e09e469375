// SPDX-License-Identifier: Apache-2.0
// Where the batches of files lie, as native code holds it: handles, what counts in the budget, specs that are refused.
import { writeFileSync } from "node:fs";
import { Dictionary, Int32, Table, tableToIPC, Utf8, vectorFromArray } from "apache-arrow";
import { afterAll, describe, expect, test } from "vitest";
import type { DictionaryLink, FileBatches } from "../../../src/model/column-type.js";
import type { FileToScan } from "../../../src/model/files.js";
import { openArrowFiles } from "../../../src/arrow/open-files.js";
import type { EngineHandle } from "../../../src/native/binding.js";
import { fileReaderOf } from "../../support/file-reader.js";
import { writeManyBatches } from "../../support/many-batches.js";
import { Sandbox } from "../../support/sandbox.js";
import { binding, int64Column, integerKey, openEngine } from "./support.js";

const sandbox = new Sandbox();
afterAll(() => sandbox[Symbol.dispose]());
const batches = 5000;
const path = writeManyBatches(sandbox.path("many.arrow"), batches);
const options = { sampleRows: 10, exactRange: true, workers: 2 };

async function openFiles(engine: EngineHandle, name = path) {
    const opened = await openArrowFiles(name, fileReaderOf(engine));
    return { ...opened, batches: opened.layout.files! };
}

describe("batches of files", () => {
    test("are held by their handle and by sources that read them, and counted until both are gone", async () => {
        const engine = openEngine();
        const { layout, heldBytes, batches: handle } = await openFiles(engine);
        expect(heldBytes).toBeGreaterThanOrEqual(24 * batches);
        expect(binding.engineMemory(engine)).toMatchObject({ usedBytes: heldBytes, relationBytes: heldBytes });
        const sources = [await binding.openSource(engine, layout), await binding.openSource(engine, layout)];
        expect(binding.engineMemory(engine).usedBytes).toBe(heldBytes); // shared
        binding.closeFileBatches(handle);
        binding.closeFileBatches(handle);
        await expect(binding.openSource(engine, layout)).rejects.toMatchObject({
            code: "CLOSED",
            details: { handle: "file batches" }
        });
        const job = binding.createJob(engine);
        const statistics = await binding.keyStatistics(job, sources[0]!, [integerKey], options);
        expect(statistics).toMatchObject({ rows: batches, min: 0n, max: BigInt(batches - 1) });
        binding.closeSource(sources[0]!);
        await binding.drainEngine(engine);
        expect(binding.engineMemory(engine)).toMatchObject({ usedBytes: heldBytes, relationBytes: heldBytes });
        binding.closeSource(sources[1]!);
        await binding.drainEngine(engine);
        expect(binding.engineMemory(engine)).toMatchObject({ usedBytes: 0, relationBytes: 0 });
    });

    test("of few batches count nothing", async () => {
        const engine = openEngine();
        const { heldBytes } = await openFiles(engine, writeManyBatches(sandbox.path("few.arrow"), 100));
        expect(heldBytes).toBe(0);
        expect(binding.engineMemory(engine)).toMatchObject({ usedBytes: 0, relationBytes: 0 });
    });
});

describe("a spec of files", () => {
    const engine = openEngine();
    const file: FileToScan = { path, stamp: "", format: "file", begin: 0, hasUnion: false, dictionaryIds: [] };
    const wrong: [string, object, string][] = [
        ["a format that is none", { format: "csv" }, "spec.files[0].format"],
        ["a negative begin", { begin: -1 }, "spec.files[0].begin"],
        ["an id too many", { dictionaryIds: [1] }, "spec.files[0].dictionaryIds"],
        ["a path that is none", { path: 7 }, "spec.files[0].path"]
    ];
    test.each(wrong)("with %s is refused", async (_, change, field) => {
        const spec = { columns: [int64Column("k")], files: [{ ...file, ...change }] };
        await expect(binding.openFileBatches(engine, spec)).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            details: { field }
        });
    });

    test("with columns of another file is refused by its headers", async () => {
        const columns = [int64Column("k"), int64Column("v")];
        await expect(binding.openFileBatches(engine, { columns, files: [file] })).rejects.toMatchObject({
            code: "FILE_CORRUPT",
            details: { path }
        });
    });
});

describe("a source of files", () => {
    const words = new Table({ d: vectorFromArray(["x", "y"], new Dictionary(new Utf8(), new Int32(), 3)) });
    const name = sandbox.path("words.arrow");
    writeFileSync(name, tableToIPC(words, "file"));

    test("of other columns than they were opened with is refused", async () => {
        const engine = openEngine();
        const { layout } = await openFiles(engine, name);
        await expect(binding.openSource(engine, { ...layout, columns: [int64Column("k")] })).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            details: { field: "spec.files" }
        });
        await expect(binding.openSource(engine, { ...layout, files: {} as FileBatches })).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            details: { handle: "file batches" }
        });
    });

    test("with links to dictionaries that are not there is refused", async () => {
        const engine = openEngine();
        const { layout, batches: files } = await openFiles(engine, name);
        const wrong: [DictionaryLink, string][] = [
            [{ node: 1, parts: [] }, "spec.links[0].node"],
            [{ node: 0, parts: [{ files, node: 1, dictionaries: [] }] }, "spec.links[0].parts[0].node"],
            [
                { node: 0, parts: [{ files: null, node: 0, dictionaries: [0] }] },
                "spec.links[0].parts[0].dictionaries[0]"
            ]
        ];
        for (const [link, field] of wrong) {
            await expect(binding.openSource(engine, { ...layout, links: [link] })).rejects.toMatchObject({
                code: "INVALID_ARGUMENT",
                details: { field }
            });
        }
        const source = await binding.openSource(engine, {
            ...layout,
            links: [{ node: 0, parts: [{ files, node: 0, dictionaries: [] }] }]
        });
        expect((await binding.sourceDictionary(binding.createJob(engine), source, [0])).rows).toBe(2);
    });
});
