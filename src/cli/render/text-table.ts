// SPDX-License-Identifier: Apache-2.0
import { printable } from "../../printable.js";

export interface TextColumn {
    title: string;
    align: "left" | "right";
}

/** Longer cells would push every other column off the screen; the full value is what --json and --output are for. */
export const cellWidthMax = 40;

function fit(text: string): string {
    // Escapes only make it longer: what lies beyond the width need not be looked at.
    const line = printable(text.slice(0, cellWidthMax + 1));
    if (line.length <= cellWidthMax) return line;
    return `${line.slice(0, cellWidthMax - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** Columns two spaces apart, a rule under the titles, no trailing blanks. Rows may come in several lots. */
export class TextTable {
    readonly #titles: readonly string[];
    readonly #widths: number[];
    #begun = false;

    constructor(private readonly columns: readonly TextColumn[]) {
        this.#titles = columns.map(({ title }) => fit(title));
        this.#widths = this.#titles.map(({ length }) => length);
    }

    #line(cells: readonly string[]): string {
        const padded = cells.map((cell, index) => {
            const width = this.#widths[index]!;
            return this.columns[index]!.align === "right" ? cell.padStart(width) : cell.padEnd(width);
        });
        return padded.join("  ").trimEnd();
    }

    /** Lines of these rows, the first time with the head above them. Columns are as wide as all rows so far need. */
    lines(rows: readonly (readonly string[])[]): string[] {
        const cells = rows.map((row) => row.map(fit));
        for (const row of cells) {
            row.forEach((cell, index) => (this.#widths[index] = Math.max(this.#widths[index]!, cell.length)));
        }
        const rule = this.#widths.map((width) => "-".repeat(width)).join("  ");
        const head = this.#begun ? [] : [this.#line(this.#titles), rule];
        this.#begun = true;
        return [...head, ...cells.map((row) => this.#line(row))];
    }
}
