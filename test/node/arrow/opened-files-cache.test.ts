// SPDX-License-Identifier: Apache-2.0
import { chmodSync, linkSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { Int32, Table, tableToIPC, vectorFromArray } from "apache-arrow";
import { openRuntime } from "spillway";
import { afterAll, describe, expect, test } from "vitest";
import type { FileReader } from "../../../src/arrow/ipc-messages.js";
import { OpenedFilesCache } from "../../../src/arrow/opened-files-cache.js";
import type { FileEnds } from "../../../src/model/files.js";
import { fileReader } from "../../support/file-reader.js";
import { Sandbox } from "../../support/sandbox.js";

const sandbox = new Sandbox();
afterAll(() => sandbox[Symbol.dispose]());

const numbers = (...values: (number | null)[]) => new Table({ n: vectorFromArray(values, new Int32()) });

/** A cache whose files have these identities, and what it did. `change`: of what is read of a file at first. */
function cacheOf(
    identities: Record<string, string | null> = {},
    heldBytes: Record<string, number> = {},
    change: (ends: FileEnds, path: string) => FileEnds = (ends) => ends
) {
    const did = { reads: 0, opened: 0 };
    const reader: FileReader = {
        ...fileReader,
        ends: async (path, ...bytes) => {
            const ends = await fileReader.ends(path, ...bytes);
            return change({ ...ends, identity: identities[path] ?? null }, path);
        },
        ranges: async (...wanted) => {
            did.reads++;
            return await fileReader.ranges(...wanted);
        },
        batches: async (spec) => {
            did.opened++;
            const opened = await fileReader.batches(spec);
            return { ...opened, heldBytes: heldBytes[spec.files[0]!.path] ?? opened.heldBytes };
        }
    };
    return { cache: new OpenedFilesCache(reader, 1000), did };
}

describe("files that were opened before", () => {
    const first = sandbox.write(numbers(1, 2, 3), "first.arrow");
    const second = sandbox.write(numbers(4, 5), "second.arrow");

    test("are the same relation as long as all of them are unchanged", async () => {
        const identities = { [first]: "a", [second]: "b" };
        const { cache, did } = cacheOf(identities);
        const { facts, layout } = await cache.open([first, second]);
        expect(facts.rows).toBe(5);
        const before = { ...did };
        expect((await cache.open([first, second])).layout).toBe(layout);
        expect(did).toEqual(before);
        expect((await cache.open([second, first])).layout).not.toBe(layout); // another order, other rows
        identities[second] = "c";
        expect((await cache.open([first, second])).layout).not.toBe(layout);
        expect(did.opened).toBe(3);
    });

    test("are read again while nothing tells whether they changed", async () => {
        const { cache, did } = cacheOf({ [first]: "a" });
        for (const path of [second, [first, second]]) {
            const { layout } = await cache.open(path);
            expect((await cache.open(path)).layout).not.toBe(layout);
        }
        expect(did.opened).toBe(4);
    });

    test("are read again when their ends differ, whatever their times say", async () => {
        const path = sandbox.path("rewritten.arrow");
        const bytes = tableToIPC(numbers(1, 2, 3), "file");
        writeFileSync(path, bytes);
        const { cache } = cacheOf({ [path]: "same" });
        expect((await cache.open(path)).facts.rows).toBe(3);
        writeFileSync(path, tableToIPC(numbers(1, 2, 3, 4), "file"));
        expect((await cache.open(path)).facts.rows).toBe(4);
    });

    test("are read again when their first bytes alone differ", async () => {
        let last = 1;
        const { cache, did } = cacheOf({ [first]: "same" }, {}, (ends) => ({
            ...ends,
            head: Buffer.concat([ends.head, Buffer.of(last)])
        }));
        await cache.open(first);
        await cache.open(first);
        expect(did.opened).toBe(1);
        last = 2;
        await cache.open(first);
        expect(did.opened).toBe(2);
    });

    test("and are gone, or broken, are errors as for the first time", async () => {
        const path = sandbox.write(numbers(7), "gone.arrow");
        const { cache } = cacheOf({ [path]: "same" });
        await cache.open(path);
        writeFileSync(path, tableToIPC(numbers(7), "file").subarray(0, -3));
        await expect(cache.open(path)).rejects.toMatchObject({ code: "FILE_TRUNCATED" });
        writeFileSync(path, tableToIPC(numbers(7), "file"));
        await cache.open(path);
        rmSync(path);
        await expect(cache.open(path)).rejects.toThrow(/gone\.arrow/);
        await expect(cache.open([])).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    });

    test("are forgotten when others that take more memory than is granted were opened since", async () => {
        const large = tableToIPC(numbers(...Array<number>(20_000).fill(1)), "file"); // the last 64 KiB of each are kept
        const paths = Array.from({ length: 300 }, (_, i) => sandbox.path(`many-${i}.arrow`));
        for (const path of paths) writeFileSync(path, large);
        const { cache, did } = cacheOf(Object.fromEntries(paths.map((path) => [path, path])));
        for (const path of paths) await cache.open(path);
        expect(did.opened).toBe(300);
        for (const path of paths.slice(-200)) await cache.open(path);
        expect(did.opened).toBe(300);
        await cache.open(paths[0]);
        expect(did.opened).toBe(301);
        await cache.open(paths); // too much for the cache, and nothing else is forgotten for it
        await cache.open(paths[299]);
        expect(did.opened).toBe(302);
        await cache.open(paths);
        expect(did.opened).toBe(303);
        for (const path of paths) rmSync(path);
    });

    test("take 16 MiB together: their first and last bytes, their paths, and 8 KiB of each", async () => {
        const most = 16 * 1024 * 1024;
        /** As if so many bytes of each were read at first, and so many at its end. */
        const cacheOfBytes = (bytes: Record<string, number>) => {
            const { cache, did } = cacheOf({ [first]: "a", [second]: "b" }, {}, (ends, path) => {
                const head = Buffer.concat([ends.head, Buffer.alloc(1000)]);
                const padding = bytes[path]! - 8192 - path.length - head.length - ends.tail.length;
                return { ...ends, head, tail: Buffer.concat([Buffer.alloc(padding), ends.tail]) };
            });
            return { cache, did };
        };
        for (const [bytes, opened] of [
            [most, 1],
            [most + 1, 2]
        ] as const) {
            const { cache, did } = cacheOfBytes({ [first]: bytes });
            for (const path of [first, first]) await cache.open(path);
            expect(did.opened).toBe(opened);
        }
        for (const [bytes, opened] of [
            [most / 2, 2],
            [most / 2 + 1, 4]
        ] as const) {
            const { cache, did } = cacheOfBytes({ [first]: most / 2, [second]: bytes });
            for (const path of [first, second, first, second]) await cache.open(path);
            expect(did.opened).toBe(opened);
        }
        const { cache, did } = cacheOfBytes({ [first]: 20_000, [second]: most + 1 });
        for (const path of [first, second, first]) await cache.open(path);
        expect(did.opened).toBe(2); // nothing is forgotten for one that is never kept
    });

    test("take no more of the budget together than is granted", async () => {
        const paths = [first, second];
        const { cache, did } = cacheOf({ [first]: "a", [second]: "b" }, { [first]: 600, [second]: 401 });
        for (const path of [...paths, second, first, first]) await cache.open(path);
        expect(did.opened).toBe(3); // the second made the first one forgotten, and the other way round
        const both = cacheOf({ [first]: "a", [second]: "b" }, { [first]: 600, [second]: 400 });
        for (const path of [...paths, ...paths]) await both.cache.open(path);
        expect(both.did.opened).toBe(2);
        const most = cacheOf({ [first]: "a" }, { [first]: 1000 });
        for (const path of [first, first]) await most.cache.open(path);
        expect(most.did.opened).toBe(1);
        const alone = cacheOf({ [first]: "a", [second]: "b" }, { [first]: 1001, [second]: 400 });
        for (const path of [second, first, first, second]) await alone.cache.open(path);
        expect(alone.did.opened).toBe(3); // the first is never kept, and nothing is forgotten for it
        alone.cache.forgetAll();
        await alone.cache.open(second);
        expect(alone.did.opened).toBe(4);
    });

    test("keep their schema when a user writes to that of a relation", async () => {
        const { cache } = cacheOf({ [first]: "same" });
        for (let i = 0; i < 3; i++) {
            const { schema } = await cache.open(first);
            expect(schema.fields.map(({ name }) => name)).toEqual(["n"]);
            expect(schema.metadata.size + (schema.fields[0]?.metadata.size ?? 0)).toBe(0);
            schema.metadata.set("mine", "1");
            schema.fields[0]?.metadata.set("mine", "2");
            Object.assign(schema.fields[0] ?? {}, { name: "renamed" });
        }
    });

    test("are not kept when a batch is refused", async () => {
        let refuses = true;
        const reader: FileReader = {
            ...fileReader,
            ends: async (...wanted) => ({ ...(await fileReader.ends(...wanted)), identity: "same" }),
            batches: async (spec) => {
                if (refuses) throw new Error("a buffer lies behind the end");
                return await fileReader.batches(spec);
            }
        };
        const cache = new OpenedFilesCache(reader, 1000);
        await expect(cache.open(first)).rejects.toThrow("behind the end");
        refuses = false;
        expect((await cache.open(first)).facts.rows).toBe(3);
    });
});

test("a runtime sees files that were replaced, rewritten or touched between queries", async () => {
    await using runtime = await openRuntime({ threads: 2 });
    const path = sandbox.path("changing.arrow");
    const write = (table: Table, at = path) => writeFileSync(at, tableToIPC(table, "file"));
    // Files that changed just now are always read again.
    const age = async () => {
        utimesSync(path, 1_000_000_000, 1_000_000_000);
        await setTimeout(250);
    };
    const rows = async () => await (await runtime.fromArrowFile(path)).groupBy({ keys: ["n"] }).count();
    write(numbers(1, 2, 3));
    await age();
    for (let i = 0; i < 3; i++) expect(await rows()).toBe(3);
    const bytes = statSync(path).size;
    write(numbers(1, 1, 2));
    expect(statSync(path).size).toBe(bytes);
    await age();
    expect(await rows()).toBe(2);
    write(numbers(1, 2, 3, 4), `${path}.new`);
    renameSync(`${path}.new`, path);
    expect(await rows()).toBe(4);
    rmSync(path);
    await expect(rows()).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
});

describe("a file that is not the one that was opened", () => {
    const changed = { code: "FILE_CHANGED", message: expect.stringContaining("fromArrowFile()") as string };
    const open = async (name: string, rows: number) => {
        const path = sandbox.write(numbers(...Array.from({ length: rows }, (_, i) => i)), name);
        utimesSync(path, 1_000_000_000, 1_000_000_000);
        const runtime = await openRuntime({ threads: 2, memory: { host: "64MiB" } });
        const relation = await runtime.fromArrowFile(path);
        return { path, runtime, query: relation.groupBy({ keys: ["n"] }) };
    };

    test("is not read at the old one's offsets: replaced", async () => {
        const { path, runtime, query } = await open("replaced.arrow", 1000);
        expect(await query.count()).toBe(1000);
        sandbox.write(numbers(...Array.from({ length: 2000 }, (_, i) => i)), "replacing.arrow");
        renameSync(sandbox.path("replacing.arrow"), path);
        await expect(query.count()).rejects.toMatchObject({ ...changed, details: { path } });
        await expect(query.toTable()).rejects.toMatchObject(changed);
        expect(await (await runtime.fromArrowFile(path)).groupBy({ keys: ["n"] }).count()).toBe(2000);
        await runtime.close();
    });

    test("written over in place, by as many bytes", async () => {
        const { path, runtime, query } = await open("in-place.arrow", 3);
        const { size } = statSync(path);
        writeFileSync(path, tableToIPC(numbers(7, 7, 7), "file"));
        expect(statSync(path).size).toBe(size);
        await expect(query.count()).rejects.toMatchObject(changed);
        await runtime.close();
    });

    test("one of several, also where only its dictionary is wanted", async () => {
        const words = (...values: string[]) =>
            sandbox.write(new Table({ w: vectorFromArray(values) }), `${values[0]}.arrow`);
        const [left, right] = [words("a", "b"), words("b", "c")];
        await using runtime = await openRuntime({ threads: 2, memory: { host: "64MiB" } });
        const [l, r] = [await runtime.fromArrowFile(left), await runtime.fromArrowFile(right)];
        const join = l.join(r, { on: "w", type: "full" });
        expect(await join.count()).toBe(3);
        utimesSync(right, 1_000_000_000, 1_000_000_000);
        await expect(join.count()).rejects.toMatchObject({ ...changed, details: { path: right } });
    });

    test("a query's own result", async () => {
        const { path, runtime, query } = await open("own.arrow", 10);
        await query.toArrowFile(path, { overwrite: true });
        await expect(query.toArrowFile(path, { overwrite: true })).rejects.toMatchObject(changed);
        await runtime.close();
    });

    test("but one with other permissions or names is", async () => {
        const { path, runtime, query } = await open("attributes.arrow", 10);
        chmodSync(path, 0o600);
        linkSync(path, sandbox.path("linked.arrow"));
        expect(await query.count()).toBe(10);
        await runtime.close();
    });
});
