// SPDX-License-Identifier: Apache-2.0
import { SpillwayError, type Query, type Runtime, type RunReport, type StageReport } from "../../index.js";
import { Settler } from "./settler.js";

/** A figure of a profile, by its name there; not measured: taken from another machine, or from what else it says. */
export interface Figure {
    readonly value: number;
    readonly measured: boolean;
    readonly from?: string;
}
export type Figures = Record<string, Figure>;

export const measured = (value: number): Figure => ({ value: positive(value), measured: true });

/** Differences of noisy times may come out at nothing or less, which no profile can say. */
export function positive(value: number, least = 1e-6): number {
    return Number.isFinite(value) && value > least ? value : least;
}

/**
 * Time per row and per byte of a row, from the times of rows of two sizes. Noise may put all of the time into one of
 * them, or more than all: each keeps a tenth of the narrow rows' time, and both together make what was measured.
 */
export function splitNs(narrow: Sized, broad: Sized): { perRow: number; perByte: number } {
    const least = Math.max(narrow.ns, 0.1) / 10;
    const slope = (broad.ns - narrow.ns) / (broad.bytes - narrow.bytes);
    const perRow = Math.max(least, narrow.ns - narrow.bytes * Math.max(slope, least / narrow.bytes));
    return { perRow, perByte: Math.max(least / narrow.bytes, (broad.ns - perRow) / broad.bytes) };
}

export interface Sized {
    readonly ns: number;
    readonly bytes: number;
}

/** Undefined where the GPU has no memory for it, or does not do it. */
export async function ifPossible<T>(run: () => Promise<T>): Promise<T | undefined> {
    try {
        return await run();
    } catch (error) {
        if (!(error instanceof SpillwayError)) throw error;
        const lacksMemory = error.code === "BUDGET_TOO_SMALL" || error.code === "OUT_OF_MEMORY";
        const isRefused = error.code === "UNSUPPORTED_TYPE" || error.details["option"] === "algorithm";
        if (isRefused || lacksMemory) return undefined;
        throw error;
    }
}

/** Phases of an operation on the GPU, where its report has them. */
export interface Phases {
    readonly transform: number;
    readonly match: number;
    readonly materialize: number;
}

/** Runs queries and reads times from their reports. */
export class Lab {
    readonly #settler: Settler;

    public constructor(
        public readonly runtime: Runtime,
        private readonly signal: AbortSignal,
        settler = new Settler()
    ) {
        this.#settler = settler;
    }

    async #run(query: Query, sink: "count" | "batches"): Promise<RunReport> {
        const { signal } = this;
        if (sink === "count") await query.count({ signal });
        else for await (const batch of query.batches({ signal })) void batch;
        return query.report() as RunReport;
    }

    /** The least of what `pick` reads from the reports of runs until it settles, after one that is not counted. */
    public async best(query: Query, sink: "count" | "batches", pick: (report: RunReport) => number): Promise<number> {
        await this.#run(query, sink);
        return await this.#settler.least(
            async () => pick(await this.#run(query, sink)),
            (ms) => ms
        );
    }

    /** Phases of the operation of a query in its fastest run; undefined where the report has none. */
    public async phases(query: Query, sink: "count" | "batches"): Promise<Phases | undefined> {
        await this.#run(query, sink);
        return await this.#settler.least(
            async () => phasesOf(await this.#run(query, sink)),
            (found) => (found === undefined ? -Infinity : sum(found))
        );
    }

    /** A difference of times, which noise can leave nothing of; then `least`. */
    public difference(value: number, least: number): number {
        if (!(value > least)) this.#settler.doubt();
        return positive(value, least);
    }
}

const sum = ({ transform, match, materialize }: Phases): number => transform + match + materialize;

export function stageOf(report: RunReport, name: string): StageReport {
    const stage = report.stages.find((one) => one.name === name);
    if (stage === undefined) throw new Error(`the query has no stage "${name}"`);
    return stage;
}

export const stageMs =
    (name: string) =>
    (report: RunReport): number =>
        stageOf(report, name).actualMs;

/** None where the plugin times no phases, and where another algorithm than the one that was named did the work. */
function phasesOf({ stages }: RunReport): Phases | undefined {
    const device = stages.findLast((stage) => stage.device?.algorithm !== undefined)?.device;
    if (device?.phases === undefined || device.ranAs !== undefined) return undefined;
    const { transformMs: transform, matchMs: match, materializeMs: materialize } = device.phases;
    return transform + match + materialize > 0 ? { transform, match, materialize } : undefined;
}
