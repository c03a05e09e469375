// SPDX-License-Identifier: Apache-2.0
import { closeSync, constants, existsSync, fstatSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

import type * as Yaml from "yaml";
import type * as Zod from "zod";

import { SpillwayError, toSpillwayError } from "../errors.js";

/** Names of the figures in a profile's file and here; meanings and units stand in configs/machines/default-cpu.yaml. */
export const hostFigures = {
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
    stage_start_ms: "stageStartMs"
} as const;

/** The same of a GPU; configs/machines/h200.yaml says what they mean. */
export const deviceFigures = {
    device_copy_bytes_per_ms: "deviceCopyBytesPerMs",
    device_copy_in_bytes_per_ms: "deviceCopyInBytesPerMs",
    device_copy_out_bytes_per_ms: "deviceCopyOutBytesPerMs",
    device_copy_both_bytes_per_ms: "deviceCopyBothBytesPerMs",
    device_far_read_bytes_per_ms: "deviceFarReadBytesPerMs",
    device_far_write_bytes_per_ms: "deviceFarWriteBytesPerMs",
    device_far_both_bytes_per_ms: "deviceFarBothBytesPerMs",
    device_peer_read_bytes_per_ms: "devicePeerReadBytesPerMs",
    device_peer_write_bytes_per_ms: "devicePeerWriteBytesPerMs",
    device_stage_start_ms: "deviceStageStartMs",
    device_query_start_ms: "deviceQueryStartMs",
    device_input_start_ms: "deviceInputStartMs",
    device_file_fill_bytes_per_ms: "deviceFileFillBytesPerMs",
    device_memory_fill_bytes_per_ms: "deviceMemoryFillBytesPerMs",
    device_memory_pack_bytes_per_ms: "deviceMemoryPackBytesPerMs",
    device_text_ns: "deviceTextNs",
    device_deliver_bytes_per_ms: "deviceDeliverBytesPerMs",
    device_open_ms: "deviceOpenMs",
    device_launch_ms: "deviceLaunchMs",
    device_memory_bytes_per_ms: "deviceMemoryBytesPerMs",
    device_cache_bytes: "deviceCacheBytes",
    device_cached_reads_per_ms: "deviceCachedReadsPerMs",
    device_random_reads_per_ms: "deviceRandomReadsPerMs",
    device_cached_inserts_per_ms: "deviceCachedInsertsPerMs",
    device_random_inserts_per_ms: "deviceRandomInsertsPerMs",
    device_block_bytes: "deviceBlockBytes",
    device_partition_bytes_per_ms: "devicePartitionBytesPerMs",
    device_sort_bytes_per_ms: "deviceSortBytesPerMs",
    device_match_rows_per_ms: "deviceMatchRowsPerMs",
    device_chain_steps_per_ms: "deviceChainStepsPerMs",
    device_merge_rows_per_ms: "deviceMergeRowsPerMs",
    device_merge_sort_bytes_per_ms: "deviceMergeSortBytesPerMs",
    device_group_narrow_rows_per_ms: "deviceGroupNarrowRowsPerMs",
    device_group_rows_per_ms: "deviceGroupRowsPerMs",
    device_group_partition_rows_per_ms: "deviceGroupPartitionRowsPerMs"
} as const;

/** Machines with one GPU have no such figures: those of the default profile count where a file has none. */
const peerFigures = ["device_peer_read_bytes_per_ms", "device_peer_write_bytes_per_ms"] as const;
type PeerSpeed = (typeof deviceFigures)[(typeof peerFigures)[number]];

type FiguresOf<T extends Record<string, string>> = Readonly<Record<T[keyof T], number>>;

/**
 * How the times of one phase of an algorithm differ from what its bytes and accesses say, fitted to measured runs: they
 * take `factor` times as long, and what comes on top is a time of the phase, one of each column, pack or part that it
 * takes after another, and one of each value that it writes.
 */
export interface PhaseFit {
    readonly factor: number;
    readonly fixed_ms: number;
    readonly step_ms?: number | undefined;
    readonly value_ns?: number | undefined;
}
export type AlgorithmFits = Readonly<Record<string, Readonly<Record<string, PhaseFit>>>>;

/** Speeds of a GPU. */
export type DeviceSpeeds = FiguresOf<typeof deviceFigures> & {
    /** By algorithm and phase; what is not named is as the figures say. */
    readonly deviceAlgorithms: AlgorithmFits;
};
/** Speeds of a machine. */
export type MachineProfile = { readonly name: string } & FiguresOf<typeof hostFigures> & DeviceSpeeds;

/** What a profile's file says: speeds of a machine without its GPU, of a GPU, or of both. */
export interface ProfileFile {
    readonly name: string;
    /** The GPU that was measured, as its driver calls it. */
    readonly device: string | null;
    readonly host: FiguresOf<typeof hostFigures> | null;
    readonly gpu: (Omit<DeviceSpeeds, PeerSpeed> & Partial<Pick<DeviceSpeeds, PeerSpeed>>) | null;
}

const folder = new URL("../../configs/machines/", import.meta.url);
const [hostDefault, gpuDefault] = ["default-cpu.yaml", "h200.yaml"];
/** All of the folder as `npm run build` has checked and written it; not there beside sources that run unbuilt. */
const builtProfiles = new URL("./profiles.json", import.meta.url);

/**
 * Shared memory of a block, in bytes. Every GPU that CUDA supports has so much. What is planned with less of it, or
 * with parts of a byte, fits no kernel.
 */
const blockBytesMin = 48 * 1024;

function blockBytesOf(z: typeof Zod.z): Zod.ZodType {
    const error = ({ input }: { input?: unknown }): string =>
        `expected a whole number of bytes, ${blockBytesMin} at least, received ${String(input)}`;
    return z.number().refine((bytes) => Number.isSafeInteger(bytes) && bytes >= blockBytesMin, { error });
}

function schemaOf(z: typeof Zod.z, found: object): Zod.ZodType<Record<string, unknown>> {
    const numbers = (figures: object): Record<string, Zod.ZodType> =>
        Object.fromEntries(Object.keys(figures).map((figure) => [figure, z.number().positive()] as const));
    const has = (figures: object): boolean => Object.keys(figures).some((figure) => Object.hasOwn(found, figure));
    const [host, gpu] = [has(hostFigures), has(deviceFigures)];
    const more = z.number().nonnegative();
    const fit = z.strictObject({
        factor: z.number().positive(),
        fixed_ms: more,
        step_ms: more.optional(),
        value_ns: more.optional()
    });
    return z.strictObject({
        name: z.string(),
        device: z.string().optional(),
        date: z.union([z.string(), z.date()]).optional(),
        // A machine is measured as a whole or not at all: half of its figures and half of another's describe none.
        ...(host || !gpu ? numbers(hostFigures) : {}),
        ...(gpu
            ? {
                  ...numbers(deviceFigures),
                  ...Object.fromEntries(peerFigures.map((figure) => [figure, z.number().positive().optional()])),
                  device_block_bytes: blockBytesOf(z),
                  device_algorithms: z.record(z.string(), z.record(z.string(), fit)).optional()
              }
            : {})
    });
}

function pick<T extends Record<string, string>>(found: Record<string, unknown>, figures: T): FiguresOf<T> | null {
    if (!Object.keys(figures).some((figure) => found[figure] !== undefined)) return null;
    const values = Object.entries(figures).map(([figure, property]) => [property, found[figure]] as const);
    return Object.fromEntries(values.filter(([, value]) => value !== undefined)) as FiguresOf<T>;
}

// That of a GPU with figures of all algorithms has 12 KB.
const profileBytesMax = 1024 * 1024;

/** The text of a regular file: a pipe would wait for its writer for ever, and a device may have no end. */
function readText(path: string | URL, name: string): string {
    let file: number;
    try {
        file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    } catch (error) {
        throw new SpillwayError("FILE_NOT_FOUND", `Machine profile '${name}' cannot be read`, { path: name }, error);
    }
    try {
        if (!fstatSync(file).isFile()) {
            const message = `Machine profile '${name}' is no regular file; name a file of machine calibrate`;
            throw new SpillwayError("FILE_UNREADABLE", message, { path: name });
        }
        // Files of /proc do not tell their size.
        const bytes = Buffer.alloc(profileBytesMax + 1);
        let length = 0;
        for (let got = -1; got !== 0 && length < bytes.length; length += got) {
            got = readSync(file, bytes, length, bytes.length - length, null);
        }
        if (length <= profileBytesMax) return bytes.toString("utf8", 0, length);
        const message = `Machine profile '${name}' has more than 1 MiB, which no profile has; check the path`;
        throw new SpillwayError("INVALID_ARGUMENT", message, { path: name });
    } catch (error) {
        throw toSpillwayError(error);
    } finally {
        closeSync(file);
    }
}

/** What is wrong with the text, in one line; the first line of what the parser says, as others show the text itself. */
function reasonOf(error: unknown, z: typeof Zod.z): string {
    if (!(error instanceof z.ZodError)) return String(error).split("\n")[0]!;
    return z
        .prettifyError(error)
        .replace(/\n\s*→/g, "")
        .replace(/\n/g, "; ");
}

/** Reads a profile's file; every figure of the machine, of the GPU or of both must be there and positive. */
export function readProfileFile(path: string | URL): ProfileFile {
    const name = path instanceof URL ? fileURLToPath(path) : path;
    const text = readText(path, name);
    // Not at the top: they take 8 MiB and 50 ms, which a process with the built profiles need not spend.
    const load = createRequire(import.meta.url);
    const { parse } = load("yaml") as typeof Yaml;
    const { z } = load("zod") as typeof Zod;
    let found: Record<string, unknown>;
    try {
        const parsed: unknown = parse(text);
        found = schemaOf(z, typeof parsed === "object" && parsed !== null ? parsed : {}).parse(parsed);
    } catch (error) {
        const message = `Machine profile '${name}' is not valid: ${reasonOf(error, z)}`;
        throw new SpillwayError("INVALID_ARGUMENT", message, { path: name }, error);
    }
    const gpu = pick(found, deviceFigures);
    return {
        name: found["name"] as string,
        device: (found["device"] as string | undefined) ?? null,
        host: pick(found, hostFigures),
        gpu: gpu && { ...gpu, deviceAlgorithms: (found["device_algorithms"] ?? {}) as AlgorithmFits }
    };
}

/** The profiles that come with the package, by the names of their files. */
export function readProfileFolder(): Readonly<Record<string, ProfileFile>> {
    const names = readdirSync(folder).filter((name) => name.endsWith(".yaml"));
    return Object.fromEntries(names.map((name) => [name, readProfileFile(new URL(name, folder))]));
}

let packaged: Readonly<Record<string, ProfileFile>> | undefined;

function packagedProfiles(): Readonly<Record<string, ProfileFile>> {
    packaged ??= existsSync(builtProfiles)
        ? (JSON.parse(readFileSync(builtProfiles, "utf8")) as Record<string, ProfileFile>)
        : readProfileFolder();
    return packaged;
}

/** A machine with the figures of a file; those that it does not have are those of a machine that was not measured. */
export function profileOf(file: ProfileFile): MachineProfile {
    const profiles = packagedProfiles();
    const host = file.host ?? profiles[hostDefault]?.host;
    const known = profiles[gpuDefault]?.gpu;
    if (host == null || known == null) throw new SpillwayError("INTERNAL", "The package has no machine profiles");
    return Object.freeze({ name: file.name, ...host, ...(known as DeviceSpeeds), ...file.gpu });
}

/** Reads a machine profile. */
export function readProfile(path: string | URL): MachineProfile {
    return profileOf(readProfileFile(path));
}

/** The profile of machines that were not measured. */
export function loadProfile(): MachineProfile {
    return profileOf(packagedProfiles()[hostDefault] as ProfileFile);
}

function speedsOf(device: string): ProfileFile["gpu"] {
    const found = Object.values(packagedProfiles()).find((file) => file.gpu !== null && file.device === device);
    return found?.gpu ?? null;
}

/** Does the package have figures of a GPU of this name? */
export function isKnownDevice(device: string): boolean {
    return speedsOf(device) !== null;
}

/** The same machine with a GPU of this name, if the package has its figures. */
export function withDevice(profile: MachineProfile, device: string): MachineProfile {
    const found = speedsOf(device);
    return found === null ? profile : Object.freeze({ ...profile, ...found });
}
