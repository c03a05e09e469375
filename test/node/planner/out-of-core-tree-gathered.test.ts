// SPDX-License-Identifier: Apache-2.0
// Columns of joins of joins out of core that stay in host memory, and row numbers that travel in their place.
import { Int64, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { sumOf } from "../../../src/model/sizes.js";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { OutOfCoreTreeStage } from "../../../src/plan/out-of-core-tree-stage.js";
import type { Plan } from "../../../src/plan/plan.js";
import { planText } from "../../../src/plan/plan-text.js";
import { dimension, joinsOf, on, planOf, queryOf, stageOf } from "../../support/out-of-core-trees.js";
import { inputNode, join, type InputShape } from "../../support/planning.js";

describe("columns that are gathered by row number", () => {
    const values = (name: string, count: number, shape: InputShape = {}): LogicalNode => {
        const all = Array.from({ length: count }, (_, at) => [`${name}_${at}`, new Int64()] as const);
        return inputNode({ [`${name}_k`]: new Int64(), ...Object.fromEntries(all) }, { name, rows: 1000, ...shape });
    };
    const text = (name: string, shape: InputShape = {}): LogicalNode =>
        inputNode({ [`${name}_k`]: new Int64(), [`${name}_t`]: new Utf8() }, { name, ...shape });
    const names = ({ gathered }: OutOfCoreTreeStage): string[] => gathered.map(({ name }) => name).sort();
    test("are text that no operator above compares; the largest number is no row", () => {
        const lower = join(text("a"), text("b"), on("a_k", "b_k", { type: "left" }));
        const stage = stageOf(queryOf(join(lower, text("c", { rows: 1e7 }), on("a_k", "c_k", { type: "left" }))));
        expect(names(stage)).toEqual(["a_t", "b_t", "c_t"]);
        const [upper, below] = joinsOf(stage);
        expect([below?.buildWidths, below?.probeWidths].flat()).toEqual([4, 4]);
        expect([upper?.buildWidths, upper?.probeWidths].flat().sort()).toEqual([1, 4, 4, 4, 8]);
        const piped = stage.flows.flatMap(({ steps }) => steps.flatMap(({ pipe }) => pipe?.columns ?? []));
        expect(piped.filter(({ fill }) => fill === "largest")).toHaveLength(2);
        expect(planText(planOf(queryOf(join(lower, text("c"), on("a_k", "c_k")))) as Plan)).toMatch(
            /gathered by row number from host memory, .*: .*a_t \(text\)/
        );
    });

    test("are those of the source that makes rows narrowest, until they are narrow enough", () => {
        const [a, b, c] = [values("a", 8), values("b", 9), dimension("c", 1000)];
        const stage = stageOf(queryOf(join(join(a, b, on("a_k", "b_k")), c, on("a_0", "c_k"))));
        // A row of both had 152 bytes; a_0 is a key and travels all the same.
        expect(names(stage)).toEqual([...Array.from({ length: 9 }, (_, i) => `b_${i}`), "b_k"]);
        const widths = joinsOf(stage).flatMap(({ buildWidths, probeWidths }) => [buildWidths, probeWidths]);
        for (const row of widths) expect(sumOf([...row]) + 8).toBeLessThanOrEqual(128);
        expect(stage.heldBytes).toBe(Math.ceil((10 * 8 * 1000 * 9) / 8));
        const { rowNumbers, columns } = stage.result as Extract<typeof stage.result, { kind: "join" }>;
        expect(rowNumbers.filter((output) => output >= 0)).toHaveLength(1);
        expect(columns.filter(({ parts }) => parts[0]?.from === "flow")).toHaveLength(10);
        const inMemory = [values("a", 8), values("b", 9, { inMemory: true }), dimension("c", 1000)] as const;
        expect(
            stageOf(queryOf(join(join(inMemory[0], inMemory[1], on("a_k", "b_k")), inMemory[2], on("a_0", "c_k"))))
                .heldBytes
        ).toBe(0);
    });

    test("are none of a text that an operator above compares", () => {
        const lower = join(text("a"), text("b"), on("a_k", "b_k"));
        const stage = stageOf(queryOf(join(lower, text("c"), on("b_t", "c_t"))));
        expect(names(stage)).toEqual(["a_t", "c_t"]);
        const { columns } = stage.result as Extract<typeof stage.result, { kind: "join" }>;
        expect(columns.map(({ parts }) => parts[0]?.from)).toEqual(["gpu", "flow", "gpu", "gpu", "gpu", "flow"]);
    });

    test("come from both sides of a full join whose text keys are in the result", () => {
        const [a, b] = ["a", "b"].map((name) => inputNode({ t: new Utf8(), [`${name}_k`]: new Int64() }, { name }));
        const lower = join(a!, b!, on("t", "t", { type: "full" }));
        const stage = stageOf(queryOf(join(lower, dimension("c", 1000), on("a_k", "c_k"))));
        const { columns } = stage.result as Extract<typeof stage.result, { kind: "join" }>;
        const both = columns.filter(({ parts }) => parts.length === 2);
        expect(both.map(({ parts }) => parts.map(({ from }) => from))).toEqual([["flow", "flow"]]);
    });

    test("of one relation that is there twice have two numbers", () => {
        const twice = text("a");
        const renamed = inputNode({ b_k: new Int64(), b_t: new Utf8() }, { name: "b" });
        const lower = join(join(twice, renamed, on("a_k", "b_k")), twice, on("b_k", "a_k", { select: ["b_t", "a_t"] }));
        const stage = stageOf(queryOf(lower));
        const { rowNumbers } = stage.result as Extract<typeof stage.result, { kind: "join" }>;
        expect(rowNumbers.filter((output) => output >= 0).length).toBeGreaterThanOrEqual(2);
    });
});
