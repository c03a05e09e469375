// SPDX-License-Identifier: Apache-2.0
// Perfect hashing in the second pass of joins by kernels: which keys it takes, and what it says of others.
import { Int32, Int64, Utf8, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { wantedStatistics, type KeyStatistics } from "../../../src/planner/statistics.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

const gibibyte = 2 ** 30;

interface Relations {
    types?: Record<string, DataType>;
    options?: object;
}

function stageOf(query: PlanQuery): OutOfCoreStage {
    const plan = planOutOfCore(query, planQuery(query), 4 * gibibyte);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreStage;
}

describe("perfect hashing", () => {
    const rows = 2 ** 28;
    /** Keys 0 .. 2^28 - 1, each once, as far as a sample of 2^16 rows tells. */
    const dense: KeyStatistics = {
        ...{ rows, nulls: 0, min: 0n, max: BigInt(rows - 1), sampledRows: 2 ** 16, sampledDistinct: 2 ** 16 },
        heaviestShare: 1 / rows
    };
    const query = (seen: Partial<KeyStatistics> | null, relations: Relations = {}, more: Partial<PlanQuery> = {}) => {
        const { types = { k: new Int64(), v: new Int64() }, options = {} } = relations;
        const [left, right] = ["l", "r"].map((name) => inputNode(types, { rows, name }));
        const root = join(left!, right!, { on: "k", algorithm: "triton", ...options });
        const debug = { coPartitionJoin: "perfect" } as const;
        const made = planQueryOf(root, { budgetBytes: 256 * gibibyte, threads: 16, sink: "count", debug, ...more });
        const wanted = wantedStatistics(made.root, defaultPolicy).map(({ id }) => id);
        const statistics = new Map(seen === null ? [] : wanted.map((id) => [id, { ...dense, ...seen }]));
        return { ...made, statistics };
    };
    const reasonOf = (...asked: Parameters<typeof query>): string => {
        const made = query(...asked);
        const plan = planOutOfCore(made, planQuery(made), 4 * gibibyte);
        return plan instanceof NotOnDevice ? plan.reason : "";
    };

    test("takes dense keys that come once, and explain says so", () => {
        const stage = stageOf(query({}));
        expect(stage.coherent).toMatchObject({ perfectHash: true, tableBuckets: null });
        expect(stage.sizes).toEqual(stageOf(query({}, {}, { debug: {} })).sizes);
        const made = query({});
        const plan = planOutOfCore(made, planQuery(made), 4 * gibibyte);
        if (plan instanceof NotOnDevice) throw plan;
        expect(planText(plan)).toContain(
            "joined by hash tables that are arrays indexed by keys (perfect hashing) in shared memory"
        );
        // A range of 16 values for a row, and keys of which nobody knows.
        expect(reasonOf({ max: BigInt(16 * rows - 1) })).toBe("");
        expect(reasonOf(null)).toBe("");
    });

    test("refuses others with what it wants", () => {
        const wanted = /wants one integer key of the build side, dense and without repetition, and /;
        const reasons: [string, RegExp][] = [
            [
                reasonOf({ sampledDistinct: 2 ** 16 - 1 }),
                /values of key `k` may come twice in the (left|right) relation/
            ],
            [reasonOf({ max: BigInt(16 * rows) }), /key `k` is not dense, with a range of 4,294,967,297 values/],
            [reasonOf(null, { types: { k: new Utf8(), v: new Int64() } }), /key `k` is no integer/],
            [reasonOf(null, { types: { a: new Int32(), b: new Int32() }, options: { on: ["a", "b"] } }), /not by 2/],
            [reasonOf(null, { options: { nullEquality: true } }), /NULL has no place/]
        ];
        for (const [reason, why] of reasons) {
            expect(reason).toMatch(wanted);
            expect(reason).toMatch(why);
            expect(reason).toMatch(/`hints.buildSide` chooses the other side, and "hash" takes any keys/);
        }
    });

    test("is of counts alone: an index finds rows of a result, and those of other joins", () => {
        const repeated = { sampledDistinct: 2 ** 10 };
        for (const made of [query(repeated, {}, { sink: "table" }), query(repeated, { options: { type: "left" } })]) {
            expect(stageOf(made).coherent!.perfectHash).toBe(false);
            expect(stageOf(made).work.secondPass).toBe("sort");
        }
    });
});
