// SPDX-License-Identifier: Apache-2.0
import { accessSync, closeSync, constants, openSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { afterEach, expect, test, vi } from "vitest";
import { openRuntime } from "spillway";
import { checkSpillDirectory, defaultSpillDirectory } from "../../../src/runtime/spill-directory.js";
import { Sandbox } from "../../support/sandbox.js";

afterEach(() => {
    vi.unstubAllEnvs();
});

test("a runtime opens where the temporary folder cannot be written", async () => {
    vi.stubEnv("TMPDIR", "/proc");
    await using runtime = await openRuntime();
    expect(runtime.machine().cores).toBeGreaterThan(0);
    expect(runtime.memory().spillDirectory).not.toBe("/proc");
});

test("without a name the first folder that takes files is used, or none", async () => {
    using sandbox = new Sandbox();
    expect(await defaultSpillDirectory(["/proc", sandbox.spill, sandbox.output])).toBe(sandbox.spill);
    expect(await defaultSpillDirectory(["/proc", sandbox.path("missing")])).toBe("");
    expect(sandbox.leftovers()).toEqual([]);
});

test("a folder that was named takes files, or is refused before anything runs", async () => {
    using sandbox = new Sandbox();
    expect(() => checkSpillDirectory(sandbox.spill)).not.toThrow();
    expect(sandbox.leftovers()).toEqual([]);
    const file = sandbox.path("file");
    writeFileSync(file, "");
    for (const [path, reason] of [
        [sandbox.path("missing"), "ENOENT"],
        [file, "ENOTDIR"]
    ] as const) {
        const refused = { code: "INVALID_ARGUMENT", details: { option: "memory.spillDirectory", path } };
        const opening = openRuntime({ memory: { spillDirectory: path } });
        await expect(opening).rejects.toMatchObject({ ...refused, cause: { code: reason } });
        await expect(opening).rejects.toThrow(reason);
    }
});

function hasUnnamedFiles(folder: string): boolean {
    try {
        closeSync(openSync(folder, 0o20000000 | constants.O_DIRECTORY | constants.O_RDWR, 0o600));
        return true;
    } catch {
        return false;
    }
}

test("a runtime that opens makes nothing with a name in the folder, which could stay when it is killed", async (it) => {
    using sandbox = new Sandbox();
    it.skip(!hasUnnamedFiles(sandbox.spill), "this file system has no files without names");
    const changed = () => statSync(sandbox.spill, { bigint: true }).mtimeNs;
    const before = changed();
    await using runtime = await openRuntime({ memory: { spillDirectory: sandbox.spill } });
    expect(runtime.memory().spillDirectory).toBe(sandbox.spill);
    expect(changed()).toBe(before);
});

const tmpfs = 0x01021994;
const isDisk = (folder: string) => statfsSync(folder).type !== tmpfs;

function isMemoryFolder(folder: string): boolean {
    try {
        accessSync(folder, constants.W_OK);
        return statfsSync(folder).type === tmpfs;
    } catch {
        return false;
    }
}

test.skipIf(!isMemoryFolder("/dev/shm"))("a folder on a disk goes before one in memory", async () => {
    using sandbox = new Sandbox();
    if (isDisk(sandbox.spill)) expect(await defaultSpillDirectory(["/dev/shm", sandbox.spill])).toBe(sandbox.spill);
    expect(await defaultSpillDirectory(["/proc", "/dev/shm"])).toBe("/dev/shm");
    vi.stubEnv("TMPDIR", "/dev/shm");
    await using runtime = await openRuntime();
    expect(runtime.memory().spillDirectory).toBe(isDisk("/var/tmp") ? "/var/tmp" : "/dev/shm");
    await using named = await openRuntime({ memory: { spillDirectory: "/dev/shm" } });
    expect(named.memory().spillDirectory).toBe("/dev/shm");
});
