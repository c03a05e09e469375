// SPDX-License-Identifier: Apache-2.0
import { nsPerMs } from "../../../model/sizes.js";
import type { BaselineJoinAlgorithm } from "../../../model/algorithms.js";
import type { OutOfCorePrediction } from "../../../plan/out-of-core-stage.js";
import { farMs } from "../coherent/predict.js";
import { phaseParts, type JoinLoad, type OutOfCorePhases } from "../join/predict.js";
import { linkMs, readMs } from "../link.js";
import { partitionedBytes } from "./sizes.js";

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

/** The CPU's two passes, one after the other, then the link. */
function predictCpuPartitioned(load: JoinLoad): Predicted {
    const { inputs, resultBytes, outMs } = phaseParts(load);
    const { profile, workers, memory, rows } = load;
    const partitionMs = (side: "build" | "probe"): number =>
        (rows[side] * (profile.partitionNsPerRow / nsPerMs + memory.rowBytes[side] / profile.partitionBytesPerMs)) /
        workers;
    const bytes = partitionedBytes(memory, rows);
    return {
        h2dBytes: Math.ceil(bytes),
        d2hBytes: Math.ceil(resultBytes),
        buildMs: readMs(load, inputs.build + load.heldBytes) + partitionMs("build"),
        probeMs: readMs(load, inputs.probe) + partitionMs("probe"),
        spilledMs: Math.max(linkMs(load, bytes, resultBytes), outMs)
    };
}

/** Bytes per direction of the link, and how long the phases take. `farShare`: of a hash table. */
export function predictBaseline(
    algorithm: BaselineJoinAlgorithm,
    load: JoinLoad,
    farShare: number
): OutOfCorePrediction {
    const predicted = algorithm === "cpu-partitioned" ? predictCpuPartitioned(load) : predictStreamed(load, farShare);
    return {
        ...predicted,
        spilledBytes: 0,
        peerBytes: 0,
        diskBytes: 0,
        droppedRows: 0,
        gatherMs: phaseParts(load).gatherMs
    };
}
