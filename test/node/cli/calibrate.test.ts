// SPDX-License-Identifier: Apache-2.0
// machine calibrate, on this machine and with the GPU of the tests, and what plans make of the profile that it writes.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { openRuntime } from "spillway";
import { expect, test } from "vitest";
import { splitNs } from "../../../src/cli/calibrate/lab.js";
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
    const links = ["in", "out", "both"].map((way) => `device_copy_${way}_bytes_per_ms`);
    const unknown = [...links, "device_cache_bytes", "device_block_bytes"];
    if (!usesRealGpu) expect(others).toEqual(unknown);
    expect(readProfile(path).deviceOpenMs).toBe(figures.deviceOpenMs);
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
