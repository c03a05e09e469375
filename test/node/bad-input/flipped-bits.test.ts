// SPDX-License-Identifier: Apache-2.0
// One to four flipped bits in the metadata of files and streams of many types: read, or refused with the path.
import { writeFileSync } from "node:fs";
import { Int64, tableToIPC, type DataType } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { resultOf, runChild } from "../../support/child.js";
import { randomType, randomValue } from "../../support/domains.js";
import { Random } from "../../support/random.js";
import { buildTable, withNulls } from "../../support/relations.js";
import { Sandbox } from "../../support/sandbox.js";

const rows = 40;
const seed = Number(process.env["SPILLWAY_SEED"] ?? 4711);
const files = Number(process.env["SPILLWAY_FILES"] ?? 4);
const attempts = 150;

let sandbox: Sandbox;
beforeAll(() => {
    sandbox = new Sandbox();
});
afterAll(() => sandbox[Symbol.dispose]());

/** Six columns of random types behind a key. */
function randomFile(random: Random, format: "file" | "stream"): { path: string; types: string } {
    const types: DataType[] = Array.from({ length: 6 }, () => randomType(random));
    const columns = types.map((type, i) => ({
        name: `c${i}`,
        type,
        values: withNulls(
            random,
            Array.from({ length: rows }, () => randomValue(random, type)),
            0.1
        )
    }));
    const key = { name: "key", type: new Int64(), values: Array.from({ length: rows }, (_, row) => BigInt(row)) };
    const table = buildTable([key, ...columns], { batchRows: [15, 25], margin: 0, shared: true });
    const path = sandbox.path(`sound-${format}`);
    writeFileSync(path, tableToIPC(table, format));
    return { path, types: types.map(String).join(", ") };
}

describe.each(["file", "stream"] as const)("the %s format", (format) => {
    test.each(Array.from({ length: files }, (_, i) => seed + i))("of seed %i", async (number) => {
        const { path: file, types } = randomFile(new Random(number), format);
        const runtime = { threads: 1, memory: { host: "64MiB", spillDirectory: sandbox.spill } };
        const work = sandbox.path("damaged.arrow");
        const argument = { file, work, kind: "bits", count: attempts, seed: number, key: "key", runtime };
        const child = await runChild("mutations", argument);
        const last = child.stdout.split("\n").findLast((line) => line.startsWith("trying "));
        expect(child.signal, `SPILLWAY_SEED=${number}, ${types}, killed after ${last}\n${child.stderr}`).toBeNull();
        const { wrong, wrongCount, outcomes } = resultOf<{ wrong: object[]; wrongCount: number; outcomes: object }>(
            child
        );
        expect(wrong, `SPILLWAY_SEED=${number}, ${types}: ${wrongCount} of ${JSON.stringify(outcomes)}`).toEqual([]);
    });
});
