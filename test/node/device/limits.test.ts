// SPDX-License-Identifier: Apache-2.0
// What becomes of queries that the GPU cannot hold, cannot run, loses or is told to leave.
import { Dictionary, Int32, Table, Utf8, vectorFromArray } from "apache-arrow";
import type { Query, Runtime } from "spillway";
import { afterEach, describe, expect, test } from "vitest";
import { profileFor } from "../../support/device-profile.js";
import { behave, withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

const rows = 1200;

function table(): Table {
    const numbers = Array.from({ length: rows }, (_, i) => i);
    return new Table({
        one: vectorFromArray(
            numbers.map(() => 1),
            new Int32()
        ),
        k: vectorFromArray(numbers, new Int32()),
        text: vectorFromArray(
            numbers.map((i) => (i % 3 === 0 ? null : `text ${i}`)),
            new Utf8()
        )
    });
}

const self = (runtime: Runtime, on: string, hints = {}): Query => {
    const [left, right] = [runtime.fromTable(table()), runtime.fromTable(table())];
    return runtime.join({ left, right, on, select: ["k", "k_right"].filter((name) => name !== `${on}_right`), hints });
};
/** 1,440,000 pairs that the plan takes for one. */
const underestimated = (runtime: Runtime): Query => self(runtime, "one", { resultRows: 1 });

/** ... which are grouped, so that they have to be in GPU memory all at once. */
const grouped = (runtime: Runtime): Query =>
    underestimated(runtime).groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } });

afterEach(() => behave(undefined));

describe("GPU memory", () => {
    const device = "1MiB";

    test("inputs that cannot fit are refused before anything is read, with the size that would do", async () => {
        const numbers = vectorFromArray(
            Array.from({ length: 300_000 }, (_, i) => i),
            new Int32()
        );
        const big = new Table({ k: numbers, v: numbers });
        await withRuntime({ device: "gpu", memory: { device } }, async (runtime) => {
            const query = runtime.join({ left: runtime.fromTable(big), right: runtime.fromTable(big), on: "k" });
            const details = { tier: "device", option: "memory.device", limitBytes: 2 ** 20 };
            await expect(query.count()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", details });
            const error = (await query.count().catch((thrown: unknown) => thrown)) as { details: { smallest: string } };
            await withRuntime({ device: "gpu", memory: { device: error.details.smallest } }, async (larger) => {
                const [left, right] = [larger.fromTable(big), larger.fromTable(big)];
                const plan = larger.join({ left, right, on: "k" }).explain({ result: "count" });
                expect(String(await plan)).toContain("uploaded");
            });
        });
    });

    test("running out of it in the middle is an error that names the option", async () => {
        await withRuntime({ device: "gpu", memory: { device } }, async (runtime) => {
            const details = { tier: "device", option: "memory.device" };
            const failure = { code: "BUDGET_TOO_SMALL", details };
            await expect(grouped(runtime).toTable()).rejects.toMatchObject(failure);
            // All of it is free again.
            expect((await self(runtime, "k").toTable()).numRows).toBe(rows);
        });
    });

    test("with device auto the CPU engine takes over", async () => {
        await withRuntime({ memory: { device }, debug: { gpu: true } }, async (runtime) => {
            const query = grouped(runtime);
            expect((await query.toTable()).numRows).toBe(rows);
            expect(query.report()).toMatchObject({ device: "cpu", uploadedBytes: 0, devicePeakBytes: 0 });
            expect(query.report()?.deviceReason).toMatch(/memory.device/);
        });
    });
});

describe("what the GPU cannot run", () => {
    test.skipIf(usesRealGpu)("a join that it refuses is planned again as one that it never does", async () => {
        behave("walks");
        using sandbox = new Sandbox();
        await withRuntime({ device: "gpu", machine: profileFor(sandbox, "npj") }, async (runtime) => {
            const query = self(runtime, "k");
            expect(String(await query.explain())).toMatch(/npj, .* on the GPU, inner \(chosen by the planner\)/);
            expect((await query.toTable()).numRows).toBe(rows);
            const report = query.report();
            const stage = report?.stages.find(({ name }) => name === "join");
            expect(stage?.algorithm).toMatch(/^phj-tr, .* on the GPU, inner \(chosen by the planner\)$/);
            expect(stage?.device).toMatchObject({ algorithm: "phj-tr", chosenBy: "planner" });
            expect(report?.device).toBe("gpu");
        });
    });

    test.skipIf(usesRealGpu)("a join that it refuses by the user's algorithm is never planned as another", async () => {
        behave("walks");
        const named = (runtime: Runtime): Query => {
            const [left, right] = [runtime.fromTable(table()), runtime.fromTable(table())];
            return runtime.join({ left, right, on: "k", algorithm: "npj" });
        };
        await withRuntime({ device: "gpu" }, async (runtime) => {
            const refused = { code: "UNSUPPORTED_TYPE", details: { reason: "deviceUnsupported" } };
            await expect(named(runtime).count()).rejects.toMatchObject(refused);
            await expect(named(runtime).toTable()).rejects.toThrow(/a key comes too often/);
        });
        await withRuntime({}, async (runtime) => {
            const query = named(runtime);
            expect(await query.count()).toBe(rows);
            const report = query.report();
            expect(report).toMatchObject({ device: "cpu", uploadedBytes: 0 });
            expect(report?.deviceReason).toMatch(/a key comes too often/);
            expect(report?.stages.some((stage) => "device" in stage)).toBe(false);
        });
        // Beside it, what the planner chose is: the user's join keeps its name and ends the query.
        using sandbox = new Sandbox();
        await withRuntime({ device: "gpu", machine: profileFor(sandbox, "npj") }, async (runtime) => {
            const more = named(runtime).join(runtime.fromTable(table()), { on: "k", select: ["k"] });
            await expect(more.count()).rejects.toThrow(/a key comes too often/);
        });
    });

    test("of a stream what needs a table there is refused with device gpu, and runs on the CPU with auto", async () => {
        const streamed = (runtime: Runtime): Query => {
            const input = runtime.fromBatches(coded.schema, async function* () {
                yield coded;
            });
            return input.groupBy({ keys: ["k"], aggregates: { n: { max: "code" } } });
        };
        const code = vectorFromArray(table().getChild("text")!.toArray(), new Dictionary(new Utf8(), new Int32()));
        const coded = table().assign(new Table({ code }));
        const reason =
            /^`max` of column `code` \(Dictionary<.*>\) does not run out of core: indices are sent, not their values$/;
        await withRuntime({ device: "gpu" }, async (runtime) => {
            const details = { option: "device", reason: expect.stringMatching(reason) as string };
            await expect(streamed(runtime).toTable()).rejects.toMatchObject({ code: "UNSUPPORTED_TYPE", details });
        });
        await withRuntime({ debug: { gpu: true } }, async (runtime) => {
            const query = streamed(runtime);
            expect((await query.toTable()).numRows).toBe(rows);
            expect(query.report()).toMatchObject({
                ...{ device: "cpu", deviceReason: expect.stringMatching(reason) as string }
            });
        });
    });

    test("explain names the device and why", async () => {
        await withRuntime({ device: "gpu" }, async (runtime) => {
            const grouped = self(runtime, "k").groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } });
            const explained = await grouped.explain();
            expect(explained.plan.stages.map(({ kind }) => kind)).toEqual([
                ...["upload", "upload", "deviceJoin", "deviceGroup", "deliver"]
            ]);
            expect(String(explained)).toMatch(/gpu: .* uploaded, .* downloaded; about .* of GPU memory/);
            const code = vectorFromArray(["a", "b"], new Dictionary(new Utf8(), new Int32()));
            const codes = runtime.fromTable(new Table({ code })).groupBy({ aggregates: { least: { min: "code" } } });
            await expect(codes.explain()).rejects.toMatchObject({ code: "UNSUPPORTED_TYPE" });
        });
        await withRuntime({}, async (runtime) => {
            expect(String(await self(runtime, "k").explain())).toContain("cpu: the query is a small one");
        });
        await withRuntime({ device: "cpu" }, async (runtime) => {
            const { plan } = await self(runtime, "k").explain();
            expect(plan).toMatchObject({ device: "cpu", deviceReason: null, deviceMemory: null });
            expect(runtime.devices().find(({ kind }) => kind === "gpu")).toMatchObject({ used: false });
        });
    });
});

test("devices() says that queries run on the GPU, and reports tell what was copied", async () => {
    await withRuntime({ device: "gpu" }, async (runtime) => {
        expect(runtime.devices().find(({ kind }) => kind === "gpu")).toMatchObject({ used: true, reason: null });
        const query = self(runtime, "k");
        await query.toTable();
        const report = query.report();
        expect(report).toMatchObject({ device: "gpu", deviceReason: null });
        expect(report?.uploadedBytes).toBe(2 * rows * 4);
        expect(report?.downloadedBytes).toBe(rows * 4);
        expect(report?.devicePeakBytes).toBeGreaterThanOrEqual(2 * rows * 4);
        expect(report?.stages.map(({ name }) => name)).toEqual(["upload", "upload", "join", "deliver"]);
    });
});

test("queries share the GPU, also beside a result that is not read", async () => {
    await withRuntime({ device: "gpu", memory: { host: "64MiB", device: "64MiB" } }, async (runtime) => {
        const open = underestimated(runtime).batches({ batchRows: 100 });
        await open.next();
        const counts = await Promise.all(Array.from({ length: 6 }, () => self(runtime, "k").count()));
        expect(counts).toEqual(Array.from({ length: 6 }, () => rows));
        await open.return?.();
    });
});

describe.skipIf(usesRealGpu)("a GPU that misbehaves", () => {
    test("an abort ends the operation that runs, and the next query works", async () => {
        await withRuntime({ device: "gpu" }, async (runtime) => {
            behave("slow");
            const controller = new AbortController();
            const reason = new Error("changed my mind");
            const counted = self(runtime, "k").count({ signal: controller.signal });
            const waiting = self(runtime, "k").count({ signal: AbortSignal.timeout(100) });
            setTimeout(() => controller.abort(reason), 200);
            const start = performance.now();
            await expect(waiting).rejects.toThrow(/timeout/i);
            await expect(counted).rejects.toBe(reason);
            expect(performance.now() - start).toBeLessThan(5000);
            behave(undefined);
            expect(await self(runtime, "k").count()).toBe(rows);
        });
    });

    test("closing the runtime ends what runs there", async () => {
        let counted: Promise<unknown> | undefined;
        await withRuntime({ device: "gpu" }, async (runtime) => {
            expect(await self(runtime, "k").count()).toBe(rows);
            behave("slow");
            counted = self(runtime, "k").count();
            counted.catch(() => undefined);
            await new Promise((resolve) => setTimeout(resolve, 100));
        });
        await expect(counted).rejects.toMatchObject({ code: "CLOSED" });
    });

    test("a lost one is one clear error, or the CPU with device auto", async () => {
        await withRuntime({ device: "gpu" }, async (runtime) => {
            expect(await self(runtime, "k").count()).toBe(rows);
            behave("lost");
            const lost = { code: "NO_DEVICE", details: { cudaError: "700" } };
            await expect(self(runtime, "k").toTable()).rejects.toMatchObject(lost);
        });
        behave(undefined);
        await withRuntime({ debug: { gpu: true } }, async (runtime) => {
            expect(await self(runtime, "k").count()).toBe(rows);
            behave("lost");
            const query = self(runtime, "k");
            expect((await query.toTable()).numRows).toBe(rows);
            expect(query.report()?.deviceReason).toMatch(/illegal memory access/);
        });
    });
});
