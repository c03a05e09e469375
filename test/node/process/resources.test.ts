// SPDX-License-Identifier: Apache-2.0
// Memory and disk, each measured in a process of its own.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { errorOf, resultOf, runChild } from "../../support/child.js";
import { useGpu } from "../../support/gpu.js";
import { writeNumeric } from "../../support/numeric-files.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

const mebibyte = 1024 * 1024;
const rows = 3_000_000;
const on = { lkey: "rkey" };
let sandbox: Sandbox;
let left: string;
let right: string;
const runtime = (host: string) => ({ threads: 2, memory: { host, spillDirectory: sandbox.spill } });
const output = () => join(sandbox.output, "result.arrow");

beforeAll(() => {
    sandbox = new Sandbox();
    left = writeNumeric(sandbox.path("left.arrow"), { rows, keys: rows, prefix: "l", payloads: 2 });
    right = writeNumeric(sandbox.path("right.arrow"), { rows, keys: rows, prefix: "r", payloads: 2 });
});
afterAll(() => sandbox[Symbol.dispose]());

const newerV8 = Number(process.versions.node.split(".")[0]) > 22;

interface Measured {
    rows: number;
    peakBytes: number;
    startBytes: number;
    spilledBytes: number;
}

interface Failed {
    name: string;
    code: string;
    message: string;
    details: Record<string, unknown>;
}

describe("resident memory stays within the budget and 128 MiB", () => {
    test.each([32, 64, 128, 512])("of %i MiB", async (budget) => {
        for (const action of ["count", "file", "batches"]) {
            const argument = { runtime: runtime(`${budget}MiB`), left, right, on, action, output: output() };
            const measured = resultOf<Measured>(await runChild("query", argument));
            expect(measured.rows).toBeGreaterThan(0);
            // 144 MiB of input: the small budgets must spill, the large one has no reason to.
            if (budget <= 32) expect(measured.spilledBytes, action).toBeGreaterThan(0);
            if (budget >= 512) expect(measured.spilledBytes, action).toBe(0);
            expect(measured.peakBytes / mebibyte, action).toBeLessThanOrEqual(budget + 128);
            rmSync(output(), { force: true });
        }
        expect(sandbox.leftovers()).toEqual([]);
    });
});

test("10,000 small joins do not make the process grow", { timeout: 180_000 }, async () => {
    const argument = { joins: 10_000, warmUp: 1_000, runtime: runtime("64MiB") };
    const child = await runChild("small-joins", argument, { nodeOptions: ["--expose-gc"] });
    const { grownBytes, usedBytes } = resultOf<{ grownBytes: number; usedBytes: number }>(child);
    expect(grownBytes / mebibyte).toBeLessThan(32);
    expect(usedBytes).toBe(0);
});

describe("a reader", () => {
    interface Read {
        batches: number;
        rows: number;
        sum: number;
        kept: number;
        changed: number;
        grownBytes: number;
        collections: number;
        usedBytes: number;
    }
    const read = async (way: string, more: { batchRows: number; rows: number; keptEvery: number }) =>
        resultOf<Read>(await runChild("read-many", { runtime: runtime("64MiB"), way, ...more }));
    const many = { batchRows: 512, rows: 52_000, keptEvery: 500 };

    test("of 10,000 batches makes no process grow, whether it releases or drops them, and gets the same", async () => {
        const [released, dropped] = [await read("releases", many), await read("drops", many)];
        for (const reader of [released, dropped]) {
            // Of 28 bytes a row: the batches behind the first fifth have 110 MiB.
            expect(reader.batches).toBeGreaterThan(10_000);
            expect(reader.rows).toBe(100 * many.rows);
            expect(reader.grownBytes / mebibyte).toBeLessThan(16);
            expect([reader.kept, reader.changed, reader.usedBytes]).toEqual([Math.floor(reader.batches / 500), 0, 0]);
        }
        expect(released.sum).toBe(dropped.sum);
    });

    test.each(["drops", "releases"])("that %s batches makes V8 collect its heap rarely", async (way) => {
        const { batches, collections } = await read(way, { batchRows: 1024, rows: 11_000, keptEvery: 1e9 });
        expect(batches).toBeGreaterThan(1000);
        expect(collections).toBeLessThan(batches / 100);
    });
});

test("V8 hears of result batches that stay, and of none once they are dropped", async () => {
    const argument = { runtime: runtime("512MiB"), left, right, on };
    const child = await runChild("delivered-memory", argument, { nodeOptions: ["--expose-gc"] });
    const { heldBytes, before, during, table, after } = resultOf<Record<string, number>>(child) as Record<
        "heldBytes" | "before" | "during" | "table" | "after",
        number
    >;
    expect(heldBytes / mebibyte).toBeGreaterThan(100);
    expect((during - before) / heldBytes).toBeGreaterThan(0.95);
    expect((table - before) / heldBytes).toBeGreaterThan(0.95);
    expect(Math.abs(after - before) / mebibyte).toBeLessThan(4);
});

test("a table that is dropped while a runtime is idle goes back to the system, also if a file was opened", async () => {
    const argument = { runtime: runtime("512MiB"), left, right, on, idleMs: 3500 };
    const child = await runChild("idle-drop", argument, { nodeOptions: ["--expose-gc"] });
    const { holding, dropped } = resultOf<{ holding: number; dropped: number }>(child);
    expect((holding - dropped) / mebibyte).toBeGreaterThan(60);
});

test("a large table makes V8 collect its heap once or twice, not for every batch", { timeout: 120_000 }, async () => {
    const [left, right] = ["left", "right"].map((name) => sandbox.path(`collections-${name}.arrow`));
    const argument = { runtime: { threads: 2 }, left, right, rows: 10_000_000 };
    const { collectionsPerTable } = resultOf<{ collectionsPerTable: number }>(
        await runChild("table-collections", argument)
    );
    for (const path of [left, right]) rmSync(path!, { force: true });
    // It was nine. From Node 23 on V8 hears of all bytes at once (native/addon/jobs/delivered_memory.hpp).
    expect(collectionsPerTable).toBeLessThanOrEqual(newerV8 ? 4 : 3);
});

describe("a disk that is full", () => {
    const query = (options: { spill: string; output: string; action: string }, more: object = {}) => ({
        runtime: {
            ...{ threads: 2, memory: { host: "32MiB", spillDirectory: options.spill }, debug: { forceSpill: true } },
            ...more
        },
        ...{ left, right, on, action: options.action, output: options.output }
    });
    // A file system of 8 MiB, mounted in a namespace of the child alone.
    const mounted = (folder: string) => [
        ...["unshare", "--map-root-user", "--mount", "sh", "-c"],
        ...['mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"', folder]
    ];
    // Where mounting is not allowed: no file may grow beyond 8 MiB (units of 512 bytes).
    const limited = ["sh", "-c", 'ulimit -f 16384 && exec "$@"', "sh"];

    function wrapper(folder: string): readonly string[] {
        mkdirSync(folder, { recursive: true });
        const [program, ...args] = [...mounted(folder), "true"];
        return spawnSync(program, args).status === 0 ? mounted(folder) : limited;
    }

    async function expectFull(argument: ReturnType<typeof query>, folder: string): Promise<void> {
        const before = [left, right].map((path) => readFileSync(path));
        const wrap = wrapper(folder);
        const child = await runChild("query", argument, { wrapper: wrap });
        const error = errorOf(child) as unknown as Failed;
        expect(error.name).toBe("SpillwayError");
        expect(error.code, JSON.stringify(error)).toMatch(
            wrap === limited ? /^(DISK_FULL|OUTPUT_FAILED)$/ : /^DISK_FULL$/
        );
        expect(error.message).toContain(folder);
        expect([left, right].map((path, i) => readFileSync(path).equals(before[i]!))).toEqual([true, true]);
        expect(sandbox.leftovers()).toEqual([]);
    }

    test("of spill files", async () => {
        const folder = join(sandbox.folder, "small");
        await expectFull(query({ spill: folder, output: output(), action: "count" }), folder);
    });

    test("of rows that a GPU spills", async () => {
        const folder = join(sandbox.folder, "small");
        const debug = { outOfCore: true, residentShare: 0, hostSpillBytes: 0 };
        const spilling = query(
            { spill: folder, output: output(), action: "count" },
            { device: "gpu", ...knobs(debug) }
        );
        useGpu();
        try {
            await expectFull(spilling, folder);
        } finally {
            delete process.env["SPILLWAY_GPU_FOLDER"];
        }
    });

    test("of the result", async () => {
        const folder = join(sandbox.folder, "small");
        await expectFull(query({ spill: sandbox.spill, output: join(folder, "r.arrow"), action: "file" }), folder);
    });
});
