// SPDX-License-Identifier: Apache-2.0
import type { MachineProfile } from "../../../machine/profile.js";
import type { OutOfCorePrediction } from "../../../plan/out-of-core-stage.js";
import { phaseParts, type JoinLoad } from "../join/predict.js";
import { isJoinedByTables } from "./sizes.js";
import { readMs } from "../link.js";

type FarSpeeds = Pick<
    MachineProfile,
    "deviceFarReadBytesPerMs" | "deviceFarWriteBytesPerMs" | "deviceFarBothBytesPerMs"
>;

/**
 * Time of kernels that read and write the host's memory at once. Each direction also carries what the other one needs,
 * such as requests to read: a byte takes of the other direction what makes both as fast as was measured with as many
 * bytes each way.
 */
export function farMs(bytesIn: number, bytesOut: number, speeds: FarSpeeds): number {
    const bothMs = 2 / speeds.deviceFarBothBytesPerMs;
    const directionMs = (own: number, other: number, bytesPerMs: number): number =>
        own / bytesPerMs + other * Math.max(0, bothMs - 1 / bytesPerMs);
    return Math.max(
        directionMs(bytesIn, bytesOut, speeds.deviceFarReadBytesPerMs),
        directionMs(bytesOut, bytesIn, speeds.deviceFarWriteBytesPerMs)
    );
}

/** Bytes of GPU memory that a join moves for each byte of a row of either side, beside reads of near pages. */
const tableMoves = { build: 2, probe: 2 } as const;
const indexMoves = { build: 9, probe: 2 } as const;

/**
 * Bytes per direction of the link, and how long its phases take. Of n rows of t bytes on both sides and a share f of
 * pages in GPU memory, n t come in for the first pass while (1 - f) n t go out, and (1 - f) n t come in again for the
 * join while result rows go out. Meanwhile GPU memory moves f n t in either phase, and what joining takes beside. A
 * side without a value is read as keys alone and written as keys that stand twice.
 */
export function predictCoherent(load: JoinLoad, rowBytes: number, nearShare: number): OutOfCorePrediction {
    const { inputs, resultBytes, gatherMs, outMs } = phaseParts(load);
    const farBytesOf = (side: "build" | "probe"): number => load.rows[side] * rowBytes * (1 - nearShare);
    const far = { build: farBytesOf("build"), probe: farBytesOf("probe") };
    const farBytes = far.build + far.probe;
    const startMs = load.profile.deviceInputStartMs;
    const near = { build: load.rows.build * rowBytes * nearShare, probe: load.rows.probe * rowBytes * nearShare };
    const moves = isJoinedByTables(load.layout.join) ? tableMoves : indexMoves;
    const joinedBytes = (load.rows.build * moves.build + load.rows.probe * moves.probe) * rowBytes;
    const nearMs = (bytes: number): number => bytes / load.profile.deviceMemoryBytesPerMs;
    const kernelsMs = (bytesIn: number, bytesOut: number): number => farMs(bytesIn, bytesOut, load.profile);
    return {
        h2dBytes: Math.ceil(inputs.build + inputs.probe + farBytes),
        d2hBytes: Math.ceil(farBytes + resultBytes),
        spilledBytes: Math.ceil(farBytes),
        ...{ peerBytes: 0, diskBytes: 0, droppedRows: 0 },
        buildMs:
            startMs +
            Math.max(
                kernelsMs(inputs.build, far.build),
                nearMs(near.build),
                readMs(load, inputs.build + load.heldBytes)
            ),
        probeMs: startMs + Math.max(kernelsMs(inputs.probe, far.probe), nearMs(near.probe), readMs(load, inputs.probe)),
        spilledMs: Math.max(
            kernelsMs(farBytes, resultBytes),
            nearMs(near.build + near.probe + joinedBytes + resultBytes),
            outMs
        ),
        gatherMs
    };
}
