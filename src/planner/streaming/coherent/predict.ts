// SPDX-License-Identifier: Apache-2.0
import type { MachineProfile } from "../../../machine/profile.js";
import type { OutOfCorePrediction } from "../../../plan/out-of-core-stage.js";
import { phaseParts, type JoinLoad } from "../join/predict.js";
import { readMs, type PeerBytes } from "../link.js";
import { isJoinedByTables, type PageShares } from "./sizes.js";

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

type TierSpeeds = FarSpeeds & Pick<MachineProfile, "devicePeerReadBytesPerMs" | "devicePeerWriteBytesPerMs">;

/**
 * The same of kernels that also read and write a peer's memory, whose pages lie between those of the host. Over a link
 * of its own that goes on at the same time; a peer that is reached no faster than the host is takes its turn on the
 * host's link.
 */
export function tiersMs(host: PeerBytes, peer: PeerBytes, speeds: TierSpeeds): number {
    const hostMs = farMs(host.in, host.out, speeds);
    const peerMs = Math.max(peer.in / speeds.devicePeerReadBytesPerMs, peer.out / speeds.devicePeerWriteBytesPerMs);
    const hasOwnLink = speeds.devicePeerReadBytesPerMs > speeds.deviceFarReadBytesPerMs;
    return hasOwnLink ? Math.max(hostMs, peerMs) : hostMs + peerMs;
}

/** Bytes of GPU memory that a join moves for each byte of a row of either side, beside reads of near pages. */
const tableMoves = { build: 2, probe: 2 } as const;
const indexMoves = { build: 9, probe: 2 } as const;

/**
 * Bytes per direction of all links, and how long its phases take. Of n rows of t bytes on both sides and a share f of
 * pages in GPU memory, n t come in for the first pass while (1 - f) n t go out, and (1 - f) n t come in again for the
 * join while result rows go out, both to a peer and to the host as their pages lie. Meanwhile GPU memory moves f n t in
 * either phase, and what joining takes beside. A side without a value is read as keys alone and written as keys that
 * stand twice.
 */
export function predictCoherent(load: JoinLoad, rowBytes: number, shares: PageShares): OutOfCorePrediction {
    const { inputs, numbersMs, resultBytes, gatherMs, outMs, outWorkMs } = phaseParts(load);
    const sidesOf = (share: number) => ({
        build: load.rows.build * rowBytes * share,
        probe: load.rows.probe * rowBytes * share
    });
    const near = sidesOf(shares.near);
    const peer = sidesOf(shares.peer);
    const host = sidesOf(Math.max(0, 1 - shares.near - shares.peer));
    const [peerBytes, hostBytes] = [peer.build + peer.probe, host.build + host.probe];
    const farBytes = peerBytes + hostBytes;
    const startMs = load.profile.deviceInputStartMs;
    const moves = isJoinedByTables(load.layout.join) ? tableMoves : indexMoves;
    const joinedBytes = (load.rows.build * moves.build + load.rows.probe * moves.probe) * rowBytes;
    const nearMs = (bytes: number): number => bytes / load.profile.deviceMemoryBytesPerMs;
    const partitionMs = (side: "build" | "probe"): number =>
        tiersMs({ in: inputs[side], out: host[side] }, { in: 0, out: peer[side] }, load.profile);
    return {
        h2dBytes: Math.ceil(inputs.build + inputs.probe + farBytes),
        d2hBytes: Math.ceil(farBytes + resultBytes),
        spilledBytes: Math.ceil(farBytes),
        peerBytes: Math.ceil(peerBytes),
        ...{ diskBytes: 0, droppedRows: 0 },
        buildMs:
            startMs +
            Math.max(
                partitionMs("build"),
                nearMs(near.build),
                readMs(load, inputs.build + load.heldBytes) + numbersMs.build
            ),
        probeMs:
            startMs + Math.max(partitionMs("probe"), nearMs(near.probe), readMs(load, inputs.probe) + numbersMs.probe),
        spilledMs: Math.max(
            tiersMs({ in: hostBytes, out: resultBytes }, { in: peerBytes, out: 0 }, load.profile),
            nearMs(near.build + near.probe + joinedBytes + resultBytes),
            outMs,
            outWorkMs
        ),
        gatherMs
    };
}
