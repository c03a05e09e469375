// SPDX-License-Identifier: Apache-2.0
// Queries whose results say by their sums whether each row came once, and readers that can pause in their middle.
import { makeVector, Table, type RecordBatch } from "apache-arrow";
import type { Query, Runtime } from "spillway";

/** Rows of a result, and the sum of its last column. */
export interface Totals {
    rows: number;
    sum: number;
}

const sumTo = (rows: number): number => (rows * (rows - 1)) / 2;

const tables = new Map<string, Table>();

/** Keys 0, step, 2 step, ... beside row numbers; made once. */
function table(rows: number, step = 1): Table {
    const name = `${rows} ${step}`;
    const known = tables.get(name);
    if (known !== undefined) return known;
    const numbers = (by: number) => makeVector(new Int32Array(rows).map((_, i) => i * by));
    const made: Table = new Table({ k: numbers(step), v: numbers(1) });
    tables.set(name, made);
    return made;
}

/** Half of the rows have a partner. */
export function joinOf(runtime: Runtime, rows: number): Query {
    return runtime.join({ left: runtime.fromTable(table(rows)), right: runtime.fromTable(table(rows, 2)), on: "k" });
}

export const joinTotals = (rows: number): Totals => ({ rows: rows / 2, sum: sumTo(rows / 2) });

/** Each row is a group. */
export function groupOf(runtime: Runtime, rows: number): Query {
    return runtime.groupBy(runtime.fromTable(table(rows)), { keys: ["k"], aggregates: { sum: { sum: "v" } } });
}

export const groupTotals = (rows: number): Totals => ({ rows, sum: sumTo(rows) });

/** Every row with every other: a large result of small tables. `expected`: rows that the hint says. */
export function productOf(runtime: Runtime, rows: number, expected = rows ** 2): Query {
    const one = makeVector(new Int32Array(rows).fill(1));
    const ones: Table = new Table({ one, k: makeVector(Int32Array.from({ length: rows }, (_, i) => i)) });
    const [left, right] = [runtime.fromTable(ones), runtime.fromTable(ones)];
    return runtime.join({ left, right, on: "one", select: ["k", "k_right"], hints: { resultRows: expected } });
}

export const productTotals = (rows: number): Totals => ({ rows: rows ** 2, sum: rows * sumTo(rows) });

/** What has been read of a query so far. */
export class Reader implements Totals {
    public rows = 0;
    public sum = 0;
    readonly #batches: AsyncIterator<RecordBatch>;

    public constructor(
        public readonly query: Query,
        batchRows = 1000,
        signal?: AbortSignal
    ) {
        const options = signal === undefined ? { batchRows } : { batchRows, signal };
        this.#batches = query.batches(options)[Symbol.asyncIterator]();
    }

    public get totals(): Totals {
        return { rows: this.rows, sum: this.sum };
    }

    /** False: there are no more. */
    public async next(): Promise<boolean> {
        const { done, value } = await this.#batches.next();
        if (done === true) return false;
        const batch: RecordBatch = value;
        this.rows += batch.numRows;
        for (const cell of batch.getChildAt(batch.numCols - 1) ?? []) this.sum += Number(cell);
        return true;
    }

    public async toEnd(): Promise<Totals> {
        while (await this.next());
        return this.totals;
    }

    public async leave(): Promise<void> {
        await this.#batches.return?.();
    }
}
