// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreSizes } from "../../plan/out-of-core-stage.js";

/** Spilled build rows that are joined together, in chunks (kGroupChunks in cuda/out_of_core/out_of_core_policy.hpp). */
const groupChunks = 4;

/**
 * Starting a copy of spilled rows, one of many that are enqueued together (kCopiesTogether in
 * cuda/out_of_core/out_of_core_policy.hpp). H200 over PCIe 5: 16,384 copies of 64 KiB took the link 0.45 ms more than
 * as many bytes in pieces of 4 MiB, 0.03 us each, and the host, which is ahead of it, 0.4 us each: between the two.
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

function spilledShareOf({ residentPartitions, radixBits }: OutOfCoreSizes): number {
    return Math.max(0, 1 - residentPartitions / 2 ** radixBits);
}

/**
 * Copies that bring spilled rows back: of what a chunk spilled, one for each group of partitions that are joined
 * together, whose build rows are as many as some chunks and as the pages hold.
 */
export function copiesBack(rows: SideRows, sizes: OutOfCoreSizes): number {
    const { chunkRows, pages, pageRows } = sizes;
    const spilledShare = spilledShareOf(sizes);
    const groupRows = Math.max(1, Math.min(groupChunks * chunkRows, pages * pageRows));
    const groups = Math.ceil((rows.build * spilledShare) / groupRows);
    const chunks = chunksOf(rows, sizes);
    return groups * (chunks.build + chunks.probe);
}

/** What spilled rows take on their way back beside their bytes: the start of copies, and of kernels that join them. */
export function backStartMs(rows: SideRows, sizes: OutOfCoreSizes): number {
    const { build, probe } = chunksOf(rows, sizes);
    return copiesBack(rows, sizes) * copyStartMs + (build + probe) * spilledShareOf(sizes) * chunkBackMs;
}
