// SPDX-License-Identifier: Apache-2.0
// The rows of a query's result as texts, delivered in one of the ways there are.
import { readFileSync } from "node:fs";
import { Table, tableFromIPC, type RecordBatch } from "apache-arrow";
import type { Query } from "spillway";
import { cellTable } from "./cells.js";
import type { Random } from "./random.js";
import { rowTexts } from "./rows.js";
import type { Sandbox } from "./sandbox.js";

export async function resultRows(random: Random, query: Query, sandbox: Sandbox): Promise<string[]> {
    const way = random.below(3);
    if (way === 0) return rowTexts(cellTable(await query.toTable()));
    if (way === 1) {
        const batches: RecordBatch[] = [];
        for await (const batch of query.batches({ batchRows: random.pick([1, 7, 100]) })) batches.push(batch);
        return rowTexts(cellTable(new Table(query.schema, batches)));
    }
    const path = sandbox.path("output.arrow");
    await query.toArrowFile(path, { overwrite: true });
    return rowTexts(cellTable(tableFromIPC(readFileSync(path))));
}
