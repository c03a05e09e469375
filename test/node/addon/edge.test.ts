// SPDX-License-Identifier: Apache-2.0
// The edge to native code: errors leave it as SpillwayErrors; those of the caller's own code never pass it.
import { tableFromArrays, type RecordBatch } from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SpillwayError } from "../../../src/errors.js";
import type { Binding } from "../../../src/native/binding.js";
import { withSpillwayErrors } from "../../../src/native/load.js";
import { FakeBinding } from "../../support/fake-binding.js";
import { fakeRuntime } from "../../support/fake-runtime.js";

const native = (): Error =>
    Object.assign(new Error("no thread"), { code: "OUT_OF_MEMORY", details: { wantedBytes: "7", tier: "host" } });
const failing = {
    createJob: (): never => {
        throw native();
    },
    drainEngine: async (): Promise<never> => Promise.reject(native())
};

describe("a call that", () => {
    test("throws or rejects does so with a SpillwayError", async () => {
        const binding = withSpillwayErrors(new FakeBinding(failing).binding);
        const wanted = { code: "OUT_OF_MEMORY", message: "no thread", details: { wantedBytes: 7, tier: "host" } };
        expect(() => binding.createJob({} as never)).toThrow(SpillwayError);
        expect(() => binding.createJob({} as never)).toThrow(expect.objectContaining(wanted));
        const error: unknown = await binding.drainEngine({} as never).catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(SpillwayError);
        expect(error).toMatchObject(wanted);
    });

    test("succeeds is left alone", async () => {
        const fake = new FakeBinding();
        const binding: Binding = withSpillwayErrors(fake.binding);
        expect(await binding.joinPartitions({} as never, {} as never, {} as never, {} as never, {} as never)).toBe(42);
        expect(binding.engineMemory({} as never).peakBytes).toBe(5);
        expect(fake.calls).toEqual(["joinPartitions", "engineMemory"]);
    });
});

test("a batch that cannot be delivered is a SpillwayError as well", async () => {
    const { join } = fakeRuntime({ nextBatch: async (): Promise<never> => Promise.reject(native()) }, {});
    const error: unknown = await join.toTable().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SpillwayError);
    expect(error).toMatchObject({ code: "OUT_OF_MEMORY" });
});

describe("errors of the caller's code", () => {
    let runtime: Runtime;
    beforeAll(async () => {
        runtime = await openRuntime({ threads: 2, memory: { host: "64MiB" } });
    });
    afterAll(async () => runtime.close());
    const table = tableFromArrays({ key: Int32Array.of(1, 2, 3) });

    test("come out as the same objects", async () => {
        const mine = new TypeError("mine");
        async function* broken(): AsyncGenerator<RecordBatch> {
            yield* table.batches as RecordBatch[];
            throw mine;
        }
        const relation = runtime.fromBatches(table.schema, broken as never);
        await expect(relation.groupBy({ keys: ["key"] }).count()).rejects.toBe(mine);
        const reason = new RangeError("mine");
        const query = runtime.fromTable(table).groupBy({ keys: ["key"] });
        await expect(query.count({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    });

    test("but what is wrong with his batches is said in our words", async () => {
        const batch = { schema: table.schema, numRows: 3, data: { children: [] } };
        async function* odd(): AsyncGenerator<unknown> {
            yield { ...batch, data: null };
        }
        const relation = runtime.fromBatches(table.schema, odd as never);
        const wanted = { name: "SpillwayError", code: "INVALID_ARGUMENT" };
        await expect(relation.groupBy({ keys: ["key"] }).count()).rejects.toMatchObject(wanted);
        for (const wrong of [
            { schema: {}, batches: [] },
            { schema: null, data: {}, numRows: 1 }
        ]) {
            expect(() => runtime.fromTable(wrong as never)).toThrow(expect.objectContaining(wanted));
        }
    });
});
