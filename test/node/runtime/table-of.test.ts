// SPDX-License-Identifier: Apache-2.0
// Collecting a whole result: what counts against the budget meanwhile, and what is said of one that does not fit.
import { tableFromArrays } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { tableOf } from "../../../src/runtime/table-of.js";

const mebibyte = 2 ** 20;
const rows = tableFromArrays({ k: Int32Array.of(1, 2, 3) });

interface Result {
    /** The sum over all batches so far, after each of them. */
    bytes: number[];
    usedBytes?: number;
    limitBytes?: number;
    expectedRows?: number;
    wantedBytes?: number;
}

/** Batches of three rows, of as many bytes as are stated. */
async function collect({ bytes, usedBytes = 0, limitBytes = 1000 * mebibyte, ...expected }: Result) {
    const notes: unknown[] = [];
    const stream = {
        deliveredBytes: 0,
        schema: rows.schema,
        async *[Symbol.asyncIterator]() {
            for (stream.deliveredBytes of bytes) yield await Promise.resolve(rows.batches[0]!);
        }
    };
    const admission = {
        holdTable: (owner: unknown, table: object) => notes.push(owner === stream ? { ...table } : owner),
        dropTable: (owner: unknown) => notes.push(owner === stream ? "dropped" : owner)
    };
    const expectations = () => ({ rows: expected.expectedRows ?? 0, wantedBytes: expected.wantedBytes ?? 0 });
    const memory = () => ({ usedBytes, limitBytes, peakBytes: 0, relationBytes: 0 });
    const table = tableOf(stream as never, memory, expectations, admission as never, true);
    return { notes, outcome: await table.catch((error: unknown) => error as Error & { details: object }) };
}

describe("a table", () => {
    test("has the rows of all batches, which are held until the last of them", async () => {
        const { notes, outcome } = await collect({ bytes: [12, 24] });
        expect(outcome).toMatchObject({ numRows: 6 });
        const held = [12, 24].map((bytes) => ({ bytes, waitsForUser: true }));
        expect(notes).toEqual([...held, "dropped"]);
    });

    test("of no batches has the columns", async () => {
        const { outcome } = await collect({ bytes: [] });
        expect(outcome).toMatchObject({ numRows: 0, numCols: 1 });
    });

    test("may fill the budget", async () => {
        const { outcome } = await collect({ bytes: [60, 100], usedBytes: 50, limitBytes: 150 });
        expect(outcome).toMatchObject({ numRows: 6 });
    });
});

describe("a table that does not fit", () => {
    test("says what it took, and holds nothing any more", async () => {
        const { notes, outcome } = await collect({ bytes: [60, 101], usedBytes: 50, limitBytes: 150 });
        expect(outcome).toMatchObject({ code: "BUDGET_TOO_SMALL" });
        const details = { tier: "host", wantedBytes: 151, freeBytes: 100, option: "memory.host" };
        expect((outcome as { details?: object }).details).toEqual(details);
        expect(notes).toEqual([{ bytes: 60, waitsForUser: true }, "dropped"]);
    });

    test("has nothing free where the query itself has taken all", async () => {
        const { outcome } = await collect({ bytes: [1], usedBytes: 160, limitBytes: 150 });
        expect(outcome).toMatchObject({ details: { wantedBytes: 161, freeBytes: 0 } });
    });

    const full = { bytes: [300 * mebibyte], limitBytes: 301 * mebibyte, usedBytes: 10 * mebibyte };
    test.each([
        ["of all rows and of what the query holds", { ...full, expectedRows: 6 }, "671MiB"],
        ["of all rows and of what the query wants", { ...full, expectedRows: 6, wantedBytes: 55 * mebibyte }, "721MiB"],
        ["of the rows that are there and one more", { ...full, expectedRows: 4, usedBytes: 12 * mebibyte }, "454MiB"],
        ["of the rows of all batches", { ...full, bytes: [mebibyte, 300 * mebibyte], expectedRows: 12 }, "671MiB"]
    ])("estimates a budget %s", async (_, result, estimated) => {
        const { outcome } = await collect(result);
        expect(outcome).toMatchObject({ details: { estimated } });
        expect((outcome as Error).message).toContain(`"${estimated}"`);
    });

    test.each([3, 2, 0])("estimates none where %i rows were expected and three came", async (expectedRows) => {
        const { outcome } = await collect({ ...full, expectedRows });
        expect(outcome).toMatchObject({ code: "BUDGET_TOO_SMALL" });
        expect((outcome as { details?: object }).details).not.toHaveProperty("estimated");
    });
});
