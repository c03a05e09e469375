// SPDX-License-Identifier: Apache-2.0
import { openRuntime, type DeviceInfo, type MachineInfo } from "../../index.js";
import { defineCommand, type Command } from "../command.js";
import { calibrateCommand } from "./calibrate.js";
import { formatBytes } from "../render/quantities.js";

function facts(machine: MachineInfo): [title: string, text: string][] {
    const { memoryLimitBytes } = machine;
    const limit = memoryLimitBytes == null ? "" : `, this process may use ${formatBytes(memoryLimitBytes)}`;
    const caches = [
        `L1 ${formatBytes(machine.l1Bytes)}`,
        `L2 ${formatBytes(machine.l2Bytes)}`,
        `L3 ${formatBytes(machine.l3Bytes)}`,
        `line ${formatBytes(machine.cacheLineBytes)}`
    ];
    return [
        ["CPU", machine.cpuModel || machine.architecture],
        ["Cores", `${machine.cores} usable, ${machine.physicalCores} physical`],
        ["Instructions", `${machine.architecture}${machine.simd.length > 0 ? ` with ${machine.simd.join(", ")}` : ""}`],
        ["Caches", caches.join(", ")],
        ["Memory", `${formatBytes(machine.memoryBytes)}, ${formatBytes(machine.availableBytes)} available${limit}`],
        [
            "Pages",
            `${formatBytes(machine.pageBytes)}, huge ${formatBytes(machine.hugePageBytes)}, ` +
                `transparent huge pages: ${machine.transparentHugePages}`
        ],
        ...machine.numaNodes.map((node): [string, string] => [
            `NUMA node ${node.node}`,
            `cores ${node.cpus}, ${formatBytes(node.memoryBytes)}`
        ])
    ];
}

function deviceFact(device: DeviceInfo): [title: string, text: string] {
    const state = device.used ? "used" : `not used: ${device.reason ?? "no reason known"}`;
    return [`Device ${device.kind.toUpperCase()}`, `${device.name}, ${state}`];
}

const description = defineCommand({
    usage: "machine",
    synopsis: "machine [--json]",
    describe: "What this machine has: cores, caches, memory, GPUs and why one is not used",
    examples: [],
    positionals: {},
    options: { json: { type: "boolean", default: false, describe: "As JSON" } },
    run: async (args, context) => {
        await using runtime = await openRuntime();
        const [machine, devices] = [runtime.machine(), runtime.devices()];
        if (args.json) return await context.printJson(`${JSON.stringify({ machine, devices })}\n`);
        const lines = [...facts(machine), ...devices.map(deviceFact)];
        const width = Math.max(...lines.map(([title]) => title.length));
        await context.print(...lines.map(([title, text]) => `${title.padEnd(width)}  ${text}`));
    }
});

export const machineCommand: Command = { ...description, subcommands: [calibrateCommand] };
