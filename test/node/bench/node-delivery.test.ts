// SPDX-License-Identifier: Apache-2.0
// How fast results come to Node: the cells of the configuration, what they take of a machine, their records, and a run
// of a few small ones on the CPU engine, the plugin of plain C++ and DuckDB.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { useGpu } from "../../support/gpu.js";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

type Result = "count" | "sums" | "batches" | "table" | "file" | "group-by";
interface Cell {
    result: Result;
    bits: number;
    columns: number;
    from: "memory" | "files";
    device?: string;
    limit?: string;
}
interface Shape {
    kind: "join" | "group";
    bits: number;
    columns: number;
    results: Result[];
    from: ("memory" | "files")[];
    devices: { device: string; limit?: string }[];
}
interface Workload {
    name: string;
    result: Result;
    from: string;
    columns: number;
    rows: { build?: number; probe: number };
    groups?: number;
    device_limit?: string;
}
interface Record {
    workload: Workload;
    median_ms: number;
    samples_ms: number[];
    rows_out: number;
    result_bytes?: number;
    gb_per_s: number;
    verified?: boolean;
    [field: string]: unknown;
}
interface Room {
    memoryBytes: number;
    diskBytes: number;
    diskIsMemory?: boolean;
}
const program = join(repositoryRoot, "test/bench/node-delivery.mjs");
const bench = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench", file))) as T;
const { duckdbMisfit, hostBudget, misfitOf, nameOf, recordOf, shapesOf } = await bench<{
    shapesOf: (axes: object) => Shape[];
    nameOf: (cell: Cell) => string;
    misfitOf: (cell: Cell, room: Room) => string | undefined;
    duckdbMisfit: (cell: Cell, room: Room) => string | undefined;
    hostBudget: (cell: Cell, memoryBytes: number) => number;
    recordOf: (cell: Cell, measured: object, setting: object) => Record;
}>("node-delivery-cells.mjs");
const { mergeRecords } = await bench<{ mergeRecords: (before: Record[], records: Record[]) => Record[] }>(
    "node-delivery-records.mjs"
);
const { readOptions } = await bench<{
    readOptions: (args: string[]) => { axes: object; samples: number; deadline?: number; duckdb: string };
}>("node-delivery-options.mjs");
const { measure } = await bench<{
    measure: (name: string, samples: number, run: () => Promise<void>, after: () => void) => Promise<number[]>;
}>("measure.mjs");

const gibibyte = 2 ** 30;
const config = JSON.parse(readFileSync(join(repositoryRoot, "configs/experiments/node-delivery.json"), "utf8")) as {
    experiment: string;
    samples: number;
    axes: object;
};

/** The cells of shapes, one by one. */
const cellsOf = (shapes: Shape[]): Cell[] =>
    shapes.flatMap(({ bits, columns, results, from, devices }) =>
        results.flatMap((result) =>
            from.flatMap((place) => devices.map((device) => ({ result, bits, columns, from: place, ...device })))
        )
    );

describe("cells", () => {
    test("of the configuration are all results of all inputs on all devices", () => {
        const cells = cellsOf(shapesOf(config.axes));
        const names = cells.map(nameOf);
        expect(config.experiment).toBe("node-delivery");
        expect(new Set(names).size).toBe(3 * 3 * 2 * 6 * 4);
        expect(names).toHaveLength(432);
        expect(names).toContain("batches, 2^30 rows a side, 6 columns, from files, gpu 1GiB");
        expect(names).toContain("group-by, 2^26 rows, 1 column, from memory, cpu");
    });

    test("of a part of it have no inputs that nobody reads", () => {
        const axes = { bits: [20], columns: [3], from: ["files"], devices: ["gpu"], limits: ["4GiB"] };
        const shapes = shapesOf({ ...axes, results: ["table", "count"] });
        expect(shapes.map(({ kind, results }) => [kind, results])).toEqual([["join", ["table", "count"]]]);
        expect(shapes[0]!.devices).toEqual([{ device: "gpu", limit: "4GiB" }]);
        expect(shapesOf({ ...axes, results: ["group-by"] }).map(({ kind }) => kind)).toEqual(["group"]);
    });
});

describe("a machine", () => {
    const cell: Cell = { result: "table", bits: 28, columns: 3, from: "memory" };
    const large = { memoryBytes: 1024 * gibibyte, diskBytes: 1024 * gibibyte };

    test("has inputs and a kept result in its memory", () => {
        // Two relations of four columns, and a table of seven, which is 0.8 of what they leave.
        const [inputs, table] = [16 * gibibyte, 14 * gibibyte];
        const enough = inputs + Math.ceil(table / 0.8) + 1;
        expect(misfitOf(cell, { ...large, memoryBytes: enough })).toBeUndefined();
        const why = misfitOf(cell, { ...large, memoryBytes: enough - 2 ** 20 });
        expect(why).toBe(
            "its result and queries take 14.0 GiB, and 80 % of the memory beside inputs of 16.0 GiB are 14.0 GiB"
        );
        const batches: Cell = { ...cell, result: "batches" };
        expect(misfitOf(batches, { ...large, memoryBytes: inputs + 2.6 * gibibyte })).toBeUndefined();
        expect(misfitOf(batches, { ...large, memoryBytes: inputs + 2.4 * gibibyte })).toMatch("queries take 2.0 GiB");
        expect(misfitOf({ ...cell, from: "files" }, { ...large, memoryBytes: enough - inputs })).toBeUndefined();
        expect(hostBudget(cell, inputs + 100 * gibibyte)).toBe(80 * gibibyte);
        expect(hostBudget(cell, inputs - 1)).toBe(0);
    });

    test("has input files and a result file on its disk, or in memory where that is its disk", () => {
        const file: Cell = { ...cell, result: "file", from: "files" };
        const bytes = 30 * gibibyte;
        expect(misfitOf(file, { ...large, diskBytes: bytes })).toBeUndefined();
        const why = misfitOf(file, { ...large, diskBytes: bytes - 2 ** 27 });
        expect(why).toBe("its files take 30.0 GiB of disk, and 29.9 GiB are free");
        expect(misfitOf({ ...file, result: "count" }, { ...large, diskBytes: 16 * gibibyte })).toBeUndefined();
        const memory = { diskBytes: bytes, memoryBytes: bytes + 2 ** 27 };
        expect(misfitOf(file, memory)).toBeUndefined();
        expect(misfitOf(file, { ...memory, diskIsMemory: true })).toMatch("80 % of the memory beside Node are 0.1 GiB");
    });

    test("has tables of DuckDB, what it joins them with, and a result", () => {
        const needed = Math.ceil((24 + 14) / 0.8) * gibibyte;
        expect(duckdbMisfit(cell, { ...large, memoryBytes: needed })).toBeUndefined();
        expect(duckdbMisfit(cell, { ...large, memoryBytes: 47 * gibibyte })).toMatch("result take 38.0 GiB, and 37.6");
        const file: Cell = { ...cell, result: "file" };
        expect(duckdbMisfit(file, { ...large, diskBytes: 13 * gibibyte })).toMatch("14.0 GiB, and 13.0 GiB are free");
    });
});

const stage = { name: "join", algorithm: "staged", predictedMs: 90, actualMs: 100, device: { movedBytes: 7000 } };
const report = {
    ...{ predictedMs: 100, rowsIn: 2 ** 21, bytesOut: 56 * 2 ** 20, device: "gpu", devicePeakBytes: 5000 },
    ...{ uploadedBytes: 300, downloadedBytes: 400, stages: [stage] }
};
const measured = {
    ...{ report, times: [120, 110.12345, 130], coldMs: 700, coldOf: "process", rows: 2 ** 20 },
    ...{ checksum: "f0 1", resident: { before: 1000, peak: 1500, after: 1100 } }
};
const setting = { samples: 3, hostBytes: 9, threads: 2, device: "H200; Xeon", date: "today", commit: "abc" };
const gpuCell: Cell = { result: "batches", bits: 20, columns: 3, from: "memory", device: "gpu", limit: "4GiB" };

describe("a record", () => {
    test("has the result's bytes in a second, what is resident, and what was planned", () => {
        const { workload, ...record } = recordOf(gpuCell, measured, setting);
        expect(workload).toEqual({
            name: "batches, 2^20 rows a side, 3 columns, from memory, gpu 4GiB",
            ...{ result: "batches", from: "memory", columns: 3, rows: { build: 2 ** 20, probe: 2 ** 20 } },
            ...{ key_bytes: 8, payload_bytes: { build: [8, 8, 8], probe: [8, 8, 8] } },
            ...{ device_limit: "4GiB", host_limit_bytes: 9, threads: 2, runs: 3 }
        });
        expect(record).toEqual({
            ...{ experiment: "node-delivery", algorithm: "staged", median_ms: 120, samples_ms: [120, 110.123, 130] },
            ...{ cold_ms: 700, cold_of: "process", rows_in: 2 ** 21, rows_out: 2 ** 20, predicted_ms: 100 },
            ...{ result_bytes: 56 * 2 ** 20, gb_per_s: 0.4893, gb_per_s_of: "result" },
            stages: [{ name: "join", ms: 100, predicted_ms: 90, bytes: 7000 }],
            link_bytes: { h2d: 300, d2h: 400 },
            ...{ peak_bytes: { host: 1500, device: 5000 }, resident_bytes: 500 },
            ...{ resident_before_bytes: 1000, resident_after_bytes: 1100, checksum: "f0 1" },
            ...{ device: "H200; Xeon", date: "today", commit: "abc" }
        });
    });

    test("has the bytes that are read where the result has hardly any", () => {
        const rateOf = (result: Result) => recordOf({ ...gpuCell, result }, measured, setting);
        const keys = 2 * 8 * 2 ** 20;
        expect(rateOf("count")).toMatchObject({ input_bytes: keys, gb_per_s_of: "input", gb_per_s: 0.1398 });
        expect(rateOf("sums")).toMatchObject({ input_bytes: 4 * keys, gb_per_s_of: "input", gb_per_s: 0.5592 });
        expect(rateOf("sums")).not.toHaveProperty("result_bytes");
    });

    test("has the bytes on the link of a query out of core, and no peak that the kernel hides", () => {
        const outOfCore = { h2dBytes: 900, d2hBytes: 800 };
        const stages = [{ ...stage, device: { outOfCore } }];
        const resident = { before: 1000, peak: undefined, after: 1100 };
        const record = recordOf(gpuCell, { ...measured, resident, report: { ...report, stages } }, setting);
        expect(record["link_bytes"]).toEqual({ h2d: 900, d2h: 800 });
        for (const name of ["peak_bytes", "resident_bytes"]) expect(record).not.toHaveProperty(name);
    });

    test("of the CPU engine has no link, that of a group-by one relation, a refused one its reason", () => {
        const onCpu = { ...measured, report: { ...report, device: "cpu" } };
        const cell: Cell = { result: "group-by", bits: 20, columns: 1, from: "files", device: "cpu" };
        const record = recordOf(cell, onCpu, setting);
        expect(record).not.toHaveProperty("link_bytes");
        expect(record["peak_bytes"]).toEqual({ host: 1500 });
        expect(record.workload).toMatchObject({
            rows: { probe: 2 ** 20 },
            groups: 2 ** 16,
            payload_bytes: { probe: [8] }
        });
        expect(record.workload).not.toHaveProperty("device_limit");
        const refused = recordOf(cell, { refused: "too small" }, setting);
        expect(refused).toMatchObject({ refused: "too small", commit: "abc" });
        expect(refused).not.toHaveProperty("median_ms");
    });
});

describe("records beside each other", () => {
    const make = (cell: Partial<Cell>, more: object = {}) => ({
        ...recordOf({ ...gpuCell, ...cell }, measured, setting),
        ...more
    });
    const verdicts = (records: Record[], before: Record[] = []) =>
        mergeRecords(before, records).map(({ verified }) => verified);

    test("are right where rows and sums are those of all others with these inputs", () => {
        const sums = { rows_out: 1 };
        const all = [make({}), make({ result: "table", from: "files" }), make({ result: "sums" }, sums)];
        expect(verdicts(all)).toEqual([true, true, true]);
        expect(verdicts([make({}, { checksum: "f0 2" }), ...all.slice(1)])).toEqual([false, false, false]);
        // As many rows as probe rows, whatever others have.
        expect(verdicts([make({}, { rows_out: 5 }), make({ limit: "1GiB" }, { rows_out: 5 })])).toEqual([false, false]);
        // Other inputs, and records of other kinds, tell nothing of a result.
        const others = [make({ columns: 1 }), make({ bits: 21 }, { rows_out: 2 ** 21 }), make({ result: "group-by" })];
        expect(verdicts([make({}), ...others, make({ result: "count" }, { checksum: undefined })])).toEqual(
            Array.from({ length: 5 }, () => undefined)
        );
        const groups = [{ limit: "1GiB" }, {}].map((limit) => make({ result: "group-by", ...limit }, { rows_out: 9 }));
        expect(verdicts(groups)).toEqual([true, true]);
        expect(verdicts([{ ...groups[0]!, rows_out: 8 }, groups[1]!])).toEqual([false, false]);
    });

    test("of a file stay unless their cell was measured again, and are compared with", () => {
        const old = [make({}, { commit: "old" }), make({ limit: "1GiB" }, { commit: "old", verified: true })];
        const merged = mergeRecords(old, [make({})]);
        expect(merged.map(({ commit, workload }) => [commit, workload.device_limit])).toEqual([
            ["old", "1GiB"],
            ["abc", "4GiB"]
        ]);
        expect(verdicts([make({}, { checksum: "f0 2" })], old)).toEqual([true, false]);
    });

    test("share what DuckDB took for the same result on the same processor", () => {
        const duckdb = { duckdb_ms: 5, duckdb_version: "v1", duckdb_date: "then" };
        const old = [make({}, duckdb), make({ result: "table" }, { ...duckdb, duckdb_ms: 6 })];
        const again = make({ from: "files" });
        const elsewhere = make({ limit: "1GiB" }, { device: "H200; EPYC" });
        const found = mergeRecords(old, [again, elsewhere, make({})]).map((record) => record["duckdb_ms"]);
        expect(found).toEqual([6, 5, undefined, 5]);
        const newer = make({ limit: "2GiB" }, { ...duckdb, duckdb_ms: 4 });
        expect(mergeRecords(old, [newer, make({})]).map((record) => record["duckdb_ms"])).toEqual([6, 4, 4]);
    });
});

test("what is done between runs is not in their time", async () => {
    const calls: string[] = [];
    const wait = new Int32Array(new SharedArrayBuffer(4));
    const times = await measure("between", ...([3, async () => void calls.push("run")] as const), () => {
        calls.push("after");
        Atomics.wait(wait, 0, 0, 150);
    });
    expect(calls).toEqual(Array.from({ length: 4 }, () => ["run", "after"]).flat());
    expect(times).toHaveLength(3);
    expect(Math.min(...times)).toBeLessThan(100);
});

describe("the command line", () => {
    test("asks for everything that the configuration has", () => {
        const { axes, samples, deadline, duckdb } = readOptions([]);
        expect([axes, samples, deadline, duckdb]).toEqual([config.axes, config.samples, undefined, "on"]);
    });

    test("asks for a part of it, and for other sizes", () => {
        const words = "--bits 20 --columns 2,15 --results file --devices gpu --limits 2GiB --limit-s 60".split(" ");
        const { axes, deadline } = readOptions(words);
        expect(axes).toEqual({
            ...{ bits: [20], columns: [2, 15], from: ["memory", "files"], results: ["file"] },
            ...{ devices: ["gpu"], limits: ["2GiB"] }
        });
        expect(Math.abs(deadline! - Date.now() - 60_000)).toBeLessThan(10_000);
    });

    test.each([
        [["--from", "moon"], "Expected memory, files for --from but received 'moon'."],
        [["--results", "rows"], "group-by for --results but received 'rows'."],
        [["--devices", "tpu"], "Expected cpu, gpu for --devices but received 'tpu'."],
        [["--bits", "40"], "Expected whole numbers from 1 to 31 for --bits but received '40'."],
        [["--columns", "1,x"], "Expected whole numbers from 1 to 15 for --columns but received 'x'."],
        [["--samples", "0"], "Expected whole numbers from 1 on for --samples but received '0'."],
        [["--limit-s", "no"], "Expected a number of seconds for --limit-s but received 'no'."],
        [["--duckdb", "maybe"], "Expected 'on' or 'off' for --duckdb but received 'maybe'."],
        [["--record", "records.json"], "--record needs --commit."]
    ])("refuses %s", (words, text) => {
        expect(() => readOptions(words)).toThrow(text);
    });
});

describe("the program", () => {
    let sandbox: Sandbox;
    beforeEach(() => (sandbox = new Sandbox()));
    afterEach(() => sandbox[Symbol.dispose]());

    function run(...words: string[]) {
        const folder = sandbox.path("work");
        const given = [program, "--folder", folder, "--bits", "12", "--columns", "1", "--samples", "2", ...words];
        const { status, stdout, stderr } = spawnSync(process.execPath, given, { encoding: "utf8" });
        return { status, stdout, stderr, left: existsSync(folder) ? readdirSync(folder) : [] };
    }

    test("says what is left out when its time is over", () => {
        const { status, stderr, left } = run("--limit-s", "0.001", "--devices", "cpu", "--results", "count,group-by");
        expect([status, left]).toEqual([2, []]);
        expect(stderr).toContain("4 cells are left out, since 0.001 seconds were over:");
        expect(stderr).toContain("\n  group-by, 2^12 rows, 1 column, from files, cpu\n");
    });

    test("says what it cannot read, and what a machine has no room for", () => {
        expect(run("--bits", "none")).toMatchObject({
            status: 1,
            stderr: expect.stringContaining("for --bits") as string
        });
        const why = /^table, 2\^31 rows a side, 15 columns, from memory, any device: left out: its result .* GiB$/;
        // No time either, should a machine have the 1.3 TiB.
        const large = "--bits 31 --columns 15 --results table --from memory --limit-s 0.001".split(" ");
        const { status, stderr } = run(...large);
        expect([status, stderr.trimEnd().split("\n")]).toEqual([2, [expect.stringMatching(why)]]);
    });

    test("measures cells on the CPU engine and on a GPU, with DuckDB beside them, and keeps other records", () => {
        useGpu();
        const file = sandbox.path("records.json");
        const other = recordOf(gpuCell, measured, setting);
        writeFileSync(file, JSON.stringify([other]));
        const words = ["--record", file, "--commit", "abc", "--json", "--results"];
        const { status, stdout, stderr, left } = run(
            ...words,
            "batches,file,group-by",
            "--from",
            "files",
            "--devices",
            "cpu"
        );
        expect([stderr, status, left]).toEqual([expect.stringContaining(" planned, DuckDB "), 0, []]);
        const records = JSON.parse(stdout) as Record[];
        expect(JSON.parse(readFileSync(file, "utf8"))).toEqual([other, ...records]);
        expect(records.map(({ workload }) => workload.result)).toEqual(["batches", "file", "group-by"]);
        for (const record of records) {
            // Groups of 16 rows have no other record here to be compared with.
            const [rows, width, verified] = record.workload.groups === 256 ? [256, 16] : [4096, 24, true];
            expect(record).toMatchObject({ rows_out: rows, duckdb_rows: rows, result_bytes: rows * width });
            expect([record.verified, record["commit"], record["cold_of"]]).toEqual([verified, "abc", "process"]);
            expect(record.samples_ms).toHaveLength(2);
            expect(record.gb_per_s).toBeCloseTo((rows * width) / record.median_ms / 1e6, 3);
            const before = record["resident_before_bytes"] as number;
            expect(before).toBeGreaterThan(2 ** 20);
            // Some kernels do not tell the peak of a part of a process.
            const peak = (record["peak_bytes"] as { host: number } | undefined)?.host;
            expect(record["resident_bytes"]).toBe(peak === undefined ? undefined : Math.max(0, peak - before));
            for (const name of ["cold_ms", "predicted_ms", "duckdb_ms"]) expect(record[name]).toBeGreaterThan(0);
        }
        const onGpu = run(
            ...words,
            "table",
            "--from",
            "memory",
            "--devices",
            "gpu",
            "--limits",
            "1GiB",
            "--duckdb",
            "off"
        );
        expect([onGpu.stderr, onGpu.status, onGpu.left]).toEqual([expect.stringContaining("gpu 1GiB: "), 0, []]);
        // Compared with those of the CPU engine, which are in the file.
        const [record] = JSON.parse(onGpu.stdout) as [Record];
        expect(record).toMatchObject({ verified: true, rows_out: 4096, link_bytes: { h2d: 2 * 4096 * 16 } });
        expect(JSON.parse(readFileSync(file, "utf8"))).toHaveLength(5);
    });
});
