// SPDX-License-Identifier: Apache-2.0
// runtime.close() while queries run: each of them ends with CLOSED, whatever it was doing.
import { Int32, makeData, makeVector, Table } from "apache-arrow";
import { setTimeout } from "node:timers/promises";
import { openRuntime, SpillwayError, type Runtime } from "spillway";
import { describe, expect, test } from "vitest";
import { runChild } from "../../support/child.js";
import { Sandbox } from "../../support/sandbox.js";

const rows = 60_000;
const table = new Table({
    id: makeVector(makeData({ type: new Int32(), data: Int32Array.from({ length: rows }, (_, i) => i) }))
});

test.each(["table", "stream"])("closing during a query over a %s rejects with CLOSED", async (kind) => {
    let interrupted = 0;
    for (let round = 0; round < 40; round++) {
        const runtime = await openRuntime({ threads: 2, memory: { host: "24MiB" } });
        const relation = () =>
            kind === "table"
                ? runtime.fromTable(table)
                : runtime.fromBatches(table.schema, async function* () {
                      for (let i = 0; i < rows; i += 5000) {
                          yield* await Promise.resolve(table.slice(i, i + 5000).batches);
                      }
                  });
        const counts = [1, 2, 3].map(async () => await relation().join(relation(), { on: "id" }).count());
        const ends = Promise.allSettled(counts);
        await setTimeout(round / 2);
        await runtime.close();
        for (const end of await ends) {
            if (end.status === "fulfilled") {
                expect(end.value).toBe(rows);
                continue;
            }
            interrupted++;
            expect(end.reason).toBeInstanceOf(SpillwayError);
            expect(end.reason).toMatchObject({ code: "CLOSED" });
        }
    }
    expect(interrupted).toBeGreaterThan(0);
});

test.each([false, true])("closing under a reader that pauses ends, in a worker: %s", async (worker) => {
    // The reader keeps no process alive, so that one ended silently inside of close().
    expect(await runChild("close-paused", { worker })).toMatchObject({ code: 0, stdout: "closed" });
});

test("a progress bar that fails later ends no process", async () => {
    using sandbox = new Sandbox();
    const result = await runChild("rejecting-progress", { output: sandbox.path("generated.arrow") });
    expect(result, result.stderr).toMatchObject({ code: 0, stdout: "done" });
});

describe("a stream whose next batch does not come", () => {
    const pending = (runtime: Runtime) =>
        runtime
            .fromBatches(table.schema, async function* () {
                yield* table.batches;
                await new Promise(() => undefined);
            })
            .join(runtime.fromTable(table), { on: "id" });
    const runs: Record<string, (runtime: Runtime, signal: AbortSignal, path: string) => Promise<unknown>> = {
        count: async (runtime, signal) => await pending(runtime).count({ signal }),
        batches: async (runtime, signal) => await pending(runtime).batches({ signal }).next(),
        toTable: async (runtime, signal) => await pending(runtime).toTable({ signal }),
        toArrowFile: async (runtime, signal, path) => await pending(runtime).toArrowFile(path, { signal })
    };

    test.each(Object.entries(runs))("lets %s be aborted, or closed", async (_, run) => {
        using sandbox = new Sandbox();
        const runtime = await openRuntime({ threads: 2, memory: { host: "24MiB", spillDirectory: sandbox.spill } });
        const path = sandbox.path("result.arrow");
        const controller = new AbortController();
        const aborted = run(runtime, controller.signal, path);
        await setTimeout(50);
        controller.abort("enough");
        await expect(aborted).rejects.toBe("enough");
        expect(runtime.memory().host.usedBytes).toBe(0);
        const closed = expect(run(runtime, new AbortController().signal, path)).rejects.toMatchObject({
            code: "CLOSED"
        });
        await setTimeout(50);
        await runtime.close();
        await closed;
        await sandbox.expectClean();
    });
});
