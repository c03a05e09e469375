// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { listDevices } from "../../../src/machine/devices.js";
import { machineInfo, usableMemory } from "../../../src/machine/machine.js";
import {
    loadProfile,
    readProfile,
    readProfileFile,
    readProfileFolder,
    withDevice
} from "../../../src/machine/profile.js";
import { machine } from "../../support/planning.js";

const folder = mkdtempSync(join(tmpdir(), "spillway-profile-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a machine profile", () => {
    const sound = readFileSync(new URL("../../../configs/machines/default-cpu.yaml", import.meta.url), "utf8");
    const h200 = new URL("../../../configs/machines/h200.yaml", import.meta.url);
    const write = (text: string): string => {
        const path = join(folder, "profile.yaml");
        writeFileSync(path, text);
        return path;
    };

    test("has every figure, all positive", () => {
        const { name, deviceAlgorithms, ...figures } = loadProfile();
        expect(name).toBe("default-cpu");
        for (const figure of Object.values(figures)) expect(figure).toBeGreaterThan(0);
        expect(deviceAlgorithms).toEqual(readProfileFile(h200).gpu?.deviceAlgorithms);
    });

    test("is part of the package as the build has read it", () => {
        const built = new URL("../../../dist/machine/profiles.json", import.meta.url);
        expect(JSON.parse(readFileSync(built, "utf8"))).toEqual(readProfileFolder());
    });

    test("of a machine has the figures of a GPU that was not measured, and the other way round", () => {
        const machineAlone = readProfile(write(sound));
        expect(machineAlone).toEqual({ ...loadProfile(), name: "default-cpu" });
        const gpuAlone = readProfile(h200);
        expect(gpuAlone).toEqual({ ...loadProfile(), name: "h200" });
    });

    test("counts for the GPU that it names", () => {
        const own = { ...loadProfile(), deviceMemoryBytesPerMs: 1 };
        expect(withDevice(own, "NVIDIA H200").deviceMemoryBytesPerMs).toBe(loadProfile().deviceMemoryBytesPerMs);
        expect(withDevice(own, "NVIDIA T4")).toEqual(own);
    });

    test("may leave out rates of a second GPU, which are those of the default then", () => {
        const gpu = readFileSync(h200, "utf8");
        const alone = write(gpu.replace(/^device_peer_.*$/gm, ""));
        expect(readProfileFile(alone).gpu).not.toHaveProperty("devicePeerReadBytesPerMs");
        expect(readProfile(alone)).toEqual({ ...loadProfile(), name: "h200" });
        const measured = write(gpu.replace(/^(device_peer_read_bytes_per_ms): \d+$/m, "$1: 25000000"));
        expect(readProfile(measured)).toEqual({ ...loadProfile(), name: "h200", devicePeerReadBytesPerMs: 25e6 });
        const none = write(gpu.replace(/^(device_peer_write_bytes_per_ms): \d+$/m, "$1: 0"));
        expect(() => readProfile(none)).toThrow(/device_peer_write_bytes_per_ms/);
    });

    test("may say how runs of an algorithm differed", () => {
        const fit = "device_algorithms: { phj-ur: { match: { factor: 1.5, fixed_ms: 0.25 } } }\n";
        const gpu = readFileSync(h200, "utf8").replace(/^device_algorithms:[^]*/m, "");
        expect(readProfileFile(write(`${gpu}${fit}`)).gpu?.deviceAlgorithms).toEqual({
            "phj-ur": { match: { factor: 1.5, fixed_ms: 0.25 } }
        });
        expect(() => readProfile(write(gpu.replace(/^device_launch_ms.*$/m, "")))).toThrow(/device_launch_ms/);
        expect(() => readProfile(write(`${gpu}${fit.replace("1.5", "-1")}`))).toThrow(/factor/);
    });

    test.each([
        ["a figure that is missing", sound.replace(/^probe_ns_per_row.*$/m, ""), /probe_ns_per_row/],
        ["a figure of zero", sound.replace(/^probe_ns_per_row.*$/m, "probe_ns_per_row: 0"), /probe_ns_per_row/],
        ["an unknown figure", `${sound}\nwarp_speed: 9\n`, /warp_speed/],
        ["no YAML at all", "{", /not valid/]
    ])("with %s is refused and names it", (_, text, words) => {
        expect(() => readProfile(write(text))).toThrow(words);
    });

    test.each([1, 8191, 49151, 49152.5, 1e20])(
        "with %d bytes of shared memory in a block says what is wanted",
        (bytes) => {
            const gpu = readFileSync(h200, "utf8");
            const textWith = (value: number): string =>
                gpu.replace(/^device_block_bytes:.*$/m, `device_block_bytes: ${value}`);
            const message = expect.stringContaining(
                `expected a whole number of bytes, 49152 at least, received ${bytes} at device_block_bytes`
            ) as string;
            expect(() => readProfile(write(textWith(bytes)))).toThrow(
                expect.objectContaining({ code: "INVALID_ARGUMENT", message }) as Error
            );
            expect(readProfile(write(textWith(49152))).deviceBlockBytes).toBe(49152);
        }
    );

    test("that is missing says where it was looked for", () => {
        expect(() => readProfile(join(folder, "none.yaml"))).toThrow(/none\.yaml/);
    });
});

test("facts that the system hides are replaced by usual ones", () => {
    const found = machineInfo({ ...machine, cores: 0, l2Bytes: 0, cacheLineBytes: 0 });
    expect(found).toMatchObject({ cores: 1, cacheLineBytes: 64 });
    expect(found.l2Bytes).toBeGreaterThan(0);
});

test("memory is what is free and what the control group allows", () => {
    expect(usableMemory({ ...machine, availableBytes: 100, memoryLimitBytes: null })).toBe(100);
    expect(usableMemory({ ...machine, availableBytes: 100, memoryLimitBytes: 60 })).toBe(60);
});

test("devices say why they are not used", () => {
    const gpu = { name: "H200", memoryBytes: 1, computeCapability: "9.0", reason: null };
    expect(listDevices(machine, { gpus: [], unavailable: "no driver" }, "auto")).toMatchObject([
        { kind: "cpu", used: true, reason: null },
        { kind: "gpu", used: false, reason: "no driver" }
    ]);
    const found = { gpus: [{ ...gpu, reason: "too old" }, gpu, gpu], unavailable: null };
    const used = (wanted: "auto" | "cpu" | "gpu") => listDevices(machine, found, wanted).map((device) => device.used);
    expect(used("auto")).toEqual([true, false, true, false]);
    expect(used("gpu")).toEqual([false, false, true, false]);
    expect(used("cpu")).toEqual([true, false, false, false]);
    for (const device of listDevices(machine, found, "gpu")) expect(device.reason === null).toBe(device.used);
});
