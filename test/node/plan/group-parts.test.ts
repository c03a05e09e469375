// SPDX-License-Identifier: Apache-2.0
// Trees with joins of parts in place of group-bys.
import { Dictionary, Int32, Int64, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { groupPart, inParts, operatorsOf, type GroupParts } from "../../../src/plan/group-parts.js";
import type { GroupNode, JoinNode, LogicalNode } from "../../../src/plan/logical.js";
import { group, inputNode, join } from "../../support/planning.js";

const relation = (shape: object = {}): LogicalNode =>
    inputNode({ k: new Int64(), w: new Dictionary(new Utf8(), new Int32()), v: new Int32(), x: new Int64() }, shape);
const aggregates = { n: { count: "*" }, sum: { sum: "v" }, most: { max: "x" }, some: { count: "x" } };
const cut = (operator: number, ...parts: number[][]): GroupParts => ({
    operator,
    parts: parts.map((numbers) => ({ aggregates: numbers, names: [] }))
});
/** Columns of a join without where they come from. */
const columnsOf = (node: JoinNode): object[] =>
    node.columns.map(({ name, field, type, origin }) => ({ name, field, type, origin }));
const names = ({ columns }: LogicalNode): string[] => columns.map(({ name }) => name);

describe("a group-by in parts", () => {
    test("is a join with its columns, in their order, as users see them", () => {
        const root = group(relation(), { keys: ["w", "k"], aggregates });
        const made = inParts(root, [cut(0, [1, 3], [0], [2])]) as JoinNode;
        expect(made).toMatchObject({ kind: "join", type: "inner", nullEquality: true });
        expect(columnsOf(made)).toEqual(root.columns);
        const [left, right] = [made.left as JoinNode, made.right as GroupNode];
        expect(names(right)).toEqual(["w", "k", "most"]);
        expect(names(left)).toEqual(["w", "k", "sum", "some", "n"]);
        expect([left.left, left.right].map(names)).toEqual([
            ["w", "k", "sum", "some"],
            ["w", "k", "n"]
        ]);
        // Each column is that of the side which it names.
        for (const node of [left, made]) {
            for (const { name, side, left: l, right: r } of node.columns) {
                expect(names(node[side as "left" | "right"])[side === "left" ? l : r]).toBe(name);
            }
            expect(node.keys.map((key) => [key.left.column, key.right.column])).toEqual([
                [0, 0],
                [1, 1]
            ]);
        }
        expect(made.columns.map(({ side }) => side)).toEqual(["left", "left", "left", "left", "right", "left"]);
    });

    test("has parts that tell which of their columns are never NULL", () => {
        const nullableOf = (keys: string[], nullable: boolean): boolean[] =>
            groupPart(group(relation({ nullable }), { keys, aggregates }), [1, 2, 3]).columns.map(({ field, type }) => {
                expect(field.nullable).toBe(type.nullable);
                return type.nullable;
            });
        expect(nullableOf(["k"], false)).toEqual([false, false, false, false]);
        expect(nullableOf(["k"], true)).toEqual([true, true, true, false]);
        // A group without rows has no sum; how many rows there are comes last.
        expect(nullableOf([], false)).toEqual([true, true, false, false]);
    });

    test("without keys is joined by the number of rows, which the result has not", () => {
        const root = group(relation(), { keys: [], aggregates: { ...aggregates, rows: { sum: "x" } } });
        const made = inParts(root, [cut(0, [0, 2], [1], [3, 4])]) as JoinNode;
        expect(columnsOf(made)).toEqual(root.columns);
        const [left, right] = [made.left as JoinNode, made.right as GroupNode];
        expect(names(right)).toEqual(["some", "rows", "rows_"]);
        expect(names(left)).toEqual(["n", "most", "sum", "rows_"]);
        expect(right.aggregates.at(-1)).toEqual({ kind: "countRows", column: -1, decimalScale: 0 });
        expect(made.keys).toMatchObject([{ left: { column: 3, width: 8 }, right: { column: 2, width: 8 } }]);
        expect(left.keys).toMatchObject([{ left: { column: 2 }, right: { column: 1 } }]);
        expect(made.columns.map(({ side, left: l, right: r }) => (side === "left" ? l : -1 - r))).toEqual([
            0, 2, 1, -1, -2
        ]);
    });

    test("reads one child, also where that is in parts, or is there twice", () => {
        const lower = group(relation(), { keys: ["k"], aggregates });
        const upper = group(lower, { keys: ["n"], aggregates: { a: { sum: "sum" }, b: { max: "most" } } });
        const root = join(upper, lower, { on: { n: "k" }, suffix: "_2" });
        expect(operatorsOf(root)).toEqual([lower, upper, root]);
        const made = inParts(root, [cut(1, [0], [1]), cut(0, [0, 1], [2, 3])]) as JoinNode;
        const parts = made.left as JoinNode;
        expect((parts.left as GroupNode).child).toBe((parts.right as GroupNode).child);
        expect((parts.left as GroupNode).child).toBe(made.right);
        expect(made.right.kind).toBe("join");
        expect(names(made)).toEqual(names(root));
        expect(operatorsOf(made)).toHaveLength(7);
        // Only the one that was named is.
        const one = inParts(root, [cut(0, [0, 1], [2, 3])]) as JoinNode;
        expect(one.left.kind).toBe("group");
        expect((one.left as GroupNode).child).toBe(one.right);
    });

    test("is the same tree where there are none", () => {
        const root = group(relation(), { keys: ["k"], aggregates });
        expect(inParts(root, [])).toBe(root);
        expect(operatorsOf(relation())).toEqual([]);
    });
});
