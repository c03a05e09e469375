// SPDX-License-Identifier: Apache-2.0
// Streams of before Arrow 0.15, whose messages have no marker in front of their length.
import { writeFileSync } from "node:fs";
import { Dictionary, Int32, Table, tableToIPC, Utf8, vectorFromArray } from "apache-arrow";
import { openRuntime, SpillwayError, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { expectError } from "../../support/errors.js";
import { messagesOf } from "../../support/ipc-places.js";
import { forSeeds } from "../../support/random.js";
import { rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

const rows = 1000;
const table = new Table({
    k: vectorFromArray(
        Array.from({ length: rows }, (_, i) => (i % 7 === 0 ? null : i)),
        new Int32()
    ),
    text: vectorFromArray(
        Array.from({ length: rows }, (_, i) => `text ${i % 13}`),
        new Utf8()
    ),
    word: vectorFromArray(
        Array.from({ length: rows }, (_, i) => `word ${i % 5}`),
        new Dictionary(new Utf8(), new Int32())
    )
});

/** The same messages as Arrow 0.14 wrote them: four bytes of length, metadata up to a multiple of eight bytes, body. */
function oldStream(bytes: Uint8Array, end: "length 0" | "nothing"): Buffer {
    const parts: Buffer[] = [];
    for (const { offset, body, bodyBytes } of messagesOf(bytes)) {
        const metadata = Buffer.from(bytes.subarray(offset + 8, body));
        const length = Buffer.alloc(4);
        length.writeUInt32LE(metadata.length + 4);
        parts.push(length, metadata, Buffer.alloc(4), Buffer.from(bytes.subarray(body, body + bodyBytes)));
    }
    if (end === "length 0") parts.push(Buffer.alloc(4));
    return Buffer.concat(parts);
}

const current = tableToIPC(table, "stream");
let sandbox: Sandbox;
let runtime: Runtime;

beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ device: "cpu", memory: { host: "64MiB" } });
});
afterAll(async () => {
    await runtime.close();
    sandbox[Symbol.dispose]();
});

function fileOf(name: string, bytes: Uint8Array): string {
    const path = sandbox.path(name);
    writeFileSync(path, bytes);
    return path;
}

/** All rows of files, as texts. */
async function rowsOf(...paths: string[]): Promise<string[]> {
    const relation = await runtime.fromArrowFile(paths);
    const keys = ["k", "text", "word"];
    return rowTexts(cellTable(await relation.groupBy({ keys, aggregates: { rows: { count: "*" } } }).toTable())).sort();
}

describe("a stream of before Arrow 0.15", () => {
    test.each(["length 0", "nothing"] as const)("that ends with %s has the rows of a new one", async (end) => {
        const old = oldStream(current, end);
        expect(old.readUInt32LE(0)).toBeLessThan(10_000);
        const path = fileOf("old.stream", old);
        expect((await runtime.fromArrowFile(path)).rows).toBe(rows);
        expect(await rowsOf(path)).toEqual(await rowsOf(fileOf("new.stream", current)));
    });

    test("is one relation with a new one and with a file", async () => {
        const old = fileOf("one.stream", oldStream(current, "length 0"));
        const others = [fileOf("two.stream", current), fileOf("three.arrow", tableToIPC(table, "file"))];
        const relation = await runtime.fromArrowFile([old, ...others]);
        expect(relation.rows).toBe(3 * rows);
        expect(await relation.groupBy({ keys: ["word"], aggregates: { n: { count: "*" } } }).count()).toBe(5);
    });

    test("that is cut off anywhere is an error or has the batches before", async () => {
        const old = oldStream(current, "nothing");
        const [schema] = messagesOf(current);
        const whole = schema!.body - schema!.offset; // a prefix of 4 bytes less, padding of 4 bytes more
        const codes = new Set<string>();
        for (let bytes = 1; bytes < old.length; bytes += bytes < whole + 600 ? 1 : 97) {
            try {
                const relation = await runtime.fromArrowFile(fileOf("cut.stream", old.subarray(0, bytes)));
                expect(bytes).toBeGreaterThanOrEqual(whole);
                expect(relation.rows).toBe(0);
            } catch (error) {
                expect(error, `${bytes} bytes`).toBeInstanceOf(SpillwayError);
                codes.add((error as SpillwayError).code);
            }
        }
        expect([...codes].sort()).toEqual(["FILE_CORRUPT", "FILE_TRUNCATED"]);
    });

    test("whose lengths are impossible is refused", async () => {
        const begin = messagesOf(current)[0]!.body;
        for (const length of [0x7fffffff, 0xfffffffe, 0xffffffff, 256 * 1024 * 1024 + 8]) {
            const old = oldStream(current, "nothing");
            old.writeUInt32LE(length, begin);
            const path = fileOf("long.stream", old);
            await expectError(() => runtime.fromArrowFile(path), "FILE_CORRUPT", path, /byte \d+/);
        }
        const old = oldStream(current, "nothing");
        old.writeUInt32LE(old.length, begin);
        const path = fileOf("longer.stream", old);
        await expectError(() => runtime.fromArrowFile(path), "FILE_TRUNCATED", path, /incomplete/);
    });

    test("with random bytes in its metadata is read or refused, and the runtime lives", async () => {
        const sound = oldStream(current, "length 0");
        const metadata = messagesOf(current).flatMap(({ offset, body }) => [offset, body]);
        await forSeeds(51_000, 200, async (random) => {
            const damaged = Buffer.from(sound);
            for (let n = random.between(1, 3); n > 0; n--) {
                const at = random.chance(0.5) ? random.below(metadata[1]!) : random.below(damaged.length);
                damaged[at] = random.below(256);
            }
            try {
                // Texts may be no UTF-8, which Arrow JS would refuse to show: they are not looked at.
                const relation = await runtime.fromArrowFile(fileOf("damaged.stream", damaged));
                await relation.groupBy({ keys: [], aggregates: { n: { count: "k" }, t: { max: "text" } } }).toTable();
            } catch (error) {
                expect(error).toBeInstanceOf(SpillwayError);
                expect((error as SpillwayError).code).not.toBe("INTERNAL");
            }
        });
        expect(await rowsOf(fileOf("sound.stream", sound))).toEqual(await rowsOf(fileOf("new.stream", current)));
    });
});

test("a dictionary whose values hold a dictionary is told with its column and type", async () => {
    const inner = new Dictionary(new Utf8(), new Int32());
    const nested = new Table({ k: vectorFromArray([1], new Int32()) });
    const schema = nested.schema;
    schema.fields[0] = Object.assign(schema.fields[0]!.clone(), { type: new Dictionary(inner as never, new Int32()) });
    expect(() => runtime.fromTable(nested)).toThrow(/Column `k` has type Dictionary<.*plain values in place of/);
});
