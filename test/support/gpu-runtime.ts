// SPDX-License-Identifier: Apache-2.0
// Runtimes of tests of queries on the GPU, and what the plugin of plain C++ is to do wrong.
import { openRuntime, type Runtime, type RuntimeOptions } from "spillway";

/** Closed in any case. */
export async function withRuntime<T>(options: RuntimeOptions, body: (runtime: Runtime) => Promise<T>): Promise<T> {
    const runtime = await openRuntime({ threads: 2, ...options });
    try {
        return await body(runtime);
    } finally {
        await runtime.close();
    }
}

/** As test/native/fake_plugin says; undefined: nothing, as it must be again after the test. */
export function behave(behaviour: string | undefined): void {
    if (behaviour === undefined) delete process.env["SPILLWAY_FAKE_GPU"];
    else process.env["SPILLWAY_FAKE_GPU"] = behaviour;
}
