// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { printable } from "../../printable.js";
import type { Figures } from "./lab.js";

const gpuProfile = new URL("../../../configs/machines/h200.yaml", import.meta.url);

/** Figures of a GPU that was measured before, for those that this one's runs do not tell. */
export function baseDeviceFigures(): Figures {
    const figures: Figures = {};
    for (const [, name, value] of readFileSync(gpuProfile, "utf8").matchAll(/^(device_\w+): ([\d.]+)$/gm)) {
        figures[name as string] = { value: Number(value), measured: false };
    }
    return figures;
}

/** A figure with as many digits as a measurement is worth. */
function shown(value: number): string {
    const rounded = Number(value.toPrecision(4));
    return rounded >= 1e21 ? rounded.toExponential() : String(rounded);
}

export interface ProfileText {
    name: string;
    date: string;
    cpu: string;
    /** The GPU's name; null without one. */
    device: string | null;
    host: Figures;
    gpu: Figures | null;
    /** Why the figures may be wrong, in sentences. */
    doubts: readonly string[];
}

function lines(figures: Figures): string[] {
    return Object.entries(figures).map(([name, { value, measured, from = "that of an H200" }]) =>
        measured ? `${name}: ${shown(value)}` : `${name}: ${shown(value)} # not measured here: ${from}`
    );
}

/** A machine profile as YAML, as readProfile() reads it. */
export function profileText({ name, date, cpu, device, host, gpu, doubts }: ProfileText): string {
    const head = [
        `# Speeds of ${printable(cpu)}, measured by spillway machine calibrate.`,
        "# Meanings and units: configs/machines/default-cpu.yaml and h200.yaml of the package.",
        ...doubts.map((line) => `# ${line}`),
        `name: ${JSON.stringify(name)}`,
        `date: ${date}`,
        ...(device === null ? [] : [`device: ${JSON.stringify(device)}`])
    ];
    return `${[...head, ...lines(host), ...(gpu === null ? [] : lines(gpu))].join("\n")}\n`;
}
