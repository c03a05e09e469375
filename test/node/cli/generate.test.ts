// SPDX-License-Identifier: Apache-2.0
// What `generate` and `demo` do with folders and files, above all when something goes wrong.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { folderError } from "../../../src/cli/folders.js";
import { Interruption } from "../../../src/cli/interruption.js";
import { Sandbox } from "../../support/sandbox.js";
import { command } from "./in-process.js";

let sandbox: Sandbox;
let folder: string;
let count = 0;
beforeAll(() => {
    sandbox = new Sandbox();
});
afterAll(() => sandbox[Symbol.dispose]());
beforeEach(() => {
    folder = sandbox.path(`folder-${count++}`);
});

const small = ["--rows", "1000", "--threads", "1", "--memory", "64MiB"];
const relations = (...words: string[]) => command(["generate", "relations", folder, ...small, ...words]);

describe("a folder that cannot be used is OUTPUT_FAILED", () => {
    test.each([
        ["generate", (path: string) => ["generate", "tpch", path, "--scale", "0.001"]],
        ["demo", (path: string) => ["demo", "--folder", path, "--scale", "0.001"]]
    ])("by %s", async (_, words) => {
        const file = sandbox.path("a-file");
        writeFileSync(file, "");
        for (const path of [file, join(file, "below"), "/proc/nowhere"]) {
            const { code, stderr } = await command(words(path));
            expect(code).toBe(1);
            expect(stderr).toContain("OUTPUT_FAILED");
            expect(stderr).toContain(`"${path}"`);
            expect(stderr).toMatch(/name a folder|name another/);
            expect(stderr).not.toMatch(/--output|INTERNAL|\n\s+at /);
            const json = await command([...words(path), "--json"]);
            expect(JSON.parse(json.stdout)).toMatchObject({ error: { code: "OUTPUT_FAILED", details: { path } } });
        }
    });

    test("whatever the system says", () => {
        const failed = (code: string) => folderError("/f", "files", Object.assign(new Error("no"), { code }));
        expect(failed("EACCES")).toMatchObject({ code: "OUTPUT_FAILED", details: { errno: "EACCES", path: "/f" } });
        expect(failed("ENOSPC")).toMatchObject({ code: "DISK_FULL" });
        const other = new Error("something else");
        expect(folderError("/f", "files", other)).toBe(other);
    });
});

describe("nothing is written", () => {
    test.each([
        [["--rows", "100", "--duplicates", "1000"], /--rows 100 is less than --duplicates 1000/],
        [["--rows", "0", "--right-rows", "5"], /--rows 0 is less than --duplicates 1/],
        [["--sparse", "--sorted"], /exclude each other/],
        [["--payload", "a,a"], /--payload: "a" is the name of two columns/],
        [["--right-payload", "key"], /--right-payload: "key" is the name of the key column/],
        [["--right-payload", "t:utf8(0)"], /width of 1 to 16384/]
    ])("by %j", async (words, message) => {
        // The last one given counts for --rows, which may be given once.
        const all = words.includes("--rows") ? small.slice(2) : small;
        const { code, stderr } = await command(["generate", "relations", folder, ...all, ...words, "--overwrite"]);
        expect([code, existsSync(folder)]).toEqual([2, false]);
        expect(stderr).toMatch(message);
        expect(stderr).not.toContain("domainRows");
    });

    test("when the second file exists", async () => {
        mkdirSync(folder);
        writeFileSync(join(folder, "right.arrow"), "old");
        const { code, stderr } = await relations();
        expect([code, readdirSync(folder)]).toEqual([1, ["right.arrow"]]);
        expect(stderr).toMatch(/OUTPUT_EXISTS: .*right\.arrow.*\nGive --overwrite to replace it, or another folder\./);
    });
});

test("every seed of 64 bits makes files", async () => {
    const { code, stderr } = await relations("--seed", "18446744073709551615");
    expect([code, readdirSync(folder)], stderr).toEqual([0, ["left.arrow", "right.arrow"]]);
});

describe("a run that ends in its second file", () => {
    async function interrupted(...words: string[]) {
        const controller = new AbortController();
        return command(["generate", "relations", folder, ...small, ...words], {
            signal: controller.signal,
            onStderr: (text) => {
                if (text.includes("left.arrow:")) controller.abort(new Interruption("Interrupted", 130));
            }
        });
    }

    test("removes the first and the folder it made", async () => {
        const { code, stderr } = await interrupted();
        expect([code, existsSync(folder)]).toEqual([130, false]);
        expect(stderr).toContain("left.arrow was complete and is removed again.");
        mkdirSync(folder);
        await interrupted();
        expect(readdirSync(folder)).toEqual([]);
    });

    test("keeps what has replaced an older file, and says so", async () => {
        mkdirSync(folder);
        writeFileSync(join(folder, "left.arrow"), "old");
        const { code, stderr } = await interrupted("--overwrite");
        expect([code, readdirSync(folder)]).toEqual([130, ["left.arrow"]]);
        expect(stderr).toContain("left.arrow is complete and has replaced an older file, so it stays.");
        expect(readFileSync(join(folder, "left.arrow")).subarray(0, 6).toString()).toBe("ARROW1");
    });

    test("by a failure removes the first too", async () => {
        mkdirSync(join(folder, "right.arrow"), { recursive: true });
        const { code, stderr } = await relations("--overwrite");
        expect([code, readdirSync(folder)]).toEqual([1, ["right.arrow"]]);
        expect(stderr).toContain("OUTPUT_FAILED");
    });
});

describe("tables of a benchmark", () => {
    const tables = (...words: string[]) =>
        command(["generate", "tpch", folder, "--scale", "0.001", "--threads", "1", "--memory", "64MiB", ...words]);
    const bytesOf = (name: string) => readFileSync(join(folder, name));

    test("are all written, each to its file", async () => {
        const { code, stdout, stderr } = await tables("--json");
        expect(code, stderr).toBe(0);
        const files = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];
        const { files: written } = JSON.parse(stdout) as { files: { path: string; rows: number; bytes: number }[] };
        expect(written.map(({ path }) => path)).toEqual(files.map((name) => join(folder, `${name}.arrow`)));
        expect(written.slice(0, 7).map(({ rows }) => rows)).toEqual([5, 25, 10, 150, 200, 800, 1500]);
        expect(readdirSync(folder).sort()).toEqual(files.map((name) => `${name}.arrow`).sort());
    });

    test("of SSB likewise", async () => {
        const words = ["--scale", "0.001", "--threads", "1", "--memory", "64MiB", "--dictionary", "-q"];
        expect((await command(["generate", "ssb", folder, ...words])).code).toBe(0);
        const files = ["customer", "date", "lineorder", "part", "supplier"];
        expect(readdirSync(folder).sort()).toEqual(files.map((name) => `${name}.arrow`));
        const rows = files.map((name) => tableFromIPC(bytesOf(`${name}.arrow`)).numRows);
        expect(rows).toEqual([30, 2557, expect.closeTo(6000, -3), 200, 2]);
    });

    test("or only those that are named, as dictionaries where asked", async () => {
        expect((await tables("--tables", "nation,part", "--tables", "region", "-q")).code).toBe(0);
        expect(readdirSync(folder).sort()).toEqual(["nation.arrow", "part.arrow", "region.arrow"]);
        const plain = tableFromIPC(bytesOf("part.arrow"));
        expect((await tables("--tables", "part", "-q", "--dictionary", "--overwrite")).code).toBe(0);
        const encoded = tableFromIPC(bytesOf("part.arrow"));
        const typesOf = ({ schema }: typeof plain) => schema.fields.slice(2, 5).map(({ type }) => String(type));
        expect([typesOf(plain), typesOf(encoded)]).toEqual([
            ["Utf8", "Utf8", "Utf8"],
            Array(3).fill("Dictionary<Int32, Utf8>")
        ]);
        expect([...encoded.getChild("p_type")!]).toEqual([...plain.getChild("p_type")!]);
    });

    test("in parts whose names are in the order of their rows", async () => {
        const part = (number: number) =>
            tables("--tables", "orders,lineitem,region", "-q", "--part", String(number), "--of", "12");
        for (let number = 1; number <= 12; number++) expect((await part(number)).code).toBe(0);
        const names = readdirSync(folder).sort();
        expect(names).toHaveLength(36);
        expect(names[1]).toBe("lineitem.02-of-12.arrow");
        expect((await tables("-q")).code).toBe(0);
        for (const table of ["orders", "lineitem", "region"]) {
            const parts = names
                .filter((name) => name.startsWith(`${table}.`))
                .map((name) => tableFromIPC(bytesOf(name)));
            const rows = parts.flatMap((made) => made.toArray().map(String));
            expect(rows).toEqual(
                tableFromIPC(bytesOf(`${table}.arrow`))
                    .toArray()
                    .map(String)
            );
        }
    });

    test.each([
        [
            ["--tables", "orders,lineitems"],
            /--tables names "lineitems", which is none of region, .*; did you mean lineitem\?/
        ],
        [["--tables", "orders,orders"], /--tables names "orders" twice/],
        [["--part", "2"], /--part needs --of beside it/],
        [["--of", "2"], /--of needs --part beside it/],
        [["--part", "3", "--of", "2"], /--part needs a whole number from 1 to 2, not "3"/],
        [["--part", "0", "--of", "2"], /--part needs a whole number from 1 to 2, not "0"/],
        [["--part", "1", "--of", "0"], /--of needs a whole number from 1 to 1000000, not "0"/],
        [["--part", "1", "--of", "1000001"], /--of needs a whole number from 1 to 1000000/]
    ])("are not written by %j", async (words, message) => {
        const { code, stderr } = await tables(...words);
        expect([code, existsSync(folder)]).toEqual([2, false]);
        expect(stderr).toMatch(message);
    });

    test("of no size are refused", async () => {
        const { code, stderr } = await command(["generate", "tpch", folder, "--scale", "0"]);
        expect([code, existsSync(folder)]).toEqual([2, false]);
        expect(stderr).toMatch(/--scale needs a number above 0/);
    });

    test("are all removed again where one fails", async () => {
        mkdirSync(join(folder, "orders.arrow"), { recursive: true });
        const { code, stderr } = await tables("--overwrite");
        expect([code, readdirSync(folder)]).toEqual([1, ["orders.arrow"]]);
        expect(stderr).toContain("partsupp.arrow was complete and is removed again.");
    });
});
