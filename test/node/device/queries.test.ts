// SPDX-License-Identifier: Apache-2.0
// Generated joins, group-bys and chains on the GPU (test/support/gpu.ts says which) against the reference; what the GPU
// cannot run is refused with a reason.
import { readFileSync } from "node:fs";
import {
    DataType,
    Decimal,
    Dictionary,
    Int32,
    makeVector,
    Table,
    tableFromIPC,
    Utf8,
    vectorFromArray,
    type RecordBatch
} from "apache-arrow";
import { openRuntime, SpillwayError, type Query, type Relation, type Runtime } from "spillway";
import { beforeAll, afterAll, describe, expect, test } from "vitest";
import { groupCase, joinCase, type GroupCase, type JoinCase } from "../../support/cases.js";
import { cellTable } from "../../support/cells.js";
import { hasViews } from "../../support/domains.js";
import { expectedGroups, expectedJoin, expectSameGroups, joinedRows, sumOverflows } from "../../support/engine.js";
import { forSeeds, runsUsualSeeds, type Random } from "../../support/random.js";
import { expectSameRows } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

let runtime: Runtime;
/** Its results leave the GPU in pieces. */
let pieced: Runtime;
let host: Runtime;

beforeAll(async () => {
    host = await openRuntime({ device: "cpu", memory: { host: "64MiB" }, threads: 2 });
    const memory = { host: "256MiB", device: "256MiB" };
    runtime = await openRuntime({ device: "gpu", memory, threads: 2, debug: { workers: 3 } });
    pieced = await openRuntime({ device: "gpu", memory, threads: 2, debug: { workers: 3, pieceRows: 70 } });
});
afterAll(async () => {
    await runtime.close();
    await pieced.close();
    await host.close();
});

function isNestedType(type: DataType): boolean {
    const value = DataType.isDictionary(type) ? (type.dictionary as DataType) : type;
    return (value.children ?? []).length > 0;
}

function relation(random: Random, table: Table, sandbox: Sandbox, on: Runtime = runtime): Promise<Relation> | Relation {
    const types = table.schema.fields.map(({ type }) => type);
    const oneDictionary = table.batches.length <= 1 || !types.some((type) => String(type).includes("Dictionary"));
    const file = random.chance(0.5) && oneDictionary && !types.some(hasViews);
    return file ? on.fromArrowFile(sandbox.write(table)) : on.fromTable(table);
}

async function rowsOf(random: Random, query: Query, sandbox: Sandbox): Promise<Table> {
    const way = random.below(3);
    if (way === 0) return await query.toTable();
    if (way === 1) {
        const batches: RecordBatch[] = [];
        for await (const batch of query.batches({ batchRows: random.pick([1, 7, 100, 5000]) })) batches.push(batch);
        return new Table(query.schema, batches);
    }
    const path = sandbox.path("output.arrow");
    await query.toArrowFile(path, { overwrite: true });
    return tableFromIPC(readFileSync(path));
}

/** Runs unless the GPU cannot; returns whether it ran. */
async function onGpu(run: () => Promise<void>, refused: Map<string, number>): Promise<boolean> {
    try {
        await run();
        return true;
    } catch (error) {
        if (!(error instanceof SpillwayError) || error.details["option"] !== "device") throw error;
        expect(error.code).toBe("UNSUPPORTED_TYPE");
        const reason = String(error.details["reason"]).replaceAll(/`\w+`/g, "`x`");
        refused.set(reason, (refused.get(reason) ?? 0) + 1);
        return false;
    }
}

async function checkJoin(random: Random, sandbox: Sandbox, joinCase: JoinCase, by: Runtime): Promise<void> {
    const { on, type, nullEquality, text } = joinCase;
    const query = by.join({
        left: await relation(random, joinCase.left, sandbox, by),
        right: await relation(random, joinCase.right, sandbox, by),
        on: Object.fromEntries(on),
        ...{ type, nullEquality }
    });
    const expected = expectedJoin(joinCase);
    const result = await rowsOf(random, query, sandbox);
    expect(query.report()).toMatchObject({ device: "gpu", deviceReason: null });
    const pieces = by === pieced ? Math.ceil(expected.rows.length / 70) : 0;
    expect(query.report()?.devicePieces).toBeGreaterThanOrEqual(pieces);
    expectSameRows(joinedRows(cellTable(result), joinCase), expected.rows, text);
    expect(await query.count(), `count of ${text}`).toBe(expected.rows.length);
}

async function checkGroups(random: Random, sandbox: Sandbox, groups: GroupCase): Promise<void> {
    const aggregates = Object.fromEntries(
        groups.aggregates.map(({ alias, kind, column }) => [alias, { [kind]: column }])
    ) as Record<string, { count: string }>;
    const input = await relation(random, groups.table, sandbox);
    const query = runtime.groupBy(input, { keys: [...groups.keys], aggregates });
    const expected = expectedGroups(groups);
    if (sumOverflows(groups, expected)) {
        await query.explain();
        await expect(query.toTable(), groups.text).rejects.toMatchObject({ code: "INTEGER_OVERFLOW" });
        return;
    }
    expectSameGroups(cellTable(await rowsOf(random, query, sandbox)), expected, groups);
    expect(query.report()?.device).toBe("gpu");
    expect(await query.count(), `count of ${groups.text}`).toBe(expected.length);
}

/** Nested payload columns are for the CPU alone. */
function withoutNested(joinCase: JoinCase): JoinCase {
    const flat = (table: Table): Table =>
        table.select(table.schema.fields.filter(({ type }) => !isNestedType(type)).map(({ name }) => name));
    return { ...joinCase, left: flat(joinCase.left), right: flat(joinCase.right) };
}

/** A join of a join, grouped and grouped again, with keys and values of text that is plain on one side. */
async function checkChain(random: Random): Promise<void> {
    const tables = ["a", "b", "c"].map((name) => {
        const rows = random.pick([0, 1, 50, 300]);
        const cells = (make: (i: number) => string | number | null) => Array.from({ length: rows }, (_, i) => make(i));
        const codes = cells(() => (random.chance(0.1) ? null : `key ${random.below(30)}`));
        const plain = random.chance(0.5) ? new Utf8() : new Dictionary(new Utf8(), new Int32());
        return new Table({
            key: vectorFromArray(codes, plain),
            [`text_${name}`]: vectorFromArray(
                cells((i) => (i % 3 === 0 ? null : `text ${random.below(5)}`)),
                new Utf8()
            ),
            [name]: vectorFromArray(
                cells(() => random.below(1000)),
                new Int32()
            )
        });
    });
    const types = ["inner", "left", "right", "semi", "anti"] as const;
    const [first, second] = [random.pick(types), random.pick(types)];
    const once = random.chance(0.5);
    const run = async (on: Runtime): Promise<string[]> => {
        const [a, b, c] = tables.map((table): Relation => on.fromTable(table as Table)) as [
            Relation,
            Relation,
            Relation
        ];
        const joined = on.join({ left: a, right: b, on: "key", type: first });
        const all = on.join({ left: joined, right: c, on: "key", type: second as "inner" });
        const grouped = all.groupBy({ keys: ["text_a"], aggregates: { n: { count: "*" }, most: { max: "a" } } });
        const query = once ? grouped : grouped.groupBy({ aggregates: { sum: { sum: "n" } } });
        const result = await query.toTable();
        expect(query.report()?.device).toBe(on === runtime ? "gpu" : "cpu");
        return result
            .toArray()
            .map((row) => String(row))
            .sort();
    };
    expect(await run(runtime), `${first}, then ${second}`).toEqual(await run(host));
}

describe("on the GPU", () => {
    test("joins equal the reference", async () => {
        const refused = new Map<string, number>();
        await forSeeds(70_000, 100, async (random) => {
            using sandbox = new Sandbox();
            await onGpu(() => checkJoin(random, sandbox, withoutNested(joinCase(random)), runtime), refused);
        });
        expect(refused).toEqual(new Map());
    });

    test("joins in pieces equal the reference", async () => {
        await forSeeds(73_000, 50, async (random) => {
            using sandbox = new Sandbox();
            await checkJoin(random, sandbox, withoutNested(joinCase(random)), pieced);
        });
    });

    test("group-bys equal the reference", async () => {
        const refused = new Map<string, number>();
        let ran = 0;
        await forSeeds(71_000, 100, async (random) => {
            using sandbox = new Sandbox();
            if (await onGpu(() => checkGroups(random, sandbox, groupCase(random)), refused)) ++ran;
        });
        // Sums of decimals of 256 bits, and extremes of dictionaries.
        expect(refused.size).toBeLessThan(5);
        if (runsUsualSeeds) expect(ran).toBeGreaterThan(50);
    });

    test("sums and means of decimals are those of the CPU engine", async () => {
        const rows = 500;
        // Some sums need more than 64 bits, and both signs.
        const cell = (i: number): bigint => (i % 3 === 0 ? -1n : 1n) * (BigInt(i) << BigInt(i % 90)) - 7n;
        const values = new Uint32Array(rows * 4);
        for (let i = 0; i < rows * 4; ++i) {
            values[i] = Number((cell(Math.floor(i / 4)) >> BigInt((i % 4) * 32)) & 0xffffffffn);
        }
        const key = vectorFromArray(
            Array.from({ length: rows }, (_, i) => i % 7),
            new Int32()
        );
        const table: Table = new Table({ key, value: makeVector({ type: new Decimal(3, 38, 128), data: values }) });
        const run = async (on: Runtime, keys: string[]): Promise<string[]> => {
            const aggregates = { sum: { sum: "value" }, mean: { mean: "value" } } as const;
            const query = on.groupBy(on.fromTable(table), { keys, aggregates });
            const result = await query.toTable();
            expect(query.report()?.device).toBe(on === runtime ? "gpu" : "cpu");
            const { cells, rows: groups } = cellTable(result);
            return Array.from({ length: groups }, (_, row) => cells.map((column) => column[row]).join(" ")).sort();
        };
        for (const keys of [["key"], []]) expect(await run(runtime, keys)).toEqual(await run(host, keys));
    });

    test("chains equal those of the CPU engine", async () => {
        await forSeeds(72_000, 60, checkChain);
    });
});
