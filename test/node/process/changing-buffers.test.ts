// SPDX-License-Identifier: Apache-2.0
// The memory of a table that is resized, transferred or written to while a query reads it: the process must live, and
// no row may come from elsewhere.
import { expect, test } from "vitest";
import { resultOf, runChild } from "../../support/child.js";

type End = { first: number; wrongTexts: number } & ({ code: string; message: string } | { rows: number; sum: number });

const rounds = 2;

async function endsOf(change: string): Promise<{ rows: number; ends: End[] }> {
    const child = await runChild("changing-buffers", { change, rounds }, { nodeOptions: ["--expose-gc"] });
    expect(child.signal, `${change}: ${child.stderr}`).toBeNull();
    const result = resultOf<{ rows: number; ends: End[] }>(child);
    expect(result.ends).toHaveLength(rounds);
    for (const end of result.ends) {
        // The change must have come in the middle, or the test shows nothing.
        expect(end.first).toBeLessThan(result.rows / 4);
        expect(end.wrongTexts).toBe(0);
    }
    return result;
}

test.each(["shrunk", "sharedGrown", "sharedRewritten"])(
    "memory that was copied or cannot go away: %s",
    async (change) => {
        const { rows, ends } = await endsOf(change);
        for (const end of ends) expect(end).toMatchObject({ rows, sum: rows });
    }
);

const transfers = ["transferred", "toWorkerThatEnds", "wasmGrown"];
const resizing = "transfer" in ArrayBuffer.prototype ? ["transferredLonger", "transferredShorter"] : [];

test.each([...transfers, ...resizing])(
    "memory that was transferred is kept and the query fails: %s",
    async (change) => {
        const { ends } = await endsOf(change);
        for (const end of ends) {
            expect(end).toMatchObject({ code: "INVALID_ARGUMENT", message: expect.stringContaining("transferred") });
        }
    }
);

test("memory that its new owner writes to is read without leaving it", async () => {
    const { ends } = await endsOf("toWorkerThatWrites");
    for (const end of ends) expect(end).toMatchObject({ code: "INVALID_ARGUMENT" });
});
