// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";
import { deviceConstants } from "../../../model/device-constants.js";
import type { JoinMemory } from "../device-memory.js";
import { residentShareOf } from "./resident-share.js";

/**
 * Starting a copy of spilled rows, one of many that are enqueued together (kCopiesTogether in
 * cuda/stream/stream_policy.hpp). H200 over PCIe 5: 16,384 copies of 64 KiB took the link 0.45 ms more than
 * as many bytes in pieces of 4 MiB, 0.03 us each, and the host, which is ahead of it, 0.4 us each: between the two. It
 * is about the same for those of a kernel, of less than 32 KiB: with them seven joins of 2^26 x 2^26 rows took 0.7 to
 * 1.3 times what is planned for spilled rows (the table in test/node/planner/out-of-core-small-memory.test.ts).
 */
const copyStartMs = 0.0002;

/**
 * What a chunk and its kernels take beside its bytes, the more of a probe chunk the more rows are looked up as they
 * come. In the joins above 256 chunks of each side instead of 128 took the build side 2 ms more and, at 8 GiB, where 80
 * % of the rows stay, the probe side 7.
 */
export function chunkStartMs(side: "build" | "probe", residentShare: number): number {
    return 0.015 + (side === "probe" ? 0.05 * residentShare : 0);
}

/**
 * What as many spilled rows as a chunk has, which are unpacked and joined together, take beside their bytes. H200, 2^21
 * and 2^22 rows of 16 bytes that came back in 7: 76 and 97 us each, 10 ps of that per row.
 */
const chunkBackMs = 0.055;

interface SideRows {
    readonly build: number;
    readonly probe: number;
}

export function chunksOf({ build, probe }: SideRows, { chunkRows }: Pick<OutOfCoreSizes, "chunkRows">): SideRows {
    return { build: Math.ceil(build / chunkRows), probe: Math.ceil(probe / chunkRows) };
}

/**
 * How often the probe rows of a spilled partition come back: once for each part of its build rows that the index has
 * room for (plan_slice in cuda/staged_join/spilled_join.cu), and once more for marked ones. Partitions differ by about
 * the square root of their rows: where those are just what the index holds, every other one is cut once more.
 */
export function probeReads(buildRows: number, sizes: OutOfCoreSizes, memory: JoinMemory): number {
    const { indexRows, markedRows } = memory.of(sizes);
    const partitionRows = buildRows / 2 ** sizes.radixBits;
    const deviation = Math.sqrt(partitionRows);
    const readsOf = (rows: number): number => {
        const parts = Math.ceil(Math.max(1, rows) / Math.max(1, indexRows));
        return parts > 1 && markedRows > 0 ? parts + 1 : parts;
    };
    return (readsOf(partitionRows - deviation) + readsOf(partitionRows + deviation)) / 2;
}

/** What comes back, and how often. */
interface WayBack {
    /** Rows of both sides, also those that stay. */
    readonly rows: SideRows;
    /** How often spilled probe rows come back. */
    readonly reads: number;
}

/**
 * Copies that bring spilled rows back: of what a chunk spilled, one for each group of partitions that are joined
 * together, whose build rows are as many as some chunks and as the pages hold, and at least a partition.
 */
export function copiesBack({ rows, reads }: WayBack, sizes: OutOfCoreSizes): number {
    const { chunkRows, pages, pageRows, radixBits, residentPartitions } = sizes;
    const groupRows = Math.max(1, Math.min(deviceConstants.spilledGroupChunks * chunkRows, pages * pageRows));
    const groups = Math.ceil((rows.build * (1 - residentShareOf(sizes))) / groupRows);
    const chunks = chunksOf(rows, sizes);
    return Math.min(groups, 2 ** radixBits - residentPartitions) * (chunks.build + chunks.probe * reads);
}

/** What spilled rows take on their way back beside their bytes: the start of copies, and of kernels that join them. */
export function backStartMs(back: WayBack, sizes: OutOfCoreSizes): number {
    const { build, probe } = chunksOf(back.rows, sizes);
    const spilledShare = 1 - residentShareOf(sizes);
    return copiesBack(back, sizes) * copyStartMs + (build + probe * back.reads) * spilledShare * chunkBackMs;
}
