// SPDX-License-Identifier: Apache-2.0

export interface TextColumn {
    title: string;
    align: "left" | "right";
}

// Longer cells would push every other column off the screen; the full value is what --json and --output are for.
const cellWidthMax = 40;

function fit(text: string): string {
    const line = text.replace(/\p{Cc}/gu, (character) => JSON.stringify(character).slice(1, -1));
    return line.length <= cellWidthMax ? line : `${line.slice(0, cellWidthMax - 1)}…`;
}

/** Columns two spaces apart, a rule under the titles, no trailing blanks. */
export function textTable(columns: readonly TextColumn[], rows: readonly (readonly string[])[]): string {
    const cells = rows.map((row) => row.map(fit));
    const widths = columns.map((column, index) =>
        Math.max(fit(column.title).length, ...cells.map((row) => row[index]!.length))
    );
    const line = (texts: readonly string[]): string =>
        texts
            .map((text, index) =>
                columns[index]!.align === "right" ? text.padStart(widths[index]!) : text.padEnd(widths[index]!)
            )
            .join("  ")
            .trimEnd();
    return [
        line(columns.map((column) => fit(column.title))),
        widths.map((width) => "-".repeat(width)).join("  "),
        ...cells.map(line)
    ].join("\n");
}
