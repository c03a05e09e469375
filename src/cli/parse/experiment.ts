// SPDX-License-Identifier: Apache-2.0
import type { ExperimentOptions } from "../../index.js";
import { UsageError } from "../usage-error.js";
import { parseCount, parseNumber } from "./numbers.js";

function parseInterleave(option: string, text: string): { device: number; far: number } {
    const [device, far, ...rest] = text.split(":");
    if (device === undefined || far === undefined || rest.length > 0) {
        throw new UsageError(`--${option} needs pages of GPU and of host memory, such as 1:3, not "${text}".`);
    }
    return { device: parseCount(option, device), far: parseCount(option, far) };
}

const count = (option: string, text: string): number => parseCount(option, text);

function parseFlag(option: string, text: string): boolean {
    if (text === "true" || text === "false") return text === "true";
    throw new UsageError(`--${option} needs true or false, not "${text}".`);
}

const parsers: Readonly<Record<keyof ExperimentOptions, (option: string, text: string) => unknown>> = {
    partitioner: (_, text) => text,
    interleave: parseInterleave,
    pages: (_, text) => text,
    residentShare: (option, text) => parseNumber(option, text, 0, 1),
    chunkRows: count,
    radixBits: count,
    secondRadixBits: count,
    coPartitionJoin: (_, text) => text,
    partitionBlocks: count,
    gatherBlocks: count,
    streamProbe: (_, text) => text,
    overlap: parseFlag
};

/** `name=value`, separated by commas: the option `experiment` of the API, which checks ranges and names of kernels. */
export function parseExperiment(option: string, texts: readonly string[]): ExperimentOptions {
    const experiment = new Map<string, unknown>();
    for (const item of texts.flatMap((text) => text.split(","))) {
        const [name = "", value, ...rest] = item.split("=").map((part) => part.trim());
        if (!Object.hasOwn(parsers, name) || value === undefined || value === "" || rest.length > 0) {
            const names = Object.keys(parsers).join(", ");
            throw new UsageError(`--${option} needs NAME=VALUE with one of ${names}, not "${item}".`);
        }
        if (experiment.has(name)) throw new UsageError(`--${option} names ${name} twice; name it once.`);
        experiment.set(name, parsers[name as keyof ExperimentOptions](`${option} ${name}`, value));
    }
    return Object.fromEntries(experiment);
}
