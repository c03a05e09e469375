// SPDX-License-Identifier: Apache-2.0
// A GPU without a driver: what the addon tells of one, for tests of who decides what runs there.
import { SpillwayError } from "../../src/errors.js";
import type { NativeDevice } from "../../src/native/binding.js";
import { Job } from "../../src/execute/job.js";
import { Savings } from "../../src/runtime/gpu-opening.js";
import { QueryDevice, type DeviceOptions } from "../../src/runtime/query-device.js";
import { FakeBinding } from "./fake-binding.js";

type Calls = NonNullable<ConstructorParameters<typeof FakeBinding>[0]>;

const gibibyte = 2 ** 30;

/** Its name is one that the package has no speeds for, unless said otherwise. */
export function nativeDevice(more: Partial<NativeDevice> = {}): NativeDevice {
    return {
        ...{ kind: "gpu", name: "a GPU", ordinal: 0, pciBusId: "0", memoryBytes: 64 * gibibyte },
        ...{ multiprocessors: 132, computeCapability: "9.0", l2Bytes: 2 ** 25, pageableAccess: false },
        ...{ hostPageTables: false, hostNumaMapping: false, numaNode: -1, copyEngines: 3, reason: null },
        ...more
    };
}

export interface GpuShape {
    gpus?: NativeDevice[];
    /** Why there is none. */
    unavailable?: string | null;
    limitBytes?: number;
    overrides?: Calls;
}

/** Calls of the binding for GPUs like these. */
export function gpuCalls({ gpus = [nativeDevice()], unavailable = null, limitBytes = gibibyte }: GpuShape): Calls {
    return {
        lookForDevices: async () => undefined,
        devices: () => gpus,
        gpuUnavailableReason: () => unavailable,
        openDevice: async () => ({ limitBytes, usedBytes: 0, peakBytes: 0, freeBytes: limitBytes }),
        deviceMemory: () => ({ limitBytes, usedBytes: 0, peakBytes: 77, freeBytes: limitBytes }),
        resetDevicePeak: () => undefined
    };
}

/** Where the queries of a runtime with such a GPU run, and how often which call was made. */
export function deviceWith(
    shape: GpuShape,
    options: Partial<DeviceOptions> = {},
    hostBytes = gibibyte,
    savings = new Savings()
) {
    const fake = new FakeBinding({ ...gpuCalls(shape), ...shape.overrides });
    const { binding } = fake;
    const device = new QueryDevice(
        binding,
        "engine" as never,
        { device: "auto", memoryBytes: undefined, ...options },
        hostBytes,
        savings
    );
    const countOf = (name: string): number => fake.calls.filter((call) => call === name).length;
    return { device, fake, countOf, job: () => new Job(binding, "engine" as never, undefined) };
}

/** What the engine says of memory of the GPU that does not suffice, and of what else ends queries there. */
export function failureOf(code: SpillwayError["code"], details: SpillwayError["details"] = {}): SpillwayError {
    return new SpillwayError(code, `made up: ${code}`, details);
}
