// SPDX-License-Identifier: Apache-2.0
// Operations out of core take turns on the GPU, and one whose reader pauses lets others have theirs: an abort ends it
// then as well, whoever has the turn.
import { setTimeout } from "node:timers/promises";
import { makeVector, Table } from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterEach, describe, expect, test } from "vitest";
import { behave } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { until } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

useGpu();

afterEach(() => behave(undefined));

const rows = 40_000;

/** Each key comes twice. */
function table(): Table {
    const keys = Int32Array.from({ length: rows }, (_, i) => i >> 1);
    return new Table({ k: makeVector(keys), v: makeVector(Int32Array.from({ length: rows }, (_, i) => i)) });
}

function joinOf(runtime: Runtime): Query {
    return runtime.join({ left: runtime.fromTable(table()), right: runtime.fromTable(table()), on: "k" });
}

function groupOf(runtime: Runtime): Query {
    return runtime.groupBy(runtime.fromTable(table()), { keys: ["k"], aggregates: { sum: { sum: "v" } } });
}

const options = {
    ...{ threads: 2, device: "gpu" as const, memory: { device: "64MiB", host: "256MiB" } },
    ...knobs({ outOfCore: true, chunkRows: 128 })
} as const;

/** Reads on until there is an answer that does not come, for as long as no other work takes. */
async function readUntilItWaits(reader: AsyncIterator<unknown>): Promise<{ answer: Promise<unknown> }> {
    for (;;) {
        const answer = reader.next();
        const first = await Promise.race([answer, setTimeout(500)]);
        if (first === undefined) return { answer };
        expect(first).toMatchObject({ done: false });
    }
}

/** Batches that were there already may come before the end. */
async function readToItsEnd(reader: AsyncIterator<unknown>): Promise<void> {
    while ((await reader.next()).done !== true);
}

describe.skipIf(usesRealGpu)("one whose reader has paused it", () => {
    for (const [name, queryOn] of Object.entries({ join: joinOf, "group-by": groupOf })) {
        for (const readsOn of [false, true]) {
            const when = readsOn ? "when it wants to go on and another one has the turn" : "while another one runs";
            test(`a ${name} that is aborted ${when}`, async () => {
                const runtime = await openRuntime(options);
                const used = (): number => runtime.memory().host.usedBytes;
                const controller = new AbortController();
                const reader = queryOn(runtime).batches({ batchRows: 100, signal: controller.signal });
                expect((await reader.next()).done).toBe(false);
                // Another one runs from its beginning to its end: this one has paused.
                expect(await joinOf(runtime).count()).toBe(2 * rows);
                const pausedBytes = used();
                behave("slow");
                let otherEnded = false;
                const other = joinOf(runtime)
                    .count()
                    .finally(() => (otherEnded = true));
                await until(() => used() > pausedBytes, 5000);
                await setTimeout(300); // it has all its memory then, and the turn for as long as it is slow
                const otherBytes = used() - pausedBytes;
                const waiting = readsOn ? await readUntilItWaits(reader) : undefined;
                controller.abort();
                await expect(waiting?.answer ?? readToItsEnd(reader)).rejects.toMatchObject({ name: "AbortError" });
                await until(() => used() <= otherBytes, 5000);
                expect(otherEnded).toBe(false);
                behave(undefined);
                expect(await other).toBe(2 * rows);
                expect(used()).toBe(0);
                expect(await queryOn(runtime).count()).toBe(name === "join" ? 2 * rows : rows / 2);
                await runtime.close();
            });
        }
    }
});
