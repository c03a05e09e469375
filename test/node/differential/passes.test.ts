// SPDX-License-Identifier: Apache-2.0
// Joins in budgets of which the tables fit in parts only: passes over the input, against the same joins in plenty of
// memory. Keys lie in order or in none, and further apart than a sample tells.
import { Int64, Table, Utf8, vectorFromArray } from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { expect, test } from "vitest";
import { forSeeds, runsOneSeed, type Random } from "../../support/random.js";
import { Sandbox } from "../../support/sandbox.js";

const integers = (values: number[]) => vectorFromArray(values.map(BigInt), new Int64());
const countTo = (length: number): number[] => Array.from({ length }, (_, i) => i);

interface Made {
    items: Table;
    orders: Table;
    customers: Table;
    /** Are keys as a sample shows them? */
    isEven: boolean;
}

function tablesOf(random: Random): Made {
    const count = 40_000;
    const step = random.pick([1, 4, 1000]);
    const isEven = random.chance(0.7);
    // Keys far from all others, which hardly any sample has.
    const far = 10_000_000_000;
    const keyOf = (i: number): number => (isEven || i < count - 3 ? i * step - 500 : far + i);
    const inOrder = random.chance(0.5);
    const ordered = countTo(count);
    const shuffled = random.shuffle(countTo(count));
    const orders = new Table({
        order: integers((random.chance(0.5) ? ordered : shuffled).map(keyOf)),
        customer: integers(ordered.map(() => random.below(700))),
        note: vectorFromArray(
            ordered.map((i) => `note ${i} `.repeat(1 + (i % 5))),
            new Utf8()
        )
    });
    const of = countTo(4 * count).map((i) => (inOrder ? Math.floor(i / 3.9) : random.below(count + 1000)));
    const items = new Table({ order: integers(of.map(keyOf)), price: integers(of.map(() => random.below(1000))) });
    const customers = new Table({
        customer: integers(random.shuffle(countTo(650))),
        segment: integers(countTo(650).map((i) => i % 7))
    });
    return { items, orders, customers, isEven };
}

function queryOf(runtime: Runtime, { items, orders, customers }: Made, shape: number): Query {
    const [item, order, customer] = [items, orders, customers].map((table) => runtime.fromTable(table));
    const wide = { left: order!, right: item!, on: "order" };
    if (shape === 0) return runtime.join(wide);
    if (shape === 1) return runtime.join({ left: item!, right: order!, on: "order", type: "semi" });
    if (shape === 2) {
        return runtime.groupBy(runtime.join(wide), {
            keys: ["customer"],
            aggregates: { total: { sum: "price" }, first: { min: "note" }, rows: { count: "*" } }
        });
    }
    const bushy = runtime.join({ left: customer!, right: order!, on: "customer" });
    return runtime.groupBy(runtime.join({ left: bushy, right: item!, on: "order" }), {
        keys: ["segment"],
        aggregates: { total: { sum: "price" }, rows: { count: "*" }, last: { max: "note" } }
    });
}

/** A sum over all rows in no order, and how many these are. */
async function digest(query: Query): Promise<{ rows: number; sum: bigint }> {
    let [rows, sum] = [0, 0n];
    for await (const batch of query.batches()) {
        const columns = batch.schema.fields.map((_, i) => batch.getChildAt(i)!);
        rows += batch.numRows;
        for (let row = 0; row < batch.numRows; row++) {
            let hash = 17;
            for (const column of columns) {
                for (const letter of String(column.get(row))) hash = (hash * 31 + letter.charCodeAt(0)) | 0;
            }
            sum += BigInt(hash);
        }
    }
    return { rows, sum };
}

test("joins of tables in parts equal those of whole ones", async () => {
    let passed = 0;
    await forSeeds(71_000, 10, async (random) => {
        using sandbox = new Sandbox();
        const made = tablesOf(random);
        const shape = random.below(4);
        await using plenty = await openRuntime({ device: "cpu", threads: 2, memory: { host: "256MiB" } });
        const expected = await digest(queryOf(plenty, made, shape));
        for (const mebibytes of [7, 12, 16]) {
            const memory = { host: `${mebibytes}MiB`, spillDirectory: sandbox.spill };
            await using runtime = await openRuntime({ device: "cpu", threads: 2, memory });
            const query = queryOf(runtime, made, shape);
            expect(await digest(query)).toEqual(expected);
            const { stages } = query.report()!;
            if (stages.some(({ algorithm }) => algorithm.includes("passes"))) passed++;
        }
        await sandbox.expectClean();
    });
    if (!runsOneSeed) expect(passed).toBeGreaterThan(5);
});
