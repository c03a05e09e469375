// SPDX-License-Identifier: Apache-2.0
// Damaged metadata: whatever the bytes say, the answer is quick and one of our errors.
import { readFileSync, writeFileSync } from "node:fs";
import { Table, tableToIPC, Utf8, vectorFromArray, Int32, Dictionary, Struct, Field, List } from "apache-arrow";
import { afterAll, describe, expect, test } from "vitest";
import { DamagedMetadata, FlatbufferChecker } from "../../../src/arrow/flatbuffer-check.js";
import { openArrowFiles } from "../../../src/arrow/open-files.js";
import { SpillwayError } from "../../../src/errors.js";
import { forSeeds } from "../../support/random.js";
import { fileReader } from "../../support/file-reader.js";
import { Sandbox } from "../../support/sandbox.js";

const sandbox = new Sandbox();
afterAll(() => sandbox[Symbol.dispose]());

const nested = new Struct([
    new Field("x", new Int32(), true),
    new Field("y", new List(new Field("item", new Utf8(), true)), true)
]);
const table = new Table({
    a: vectorFromArray([1, null, 3], new Int32()),
    d: vectorFromArray(["x", "y", "x"], new Dictionary(new Utf8(), new Int32())),
    n: vectorFromArray([{ x: 1, y: ["p"] }, null, { x: 2, y: [] }], nested)
});
const codes = ["FILE_CORRUPT", "FILE_TRUNCATED", "UNSUPPORTED_TYPE", "DUPLICATE_COLUMN", "INVALID_ARGUMENT"];

async function outcome(path: string): Promise<string> {
    try {
        await openArrowFiles(path, fileReader);
        return "opened";
    } catch (error) {
        expect(error).toBeInstanceOf(SpillwayError);
        return (error as SpillwayError).code;
    }
}

describe.each(["file", "stream"] as const)("a damaged %s", (format) => {
    const sound = tableToIPC(table, format);
    const path = sandbox.path(`damaged-${format}`);

    test("of flipped bytes opens or is refused", async () => {
        await forSeeds(700, 300, async (random) => {
            const bytes = Uint8Array.from(sound);
            for (let i = random.between(1, 8); i > 0; i--) bytes[random.below(bytes.length)] = random.below(256);
            writeFileSync(path, bytes);
            expect([...codes, "opened"]).toContain(await outcome(path));
        });
    });

    test("of huge counts is refused quickly", async () => {
        // Every aligned word in turn becomes the largest count or offset there is.
        const started = performance.now();
        for (let at = 8; at + 4 <= sound.length; at += 4) {
            const bytes = Uint8Array.from(sound);
            bytes.set([0xff, 0xff, 0xff, 0x7f], at);
            writeFileSync(path, bytes);
            expect([...codes, "opened"]).toContain(await outcome(path));
        }
        expect(performance.now() - started).toBeLessThan(20_000);
    });

    test("that ends early is truncated or whole", async () => {
        for (let length = 0; length < sound.length; length += 7) {
            writeFileSync(path, sound.subarray(0, length));
            // A stream may end after any message; a file never without its footer.
            const allowed = format === "stream" ? ["FILE_TRUNCATED", "FILE_CORRUPT", "opened"] : ["FILE_TRUNCATED"];
            expect(allowed, `${length} bytes`).toContain(await outcome(path));
        }
    });
});

test("no row data is read: zeros in place of all bodies do not matter", async () => {
    const path = sandbox.write(table, "zeros.arrow");
    const before = await openArrowFiles(path, fileReader);
    const bytes = new Uint8Array(readFileSync(path));
    for (const batch of before.layout.batches) {
        for (let i = 0; i < batch.buffers.length; i += 2) {
            bytes.fill(0, batch.buffers[i], batch.buffers[i]! + batch.buffers[i + 1]!);
        }
    }
    writeFileSync(path, bytes);
    expect((await openArrowFiles(path, fileReader)).layout).toEqual(before.layout);
});

describe("the bounds checker", () => {
    test("follows offsets inside of the buffer only", () => {
        const bytes = new Uint8Array(32);
        const view = new DataView(bytes.buffer);
        const checker = () => new FlatbufferChecker(bytes);
        view.setUint32(0, 100, true);
        expect(() => checker().table(checker().root(), 1)).toThrow(DamagedMetadata);
        view.setUint32(0, 8, true); // root table at 8 ...
        view.setInt32(8, 8 - 20, true); // ... its vtable at 20
        view.setUint16(20, 6, true);
        view.setUint16(22, 200, true); // a table longer than the buffer
        expect(() => checker().table(8, 1)).toThrow(DamagedMetadata);
        view.setUint16(22, 8, true);
        view.setUint16(24, 4, true);
        expect(checker().table(8, 2).fields).toEqual([12, 0]);
        view.setUint32(12, 4, true); // a vector at 16 ...
        view.setUint32(16, 0xffff_ffff, true); // ... of four billion elements
        expect(() => checker().vector(12, 4)).toThrow(DamagedMetadata);
        expect(checker().vector(0, 4)).toEqual({ first: 0, count: 0 });
    });
});
