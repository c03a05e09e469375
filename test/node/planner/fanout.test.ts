// SPDX-License-Identifier: Apache-2.0
// How many partitions there are in either pass, on machines with caches of any size.
import { Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { MachineInfo } from "../../../src/machine/machine.js";
import type { Knobs } from "../../../src/model/debug-knobs.js";
import type { JoinStage } from "../../../src/plan/plan.js";
import { limitLadder } from "../../../src/planner/limits.js";
import { fanout, spillRunBytes, type Fanout } from "../../../src/planner/partitioning.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy as policy } from "../../../src/planner/policy.js";
import { inputNode, join, machine, planQueryOf } from "../../support/planning.js";
import { forSeeds } from "../../support/random.js";

const kibibyte = 2 ** 10;
const gibibyte = 2 ** 30;
const [roomy] = limitLadder(policy, 4, "batches");
const rows = 4_000_000;
const tableBytes = rows * 64;
const rowBytes = 24;

function fanoutOn(more: Partial<MachineInfo>, debug: Knobs = {}, budgetBytes = gibibyte): Fanout {
    const context = { limits: roomy!, policy, machine: { ...machine, ...more }, debug, budgetBytes };
    return fanout(context, tableBytes, rows, rowBytes);
}

describe("the fan-out", () => {
    test("of a large cache is one pass", () => {
        expect(fanoutOn({ l2Bytes: 1024 * kibibyte }).second).toBe(0);
    });

    test("of a tiny cache is two passes, which together cut tables to its size", () => {
        const l2Bytes = 16 * kibibyte;
        const { first, second } = fanoutOn({ l2Bytes });
        expect(second).toBeGreaterThanOrEqual(policy.secondPassBitsMin);
        // The buffers of the first pass stay in the cache, too.
        expect(2 ** first * 8 * rowBytes).toBeLessThanOrEqual(l2Bytes);
        const wanted = Math.min(tableBytes / (l2Bytes * policy.cacheShare), rows / policy.partitionRowsMin);
        expect(first + second).toBe(Math.floor(Math.log2(wanted)));
    });

    test("leaves out a second pass that would do little", () => {
        const wanted = Math.floor(Math.log2(rows / policy.partitionRowsMin));
        const l2Bytes = 16 * kibibyte;
        for (let radixBits = 0; radixBits <= wanted; ++radixBits) {
            const left = wanted - radixBits;
            const second = left >= policy.secondPassBitsMin ? Math.min(left, 8) : 0;
            expect(fanoutOn({ l2Bytes }, { radixBits })).toEqual({ first: radixBits, second });
        }
    });

    test("of what spills leaves room for runs that are worth a read", () => {
        const l2Bytes = 256 * kibibyte;
        const both = 2 * rows * rowBytes;
        const few = fanoutOn({ l2Bytes }, {}, both / 4).first;
        expect(2 ** few).toBeLessThanOrEqual(both / 4 / policy.bytesPerSpilledPartition);
        expect(fanoutOn({ l2Bytes }, {}, both).first).toBeGreaterThan(few);
    });

    test("is what the knobs say", () => {
        const debug = { radixBits: 3, secondRadixBits: 5 };
        expect(fanoutOn({}, debug)).toEqual({ first: 3, second: 5 });
        expect(fanoutOn({ l2Bytes: 16 * kibibyte }, { ...debug, secondRadixBits: 0 }).second).toBe(0);
    });

    test("keeps to what the engine takes, whatever the sizes", async () => {
        await forSeeds(3000, 500, async (random) => {
            const l2Bytes = Math.round(2 ** (12 + random.unit() * 12));
            const many = Math.round(10 ** (random.unit() * 10));
            const limits = random.pick(limitLadder(policy, random.pick([1, 4, 64]), "batches"));
            const budgetBytes = Math.round(2 ** (20 + random.unit() * 20));
            const context = { limits, policy, machine: { ...machine, l2Bytes }, debug: {}, budgetBytes };
            const bits = fanout(context, many * random.between(8, 300), many, random.between(8, 300));
            for (const [passBits, most] of [[bits.first, 14] as const, [bits.second, 8] as const]) {
                expect(Number.isInteger(passBits) && passBits >= 0 && passBits <= most, JSON.stringify(bits)).toBe(
                    true
                );
            }
            await Promise.resolve();
        });
    });
});

describe("runs of spilled rows", () => {
    const runOf = (bytes: number, budgetBytes: number): number =>
        spillRunBytes({ limits: roomy!, policy, machine, debug: {}, budgetBytes }, kibibyte, 5, bytes);

    test("are as long as a read is worth, and no longer than the budget has room for", () => {
        expect(runOf(gibibyte, gibibyte)).toBe(64 * kibibyte);
        expect(runOf(gibibyte, 512 * kibibyte)).toBe(16 * kibibyte);
    });

    // The engine has a record of each that is in no budget.
    test("get longer where there would be too many", () => {
        const lots = 200 * gibibyte;
        expect(lots / runOf(lots, gibibyte)).toBeLessThanOrEqual(policy.spilledRunsMax);
        expect(runOf(lots, 8 * kibibyte ** 2)).toBe(64 * kibibyte);
        expect(runOf(lots * 1000, 1000 * gibibyte)).toBe(2 * kibibyte ** 2);
    });
});

test("a join on a machine with a tiny cache is planned with two passes, one on a usual machine with one", () => {
    const input = (name: string) => inputNode({ k: new Int64(), v: new Int64() }, { rows: 4_000_000, name });
    const root = join(input("a"), input("b"), { on: "k" });
    const bitsOn = (l2Bytes: number): number[] => {
        // A last-level cache as small as the other: one big table would be no alternative.
        const small = { ...machine, l2Bytes, l3Bytes: l2Bytes };
        const plan = planQuery(planQueryOf(root, { machine: small, debug: { algorithm: "radix" } }));
        const { spec } = plan.stages.find((stage): stage is JoinStage => stage.kind === "join")!;
        return [plan.sets[0]!.spec.radixBits, spec.secondRadixBits];
    };
    expect(bitsOn(16 * kibibyte)[1]).toBeGreaterThanOrEqual(policy.secondPassBitsMin);
    expect(bitsOn(1024 * kibibyte)[1]).toBe(0);
});
