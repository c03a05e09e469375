// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { parse } from "yaml";
import { z } from "zod";

import { SpillwayError } from "../errors.js";

const positive = z.number().positive();

const profileFile = z.strictObject({
    name: z.string(),
    read_bytes_per_ms: positive,
    partition_ns_per_row: positive,
    partition_bytes_per_ms: positive,
    build_ns_per_row: positive,
    probe_ns_per_row: positive,
    array_ns_per_key: positive,
    l3_miss_ns: positive,
    memory_miss_ns: positive,
    output_ns_per_row: positive,
    output_bytes_per_ms: positive,
    group_ns_per_row: positive,
    spill_write_bytes_per_ms: positive,
    spill_read_bytes_per_ms: positive,
    file_write_bytes_per_ms: positive,
    stage_start_ms: positive
});

/** Speeds of a machine; meanings and units stand in configs/machines/default-cpu.yaml. */
export interface MachineProfile {
    readonly name: string;
    readonly readBytesPerMs: number;
    readonly partitionNsPerRow: number;
    readonly partitionBytesPerMs: number;
    readonly buildNsPerRow: number;
    readonly probeNsPerRow: number;
    readonly arrayNsPerKey: number;
    readonly l3MissNs: number;
    readonly memoryMissNs: number;
    readonly outputNsPerRow: number;
    readonly outputBytesPerMs: number;
    readonly groupNsPerRow: number;
    readonly spillWriteBytesPerMs: number;
    readonly spillReadBytesPerMs: number;
    readonly fileWriteBytesPerMs: number;
    readonly stageStartMs: number;
}

const defaultProfile = new URL("../../configs/machines/default-cpu.yaml", import.meta.url);

/** Reads a machine profile; every figure must be there and positive. */
export function loadProfile(path: string | URL = defaultProfile): MachineProfile {
    const name = path instanceof URL ? fileURLToPath(path) : path;
    let text: string;
    try {
        text = readFileSync(path, "utf8");
    } catch (error) {
        throw new SpillwayError("FILE_NOT_FOUND", `Machine profile '${name}' cannot be read`, { path: name }, error);
    }
    let found: z.infer<typeof profileFile>;
    try {
        found = profileFile.parse(parse(text));
    } catch (error) {
        const reason = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
        const message = `Machine profile '${name}' is not valid: ${reason}`;
        throw new SpillwayError("INVALID_ARGUMENT", message, { path: name }, error);
    }
    return Object.freeze({
        name: found.name,
        readBytesPerMs: found.read_bytes_per_ms,
        partitionNsPerRow: found.partition_ns_per_row,
        partitionBytesPerMs: found.partition_bytes_per_ms,
        buildNsPerRow: found.build_ns_per_row,
        probeNsPerRow: found.probe_ns_per_row,
        arrayNsPerKey: found.array_ns_per_key,
        l3MissNs: found.l3_miss_ns,
        memoryMissNs: found.memory_miss_ns,
        outputNsPerRow: found.output_ns_per_row,
        outputBytesPerMs: found.output_bytes_per_ms,
        groupNsPerRow: found.group_ns_per_row,
        spillWriteBytesPerMs: found.spill_write_bytes_per_ms,
        spillReadBytesPerMs: found.spill_read_bytes_per_ms,
        fileWriteBytesPerMs: found.file_write_bytes_per_ms,
        stageStartMs: found.stage_start_ms
    });
}
