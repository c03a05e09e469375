// SPDX-License-Identifier: Apache-2.0
// A runtime over a binding without an engine, with two relations of a thousand rows and their join.
import { tableFromArrays } from "apache-arrow";
import { loadProfile } from "../../src/machine/profile.js";
import type { Knobs } from "../../src/model/debug-knobs.js";
import { QueryRunner, type RunnerParts } from "../../src/runtime/query-runner.js";
import { Runtime } from "../../src/runtime/runtime.js";
import { FakeBinding } from "./fake-binding.js";
import { machine } from "./planning.js";

type Overrides = ConstructorParameters<typeof FakeBinding>[0];

export function fakeRuntime(overrides: Overrides = {}, debug: Knobs = {}, more: Partial<RunnerParts> = {}) {
    const fake = new FakeBinding(overrides);
    const runner = new QueryRunner({
        binding: fake.binding,
        machine,
        profile: loadProfile(),
        memoryBytes: 2 ** 28,
        spillDirectory: "/tmp",
        threads: 2,
        debug,
        ...more
    });
    const runtime = new Runtime({ runner, machine, devices: () => [], spillDirectory: "/tmp" });
    // In memory so large that its sources do not stay open between queries.
    const rows = new Int32Array(2 ** 18).map((_, i) => i).subarray(0, 1000);
    const left = runtime.fromTable(tableFromArrays({ k: rows, a: rows }));
    const right = runtime.fromTable(tableFromArrays({ k: rows, b: rows }));
    return { fake, runner, runtime, left, right, join: runtime.join({ left, right, on: "k" }) };
}
