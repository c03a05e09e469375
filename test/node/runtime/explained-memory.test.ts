// SPDX-License-Identifier: Apache-2.0
// explain() plans for the memory that a query gets which runs alone: its plan is the one that runs.
import { Int64, Table, vectorFromArray, type RecordBatch } from "apache-arrow";
import { openRuntime, type Query } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";

const rows = 40_000;
const sandbox = new Sandbox();
let path = "";
let table: Table;
beforeAll(() => {
    const column = (step: bigint) =>
        vectorFromArray(
            Array.from({ length: rows }, (_, row) => (BigInt(row) * step) % 50_021n),
            new Int64()
        );
    table = new Table({ k: column(7n), v: column(11n) });
    path = sandbox.write(table);
});
afterAll(() => void sandbox[Symbol.dispose]());

const results = {
    count: async (query: Query) => void (await query.count()),
    table: async (query: Query) => void (await query.toTable()),
    batches: async (query: Query) => {
        for await (const batch of query) void batch;
    }
};

async function* open(): AsyncGenerator<RecordBatch> {
    yield* table.batches;
}

describe.each(["8MiB", "16MiB", "1GiB"])("with %s of host memory", (host) => {
    test.each(["file", "stream"])("a query of a %s is explained with what it is granted", async (kind) => {
        await using runtime = await openRuntime({
            device: "cpu",
            memory: { host, spillDirectory: sandbox.spill },
            threads: 2
        });
        const file = await runtime.fromArrowFile(path);
        const left = kind === "file" ? file : runtime.fromBatches(table.schema, open);
        for (const [result, run] of Object.entries(results)) {
            const query = left
                .join(file, { on: { k: "k" } })
                .groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } });
            const { plan } = await query.explain({ result: result as keyof typeof results });
            await run(query);
            const report = query.report();
            expect([result, report?.budgetBytes]).toEqual([result, plan.memory.budgetBytes]);
            expect(report?.stages.map(({ algorithm }) => algorithm)).toEqual(
                plan.stages.map(({ algorithm }) => algorithm)
            );
        }
    });
});
