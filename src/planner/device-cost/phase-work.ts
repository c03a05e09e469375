// SPDX-License-Identifier: Apache-2.0
import type { PhaseMs } from "../../plan/device-choice.js";

/** Phases as a profile names them. */
export const phaseNames = {
    transform: "transformMs",
    match: "matchMs",
    materialize: "materializeMs"
} as const satisfies Record<string, keyof PhaseMs>;
export type PhaseName = keyof typeof phaseNames;
export const phases = Object.keys(phaseNames) as PhaseName[];

/** What a phase does beside moving bytes. Nothing counts it but a fit to runs of the algorithm. */
export interface PhaseCounts {
    /** Columns, packs of columns, passes or parts of aggregates that kernels take one after the other. */
    readonly steps: number;
    /** Values that are written one by one: of columns of a result, of numbers of its rows. */
    readonly values: number;
}

/** Times of the phases of an algorithm by the bytes and accesses of each, and what else they do. */
export interface PhaseWork extends PhaseMs {
    readonly counts: Readonly<Record<PhaseName, PhaseCounts>>;
}

const none: PhaseCounts = { steps: 0, values: 0 };

export function phaseWork(ms: PhaseMs, counts: Partial<Record<PhaseName, Partial<PhaseCounts>>> = {}): PhaseWork {
    const of = (phase: PhaseName): PhaseCounts => ({ ...none, ...counts[phase] });
    return { ...ms, counts: { transform: of("transform"), match: of("match"), materialize: of("materialize") } };
}

/** What several do one after the other. */
export function allWork(parts: readonly PhaseWork[]): PhaseWork {
    const sum = (of: (part: PhaseWork) => number): number => parts.reduce((total, part) => total + of(part), 0);
    const counts = (phase: PhaseName): PhaseCounts => ({
        steps: sum((part) => part.counts[phase].steps),
        values: sum((part) => part.counts[phase].values)
    });
    return {
        transformMs: sum((part) => part.transformMs),
        matchMs: sum((part) => part.matchMs),
        materializeMs: sum((part) => part.materializeMs),
        counts: { transform: counts("transform"), match: counts("match"), materialize: counts("materialize") }
    };
}
