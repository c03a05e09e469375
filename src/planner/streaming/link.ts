// SPDX-License-Identifier: Apache-2.0
import type { MachineProfile } from "../../machine/profile.js";
import type { SinkKind } from "../../plan/plan.js";

/** Who moves the rows of a query. */
export interface Movers {
    readonly workers: number;
    readonly sink: SinkKind;
    readonly profile: MachineProfile;
}

/** Time of copy engines that carry so much in both directions at once. */
export function linkMs({ profile }: Pick<Movers, "profile">, bytesIn: number, bytesOut: number): number {
    return Math.max(
        bytesIn / profile.deviceCopyInBytesPerMs,
        bytesOut / profile.deviceCopyOutBytesPerMs,
        (bytesIn + bytesOut) / profile.deviceCopyBothBytesPerMs
    );
}

/** Time in which workers read so much of the inputs. */
export function readMs({ workers, profile }: Movers, bytes: number): number {
    return bytes / profile.readBytesPerMs / workers;
}

/** Time in which workers deliver a result of so many bytes in Arrow's layout. `gatherMs`: of values that they fetch. */
export function deliveryMs({ workers, sink, profile }: Movers, arrowBytes: number, gatherMs = 0): number {
    return (
        gatherMs +
        arrowBytes / profile.outputBytesPerMs / workers +
        (sink === "file" ? arrowBytes / profile.fileWriteBytesPerMs : 0)
    );
}
