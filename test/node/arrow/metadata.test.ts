// SPDX-License-Identifier: Apache-2.0
// Damaged metadata: whatever the bytes say, the answer is quick and one of our errors.
import { readFileSync, writeFileSync } from "node:fs";
import { Table, tableToIPC, Utf8, vectorFromArray, Int32, Dictionary, Struct, Field, List } from "apache-arrow";
import { afterAll, describe, expect, test } from "vitest";
import { DamagedMetadata, FlatbufferChecker } from "../../../src/arrow/flatbuffer-check.js";
import { openArrowFiles } from "../../../src/arrow/open-files.js";
import { SpillwayError } from "../../../src/errors.js";
import { forSeeds, runsUsualSeeds } from "../../support/random.js";
import { fileReader } from "../../support/file-reader.js";
import { messagesOf } from "../../support/ipc-places.js";
import { Sandbox } from "../../support/sandbox.js";

const sandbox = new Sandbox();
afterAll(() => sandbox[Symbol.dispose]());

const nested = new Struct([
    new Field("x", new Int32(), true),
    new Field("y", new List(new Field("item", new Utf8(), true)), true)
]);
const table = new Table({
    a: vectorFromArray([1, null, 3], new Int32()),
    // With an id of its own: Arrow JS counts those of a process, and the lengths of files depend on it.
    d: vectorFromArray(["x", "y", "x"], new Dictionary(new Utf8(), new Int32(), 0)),
    n: vectorFromArray([{ x: 1, y: ["p"] }, null, { x: 2, y: [] }], nested)
});

/** What came of it: a code, or "opened" for sizes that the file can have. */
async function outcome(path: string, fileBytes: number): Promise<string> {
    try {
        const { facts } = await openArrowFiles(path, fileReader);
        // No buffer leaves its batch, so columns and dictionaries together are no longer than their file.
        const bytes = [...facts.columnBytes, ...facts.dictionaryBytes].reduce((sum, one) => sum + one, 0);
        expect(bytes).toBeLessThanOrEqual(fileBytes);
        return "opened";
    } catch (error) {
        expect(error).toBeInstanceOf(SpillwayError);
        expect((error as SpillwayError).message).toContain(path);
        return (error as SpillwayError).code;
    }
}

class Outcomes {
    readonly #counts = new Map<string, number>();

    add(outcome: string): void {
        this.#counts.set(outcome, (this.#counts.get(outcome) ?? 0) + 1);
    }

    get counts(): Record<string, number> {
        return Object.fromEntries(this.#counts);
    }
}

describe.each([
    {
        format: "file",
        flipped: { opened: 24, FILE_CORRUPT: 257, FILE_TRUNCATED: 17, UNSUPPORTED_TYPE: 2 },
        huge: { opened: 121, FILE_CORRUPT: 221, FILE_TRUNCATED: 9, UNSUPPORTED_TYPE: 3 },
        cut: { FILE_TRUNCATED: 1426 }
    },
    {
        format: "stream",
        flipped: { opened: 20, FILE_CORRUPT: 264, FILE_TRUNCATED: 11, DUPLICATE_COLUMN: 1, UNSUPPORTED_TYPE: 4 },
        huge: { opened: 116, FILE_CORRUPT: 213, FILE_TRUNCATED: 4, UNSUPPORTED_TYPE: 3 },
        // It may end behind any of its three messages, and up to eight bytes further on.
        cut: { opened: 24, FILE_CORRUPT: 7, FILE_TRUNCATED: 1321 }
    }
] as const)("a damaged $format", ({ format, flipped, huge, cut }) => {
    const sound = tableToIPC(table, format);
    const path = sandbox.path(`damaged-${format}`);

    test("of flipped bytes opens or is refused, each as often as before", async () => {
        const outcomes = new Outcomes();
        await forSeeds(700, 300, async (random) => {
            const bytes = Uint8Array.from(sound);
            for (let i = random.between(1, 8); i > 0; i--) bytes[random.below(bytes.length)] = random.below(256);
            writeFileSync(path, bytes);
            outcomes.add(await outcome(path, bytes.length));
        });
        if (runsUsualSeeds) expect(outcomes.counts).toEqual(flipped);
    });

    test("of huge counts is refused quickly, but where nothing depends on them", async () => {
        // Every aligned word in turn becomes the largest count or offset there is.
        const started = performance.now();
        const outcomes = new Outcomes();
        for (let at = 8; at + 4 <= sound.length; at += 4) {
            const bytes = Uint8Array.from(sound);
            bytes.set([0xff, 0xff, 0xff, 0x7f], at);
            writeFileSync(path, bytes);
            outcomes.add(await outcome(path, bytes.length));
        }
        expect(performance.now() - started).toBeLessThan(20_000);
        expect(outcomes.counts).toEqual(huge);
    });

    test("that ends early is truncated or whole", async () => {
        const outcomes = new Outcomes();
        for (let length = 0; length < sound.length; length++) {
            writeFileSync(path, sound.subarray(0, length));
            outcomes.add(await outcome(path, length));
        }
        expect(outcomes.counts).toEqual(cut);
    });
});

test("no row data is read: zeros in place of all bodies do not matter", async () => {
    const path = sandbox.write(table, "zeros.arrow");
    const before = await openArrowFiles(path, fileReader);
    const bytes = new Uint8Array(readFileSync(path));
    const found = messagesOf(bytes);
    // Arrow JS has the schema in the footer alone.
    expect(found.map(({ kind }) => kind)).toEqual(["dictionary", "record"]);
    for (const { body, bodyBytes } of found) bytes.fill(0, body, body + bodyBytes);
    writeFileSync(path, bytes);
    const after = await openArrowFiles(path, fileReader);
    expect(after.facts).toEqual(before.facts);
    expect(after.layout.columns).toEqual(before.layout.columns);
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
