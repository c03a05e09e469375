// SPDX-License-Identifier: Apache-2.0
import { nsPerMs } from "../../../model/sizes.js";
import type { OutOfCorePrediction } from "../../../plan/out-of-core-stage.js";
import { joinPhases } from "../../device-cost/join-cost.js";
import { MemoryCost } from "../../device-cost/memory-cost.js";
import { farMs } from "../coherent/predict.js";
import { phaseParts, type JoinLoad, type OutOfCorePhases } from "../join/predict.js";
import { residentShareOf } from "../join/resident-share.js";
import { linkMs, readMs } from "../link.js";
import { partitionedBytes, type BaselineSizes } from "./sizes.js";

/** What crosses the link for an access to memory of the host at the least. */
const sectorBytes = 32;
/** Slots that a walk through a table looks at, half of whose slots are taken, in the mean: (1 + 1 / (1 - 1/2)) / 2. */
const slotsPerWalk = 1.5;

type Predicted = OutOfCorePhases & Pick<OutOfCorePrediction, "h2dBytes" | "d2hBytes">;

/** Rows of both sides pass the link once; tables in GPU memory keep up with any link so far. */
function predictStreamed(load: JoinLoad, farShare: number): Predicted {
    const { inputs, resultBytes, outMs } = phaseParts(load);
    const { build, probe } = load.rows;
    const slotBytes = Math.max(sectorBytes, load.memory.rowBytes.build);
    // Writes of slots, and walks through them, of the part that lies in host memory. What the GPU's translation of
    // addresses takes is not in it: there is no figure for that in profiles, and it makes all of this slower.
    const written = build * farShare * slotBytes;
    const walked = probe * farShare * slotsPerWalk * slotBytes;
    return {
        h2dBytes: Math.ceil(inputs.build + inputs.probe + walked),
        d2hBytes: Math.ceil(written + resultBytes),
        buildMs: Math.max(
            linkMs(load, inputs.build, 0) + farMs(0, written, load.profile),
            readMs(load, inputs.build + load.heldBytes)
        ),
        probeMs: Math.max(
            linkMs(load, inputs.probe, resultBytes) + farMs(walked, 0, load.profile),
            readMs(load, inputs.probe),
            outMs
        ),
        spilledMs: 0
    };
}

/** The join in GPU memory by which each chunk meets the build side. */
const chunkJoins = { sorted: "smj-merge", partitioned: "phj-tr" } as const;

/** Time of kernels for a build side that is transformed once, and for all chunks that are joined with it. */
function kernelsMs({ rows, layout, profile, sink }: JoinLoad, chunkRows: number, streamProbe: keyof typeof chunkJoins) {
    const { keyBytes, buildWidths, probeWidths } = layout.join;
    const counted = sink === "count";
    const chunks = Math.max(1, Math.ceil(rows.probe / chunkRows));
    const phasesOf = (probeRows: number, pairs: number, isCounted: boolean) =>
        joinPhases(
            chunkJoins[streamProbe],
            {
                ...{
                    buildRows: rows.build,
                    probeRows,
                    pairs,
                    matchRatio: 1,
                    buildMatchRatio: 1,
                    inRangeShare: 1,
                    keyBytes,
                    counted: isCounted,
                    emit: "pairs",
                    keepsBuild: false,
                    keepsProbe: false
                },
                ...{ buildPayload: isCounted ? [] : buildWidths, probePayload: isCounted ? [] : probeWidths },
                ...{ uniqueBuildKeys: true, buildRowsPerKey: 1, buildKeyRange: null, arrayKeys: false },
                ...{ buildHeaviestShare: 0, probeHeaviestShare: 0 }
            },
            new MemoryCost(profile)
        );
    const build = phasesOf(0, 0, counted).transformMs;
    const [probeRows, pairs] = [rows.probe / chunks, rows.result / chunks];
    const counts = phasesOf(probeRows, pairs, true);
    const joins = phasesOf(probeRows, pairs, counted);
    const transformMs = joins.transformMs - build;
    const joinMs = counted ? 0 : joins.matchMs + joins.materializeMs;
    return { build, probe: chunks * (transformMs + counts.matchMs + joinMs) };
}

/**
 * The build side passes the link and is sorted or partitioned, then chunks do, are joined with it and their results
 * leave: at the same time where these overlap, else one after the other.
 */
function predictResident(
    load: JoinLoad,
    { sizes, baseline }: BaselineSizes,
    streamProbe: keyof typeof chunkJoins
): Predicted {
    const { inputs, resultBytes, outMs } = phaseParts(load);
    const kernels = kernelsMs(load, sizes.chunkRows, streamProbe);
    const linkOf = (bytes: number, outBytes: number): number =>
        baseline.overlap ? linkMs(load, bytes, outBytes) : linkMs(load, bytes, 0) + linkMs(load, 0, outBytes);
    const probeLink = linkOf(inputs.probe, resultBytes);
    const probeMs = baseline.overlap ? Math.max(probeLink, kernels.probe) : probeLink + kernels.probe;
    return {
        h2dBytes: Math.ceil(inputs.build + inputs.probe),
        d2hBytes: Math.ceil(resultBytes),
        buildMs: Math.max(linkMs(load, inputs.build, 0), readMs(load, inputs.build + load.heldBytes)) + kernels.build,
        probeMs: Math.max(probeMs, readMs(load, inputs.probe), outMs),
        spilledMs: 0
    };
}

/**
 * The CPU's pass over the build side; the one over the probe side, beside which the build rows that are kept pass the
 * link, where these overlap; then the link for all that is left.
 */
function predictCpuPartitioned(load: JoinLoad, { baseline, sizes }: BaselineSizes): Predicted {
    const { inputs, resultBytes, outMs } = phaseParts(load);
    const { profile, workers, memory, rows } = load;
    const partitionMs = (side: "build" | "probe"): number =>
        (rows[side] * (profile.partitionNsPerRow / nsPerMs + memory.rowBytes[side] / profile.partitionBytesPerMs)) /
        workers;
    const bytes = partitionedBytes(memory, rows);
    const beside = baseline.overlap ? rows.build * memory.rowBytes.build * residentShareOf(sizes) : 0;
    return {
        h2dBytes: Math.ceil(bytes),
        d2hBytes: Math.ceil(resultBytes),
        buildMs: readMs(load, inputs.build + load.heldBytes) + partitionMs("build"),
        probeMs: Math.max(readMs(load, inputs.probe) + partitionMs("probe"), linkMs(load, beside, 0)),
        spilledMs: Math.max(linkMs(load, bytes - beside, resultBytes), outMs)
    };
}

function predictPhases(load: JoinLoad, chosen: BaselineSizes): Predicted {
    const { algorithm, streamProbe } = chosen.baseline;
    if (algorithm === "cpu-partitioned") return predictCpuPartitioned(load, chosen);
    if (streamProbe === null || streamProbe === "table") return predictStreamed(load, chosen.farShare);
    return predictResident(load, chosen, streamProbe);
}

/** Bytes per direction of the link, and how long the phases take. */
export function predictBaseline(load: JoinLoad, chosen: BaselineSizes): OutOfCorePrediction {
    return {
        ...predictPhases(load, chosen),
        spilledBytes: 0,
        peerBytes: 0,
        diskBytes: 0,
        droppedRows: 0,
        gatherMs: phaseParts(load).gatherMs
    };
}
