// SPDX-License-Identifier: Apache-2.0
// Damaged files never crash the process: truncation at hundreds of lengths, random bytes changed, in a child process.
import type { Table } from "apache-arrow";
import {
    Bool,
    Decimal,
    Field,
    FixedSizeBinary,
    Float64,
    Int32,
    Int64,
    List,
    Struct,
    Utf8,
    Utf8View,
    type DataType
} from "apache-arrow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { resultOf, runChild } from "../../support/child.js";
import { dictionaryOf, randomValue } from "../../support/domains.js";
import { Random } from "../../support/random.js";
import { buildTable, withNulls } from "../../support/relations.js";
import { Sandbox } from "../../support/sandbox.js";

const rows = 300;
const types: Record<string, DataType> = {
    flag: new Bool(),
    number: new Float64(),
    text: new Utf8(),
    word: dictionaryOf(new Utf8()),
    price: new Decimal(2, 20, 128),
    list: new List(new Field("item", new Int32(), true)),
    pair: new Struct([new Field("x", new Int32(), true), new Field("y", new Utf8(), true)]),
    code: new FixedSizeBinary(5)
};

function table(random: Random, views: boolean): Table {
    const columns = Object.entries(views ? { view: new Utf8View() } : types).map(([name, type]) => ({
        ...{ name, type },
        values: withNulls(
            random,
            Array.from({ length: rows }, () => randomValue(random, type)),
            0.1
        )
    }));
    const key = { name: "key", type: new Int64(), values: Array.from({ length: rows }, (_, row) => BigInt(row * 3)) };
    const batchRows = views ? [rows] : [100, 77, 123];
    return buildTable([key, ...columns], { batchRows, margin: 0, shared: true });
}

let sandbox: Sandbox;
const files: Record<string, string> = {};
beforeAll(() => {
    sandbox = new Sandbox();
    files["scalars, dictionaries and nested values"] = sandbox.write(table(new Random(1), false));
    files["views"] = sandbox.write(table(new Random(2), true));
});
afterAll(() => sandbox[Symbol.dispose]());

interface Outcome {
    outcomes: Record<string, number>;
    wrong: unknown[];
    wrongCount: number;
    usedBytes: number;
}

async function damage(kind: "truncate" | "flip", name: string, count: number, seed: number): Promise<Outcome> {
    const runtime = { threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } };
    const argument = { file: files[name], work: sandbox.path("damaged.arrow"), kind, count, seed, key: "key", runtime };
    const child = await runChild("mutations", argument);
    const last = child.stdout.split("\n").findLast((line) => line.startsWith("trying "));
    expect(child.signal, `killed after ${last}\n${child.stderr}`).toBeNull();
    return resultOf<Outcome>(child);
}

const kinds = ["scalars, dictionaries and nested values", "views"];

describe.each(kinds)("a file of %s", (name) => {
    test("cut at 200 lengths is refused each time", async () => {
        const { outcomes, wrong, wrongCount, usedBytes } = await damage("truncate", name, 200, 1);
        expect(wrong, `${wrongCount} of ${JSON.stringify(outcomes)}`).toEqual([]);
        expect(Object.keys(outcomes).every((code) => /^FILE_(CORRUPT|TRUNCATED)$/.test(code))).toBe(true);
        expect(usedBytes).toBe(0);
    });

    test("with bytes changed in 300 ways is read or refused", async () => {
        const seed = Number(process.env["SPILLWAY_SEED"] ?? 12345);
        const { outcomes, wrong, wrongCount, usedBytes } = await damage("flip", name, 300, seed);
        expect(wrong, `${wrongCount} of ${JSON.stringify(outcomes)}, SPILLWAY_SEED=${seed}`).toEqual([]);
        expect(outcomes["read"], JSON.stringify(outcomes)).toBeGreaterThan(0);
        expect(usedBytes).toBe(0);
    });
});
