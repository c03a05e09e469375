// SPDX-License-Identifier: Apache-2.0
// Of several reasons why a query cannot run beyond GPU memory, which one is told, and how much memory would do.
import { Field, Int32, Int64, List } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { LogicalNode } from "../../../src/plan/logical.js";
import { firstToTell, nearest, NotOnDevice } from "../../../src/planner/device-support.js";
import { leastHostBytes } from "../../../src/planner/host-shortage.js";
import { planOnDevice } from "../../../src/planner/plan-device.js";
import { QueryPlanner, type PlanQuery } from "../../../src/planner/plan-query.js";
import { dimension, gibibyte, mebibyte, on, queryOf } from "../../support/out-of-core-trees.js";
import { group, inputNode, join } from "../../support/planning.js";

const lists = new List(new Field("item", new Int32(), true));
const final = new NotOnDevice("never");
const host = NotOnDevice.lacksHost("host memory");
const [few, many] = [NotOnDevice.below(10), NotOnDevice.below(20)];

describe("reasons", () => {
    test("that all stand in the way: what no memory lifts is told first, then the most GPU memory", () => {
        expect(firstToTell([host, few, final, many])).toBe(final);
        expect(firstToTell([host, few, many])).toBe(many);
        expect(firstToTell([host, NotOnDevice.lacksHost("more")])).toBe(host);
        expect(firstToTell([])).toBeUndefined();
        expect([final, host, few].map(({ isFinal }) => isFinal)).toEqual([true, false, false]);
    });

    test("of ways of which one would do: the least GPU memory is told first, what no memory lifts last", () => {
        expect(nearest(final, many, host, few)).toBe(few);
        expect(nearest(final, host)).toBe(host);
        expect(nearest(final, new NotOnDevice("neither"))).toBe(final);
    });
});

/** Why the query cannot have the GPU with so much host memory. */
function refused(query: PlanQuery, bytes: number): NotOnDevice {
    const made = planOnDevice(query, new QueryPlanner(query).plan(bytes, false), gibibyte);
    expect(made).toBeInstanceOf(NotOnDevice);
    return made as NotOnDevice;
}

/** Groups of `f`, joined with another relation. */
const joined = (aggregates: Record<string, object>, shape: object = {}): LogicalNode => {
    const facts = inputNode({ f_k: new Int64(), f_l: lists }, { rows: 1e6, name: "f", ...shape });
    return join(group(facts, { keys: ["f_k"], aggregates }), dimension("c", 1e6, shape), on("f_k", "c_k"));
};

describe("of host memory", () => {
    const forced = { debug: { outOfCore: true }, budgetBytes: 64 * mebibyte, threads: 1 } as const;

    test("what no memory lifts is told where there is too little of it, too", () => {
        const query = queryOf(joined({ any: { any: "f_l" } }), forced);
        for (const bytes of [3 * mebibyte, 64 * mebibyte]) {
            const { reason, isFinal } = refused(query, bytes);
            expect(reason).toMatch(/^`any` of column `f_l` \(List<Int32>\) does not run out of core/);
            expect(isFinal).toBe(true);
        }
    });

    test("as much is told as a plan has enough of, and not much more", () => {
        for (const root of [joined({ n: { count: "*" } }), joined({ n: { count: "*" } }, { streamed: true })]) {
            const query = queryOf(root, forced);
            const { lacksHost, leastBytes } = refused(query, 4 * mebibyte);
            expect([lacksHost, leastBytes]).toEqual([true, undefined]);
            const least = leastHostBytes(query, 4 * mebibyte, gibibyte) as number;
            expect(least).toBeGreaterThan(4 * mebibyte);
            const more = { ...query, budgetBytes: query.budgetBytes + least - 4 * mebibyte };
            const planWith = (bytes: number) => planOnDevice(more, new QueryPlanner(more).plan(bytes, false), gibibyte);
            expect(planWith(least)).not.toBeInstanceOf(NotOnDevice);
            expect(planWith(least / 1.2)).toBeInstanceOf(NotOnDevice);
        }
    });

    test("where more of it does not help, what is in the way then is told", () => {
        const query = queryOf(joined({ n: { count: "*" } }), forced);
        const least = leastHostBytes(query, 4 * mebibyte, mebibyte) as NotOnDevice;
        expect(least.leastBytes).toBeGreaterThan(mebibyte);
    });

    test("a tree whose operators lack it does not say that more GPU memory would do", () => {
        const chain = join(
            join(dimension("a", 1e6), dimension("b", 1e6), on("a_k", "b_k")),
            dimension("c", 1e6),
            on("a_k", "c_k")
        );
        const query = queryOf(chain, { ...forced, sink: "count" });
        const made = planOnDevice(query, new QueryPlanner(query).plan(2 * mebibyte, false), 48 * mebibyte);
        expect(made).toMatchObject({ leastBytes: undefined, lacksHost: true });
    });
});
