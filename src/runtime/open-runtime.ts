// SPDX-License-Identifier: Apache-2.0
import { QueryRunner } from "./query-runner.js";
import { SpillwayError, toSpillwayError } from "../errors.js";
import { loadBinding } from "../native/load.js";
import { listDevices, showsGpu, type DeviceInfo } from "../machine/devices.js";
import { machineInfo, usableMemory } from "../machine/machine.js";
import { loadProfile, profileOf, readProfileFile } from "../machine/profile.js";
import { checkInteger, checkOneOf, checkOptions, checkPath, checkText, invalidArgument } from "../model/arguments.js";
import { checkKnobs } from "../model/debug-knobs.js";
import { parseBytes } from "../model/sizes.js";
import { smallestBudgetBytes, smallestDeviceBytes } from "../planner/policy.js";
import type { RuntimeOptions } from "./options.js";
import { Runtime } from "./runtime.js";
import { checkSpillDirectory, defaultSpillDirectory } from "./spill-directory.js";

/** Opens the engine. Close the runtime when done, or declare it with `await using`. */
export async function openRuntime(options?: RuntimeOptions): Promise<Runtime> {
    const given = checkOptions(options, "", ["device", "warm", "memory", "threads", "machine", "experiment", "debug"]);
    const memory = checkOptions(given["memory"], "memory", ["host", "device", "peer", "spillDirectory"]);
    const device =
        given["device"] === undefined ? "auto" : checkOneOf(given["device"], "device", ["auto", "cpu", "gpu"]);
    const warm = checkWarm(given["warm"], device);
    const hostBytes =
        memory["host"] === undefined ? undefined : parseBytes(memory["host"], "memory.host", smallestBudgetBytes);
    const deviceBytes =
        memory["device"] === undefined ? undefined : parseBytes(memory["device"], "memory.device", smallestDeviceBytes);
    const peerBytes = memory["peer"] === undefined ? undefined : parseBytes(memory["peer"], "memory.peer", 1);
    const givenDirectory =
        memory["spillDirectory"] === undefined
            ? undefined
            : checkText(memory["spillDirectory"], "memory.spillDirectory");
    const wantedThreads =
        given["threads"] === undefined ? undefined : checkInteger(given["threads"], "threads", 1, 1024);
    const machineFile = given["machine"] === undefined ? undefined : checkPath(given["machine"], "machine");
    const debug = checkKnobs(given);

    const measured = machineFile === undefined ? undefined : readProfileFile(machineFile);

    const binding = await loadBinding();
    if (givenDirectory !== undefined) checkSpillDirectory(givenDirectory);
    const spillDirectory = givenDirectory ?? (await defaultSpillDirectory());
    const machine = machineInfo(binding.machine());
    // Not before somebody asks: waking the driver of a GPU takes longer than all else that opens a runtime.
    let found: readonly DeviceInfo[] | undefined;
    const devices = (): readonly DeviceInfo[] =>
        (found ??= listDevices(
            machine,
            { gpus: binding.devices(), unavailable: binding.gpuUnavailableReason() },
            device
        ));
    const runner = new QueryRunner({
        binding,
        machine,
        profile: measured === undefined ? loadProfile() : profileOf(measured),
        memoryBytes: hostBytes ?? Math.max(smallestBudgetBytes, Math.floor(usableMemory(machine) / 2)),
        spillDirectory,
        threads: wantedThreads ?? machine.cores,
        debug,
        device: {
            ...{ device, memoryBytes: deviceBytes, peerBytes, peerOrdinal: debug.peerOrdinal },
            ...{ isMeasured: measured?.gpu != null, isPresent: showsGpu() }
        }
    });
    if (device === "gpu") await requireGpu(runner);
    if (warm) runner.device.warm();
    return new Runtime({ runner, machine, devices, spillDirectory });
}

function checkWarm(warm: unknown, device: "auto" | "cpu" | "gpu"): boolean {
    if (warm === undefined || warm === false) return false;
    if (warm !== true) throw invalidArgument("warm", "true or false", warm);
    if (device !== "cpu") return true;
    throw new SpillwayError("INVALID_ARGUMENT", '`warm` opens a GPU, which device "cpu" never uses; leave it out', {
        option: "warm",
        device
    });
}

/** Waits until a GPU was found; a runtime that has none is not left open. */
async function requireGpu(runner: QueryRunner): Promise<void> {
    try {
        await runner.device.requireGpu();
    } catch (error) {
        await runner.close();
        throw toSpillwayError(error);
    }
}
