// SPDX-License-Identifier: Apache-2.0
import type { DeviceGroupAlgorithm, DeviceJoinAlgorithm } from "../model/algorithms.js";

/** Predicted times of the phases of a device stage. */
export interface PhaseMs {
    /** Partitioning, sorting. */
    readonly transformMs: number;
    /** Finding pairs of rows (npj: with its hash table), or groups with their aggregates. */
    readonly matchMs: number;
    /** Bringing the columns of the result together. */
    readonly materializeMs: number;
}

/** Why an operation runs on the GPU the way it does. */
export interface DeviceChoice<Name extends string = DeviceJoinAlgorithm | DeviceGroupAlgorithm> {
    readonly algorithm: Name;
    readonly predictedMs: PhaseMs;
    /** All that could have done it, the fastest first. */
    readonly candidates: readonly { readonly algorithm: Name; readonly predictedMs: number }[];
    readonly reason: string;
}
