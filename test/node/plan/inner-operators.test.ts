// SPDX-License-Identifier: Apache-2.0
// Operators below others, in the order in which they can run, and trees without columns that nobody reads.
import { Int32, Int64, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { innerOperators, prunedTree } from "../../../src/plan/inner-operators.js";
import type { GroupNode, JoinNode, LogicalNode } from "../../../src/plan/logical.js";
import { group, inputNode, join } from "../../support/planning.js";

const relation = (name: string): LogicalNode =>
    inputNode({ [`${name}_k`]: new Int64(), [`${name}_v`]: new Int32(), [`${name}_t`]: new Utf8() }, { name });
const names = ({ columns }: LogicalNode): string[] => columns.map(({ name }) => name);
const two = (more: object = {}): LogicalNode => join(relation("a"), relation("b"), { on: { a_k: "b_k" }, ...more });

describe("operators below others", () => {
    test("come after those that they are made of, each once", () => {
        const lower = two();
        const groups = group(lower, { keys: ["a_v"], aggregates: { n: { count: "*" } } });
        const left = join(groups, relation("c"), { on: { n: "c_k" } });
        const root = join(left, groups, { on: { a_v: "a_v" }, suffix: "_2" });
        expect(innerOperators(root)).toEqual([lower, groups, left]);
        expect(innerOperators(lower)).toEqual([]);
        expect(innerOperators(relation("a"))).toEqual([]);
    });
});

describe("a pruned tree", () => {
    test("has of joins what operators above read, at its new places", () => {
        const root = group(two(), { keys: ["b_t"], aggregates: { most: { max: "a_v" }, n: { count: "*" } } });
        const pruned = prunedTree(root, false) as GroupNode;
        expect(names(pruned)).toEqual(["b_t", "most", "n"]);
        expect(names(pruned.child)).toEqual(["a_v", "b_t"]);
        expect(pruned.keys.map(({ column }) => column)).toEqual([1]);
        expect(pruned.aggregates.map(({ column }) => column)).toEqual([0, -1]);
        const { left, keys, columns } = pruned.child as JoinNode;
        // Inputs stay as they are.
        expect(names(left)).toEqual(["a_k", "a_v", "a_t"]);
        expect(keys[0]).toMatchObject({ left: { column: 0 }, right: { column: 0 } });
        expect(columns.map(({ side, left: l, right: r }) => [side, l, r])).toEqual([
            ["left", 1, -1],
            ["right", -1, 2]
        ]);
    });

    test("keeps keys of joins above, columns of both sides, and all that the root has", () => {
        const upper = join(two({ select: ["a_k", "b_k", "b_t", "a_t"] }), relation("c"), { on: { b_k: "c_k" } });
        const root = join(upper, two({ type: "semi" }), { on: "a_k", type: "full", select: ["a_k", "c_t"] });
        const pruned = prunedTree(root, false) as JoinNode;
        expect(names(pruned)).toEqual(["a_k", "c_t"]);
        expect(names(pruned.left)).toEqual(["a_k", "c_t"]);
        expect(names(pruned.right)).toEqual(["a_k"]);
        const { left, keys } = pruned.left as JoinNode;
        expect(names(left)).toEqual(["a_k", "b_k"]);
        expect(keys[0]!.left.column).toBe(1);
        expect(pruned.columns[0]).toMatchObject({ side: "either", left: 0, right: 0 });
    });

    test("has of a root that is counted no more than its keys", () => {
        const counted = prunedTree(join(two(), relation("c"), { on: { b_v: "c_v" } }), true) as JoinNode;
        expect(names(counted)).toEqual([]);
        expect(names(counted.left)).toEqual(["b_v"]);
        const root = group(two(), { keys: ["b_t"], aggregates: { most: { max: "a_v" } } });
        const groups = prunedTree(root, true) as GroupNode;
        expect(names(groups)).toEqual(["b_t"]);
        expect(groups.aggregates).toEqual([]);
        expect(names(groups.child)).toEqual(["b_t"]);
    });

    test("has keys of groups, and aggregates that are read", () => {
        const of = { sum: { sum: "b_v" }, most: { max: "b_t" }, n: { count: "*" } } as const;
        const groups = group(two(), { keys: ["a_v", "a_k"], aggregates: of });
        const root = join(groups, relation("c"), { on: { a_v: "c_v" }, select: ["c_k", "most"] });
        const { left, columns } = prunedTree(root, false) as JoinNode;
        expect(names(left)).toEqual(["a_v", "a_k", "most"]);
        expect((left as GroupNode).aggregates).toMatchObject([{ kind: "max", column: 2 }]);
        expect(names((left as GroupNode).child)).toEqual(["a_k", "a_v", "b_t"]);
        expect(columns.map(({ side, left: l, right: r }) => [side, l, r])).toEqual([
            ["right", -1, 0],
            ["left", 2, -1]
        ]);
        expect(names((prunedTree(root, true) as JoinNode).left)).toEqual(["a_v", "a_k"]);
        // What is pruned has nothing left to prune.
        expect(prunedTree(prunedTree(root, false), false)).toEqual(prunedTree(root, false));
    });

    test("of groups without keys, none of whose aggregates is read, has one that is no sum, if there is one", () => {
        const left = (aggregates: Record<string, object>): string[] => {
            const all = group(two(), { keys: [], aggregates });
            const root = group(all, { keys: [], aggregates: { n: { count: "*" } } });
            return names((prunedTree(root, false) as GroupNode).child);
        };
        expect(left({ sum: { sum: "a_v" }, most: { max: "a_t" } })).toEqual(["most"]);
        expect(left({ sum: { sum: "a_v" }, n: { count: "*" }, most: { max: "a_v" } })).toEqual(["most"]);
        expect(left({ mean: { mean: "a_v" }, sum: { sum: "a_v" } })).toEqual(["mean"]);
    });

    test("keeps the narrowest column of rows of which none is read", () => {
        const counts = group(two(), { keys: [], aggregates: { n: { count: "*" } } });
        expect(names((prunedTree(counts, false) as GroupNode).child)).toEqual(["a_v"]);
        const none = group(two({ select: ["b_t"] }), { keys: [], aggregates: { n: { count: "*" } } });
        expect(names((prunedTree(none, false) as GroupNode).child)).toEqual(["b_t"]);
    });

    test("has nodes once that are there twice", () => {
        const lower = two();
        const root = join(lower, lower, { on: "a_k", suffix: "_2", select: ["a_v", "b_t_2"] });
        const { left, right } = prunedTree(root, false) as JoinNode;
        expect(left).toBe(right);
        expect(names(left)).toEqual(["a_k", "a_v", "b_t"]);
    });
});
