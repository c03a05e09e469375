// SPDX-License-Identifier: Apache-2.0
// What openRuntime makes of its options and of the machine: threads, budget, speeds and the GPU.
import { readFileSync, writeFileSync } from "node:fs";
import { tableFromArrays } from "apache-arrow";
import { afterEach, describe, expect, test, vi } from "vitest";
import { parse, stringify } from "yaml";
import { deviceFigures, hostFigures, loadProfile } from "../../../src/machine/profile.js";
import { showsGpu } from "../../../src/machine/devices.js";
import { usableMemory } from "../../../src/machine/machine.js";
import type { NativeDevice } from "../../../src/native/binding.js";
import { loadBinding } from "../../../src/native/load.js";
import { smallestBudgetBytes } from "../../../src/planner/policy.js";
import { openRuntime } from "../../../src/runtime/open-runtime.js";
import type { RuntimeOptions } from "../../../src/runtime/options.js";
import type { QueryRunner, RunnerParts } from "../../../src/runtime/query-runner.js";
import type { Runtime } from "../../../src/runtime/runtime.js";
import { nativeDevice } from "../../support/made-up-gpu.js";
import { Sandbox } from "../../support/sandbox.js";

afterEach(() => void vi.restoreAllMocks());

/** What a runtime was opened with. */
function partsOf(runtime: Runtime): RunnerParts {
    const relation = runtime.fromTable(tableFromArrays({ k: Int32Array.of(1) }));
    return (relation as unknown as { _runner: QueryRunner })._runner.parts;
}

async function opened<T>(options: RuntimeOptions | undefined, body: (runtime: Runtime) => T): Promise<T> {
    const runtime = await openRuntime(options);
    try {
        return body(runtime);
    } finally {
        await runtime.close();
    }
}

/** GPUs of this machine, or why there is none. */
async function withGpus(gpus: NativeDevice[], unavailable: string | null = null): Promise<() => number> {
    const binding = await loadBinding();
    const devices = vi.spyOn(binding, "devices").mockReturnValue(gpus);
    vi.spyOn(binding, "gpuUnavailableReason").mockReturnValue(unavailable);
    return () => devices.mock.calls.length;
}

describe("a runtime", () => {
    test("has the threads, the budget and the knobs that it was given", async () => {
        const options = {
            threads: 3,
            memory: { host: "64MiB", device: "2MiB" },
            experiment: { radixBits: 5 }
        } as const;
        const parts = await opened(options, partsOf);
        expect(parts).toMatchObject({ threads: 3, memoryBytes: 2 ** 26, debug: { radixBits: 5 } });
        expect(parts.device).toEqual({
            device: "auto",
            memoryBytes: 2 ** 21,
            isMeasured: false,
            isPresent: showsGpu()
        });
    });

    test("has the cores of the machine, and half of the memory that is free, where nothing is said", async () => {
        const binding = await loadBinding();
        const found = { ...binding.machine(), cores: 3, availableBytes: 5e9 + 1, memoryLimitBytes: null };
        const spy = vi.spyOn(binding, "machine").mockReturnValue(found);
        const parts = await opened(undefined, partsOf);
        expect(parts).toMatchObject({ threads: 3, memoryBytes: 25e8, debug: {} });
        expect(parts.device).toEqual({
            device: "auto",
            memoryBytes: undefined,
            isMeasured: false,
            isPresent: showsGpu()
        });
        const limited = { ...found, memoryLimitBytes: 2 ** 30 };
        expect(usableMemory(limited)).toBe(2 ** 30);
        spy.mockReturnValue(limited);
        expect((await opened({}, partsOf)).memoryBytes).toBe(2 ** 29);
        spy.mockReturnValue({ ...found, availableBytes: 1000 });
        expect((await opened({}, partsOf)).memoryBytes).toBe(smallestBudgetBytes);
    });

    test("has the speeds of its machine's file: of the host, of the GPU or of both", async () => {
        using sandbox = new Sandbox();
        const given = parse(readFileSync(new URL("../../../configs/machines/h200.yaml", import.meta.url), "utf8")) as {
            [figure: string]: unknown;
        };
        const usual = loadProfile();
        const host = Object.entries(hostFigures).map(([figure, property]) => [figure, 2 * usual[property]]);
        const gpu = Object.entries(deviceFigures).map(([figure]) => [figure, given[figure]]);
        const partsWith = async (name: string, figures: unknown[][]): Promise<RunnerParts> => {
            const path = sandbox.path(`${name}.yaml`);
            writeFileSync(path, stringify({ name, ...Object.fromEntries(figures) }));
            return await opened({ machine: path }, partsOf);
        };
        const readBytesPerMs = 2 * usual.readBytesPerMs;
        const onlyHost = await partsWith("host", host);
        expect(onlyHost.profile).toMatchObject({ name: "host", readBytesPerMs });
        expect(onlyHost.device?.isMeasured).toBe(false);
        const onlyGpu = await partsWith("gpu", gpu);
        expect(onlyGpu.profile).toMatchObject({ name: "gpu", readBytesPerMs: usual.readBytesPerMs });
        expect(onlyGpu.device?.isMeasured).toBe(true);
        const both = await partsWith("both", [...host, ...gpu]);
        expect(both.profile).toMatchObject({ name: "both", readBytesPerMs });
        expect(both.device?.isMeasured).toBe(true);
        expect((await opened({}, partsOf)).profile).toEqual(usual);
    });
});

describe("a runtime on a machine", () => {
    test.each([
        ["without a driver", [], "no driver", "no driver"],
        ["of whose GPUs nobody knows anything", [], null, "none was found"],
        ["with a GPU that is too old", [nativeDevice({ reason: "too old" })], null, "too old"]
    ])("%s is not opened for a GPU", async (_, gpus, unavailable, reason) => {
        await withGpus(gpus, unavailable);
        const details = { option: "device", reason };
        await expect(openRuntime({ device: "gpu" })).rejects.toMatchObject({ code: "NO_DEVICE", details });
        await expect(openRuntime({ device: "gpu" })).rejects.toThrow(reason);
        const [, gpu] = await opened({ device: "auto" }, (runtime) => runtime.devices());
        expect(gpu).toMatchObject({ kind: "gpu", used: false, reason });
    });

    test("with a GPU is opened for it, and lists it", async () => {
        const looked = await withGpus([nativeDevice({ reason: "too old" }), nativeDevice({ name: "a good one" })]);
        const [cpu, old, good] = await opened({ device: "gpu" }, (runtime) => runtime.devices());
        expect([cpu?.used, old?.used, good?.used]).toEqual([false, false, true]);
        expect(good).toMatchObject({ name: "a good one", reason: null });
        expect(looked()).toBeGreaterThan(0);
    });

    test("looks for a GPU when somebody asks, and once", async () => {
        const looked = await withGpus([nativeDevice()]);
        for (const device of ["auto", "cpu"] as const) {
            const before = looked();
            await opened({ device }, (runtime) => {
                expect(looked()).toBe(before);
                const [, gpu] = runtime.devices();
                expect(gpu?.used).toBe(device === "auto");
                expect(runtime.devices()).toEqual(runtime.devices());
                expect(looked()).toBe(before + 1);
            });
        }
    });
});
