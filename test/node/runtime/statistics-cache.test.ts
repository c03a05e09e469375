// SPDX-License-Identifier: Apache-2.0
import { tableFromArrays } from "apache-arrow";
import { expect, test } from "vitest";
import { fakeRuntime } from "../../support/fake-runtime.js";

const sample = {
    rows: 20_000,
    nulls: 0,
    min: 0n,
    max: 19_999n,
    sampledRows: 4096,
    sampledDistinct: 4096,
    heaviestShare: 0
};

test("a relation is sampled for its first query and admitted once for those that follow", async () => {
    const { fake, runtime } = fakeRuntime({ keyStatistics: () => Promise.resolve(sample) });
    const rows = Int32Array.from({ length: sample.rows }, (_, i) => i);
    const [left, right] = ["a", "b"].map((name) => runtime.fromTable(tableFromArrays({ k: rows, [name]: rows })));
    const join = () => runtime.join({ left: left!, right: right!, on: "k" });
    const calls = (name: string): number => fake.calls.filter((call) => call === name).length;
    const admitted: number[] = [];
    const { admission } = (left as unknown as { _runner: { admission: { admit: (...wanted: never[]) => unknown } } })
        ._runner;
    const admit = admission.admit.bind(admission);
    admission.admit = (...wanted) => {
        admitted.push(calls("keyStatistics"));
        return admit(...wanted);
    };
    for (let i = 0; i < 3; i++) await join().count();
    expect(calls("keyStatistics")).toBe(2);
    expect(admitted).toEqual([0, 2, 2, 2]);
    expect(fake.leftOpen).toEqual(["engine"]);
});
