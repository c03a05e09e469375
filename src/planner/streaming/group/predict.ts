// SPDX-License-Identifier: Apache-2.0
import type { MachineProfile } from "../../../machine/profile.js";
import type { OutOfCoreGroupLayout, OutOfCoreGroupPrediction } from "../../../plan/out-of-core-group-stage.js";
import type { SinkKind } from "../../../plan/plan.js";
import type { KeyStatistics } from "../../statistics.js";
import { aggregateWidth, groupOutputWidths } from "./device-bytes.js";

export interface GroupLoad {
    readonly layout: OutOfCoreGroupLayout;
    readonly rows: number;
    /** That leave the GPU. */
    readonly groups: number;
    readonly spilledBytes: number;
    /** Of them, what goes to disk. */
    readonly diskBytes: number;
    /** Of the rows, and so of the groups that come last. */
    readonly spilledShare: number;
    /** A bit per row says whether there is a key. */
    readonly keyBits: boolean;
    readonly workers: number;
    readonly sink: SinkKind;
    readonly profile: MachineProfile;
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/**
 * Mean bytes of a packed partial row of a single row of the input: of the key the bits in which its values differ, of
 * each sum and extreme its column's, of a count, which is 1 for all, none.
 */
export function packedPartialBytes(
    { group }: Pick<OutOfCoreGroupLayout, "group">,
    statistics: KeyStatistics | undefined
): number {
    const { min, max } = statistics ?? { min: null, max: null };
    const keyBits = 8 * group.keyBytes;
    const rangeBits = min === null || max === null || max < min ? keyBits : (max - min).toString(2).length;
    const values = group.aggregates.map((aggregate) =>
        aggregate.kind === "countRows"
            ? 0
            : Math.min(aggregateWidth(group, aggregate), group.widths[aggregate.column] ?? 0)
    );
    return Math.min(keyBits, rangeBits) / 8 + sum(values);
}

/** Bytes per direction of the link, and how long its phases take; the GPU keeps up with any link so far. */
export function predictGroups(load: GroupLoad): OutOfCoreGroupPrediction {
    const { layout, rows, groups, spilledBytes, diskBytes, spilledShare, profile, workers, sink } = load;
    const { group } = layout;
    const linkMs = (bytesIn: number, bytesOut: number): number =>
        Math.max(
            bytesIn / profile.deviceCopyInBytesPerMs,
            bytesOut / profile.deviceCopyOutBytesPerMs,
            (bytesIn + bytesOut) / profile.deviceCopyBothBytesPerMs
        );
    const inputBytes = rows * (group.keyBytes + sum(group.widths) + (load.keyBits ? 1 / 8 : 0));
    const resultBytes = groups * sum(groupOutputWidths(group));
    const arrowBytes = groups * sum(layout.columns.map(({ type }) => Math.max(1, type.byteWidth)));
    const outMs = (share: number, bytesIn: number): number =>
        Math.max(
            linkMs(bytesIn, resultBytes * share),
            share *
                (arrowBytes / profile.outputBytesPerMs / workers +
                    (sink === "file" ? arrowBytes / profile.fileWriteBytesPerMs : 0))
        );
    const residentMs = outMs(1 - spilledShare, 0);
    // Rows come back while groups of resident partitions leave, too.
    const givenMs = Math.max(outMs(1, spilledBytes), diskBytes / profile.spillReadBytesPerMs);
    return {
        h2dBytes: Math.ceil(inputBytes + spilledBytes),
        d2hBytes: Math.ceil(spilledBytes + resultBytes),
        spilledBytes: Math.ceil(spilledBytes),
        diskBytes: Math.ceil(diskBytes),
        readMs: Math.max(
            linkMs(inputBytes, spilledBytes),
            inputBytes / profile.readBytesPerMs / workers,
            diskBytes / profile.spillWriteBytesPerMs
        ),
        residentMs,
        spilledMs: spilledBytes > 0 ? Math.max(0, givenMs - residentMs) : 0
    };
}
