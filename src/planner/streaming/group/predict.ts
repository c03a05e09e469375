// SPDX-License-Identifier: Apache-2.0
import { nsPerMs, sumOf } from "../../../model/sizes.js";
import {
    isTextExtreme,
    type OutOfCoreGroupLayout,
    type OutOfCoreGroupPrediction
} from "../../../plan/out-of-core-group-stage.js";
import type { KeyStatistics } from "../../statistics.js";
import { inputRowBytes, packedKeyBytes } from "../chunk-rows.js";
import type { GroupMemory } from "../device-memory.js";
import { deliveryMs, fillMs, linkMs, numberingMs, otherTextsMs, type Filling, type Movers } from "../link.js";

export interface GroupLoad extends Movers {
    readonly layout: OutOfCoreGroupLayout;
    readonly memory: GroupMemory;
    readonly rows: number;
    readonly filling: Filling;
    /** Different keys, and groups that leave the GPU. */
    readonly distinctKeys: number;
    readonly groups: number;
    /** Different texts, if they are what is grouped by; else 0. */
    readonly distinctTexts: number;
    /** Chunks have too many keys to be aggregated on their own. */
    readonly isManyKeys: boolean;
    readonly spilledBytes: number;
    /** The parts of these bytes that go to another GPU, and to disk. */
    readonly peerBytes: number;
    readonly diskBytes: number;
    /** Share of the rows that is spilled, and so of the groups that come last. */
    readonly spilledShare: number;
}

/**
 * What the GPU takes for a row of chunks that are not aggregated on their own, in nanoseconds: it is partitioned, kept
 * and aggregated later, which takes longer than keys of 8 bytes on the link. H100, keys of 2^28 and 2^30 rows, four to a
 * group, counted: 90 ms at 4 GiB and 350 at 16, where filling chunks takes 56 and 224.
 */
const partialRowNs = 0.33;

/**
 * Mean bytes of a packed partial row of a single row of the input: of the key the bits in which its values differ, of
 * each sum and extreme its column's, of a count, which is 1 for all, none.
 */
export function packedPartialBytes(
    { group }: Pick<OutOfCoreGroupLayout, "group">,
    statistics: KeyStatistics | undefined
): number {
    const values = group.aggregates.map(({ kind, column }) => (kind === "countRows" ? 0 : (group.widths[column] ?? 0)));
    return packedKeyBytes(8 * group.keyBytes, statistics) + sumOf(values);
}

/** Times that each row is looked up in a table of all workers before it goes to the GPU. */
export function lookUps({ side }: OutOfCoreGroupLayout): number {
    return (
        (side.numbered ? 1 : 0) +
        side.columns.filter(({ distinct, part }) => distinct !== null || isTextExtreme(part)).length
    );
}

/** Bytes per direction of the link, and how long its phases take. */
export function predictGroups(load: GroupLoad): OutOfCoreGroupPrediction {
    const { layout, rows, groups, spilledBytes, peerBytes, diskBytes, spilledShare, profile } = load;
    const { group } = layout;
    const inputBytes = rows * inputRowBytes(group.keyBytes, group.widths, group.nullGroup);
    const resultBytes = groups * load.memory.resultRowBytes;
    const arrowBytes = groups * sumOf(layout.columns.map(({ type }) => Math.max(1, type.byteWidth)));
    const result = { bytes: arrowBytes, sharedColumns: layout.columns.length };
    const outMs = (share: number, bytesIn: number, peerIn: number): number =>
        Math.max(linkMs(load, bytesIn, resultBytes * share, { in: peerIn, out: 0 }), share * deliveryMs(load, result));
    const residentMs = outMs(1 - spilledShare, 0, 0);
    // Rows come back while groups of resident partitions leave, too.
    const givenMs = Math.max(outMs(1, spilledBytes - peerBytes, peerBytes), diskBytes / profile.spillReadBytesPerMs);
    return {
        h2dBytes: Math.ceil(inputBytes + spilledBytes),
        d2hBytes: Math.ceil(spilledBytes + resultBytes),
        spilledBytes: Math.ceil(spilledBytes),
        peerBytes: Math.ceil(peerBytes),
        diskBytes: Math.ceil(diskBytes),
        readMs:
            profile.deviceInputStartMs +
            Math.max(
                linkMs(load, inputBytes, spilledBytes - peerBytes, { in: 0, out: peerBytes }),
                // As many values in groups are taken to be new as keys are, which is the least.
                fillMs(load, load.filling) +
                    lookUps(layout) * numberingMs(load, rows, load.distinctKeys) +
                    otherTextsMs(load, load.filling.texts, load.distinctTexts),
                load.isManyKeys ? (rows * partialRowNs) / nsPerMs : 0,
                diskBytes / profile.spillWriteBytesPerMs
            ),
        residentMs,
        spilledMs: spilledBytes > 0 ? Math.max(0, givenMs - residentMs) : 0
    };
}
