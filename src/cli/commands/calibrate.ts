// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { openRuntime, SpillwayError, type MachineInfo, type Runtime } from "../../index.js";
import { deviceSteps, measureDevice } from "../calibrate/device-figures.js";
import { hostSteps, measureHost } from "../calibrate/host-figures.js";
import type { Figures } from "../calibrate/lab.js";
import { doubts, Settler, watchOthers } from "../calibrate/settler.js";
import { baseDeviceFigures, profileText } from "../calibrate/profile-text.js";
import { defineCommand, type ArgumentsOf, type CommandContext } from "../command.js";
import { folderError } from "../folders.js";
import { writeOutput } from "../output-file.js";
import { parseCount } from "../parse/numbers.js";
import { progressFor } from "../render/progress.js";
import { openWorkFolder } from "../work-folder.js";

const options = {
    output: { type: "string", alias: "o", describe: "Write the profile to this file (default: print it)" },
    overwrite: { type: "boolean", default: false, describe: "Replace the output file if it exists" },
    rows: { type: "string", alias: "n", default: "4M", describe: "Rows of the relations that are measured" },
    device: {
        type: "string",
        choices: ["auto", "cpu", "gpu"],
        default: "auto",
        describe: "auto measures the GPU too if there is one"
    },
    folder: { type: "string", describe: "Where the relations' files go (default: the system's temporary folder)" },
    json: { type: "boolean", default: false, describe: "Figures as JSON" }
} as const;

type CalibrateArguments = ArgumentsOf<Record<never, never>, typeof options>;

// Rows that a GPU takes in the time of one that a CPU takes, so that its times are more than starts of kernels.
const gpuRowsFactor = 4;

/** A bar over all steps; each begins with its name. */
function stepsOf(context: CommandContext, total: number): { tell: (step: string) => void; end: () => void } {
    const bar = progressFor(context.stderr, false);
    const start = performance.now();
    let done = 0;
    return {
        tell: (phase) => {
            context.signal.throwIfAborted();
            const fraction = done / total;
            const etaMs = done === 0 ? null : ((performance.now() - start) / done) * (total - done);
            bar.update({ phase, fraction, rows: 0, rowsOut: 0, spilledBytes: 0, etaMs });
            done += 1;
        },
        end: () => bar.end()
    };
}

function usedGpu(runtime: Runtime): string | null {
    return runtime.devices().find(({ kind, reason }) => kind === "gpu" && reason === null)?.name ?? null;
}

async function gpuOf(device: string): Promise<string | null> {
    if (device === "cpu") return null;
    await using runtime = await openRuntime({ device: device as "auto" | "gpu" });
    return usedGpu(runtime);
}

async function host(rows: number, folder: string, context: CommandContext, settler: Settler, tell: Tell) {
    await using single = await openRuntime({ device: "cpu", threads: 1, memory: { spillDirectory: folder } });
    await using all = await openRuntime({ device: "cpu", memory: { spillDirectory: folder } });
    const figures = await measureHost({ single, all, folder, rows, signal: context.signal, settler, tell });
    return { figures, machine: single.machine() };
}

/** Figures of the GPU that its runs told, and those of another one for the rest. */
async function gpu(rows: number, context: CommandContext, settler: Settler, tell: Tell): Promise<Figures> {
    await using runtime = await openRuntime({ device: "gpu" });
    const base = baseDeviceFigures();
    const signal = context.signal;
    const request = { runtime, rows: rows * gpuRowsFactor, base, signal, settler, tell };
    return { ...base, ...(await measureDevice(request)) };
}

type Tell = (step: string) => void;

const remedy = "Run it again when nothing else runs, or with more --rows; plans by wrong figures are slow, not wrong.";

interface Calibrated {
    name: string;
    date: string;
    machine: MachineInfo;
    device: string | null;
    host: Figures;
    gpu: Figures | null;
    /** Share of the processors that other programs took meanwhile; null: nobody tells. */
    others: number | null;
    doubtful: readonly string[];
}

async function calibrate(args: CalibrateArguments, context: CommandContext): Promise<Calibrated> {
    const rows = parseCount("rows", args.rows, 10_000);
    const base = args.folder ?? tmpdir();
    const device = await gpuOf(args.device);
    const folder = await openWorkFolder(base, "calibrate", "the relations that are measured");
    const steps = stepsOf(context, hostSteps.length + (device === null ? 0 : deviceSteps.length));
    const settler = new Settler();
    const tell = (step: string): void => {
        settler.begin(step);
        steps.tell(step);
    };
    const others = watchOthers();
    try {
        const { figures, machine } = await host(rows, folder.path, context, settler, tell);
        const speeds = device === null ? null : await gpu(rows, context, settler, tell);
        const facts = { others: others(), doubtful: [...settler.doubtful] };
        const date = new Date().toISOString().slice(0, 10);
        return { name: device ?? machine.cpuModel, date, machine, device, host: figures, gpu: speeds, ...facts };
    } finally {
        steps.end();
        folder.remove();
    }
}

/** Before anything is measured, which takes a minute. */
function checkOutput({ output, overwrite }: CalibrateArguments): void {
    if (output == null || overwrite || !existsSync(output)) return;
    throw new SpillwayError("OUTPUT_EXISTS", `'${output}' exists`, { path: output });
}

function writeProfile(path: string, text: string): void {
    try {
        writeOutput(path, text);
    } catch (error) {
        throw folderError(path, "the profile", error);
    }
}

export const calibrateCommand = defineCommand({
    usage: "calibrate",
    synopsis: "machine calibrate [--output FILE] [options]",
    describe: "Measure the speeds of this machine, by which plans are chosen, as a profile",
    examples: [["$0 machine calibrate --output machine.yaml", "then: spillway join ... --machine machine.yaml"]],
    positionals: {},
    options,
    run: async (args, context) => {
        checkOutput(args);
        const { name, date, machine, device, host: figures, gpu: speeds, ...facts } = await calibrate(args, context);
        const found = doubts(facts.others, facts.doubtful);
        const cpu = `${machine.cpuModel || machine.architecture}, ${machine.cores} cores`;
        const text = profileText({ name, date, cpu, device, host: figures, gpu: speeds, doubts: found });
        if (args.output != null) {
            writeProfile(args.output, text);
            if (!args.json) context.say(`Written to ${args.output}`);
        }
        if (args.json) {
            const all = { ...figures, ...speeds };
            const { others, doubtful } = facts;
            const settled = found.length === 0;
            const json = { name, date, cpu, device, figures: all, settled, others, doubtful };
            await context.printJson(`${JSON.stringify(json)}\n`);
        } else if (args.output == null) await context.print(...text.trimEnd().split("\n"));
        if (found.length > 0) context.say("Warning: these figures may be wrong.", ...found, remedy);
    }
});
