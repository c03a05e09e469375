// SPDX-License-Identifier: Apache-2.0
// When machine calibrate takes a time for settled and a machine for busy, with made-up clocks.
import { expect, test } from "vitest";
import { profileText } from "../../../src/cli/calibrate/profile-text.js";
import { cpuTimes, doubts, othersShare, Settler, watchOthers } from "../../../src/cli/calibrate/settler.js";

/** Measures times in this order, the last one again and again, on a clock that they move. */
async function measure(times: readonly number[]): Promise<{ least: number; runs: number; doubtful: string[] }> {
    let now = 0;
    let runs = 0;
    const settler = new Settler(() => now);
    settler.begin("one");
    settler.begin("two");
    const run = async (): Promise<number> => {
        const ms = times[Math.min(runs++, times.length - 1)]!;
        now += ms;
        return await Promise.resolve(ms);
    };
    const least = await settler.least(run, (ms) => ms);
    return { least, runs, doubtful: [...settler.doubtful] };
}

test.each([
    ["alike at once", [100, 102, 104], 100, 3],
    ["alike after a slow start", [300, 200, 104, 100, 102], 100, 5],
    ["faster again and again", [300, 250, 200, 150, 120, 100, 100, 100], 100, 8],
    ["slowed down now and then", [100, 180, 400, 104, 170, 101], 100, 6],
    ["of microseconds, which a clock does not tell apart", [0.01, 0.025, 0.02], 0.01, 3],
    ["not to be had", [Infinity, Infinity, Infinity], Infinity, 3]
])("settles times that are %s", async (_, times, least, runs) => {
    expect(await measure(times)).toEqual({ least, runs, doubtful: [] });
});

test("gives up times that never come close to each other, and names the step", async () => {
    const growing = Array.from({ length: 1000 }, (_, i) => 100 * 1.1 ** i);
    const slow = await measure(growing);
    expect(slow).toMatchObject({ least: 100, doubtful: ["two"] });
    expect(slow.runs).toBeGreaterThan(5); // three seconds
    expect(slow.runs).toBeLessThan(20);
    const fast = await measure(Array.from({ length: 1000 }, (_, i) => (i + 1) / 20));
    expect(fast).toEqual({ least: 0.05, runs: 100, doubtful: ["two"] });
    // Slower than the limit from the first on: three runs all the same.
    expect(await measure([4000, 5000, 6000])).toEqual({ least: 4000, runs: 3, doubtful: ["two"] });
});

const stat = (...cpus: readonly string[]): string =>
    ["cpu  9 9 9 9", ...cpus.map((ticks, i) => `cpu${i} ${ticks}`), "intr 5"].join("\n");
const status = (list: string): string => `Name:\tnode\nCpus_allowed:\tf\nCpus_allowed_list:\t${list}\n`;

test("processor time is that of the processors that may be used", () => {
    const text = stat("10 1 5 100 4 1 1 2 3 0", "50 0 0 50 0 0 0 0", "0 0 0 7 0 0 0 0");
    expect(cpuTimes(text, status("0"))).toEqual({ busyMs: 200, totalMs: 1240 });
    expect(cpuTimes(text, status("0-1"))).toEqual({ busyMs: 700, totalMs: 2240 });
    expect(cpuTimes(text, status("2,7-9"))).toEqual({ busyMs: 0, totalMs: 70 });
    expect([cpuTimes("", status("0")), cpuTimes(text, "")]).toEqual([null, null]);
});

test("what others take is what this process does not", () => {
    const [before, after] = [
        { busyMs: 1000, totalMs: 10_000 },
        { busyMs: 1600, totalMs: 11_000 }
    ];
    expect(othersShare(before, after, 500)).toBeCloseTo(0.1);
    expect(othersShare(before, after, 0)).toBeCloseTo(0.6);
    expect(othersShare(before, after, 700)).toBe(0); // ticks are coarser than what a process knows of itself
    expect([othersShare(null, after, 0), othersShare(before, null, 0), othersShare(after, after, 0)]).toEqual([
        null,
        null,
        null
    ]);
    const share = watchOthers()();
    expect(share === null || (share >= 0 && share <= 1)).toBe(true);
});

test("doubts are sentences, which the profile has as comments", () => {
    expect(doubts(0.05, [])).toEqual([]);
    expect(doubts(null, [])).toEqual([]);
    const busy = doubts(0.426, ["memory", "stages"]);
    expect(busy).toEqual([
        "The machine was busy: other programs took 43 % of its processors.",
        "Times of these steps did not settle or were lost in noise: memory, stages."
    ]);
    const profile = { name: "n", date: "2026-01-01", cpu: "c", device: null, host: {}, gpu: null };
    expect(profileText({ ...profile, doubts: busy })).toContain(`\n# ${busy[0]}\n# ${busy[1]}\nname:`);
});
