// SPDX-License-Identifier: Apache-2.0
// Files of very many small batches: opened quickly, within the budget and 128 MiB, without V8's heap; or a clear error.
import { copyFileSync } from "node:fs";
import type { Int64, Null } from "apache-arrow";
import { openRuntime, type Relation } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { resultOf, runChild } from "../../support/child.js";
import { expectError } from "../../support/errors.js";
import { writeManyBatches, writeManyDictionaries, writeNullRows } from "../../support/many-batches.js";
import { Sandbox } from "../../support/sandbox.js";

const mebibyte = 1024 * 1024;
const besideBudget = 128;
const batchBytes = 24; // that are kept of each
const many = 100_000;
const million = 1_000_000;
let sandbox: Sandbox;
const files: Record<string, string> = {};
beforeAll(() => {
    sandbox = new Sandbox();
    files["many"] = writeManyBatches(sandbox.path("many.arrow"), many, { batchRows: 4, columns: 2 });
    files["more"] = writeManyBatches(sandbox.path("more.arrow"), 2 * many, { batchRows: 4, columns: 2 });
    files["million"] = writeManyBatches(sandbox.path("million.arrow"), million);
    files["stream"] = writeManyBatches(sandbox.path("many.arrows"), many, { format: "stream" });
}, 60_000);
afterAll(() => sandbox[Symbol.dispose]());

interface Opened {
    rows: number;
    groups: number;
    openMs: number;
    openedBytes: number;
    peakBytes: number;
}

async function open(path: string, budget: number, key = "k", nodeOptions: readonly string[] = []): Promise<Opened> {
    const runtime = { threads: 2, memory: { host: `${budget}MiB`, spillDirectory: sandbox.spill } };
    const child = await runChild("open-and-count", { runtime, path, key }, { nodeOptions });
    return resultOf<Opened>(child);
}

describe("resident memory stays within the budget and 128 MiB", () => {
    test.each([
        ["many", 16, 4 * many],
        ["many", 64, 4 * many],
        ["stream", 16, many],
        ["million", 64, million]
    ])("for %s batches in %i MiB", async (name, budget, rows) => {
        const opened = await open(files[name]!, budget);
        expect(opened).toMatchObject({ rows, groups: rows });
        expect(opened.peakBytes / mebibyte).toBeLessThanOrEqual(budget + besideBudget);
    });

    test.each(["delta", "replacement"] as const)("for a stream with a %s of its dictionary per batch", async (kind) => {
        const path = writeManyDictionaries(sandbox.path(`${kind}.arrows`), many, kind);
        const opened = await open(path, 64, "d");
        expect(opened).toMatchObject({ rows: many, groups: many });
        // Two places per batch, and for replacements a version and a set.
        expect(opened.openedBytes).toBeLessThanOrEqual(many * (2 * batchBytes + 12) + mebibyte / 4);
        expect(opened.peakBytes / mebibyte).toBeLessThanOrEqual(64 + besideBudget);
    });
});

test("a million batches are opened in seconds, and take 24 bytes each of the budget", async () => {
    const opened = await open(files["million"]!, 256);
    expect(opened.openMs).toBeLessThan(10_000);
    expect(opened.openedBytes).toBeGreaterThanOrEqual(million * batchBytes);
    expect(opened.openedBytes).toBeLessThan(million * batchBytes * 1.2);
});

test("a small heap of V8 is enough", async () => {
    const opened = await open(files["more"]!, 64, "k", ["--max-old-space-size=64"]);
    expect(opened.rows).toBe(8 * many);
});

test("a budget without room for the batches says how much they take, and stays usable", async () => {
    await using runtime = await openRuntime({ threads: 2, memory: { host: "16MiB", spillDirectory: sandbox.spill } });
    const path = files["million"]!;
    const error = await expectError(
        () => runtime.fromArrowFile(path),
        "BUDGET_TOO_SMALL",
        path,
        /places of record batches: wanted 22\.9 MiB of host memory, but only 16\.0 MiB/,
        /raise memory\.host by at least 6\.9 MiB, or write the file again with more rows in each record batch/
    );
    const { details } = error;
    expect(details).toMatchObject({ path, tier: "host", option: "memory.host", wantedBytes: batchBytes * million });
    expect(details["freeBytes"]).toBe(16 * mebibyte);
    expect(runtime.memory().host.usedBytes).toBe(0);
    expect((await runtime.fromArrowFile(files["many"]!)).rows).toBe(4 * many);
});

test("a stream that outgrows the budget while it is read says so", async () => {
    const path = writeManyBatches(sandbox.path("long.arrows"), 4 * many, { format: "stream" });
    await using runtime = await openRuntime({ threads: 2, memory: { host: "4MiB", spillDirectory: sandbox.spill } });
    await expectError(
        () => runtime.fromArrowFile(path),
        "BUDGET_TOO_SMALL",
        path,
        /has too many batches for the budget/
    );
    expect(runtime.memory().host.usedBytes).toBe(0);
});

describe("what relations hold", () => {
    const relationBytes = many * batchBytes;

    test("is taken from queries, and given back when the runtime is closed", async () => {
        const paths = Array.from({ length: 3 }, (_, i) => sandbox.path(`held-${i}.arrow`));
        for (const path of paths) copyFileSync(files["many"]!, path);
        const spillDirectory = sandbox.spill;
        const runtime = await openRuntime({ threads: 1, memory: { host: "7600KiB", spillDirectory } });
        const relations: Relation<{ k: Int64 }>[] = [];
        for (const path of paths) relations.push(await runtime.fromArrowFile<{ k: Int64 }>(path));
        const { usedBytes, limitBytes } = runtime.memory().host;
        expect(usedBytes).toBeGreaterThanOrEqual(3 * relationBytes);
        expect(limitBytes - usedBytes).toBeLessThan(mebibyte / 4);
        // The query is told what it and its relations need before it begins.
        const count = () => relations[0]!.groupBy({ keys: ["k"] }).count();
        const error = await expectError(
            count,
            "BUDGET_TOO_SMALL",
            /with the batches of its files/,
            /set `memory.host`/
        );
        expect(error.details["wantedBytes"]).toBeGreaterThan(limitBytes);
        await expectError(() => runtime.fromArrowFile(files["more"]!), "BUDGET_TOO_SMALL");
        await runtime.close();
        const host = error.details["smallest"] as string;
        const larger = await openRuntime({ threads: 1, memory: { host, spillDirectory } });
        const again: Relation<{ k: Int64 }>[] = [];
        for (const path of paths) again.push(await larger.fromArrowFile<{ k: Int64 }>(path));
        expect(await again[0]!.groupBy({ keys: ["k"] }).count()).toBe(4 * many);
        await larger.close();
    });

    test("is free again when they were dropped and another one needs it", async () => {
        await using runtime = await openRuntime({
            threads: 1,
            memory: { host: "8MiB", spillDirectory: sandbox.spill }
        });
        for (let i = 0; i < 8; i++) {
            const path = sandbox.path(`dropped-${i}.arrow`);
            copyFileSync(files["many"]!, path);
            expect((await runtime.fromArrowFile(path)).rows).toBe(4 * many); // eight of them take 19 MB
        }
        expect(runtime.memory().host.usedBytes).toBeLessThan(8 * mebibyte);
    });
});

describe("rows without bytes", () => {
    test.each([2 ** 31, 2 ** 52])("of %i in one batch are corrupt", async (rows) => {
        await using runtime = await openRuntime({ threads: 1, memory: { host: "16MiB" } });
        const path = writeNullRows(sandbox.path("null-rows.arrow"), 1, rows);
        await expectError(
            () => runtime.fromArrowFile(path),
            "FILE_CORRUPT",
            path,
            `claim ${rows} rows with 0 bytes behind them`,
            /a batch of more than 2147483647 rows needs a bit for each/
        );
    });

    test("of 2^31 - 1 in each of a thousand batches are counted until the query is aborted", async () => {
        await using runtime = await openRuntime({
            threads: 2,
            memory: { host: "64MiB", spillDirectory: sandbox.spill }
        });
        const path = writeNullRows(sandbox.path("many-null-rows.arrow"), 1000, 2 ** 31 - 1);
        const relation = await runtime.fromArrowFile<{ p: Null }>(path);
        expect(relation.rows).toBe(1000 * (2 ** 31 - 1));
        for (const counted of ["*", "p"] as const) {
            const controller = new AbortController();
            let aborted = 0;
            const onProgress = () => {
                aborted ||= performance.now();
                controller.abort(new Error("enough"));
            };
            const query = relation.groupBy({ aggregates: { rows: { count: counted } } });
            await expect(query.toTable({ signal: controller.signal, onProgress })).rejects.toThrow("enough");
            expect(performance.now() - aborted).toBeLessThan(1000);
        }
    });
});
