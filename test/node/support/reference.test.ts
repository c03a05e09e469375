// SPDX-License-Identifier: Apache-2.0
// The two oracles agree with each other before either judges the engine.
import { afterAll, beforeAll, describe, test } from "vitest";
import { groupCase, joinCase } from "../../support/cases.js";
import { cellTable, type CellTable } from "../../support/cells.js";
import { DuckDB } from "../../support/duckdb.js";
import { forSeeds } from "../../support/random.js";
import { keyTexts, referenceGroupBy, referenceJoin } from "../../support/reference.js";
import { expectSameRows } from "../../support/rows.js";

let duckdb: DuckDB;
beforeAll(async () => {
    duckdb = await DuckDB.open();
});
afterAll(async () => {
    await duckdb[Symbol.asyncDispose]();
});

const keysOf = (table: CellTable, names: readonly string[]) =>
    names.map((name) => table.cells[table.names.indexOf(name)]!);

describe("reference and DuckDB agree on", () => {
    test("which rows join", async () => {
        await forSeeds(1000, 60, async (random) => {
            const { left, right, on, type, nullEquality, text } = joinCase(random);
            const [leftCells, rightCells] = [cellTable(left), cellTable(right)];
            const leftNames = on.map(([name]) => name);
            const rightNames = on.map(([, name]) => name);
            const pairs = referenceJoin(
                keyTexts(keysOf(leftCells, leftNames), leftCells.rows, nullEquality),
                keyTexts(keysOf(rightCells, rightNames), rightCells.rows, nullEquality),
                type
            );
            await duckdb.load("l", leftCells, leftNames);
            await duckdb.load("r", rightCells, rightNames);
            const expected = await duckdb.joinPairs(["l", "r"], on, type, nullEquality);
            expectSameRows(pairs.map(String), expected.map(String), text);
        });
    });

    test("groups, counts, sums and extremes", async () => {
        await forSeeds(2000, 60, async (random) => {
            const { table, keys, aggregates, text } = groupCase(random, comparableFamilies);
            const cells = cellTable(table);
            const checked = aggregates.filter(({ kind }) => !["first", "any", "mean"].includes(kind));
            const groups = referenceGroupBy(cells, keys, checked);
            await duckdb.load("t", cells);
            const select = [...keys, ...checked.map(({ kind, column }) => sqlAggregate(kind, column))];
            const by = keys.length > 0 ? `GROUP BY ${keys.join(", ")}` : "";
            const result = await duckdb.query(`SELECT ${select.join(", ")} FROM t ${by}`);
            const actual = Array.from({ length: result.rows }, (_, row) =>
                result.cells.map((cell) => positiveZero(cell[row]!))
            );
            const expected = groups.map((group) =>
                [...group.keys, ...group.aggregates].map((cell) => positiveZero(String(cell)))
            );
            expectSameRows(actual.map(String), expected.map(String), text);
        });
    });
});

// Types whose DuckDB values and order are those of Arrow.
const comparableFamilies = [
    "signed",
    "unsigned",
    "bool",
    "float",
    "date",
    "decimal",
    "fixedSizeBinary",
    "text",
    "binary"
];

function sqlAggregate(kind: string, column: string): string {
    if (column === "*") return "count(*)";
    return kind === "countDistinct" ? `count(DISTINCT ${column})` : `${kind}(${column})`;
}

const positiveZero = (cell: string): string => (cell === "-0" ? "0" : cell);
