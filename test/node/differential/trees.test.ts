// SPDX-License-Identifier: Apache-2.0
// Trees of joins and group-bys drawn at random, beyond the memory of the (fake) GPU and on the CPU engine, against
// DuckDB: device limits, tiers for rows that leave GPU memory, widths of rows, skewed keys, relations that are streams.
// SPILLWAY_SEEDS=2000 npm test -- node differential/trees   looks longer (random.ts says how a seed is repeated)
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Table } from "apache-arrow";
import {
    openRuntime,
    type DebugKnobs,
    type ExperimentOptions,
    type Query,
    type Relation,
    type Runtime
} from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { DuckDB } from "../../support/duckdb.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { forSeeds, type Random } from "../../support/random.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

interface DrawnTree {
    text: string;
    tables: Record<string, Table>;
    names: string[];
    sql: string;
    make: (relations: Record<string, Relation>) => Query;
}
const folder = fileURLToPath(new URL("../../gpu-queries", import.meta.url));
const { drawnTree, drawnTiers, refusedTrees } = (await import(join(folder, "drawn-trees.mjs"))) as {
    drawnTree: (random: (end: number) => number, rows: number) => DrawnTree;
    drawnTiers: (DebugKnobs & ExperimentOptions)[];
    refusedTrees: RegExp;
};

let duckdb: DuckDB;
let cpu: Runtime;
const gpus: Runtime[] = [];
const sandbox = new Sandbox();

beforeAll(async () => {
    duckdb = await DuckDB.open();
    const memory = { host: "256MiB", spillDirectory: sandbox.spill };
    cpu = await openRuntime({ device: "cpu", threads: 2, memory });
    for (const [at, tier] of drawnTiers.entries()) {
        const limits = { ...memory, device: at % 2 === 0 ? "512MiB" : "192MiB" };
        const chunkRows = [4096, 64][at % 2]!;
        const debug = knobs({ outOfCore: true, chunkRows, ...tier });
        gpus.push(await openRuntime({ device: "gpu", threads: 2, memory: limits, ...debug }));
    }
});
afterAll(async () => {
    for (const runtime of [cpu, ...gpus]) await runtime.close();
    await duckdb[Symbol.asyncDispose]();
    await sandbox.expectClean();
    sandbox[Symbol.dispose]();
});

/** 0 and -0 are one key and one minimum, and either may come out. */
const cellsOf = (rows: readonly string[]): string[] => rows.map((row) => row.replaceAll(/(?<![\w.])-0(?![\w.])/g, "0"));

/** The rows of a table as a stream of several batches. */
function streamOf(runtime: Runtime, table: Table): Relation {
    const rows = Math.max(1, Math.ceil(table.numRows / 3));
    return runtime.fromBatches(table.schema, async function* () {
        for (let first = 0; first < table.numRows; first += rows) {
            yield await Promise.resolve(table.slice(first, first + rows));
        }
    });
}

async function rowsOf(
    runtime: Runtime,
    { tables, names, make }: DrawnTree,
    streamed: readonly string[] = []
): Promise<string[]> {
    const relations = Object.entries(tables).map(([name, table]) => {
        return [name, streamed.includes(name) ? streamOf(runtime, table) : runtime.fromTable(table)] as const;
    });
    return cellsOf(rowTexts(cellTable(await make(Object.fromEntries(relations)).toTable()), names));
}

/** What streams are refused for where tables are not. */
const refusedStreams = /of the stream|is a stream of batches/;

/** Hot keys of joins of joins may have far more rows in common. */
const rowsMax = 50_000;

/** Returns whether it ran on the GPU; it may say why it cannot. */
async function compare(random: Random, seed: number): Promise<boolean> {
    const tree = drawnTree((end) => random.below(end), random.pick([40, 200, 700]));
    const streamed = random.chance(0.3) ? Object.keys(tree.tables).filter(() => random.chance(0.5)) : [];
    const what = `${tree.text}, tier ${seed % gpus.length}, streams ${streamed.join()}`;
    for (const [name, table] of Object.entries(tree.tables)) await duckdb.load(name, table);
    const { cells } = await duckdb.query(`SELECT count(*) FROM (${tree.sql})`);
    if (Number(cells[0]![0]) > rowsMax) return false;
    const expected = cellsOf(rowTexts(await duckdb.query(tree.sql)));
    expectSameRows(await rowsOf(cpu, tree), expected, `CPU engine: ${what}`);
    try {
        expectSameRows(await rowsOf(gpus[seed % gpus.length]!, tree, streamed), expected, `GPU: ${what}`);
        return true;
    } catch (error) {
        const { code, message } = error as { code?: string; message: string };
        const isRefused = refusedTrees.test(message) || (streamed.length > 0 && refusedStreams.test(message));
        if (code !== "UNSUPPORTED_TYPE" || !isRefused) throw error;
        return false;
    }
}

describe("drawn trees", () => {
    test("give the rows that DuckDB gives", { timeout: 3_600_000 }, async () => {
        let [ran, drawn] = [0, 0];
        await forSeeds(1, 100, async (random, seed) => {
            ++drawn;
            if (await compare(random, seed)) ++ran;
        });
        if (drawn >= 100) expect(ran / drawn).toBeGreaterThan(0.9);
    });
});
