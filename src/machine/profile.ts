// SPDX-License-Identifier: Apache-2.0
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

import type * as Yaml from "yaml";
import type * as Zod from "zod";

import { SpillwayError } from "../errors.js";

/** Names of the figures in a profile's file and here; meanings and units stand in configs/machines/default-cpu.yaml. */
const figures = {
    read_bytes_per_ms: "readBytesPerMs",
    partition_ns_per_row: "partitionNsPerRow",
    partition_bytes_per_ms: "partitionBytesPerMs",
    build_ns_per_row: "buildNsPerRow",
    probe_ns_per_row: "probeNsPerRow",
    array_ns_per_key: "arrayNsPerKey",
    l3_miss_ns: "l3MissNs",
    memory_miss_ns: "memoryMissNs",
    output_ns_per_row: "outputNsPerRow",
    output_bytes_per_ms: "outputBytesPerMs",
    group_ns_per_row: "groupNsPerRow",
    spill_write_bytes_per_ms: "spillWriteBytesPerMs",
    spill_read_bytes_per_ms: "spillReadBytesPerMs",
    file_write_bytes_per_ms: "fileWriteBytesPerMs",
    stage_start_ms: "stageStartMs",
    device_copy_bytes_per_ms: "deviceCopyBytesPerMs",
    device_join_bytes_per_ms: "deviceJoinBytesPerMs",
    device_group_bytes_per_ms: "deviceGroupBytesPerMs",
    device_stage_start_ms: "deviceStageStartMs",
    device_open_ms: "deviceOpenMs"
} as const;

/** Speeds of a machine. */
export type MachineProfile = { readonly name: string } & Readonly<
    Record<(typeof figures)[keyof typeof figures], number>
>;

const defaultProfile = new URL("../../configs/machines/default-cpu.yaml", import.meta.url);
/** The same as `npm run build` has checked and written it; not there beside sources that run unbuilt. */
const builtProfile = new URL("./default-profile.json", import.meta.url);

/** Reads a machine profile; every figure must be there and positive. */
export function readProfile(path: string | URL = defaultProfile): MachineProfile {
    const name = path instanceof URL ? fileURLToPath(path) : path;
    let text: string;
    try {
        text = readFileSync(path, "utf8");
    } catch (error) {
        throw new SpillwayError("FILE_NOT_FOUND", `Machine profile '${name}' cannot be read`, { path: name }, error);
    }
    // Not at the top: they take 8 MiB and 50 ms, which a process with the built profile need not spend.
    const load = createRequire(import.meta.url);
    const { parse } = load("yaml") as typeof Yaml;
    const { z } = load("zod") as typeof Zod;
    const numbers = Object.keys(figures).map((figure) => [figure, z.number().positive()] as const);
    const profileFile = z.strictObject({ name: z.string(), ...Object.fromEntries(numbers) });
    let found: Record<string, unknown>;
    try {
        found = profileFile.parse(parse(text));
    } catch (error) {
        const reason = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
        const message = `Machine profile '${name}' is not valid: ${reason}`;
        throw new SpillwayError("INVALID_ARGUMENT", message, { path: name }, error);
    }
    const values = Object.entries(figures).map(([figure, property]) => [property, found[figure]] as const);
    return Object.freeze({ name: found["name"], ...Object.fromEntries(values) }) as MachineProfile;
}

/** The profile of machines that were not measured. */
export function loadProfile(): MachineProfile {
    if (!existsSync(builtProfile)) return readProfile();
    return Object.freeze(JSON.parse(readFileSync(builtProfile, "utf8")) as MachineProfile);
}
