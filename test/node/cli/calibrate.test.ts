// SPDX-License-Identifier: Apache-2.0
// machine calibrate, on this machine and with the GPU of the tests, and what plans make of the profile that it writes.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { openRuntime } from "spillway";
import { describe, expect, test } from "vitest";
import { splitNs } from "../../../src/cli/calibrate/lab.js";
import {
    linkFigures,
    linkMsPerByte,
    measurePeer,
    peerFigures,
    type JoinReport
} from "../../../src/cli/calibrate/link-figures.js";
import { profileText } from "../../../src/cli/calibrate/profile-text.js";
import { deviceFigures, hostFigures, readProfile, readProfileFile } from "../../../src/machine/profile.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { Sandbox } from "../../support/sandbox.js";
import { command } from "./in-process.js";

useGpu();

test("measures every figure of the machine and leaves nothing but the profile", async () => {
    using sandbox = new Sandbox();
    const output = sandbox.path("machine.yaml");
    const words = ["machine", "calibrate", "--rows", "20k", "--device", "cpu", "--folder", sandbox.folder];
    const { code, stderr } = await command([...words, "--output", output]);
    expect([code, stderr]).toEqual([0, expect.stringContaining(`Written to ${output}`)]);
    expect(readdirSync(sandbox.folder).filter((name) => name.includes("calibrate"))).toEqual([]);
    const { host, gpu, device } = readProfileFile(output);
    expect([gpu, device]).toEqual([null, null]);
    expect(Object.keys(host ?? {})).toEqual(Object.values(hostFigures));
    expect(readFileSync(output, "utf8")).not.toMatch(/not measured/);
    const again = await command([...words, "--output", output]);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("exists")]);

    await using runtime = await openRuntime({ device: "cpu", machine: output });
    const relation = await runtime.generate({ rows: 20_000 }, "memory");
    const { predictedMs } = (await runtime.join({ left: relation, right: relation, on: "key" }).explain()).plan;
    writeFileSync(output, readFileSync(output, "utf8").replace(/^stage_start_ms:.*$/m, "stage_start_ms: 1000"));
    await using slow = await openRuntime({ device: "cpu", machine: output });
    const same = await slow.generate({ rows: 20_000 }, "memory");
    const { plan } = await slow.join({ left: same, right: same, on: "key" }).explain();
    expect(plan.predictedMs - predictedMs).toBeGreaterThan(500 * plan.stages.length);
});

test("measures every figure of a GPU that queries tell, and says of the rest where it is from", async () => {
    using sandbox = new Sandbox();
    const words = ["machine", "calibrate", "--rows", "10k", "--device", "gpu", "--folder", sandbox.folder];
    const { code, stdout, stderr } = await command(words);
    expect([code, stderr]).toEqual([0, expect.stringContaining("copies")]);
    const path = sandbox.path("machine.yaml");
    writeFileSync(path, stdout);
    const { gpu, device } = readProfileFile(path);
    expect(device).not.toBeNull();
    const { deviceAlgorithms, ...figures } = gpu!;
    expect(deviceAlgorithms).toEqual({});
    expect(Object.keys(figures).sort()).toEqual(Object.values(deviceFigures).sort());
    expect(stdout).toMatch(/^device_copy_bytes_per_ms: \d+$/m);
    expect(stdout).toMatch(/^device_open_ms: [\d.]+$/m);
    const others = [...stdout.matchAll(/^(\w+): [\d.]+ # not measured here/gm)].map(([, name]) => name);
    // Of the made-up phases of the plugin for tests come figures all the same; these no query tells.
    const host = ["device_file_fill_bytes_per_ms", "device_text_ns", "device_deliver_bytes_per_ms"];
    const unknown = ["device_cache_bytes", "device_block_bytes"];
    const peer = ["device_peer_read_bytes_per_ms", "device_peer_write_bytes_per_ms"]; // there is one GPU
    // Pages of so few rows find room in GPU memory, whatever share is asked for: none go to the host.
    const links = ["device_copy_out", "device_far_write", "device_far_both"].map((name) => `${name}_bytes_per_ms`);
    if (!usesRealGpu) {
        expect([...others].sort()).toEqual([...links, ...host, ...unknown, ...peer].sort());
        // 160,000 keys of 8 bytes in 0.5 ms; both sides, there and back, in 0.75 ms.
        expect(figures.deviceCopyInBytesPerMs).toBe(2_560_000);
        expect(figures.deviceCopyBothBytesPerMs).toBeGreaterThan((2 * 1_280_000) / 0.75);
        expect(figures.deviceCopyOutBytesPerMs).toBe(figures.deviceCopyInBytesPerMs);
        // 80,000 rows of 16 bytes.
        expect(figures.deviceFarReadBytesPerMs).toBe(2_560_000);
    }
    expect(readProfile(path).deviceOpenMs).toBe(figures.deviceOpenMs);
});

describe("the link", () => {
    const report: JoinReport = {
        ...{ path: "staged", h2dBytes: 3000, d2hBytes: 1000, partitions: 32, residentPartitions: 0, droppedRows: 0 },
        ...{ buildMs: 2, probeMs: 3, spilledMs: 7, peerBytes: 0, diskWrittenBytes: 0, diskReadBytes: 0 },
        spilledRows: { build: 50, probe: 50 },
        spilledBytes: { build: 500, probe: 500 },
        ...{ savedBytes: 0, d2hSavedBytes: 0 },
        predicted: {} as JoinReport["predicted"]
    };

    test("in both directions is what came in and left while sides were partitioned", () => {
        expect(linkMsPerByte(report, "staged", false)).toBe((2 + 3) / 3000);
        const resident = { ...report, h2dBytes: 2000, spilledBytes: { build: 0, probe: 0 } };
        expect(linkMsPerByte(resident, "staged", true)).toBe(2 / 1000);
    });

    test("is told by no join that took another way", () => {
        const none = { build: 0, probe: 0 };
        expect(linkMsPerByte(undefined, "staged", true)).toBe(Infinity);
        expect(linkMsPerByte(report, "coherent", false)).toBe(Infinity);
        expect(linkMsPerByte(report, "staged", true)).toBe(Infinity);
        expect(linkMsPerByte({ ...report, spilledBytes: none }, "staged", false)).toBe(Infinity);
        expect(linkMsPerByte({ ...report, diskWrittenBytes: 1 }, "staged", false)).toBe(Infinity);
        expect(linkMsPerByte({ ...report, peerBytes: 1 }, "staged", false)).toBe(Infinity);
    });

    test("away from the GPU is taken for as fast as towards it, and the file says so", () => {
        const gpu = linkFigures({ in: 50, both: 90 }, { in: undefined, both: 80 });
        expect(gpu).toEqual({
            device_copy_in_bytes_per_ms: { value: 50, measured: true },
            device_copy_out_bytes_per_ms: { value: 50, measured: false, from: "as to the GPU" },
            device_copy_both_bytes_per_ms: { value: 90, measured: true },
            device_far_both_bytes_per_ms: { value: 80, measured: true }
        });
        const text = profileText({
            ...{ name: "n", date: "2026-01-01", cpu: "c", device: "d" },
            host: {},
            gpu,
            doubts: []
        });
        expect(text).toContain("device_copy_out_bytes_per_ms: 50 # not measured here: as to the GPU\n");
        expect(linkFigures({ in: undefined, both: undefined }, { in: undefined, both: undefined })).toEqual({});
    });
});

test("rates of another GPU are those of copies at its opening, where there is one", async () => {
    const state = { host: { limitBytes: 1, usedBytes: 0, peakBytes: 0 }, spillDirectory: "" };
    expect(peerFigures(state)).toEqual({});
    expect(peerFigures({ ...state, peer: { limitBytes: 1 } })).toEqual({});
    const figures = await measurePeer({ peerOrdinal: 0 });
    const rate = { value: expect.any(Number) as number, measured: true };
    expect(figures).toEqual({ device_peer_read_bytes_per_ms: rate, device_peer_write_bytes_per_ms: rate });
    if (usesRealGpu) return;
    expect(Object.values(figures).map(({ value }) => value)).toEqual([250e6, 200e6]);
    expect(await measurePeer()).toEqual({});
});

test("a profile that cannot be read is an error of the command line's user", async () => {
    using sandbox = new Sandbox();
    const missing = sandbox.path("none.yaml");
    const { code, stderr } = await command(["join", "a", "b", "--on", "k", "--machine", missing]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("none.yaml")]);
    await expect(openRuntime({ machine: missing })).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
});

test("times of two widths are split so that neither part is nothing", () => {
    expect(splitNs({ bytes: 8, ns: 5 }, { bytes: 40, ns: 13 })).toEqual({ perRow: 3, perByte: 0.25 });
    const noisy = [
        splitNs({ bytes: 8, ns: 10 }, { bytes: 40, ns: 9 }),
        splitNs({ bytes: 8, ns: 2 }, { bytes: 40, ns: 100 }),
        splitNs({ bytes: 8, ns: -1 }, { bytes: 40, ns: 3 })
    ];
    for (const { perRow, perByte } of noisy) {
        expect(perRow).toBeGreaterThan(0);
        expect(perByte).toBeGreaterThan(0);
    }
    expect(noisy[1]!.perRow + 40 * noisy[1]!.perByte).toBeCloseTo(100);
});
