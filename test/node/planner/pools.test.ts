// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { assignPools, leastMemory, mostMemory, type Phase, type PoolRequest } from "../../../src/planner/pools.js";
import { forSeeds } from "../../support/random.js";

const memoryOf = (phase: Phase, pools: readonly number[]): number =>
    phase.live.reduce((sum, set) => sum + pools[set]!, phase.workingBytes);

describe("page pools", () => {
    const phases: Phase[] = [
        { workingBytes: 10, live: [0] },
        { workingBytes: 10, live: [0, 1] },
        { workingBytes: 40, live: [0, 1] }
    ];
    const pools: PoolRequest[] = [
        { min: 10, wanted: 100 },
        { min: 20, wanted: 200 }
    ];

    test("least and most are those of the widest phase", () => {
        expect(leastMemory(phases, pools)).toBe(70);
        expect(mostMemory(phases, pools)).toBe(340);
        expect(leastMemory([], [])).toBe(0);
    });

    test("both sides of a join keep the same share", () => {
        const [build, probe] = assignPools(205, phases, pools) as [number, number];
        expect((build - 10) / 90).toBeCloseTo((probe - 20) / 180, 1);
        expect(build + probe + 40).toBeLessThanOrEqual(205);
        expect(build + probe + 40).toBeGreaterThan(200);
    });

    test("what a finished set left over goes to the next", () => {
        const before = assignPools(205, phases, pools)[1]!;
        const after = assignPools(205, phases, pools, new Map([[0, 20]]))[1]!;
        expect(after).toBeGreaterThan(before);
        expect(after).toBe(205 - 40 - 20);
    });

    test("fit every phase and never fall below their least", async () => {
        await forSeeds(900, 500, async (random) => {
            const sets = random.between(1, 6);
            const requests = Array.from({ length: sets }, () => {
                const min = random.between(1, 1000);
                return { min, wanted: min + random.below(100_000) };
            });
            const times = Array.from({ length: random.between(1, 8) }, () => ({
                workingBytes: random.below(5000),
                live: requests.map((_, set) => set).filter(() => random.chance(0.5))
            }));
            const bytes = leastMemory(times, requests) + random.below(50_000);
            const assigned = assignPools(bytes, times, requests);
            for (const phase of times) expect(memoryOf(phase, assigned)).toBeLessThanOrEqual(bytes);
            assigned.forEach((pool, set) => {
                if (times.some((phase) => phase.live.includes(set)))
                    expect(pool).toBeGreaterThanOrEqual(requests[set]!.min);
            });
        });
    });
});
