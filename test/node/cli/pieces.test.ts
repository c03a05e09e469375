// SPDX-License-Identifier: Apache-2.0
// Parts of the command line that need no engine: what words mean, how values and progress look.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as arrow from "apache-arrow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAggregates } from "../../../src/cli/parse/aggregates.js";
import { expandPattern, parseFiles } from "../../../src/cli/parse/files.js";
import { parseKeys, parseList } from "../../../src/cli/parse/lists.js";
import { editDistance, nearest } from "../../../src/cli/parse/nearest.js";
import { parseCount, parseNumber, parseSeed } from "../../../src/cli/parse/numbers.js";
import { parsePayload } from "../../../src/cli/parse/payload.js";
import { lineProgress, terminalProgress } from "../../../src/cli/render/progress.js";
import { formatBytes, formatCount, formatDuration, formatRough } from "../../../src/cli/render/quantities.js";
import { RowTable } from "../../../src/cli/render/rows.js";
import { segmentMatcher } from "../../../src/cli/parse/wildcards.js";
import { scaledText } from "../../../src/values/readers.js";
import { jsonLines } from "./in-process.js";

describe("words", () => {
    test("keys are pairs or shared names", () => {
        expect(parseKeys("on", ["a=b, c", "d=e"])).toEqual({ a: "b", c: "c", d: "e" });
        for (const wrong of ["a=b=c", "=b", "a=", "a,,b"]) expect(() => parseKeys("on", [wrong])).toThrow(/--on/);
        expect(() => parseKeys("on", ["a=b,a=c"])).toThrow(/twice/);
        expect(parseList("select", ["a,b", " c "])).toEqual(["a", "b", "c"]);
    });

    test("aggregates have names, functions and columns", () => {
        expect(parseAggregates(["n=count:*,sum:price", "u=count-distinct:a:b"])).toEqual({
            n: { count: "*" },
            price_sum: { sum: "price" },
            u: { countDistinct: "a:b" }
        });
        expect(parseAggregates(["count:*"])).toEqual({ count: { count: "*" } });
        expect(() => parseAggregates(["x=smu:a"])).toThrow(/did you mean sum/);
        expect(() => parseAggregates(["avg:a"])).toThrow(/"avg"; it is called mean here\./);
        expect(() => parseAggregates(["abc:a"])).toThrow(/known are sum/);
        expect(() => parseAggregates(["x=sum:*"])).toThrow(/only count takes/);
        expect(() => parseAggregates(["x=price"])).toThrow(/NAME=FUNCTION:COLUMN/);
        expect(() => parseAggregates(["x=sum:a,x=min:a"])).toThrow(/two results/);
    });

    test.each([
        ["10", 10],
        ["1_000", 1000],
        ["1e6", 1e6],
        ["1.5M", 1.5e6],
        ["2G", 2e9]
    ])("the count %s is %d", (text, count) => expect(parseCount("rows", text)).toBe(count));

    test("counts and numbers that make no sense are refused", () => {
        for (const text of ["", "-1", "1.5", "NaN", "1e400", "ten", "0x10"]) {
            expect(() => parseCount("rows", text), text).toThrow(/--rows/);
        }
        for (const text of ["", "NaN", "2", "-0.1"]) expect(() => parseNumber("share", text, 0, 1), text).toThrow();
        expect(parseNumber("share", "0.25", 0, 1)).toBe(0.25);
    });

    test("a count beyond its limit is told the limit, not examples beyond it", () => {
        for (const text of ["0", "1025", "many"]) {
            const message = `--threads needs a whole number from 1 to 1024, not "${text}".`;
            expect(() => parseCount("threads", text, 1, 1024)).toThrow(message);
        }
        expect(parseCount("threads", "1024", 1, 1024)).toBe(1024);
        expect(() => parseCount("rows", "1e17")).toThrow(`from 0 to ${Number.MAX_SAFE_INTEGER}`);
    });

    test("seeds have 64 bits", () => {
        expect(["0", "1_000", "1e6", "18446744073709551615"].map((text) => parseSeed("seed", text))).toEqual([
            0n,
            1000n,
            1_000_000n,
            2n ** 64n - 1n
        ]);
        expect(() => parseSeed("seed", "18446744073709551616")).toThrow(/from 0 to 18446744073709551615/);
        expect(() => parseSeed("seed", "-1")).toThrow(/--seed/);
    });

    test("payload columns are counted or named", () => {
        expect(parsePayload("payload", "2", "left")).toEqual([{ name: "left0" }, { name: "left1" }]);
        expect(parsePayload("payload", "p:float64,t:utf8(24),i", "left")).toEqual([
            { name: "p", type: "float64" },
            { name: "t", type: "utf8", width: 24 },
            { name: "i", type: "int64" }
        ]);
        expect(() => parsePayload("payload", "p:float46", "left")).toThrow(/did you mean float64/);
    });

    test("there are no more payload columns than a file is generated with", () => {
        expect(parsePayload("payload", "4096", "left")).toHaveLength(4096);
        for (const count of ["4097", "999999999", "9".repeat(400)]) {
            expect(() => parsePayload("payload", count, "left")).toThrow(/from 0 to 4096/);
        }
        const names = Array.from({ length: 4097 }, (_, index) => `c${index}`).join(",");
        expect(() => parsePayload("payload", names, "left")).toThrow(/names 4097 columns, of at most 4096/);
    });

    test("the nearest word wins, a far one is not named", () => {
        expect(editDistance("memroy", "memory")).toBe(1);
        expect(nearest("memroy", ["json", "memory", "threads"])).toBe("memory");
        expect(nearest("xyz", ["json", "memory", "on"])).toBeNull();
    });

    test("a short form means the name that begins so", () => {
        const options = ["spill-directory", "memory", "device-memory", "device", "output", "on"];
        expect(nearest("spill-dir", options)).toBe("spill-directory");
        expect(nearest("dev-mem", options)).toBe("device-memory");
        expect(nearest("dev", options)).toBe("device");
        expect(nearest("mem", options)).toBe("memory");
        expect(nearest("sp", options)).toBeNull(); // two letters begin too much
        expect(nearest("memory-device-x", options)).toBeNull();
    });
});

describe("file patterns", () => {
    let folder: string;
    beforeAll(() => {
        folder = mkdtempSync(join(tmpdir(), "spillway-pattern-"));
        mkdirSync(join(folder, "deep/er"), { recursive: true });
        for (const name of ["b1.arrow", "b2.arrow", ".hidden.arrow", "x[1].arrow", "c,d.arrow", "deep/er/b3.arrow"]) {
            writeFileSync(join(folder, name), "");
        }
    });
    afterAll(() => rmSync(folder, { recursive: true }));
    const { signal } = new AbortController();
    const files = (texts: readonly string[]): Promise<string[]> => parseFiles("input", texts, signal);
    const names = async (pattern: string): Promise<string[]> =>
        (await expandPattern(join(folder, pattern), signal)).map((path) => path.slice(folder.length + 1));

    test("match as in a shell", async () => {
        expect(await names("b*.arrow")).toEqual(["b1.arrow", "b2.arrow"]);
        expect(await names("b?.arrow")).toEqual(["b1.arrow", "b2.arrow"]);
        expect(await names("b[2-9].arrow")).toEqual(["b2.arrow"]);
        expect(await names("[!x]*1.arrow")).toEqual(["b1.arrow"]);
        expect(await names("**/b*.arrow")).toEqual(["b1.arrow", "b2.arrow", "deep/er/b3.arrow"]);
        expect(await names("*")).not.toContain(".hidden.arrow");
    });

    test("a name that exists is taken as it is", async () => {
        const exact = ["x[1].arrow", "c,d.arrow"].map((name) => join(folder, name));
        expect(await files(exact)).toEqual(exact);
        expect(await files(["missing.arrow,other.arrow"])).toEqual(["missing.arrow", "other.arrow"]);
        await expect(files([join(folder, "z*")])).rejects.toThrow(/No file matches/);
        await expect(files(["a,,b"])).rejects.toThrow(/empty file name/);
    });

    // A regular expression needs longer than the universe for the first one.
    test("are matched in linear time", async () => {
        const started = performance.now();
        const matches = segmentMatcher(`${"*a".repeat(40)}*b`);
        expect([matches("a".repeat(255)), matches(`${"a".repeat(254)}b`)]).toEqual([false, true]);
        const deep = "**/".repeat(40);
        expect(await names(`${deep}b3.arrow`)).toEqual(["deep/er/b3.arrow"]);
        expect(performance.now() - started).toBeLessThan(2000);
    });

    test.each([
        ["*", "", true],
        ["a*", "a", true],
        ["*b*", "abc", true],
        ["*bc", "abcbc", true],
        ["*bc", "abcb", false],
        ["?", "\u{1f600}", true],
        ["a?c*e", "abcde", true],
        ["[]]", "]", false],
        ["[a-c]x[!0-9]", "bxy", true],
        ["[a-c]x[!0-9]", "bx5", false],
        ["[z-a]", "b", false],
        ["a.c", "abc", false],
        ["[", "[", true],
        ["\\*", "\\x", true]
    ])("%j and %j: %s", (pattern, name, expected) => expect(segmentMatcher(pattern)(name)).toBe(expected));

    test("stop with the signal", async () => {
        const stopped = AbortSignal.abort(new Error("stopped"));
        await expect(expandPattern(join(folder, "**/*"), stopped)).rejects.toThrow("stopped");
    });
});

describe("what a person reads", () => {
    test("sizes, counts and times", () => {
        expect([0, 1023, 1024, 1536, 24.04 * 2 ** 20, 2 ** 40].map(formatBytes)).toEqual([
            "0 B",
            "1023 B",
            "1 KiB",
            "1.5 KiB",
            "24 MiB",
            "1 TiB"
        ]);
        expect(formatCount(1234567)).toBe("1,234,567");
        expect([7, 1500, 2_000_000, 999_999].map(formatRough)).toEqual(["7", "1.5 k", "2 M", "1000 k"]);
        expect([0.42, 85, 1240, 65_000, 7_500_000].map(formatDuration)).toEqual([
            "0.4 ms",
            "85 ms",
            "1.24 s",
            "1 min 05 s",
            "2 h 05 min"
        ]);
        expect([scaledText(12345n, 2), scaledText(-1n, 2), scaledText(5n, 0)]).toEqual(["123.45", "-0.01", "5"]);
    });

    test("progress is a line per tenth in a log and a bar that vanishes on a terminal", () => {
        const event = { phase: "join", rows: 5000, rowsOut: 0, spilledBytes: 0, etaMs: 1000 };
        let text = "";
        const stream = { columns: 200, write: (part: string) => (text += part) };
        const log = lineProgress(stream);
        for (const fraction of [0.01, 0.1, 0.15, 0.31, 1]) log.update({ ...event, fraction });
        expect(text.match(/^ *\d+ %/gm)?.map((share) => share.trim())).toEqual(["10 %", "30 %", "100 %"]);
        text = "";
        let now = 0;
        const bar = terminalProgress(stream, () => now);
        bar.update({ ...event, fraction: 0.5 });
        bar.update({ ...event, fraction: 0.6 }); // in the same frame
        now = 1000;
        bar.update({ ...event, fraction: 0.7 });
        expect([text.includes("50 %"), text.includes("60 %"), text.includes("70 %")]).toEqual([true, false, true]);
        expect(text).toContain("ETA 1.00 s");
        bar.end();
        expect(text.endsWith("\r\x1b[2K")).toBe(true);
    });

    test("progress fits the terminal and never cuts the remaining time", () => {
        const event = { phase: "partition left", rows: 12_345_678, rowsOut: 1_234_567, spilledBytes: 123 << 20 };
        const lineAt = (columns: number, etaMs: number | null): string => {
            let text = "";
            const stream = { columns, write: (part: string) => (text += part) };
            terminalProgress(stream).update({ ...event, fraction: 0.5, etaMs });
            return text.slice("\r\x1b[2K".length);
        };
        for (let columns = 20; columns <= 140; columns++) {
            for (const etaMs of [778, 61_000, 7_500_000]) {
                const line = lineAt(columns, etaMs);
                expect(line.length, line).toBeLessThan(columns);
                if (columns > 26) expect(line.endsWith(`ETA ${formatDuration(etaMs)}`), line).toBe(true);
            }
        }
        expect(lineAt(80, 778)).toMatch(/^█+░+ {2}50 % {2}partition left · 12.3 M rows · 1.23 M out · ETA 778 ms$/);
        expect(lineAt(0, 778)).toBe(lineAt(80, 778));
        expect(lineAt(60, null)).toMatch(/^█+░+ {2}50 % {2}partition left · 12.3 M rows/);
        expect(lineAt(4, 778)).toBe(" 50");
    });

    test("rows as JSON keep every digit", () => {
        const nanoseconds = new arrow.Timestamp(arrow.TimeUnit.NANOSECOND, "UTC");
        const ticks = BigInt64Array.of(1700000000123456789n, -1n);
        const table = new arrow.Table({
            id: arrow.vectorFromArray([-9007199254740993n, null], new arrow.Int64()),
            at: arrow.makeVector(arrow.makeData({ type: nanoseconds, length: 2, nullCount: 0, data: ticks })),
            day: arrow.vectorFromArray([new Date("2024-02-29"), null], new arrow.DateDay()),
            ratio: arrow.vectorFromArray([NaN, 1.5], new arrow.Float64()),
            raw: arrow.vectorFromArray([Uint8Array.of(1, 255), null], new arrow.Binary()),
            list: arrow.vectorFromArray([[1, 2], null], new arrow.List(new arrow.Field("item", new arrow.Int32())))
        });
        expect(jsonLines(table.batches[0]!)).toBe(
            '{"id":-9007199254740993,"at":"2023-11-14T22:13:20.123456789Z","day":"2024-02-29",' +
                '"ratio":null,"raw":"0x01ff","list":[1,2]}\n' +
                '{"id":null,"at":"1969-12-31T23:59:59.999999999Z","day":null,"ratio":1.5,"raw":null,"list":null}\n'
        );
    });

    test("a table shows the first rows and knows of more", () => {
        const table = arrow.tableFromArrays({ n: Int32Array.of(1, 20, 300), text: ["a\nb", "c", "d"] });
        const rows = new RowTable(table.schema, 2);
        expect([[...rows.add(table.batches[0]!)], rows.more]).toEqual([[], true]);
        expect(rows.lines()).toEqual([" n  text", "--  ----", " 1  a\\nb", "20  c"]);
    });
});
