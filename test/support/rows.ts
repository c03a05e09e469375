// SPDX-License-Identifier: Apache-2.0
// Comparing results as multisets of rows: neither joins nor group-bys promise an order.
import type { CellTable } from "./cells.js";

export function rowTexts(table: CellTable, names: readonly string[] = table.names): string[] {
    const columns = names.map((name) => {
        const index = table.names.indexOf(name);
        if (index < 0) throw new Error(`no column ${name} among ${table.names.join(", ")}`);
        return table.cells[index]!;
    });
    return Array.from({ length: table.rows }, (_, row) => columns.map((cells) => cells[row]!).join(" | "));
}

function countRows(rows: readonly string[]): Map<string, number> {
    const counts = new Map<string, number>();
    for (const row of rows) counts.set(row, (counts.get(row) ?? 0) + 1);
    return counts;
}

/** Throws with the first rows that are missing or too many when the multisets differ. */
export function expectSameRows(actual: readonly string[], expected: readonly string[], what: string): void {
    const counts = countRows(expected);
    for (const row of actual) counts.set(row, (counts.get(row) ?? 0) - 1);
    const differences = [...counts].filter(([, count]) => count !== 0);
    if (differences.length === 0) return;
    const lines = differences
        .slice(0, 5)
        .map(([row, count]) => `    ${Math.abs(count)} x ${count > 0 ? "missing" : "too many"}: ${row.slice(0, 400)}`);
    throw new Error(
        `${what}: ${actual.length} rows, expected ${expected.length}; ` +
            `${differences.length} distinct rows differ, for example\n${lines.join("\n")}`
    );
}

/** Order-independent hash of a multiset of rows: four 32-bit lanes, summed, so that duplicates count. */
export class RowHash {
    readonly #lanes = new Uint32Array(4);
    #rows = 0;

    add(row: string): void {
        for (let lane = 0; lane < 4; ++lane) {
            let hash = Math.imul(lane + 1, 0x9e3779b1) | 0;
            for (let i = 0; i < row.length; ++i) {
                hash = Math.imul(hash ^ row.charCodeAt(i), 0x85ebca6b);
                hash ^= hash >>> 13;
            }
            hash = Math.imul(hash ^ (hash >>> 16), 0xc2b2ae35);
            this.#lanes[lane] = (this.#lanes[lane]! + (hash ^ (hash >>> 16))) >>> 0;
        }
        ++this.#rows;
    }

    toString(): string {
        return `${this.#rows} rows ${[...this.#lanes].map((lane) => lane.toString(16).padStart(8, "0")).join("")}`;
    }
}

export function hashRows(rows: Iterable<string>): string {
    const hash = new RowHash();
    for (const row of rows) hash.add(row);
    return hash.toString();
}
