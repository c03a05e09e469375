// SPDX-License-Identifier: Apache-2.0
// Figures of a GPU from the phases of queries on it: the formulas of the planner (src/planner/device-cost), solved for
// the figures. A test predicts phases by the planner and expects the figures that it predicted them with.
import { measured, type Figures, type Phases } from "./lab.js";

/** Phases of queries by named algorithms; undefined: this GPU or plugin did not run one, or timed no phases. */
export interface DeviceRuns {
    /** Npj, counted, on a thousand rows: nothing but the starts of its kernels. */
    start?: Phases | undefined;
    /** Joins of `rows` unique keys with as many foreign ones that all match; two columns of 4 bytes on each side. */
    phjTr?: Phases | undefined;
    smjUr?: Phases | undefined;
    smjTr?: Phases | undefined;
    smjMerge?: Phases | undefined;
    /** A count of the same join by phj-tr: hardly anything but looks for the keys of `rows` rows. */
    counted?: Phases | undefined;
    /** A count by phj-tr of `rows` rows with `keyRepeats` of each key, and a probe row for each key. */
    repeated?: Phases | undefined;
    /** Counts by npj: of a table that fits the cache and of one far beyond it, by hardly any probe row, and by many. */
    near?: Accesses | undefined;
    far?: Accesses | undefined;
    /**
     * Group-bys of `rows` rows with a thousand groups: minima of two 4-byte columns, and any value of an 8-byte one by
     * an 8-byte key, in tables and of partitioned rows.
     */
    extremes?: Phases | undefined;
    others?: Phases | undefined;
    partitioned?: Phases | undefined;
}
export interface Accesses {
    readonly buildRows: number;
    readonly probeRows: number;
    readonly fewProbes: Phases | undefined;
    readonly manyProbes: Phases | undefined;
}

export const keyRepeats = 4;
// Kernels that a counting npj starts, which the planner counts as starts of kernels.
const npjLaunches = 4;
// Looks at the table for a key that is there (join-cost.ts).
const looksPerMatch = 1.1;
const [keyBytes, rowNumberBytes, columnBytes, columns] = [4, 4, 4, 2] as const;
const rowBytes = keyBytes + columns * columnBytes;

const total = ({ transform, match, materialize }: Phases): number => transform + match + materialize;

/** What is left of a time when a part is taken off: noise leaves no less than a tenth, or rates would know no end. */
const rest = (ms: number, part: number): number => Math.max(ms - part, ms / 10);

/** Partition passes that the join makes: passesFor in join-cost.ts, which the command line may not import. */
function passesFor(rows: number): number {
    const bits = Math.ceil(Math.log2(Math.max(2, rows / 8192)));
    return Math.ceil(bits / 8);
}

export class DeviceSolver {
    readonly #figures: Figures = {};

    /** `base`: figures of another GPU, for what no run tells. */
    public constructor(
        private readonly runs: DeviceRuns,
        private readonly rows: number,
        private readonly base: Figures
    ) {}

    public solve(): Figures {
        this.#starts();
        this.#streams();
        this.#partitions();
        this.#sorts();
        this.#randomAccesses();
        this.#groups();
        return this.#figures;
    }

    #value(name: string): number {
        return (this.#figures[name] ?? this.base[name])?.value ?? 1;
    }

    /** A phase that takes no time tells no speed. */
    #set(name: string, value: number): void {
        if (!Number.isFinite(value)) return;
        this.#figures[name] = measured(value);
    }

    #starts(): void {
        const { start } = this.runs;
        if (start !== undefined) this.#set("device_launch_ms", total(start) / npjLaunches);
    }

    /** Clustered gathers: row numbers and values are read, values written; both sides' columns. */
    #streams(): void {
        const { smjTr } = this.runs;
        if (smjTr === undefined) return;
        const bytes = 2 * columns * this.rows * (rowNumberBytes + 2 * columnBytes);
        this.#set("device_memory_bytes_per_ms", bytes / smjTr.materialize);
    }

    #partitions(): void {
        const { phjTr, counted, repeated } = this.runs;
        const { rows } = this;
        if (phjTr === undefined) return;
        const perRow = keyBytes + 2 * rowBytes + (passesFor(rows) - 1) * 2 * rowBytes;
        const rate = (2 * rows * perRow) / phjTr.transform;
        this.#set("device_partition_bytes_per_ms", rate);
        if (counted === undefined) return;
        const matchRate = rows / counted.match;
        this.#set("device_match_rows_per_ms", matchRate);
        if (repeated === undefined) return;
        const probes = rows / keyRepeats;
        // Four pairs per probe row take longer than the bytes of keys alone.
        this.#set("device_chain_steps_per_ms", rows / rest(repeated.match, probes / matchRate));
    }

    #sorts(): void {
        const { smjUr, smjMerge } = this.runs;
        const { rows } = this;
        const pairBytes = keyBytes + rowNumberBytes;
        const pairsMs = (rows * (pairBytes + rowNumberBytes)) / this.#value("device_memory_bytes_per_ms");
        if (smjUr !== undefined) {
            this.#set("device_sort_bytes_per_ms", (2 * rows * (keyBytes + 8 * pairBytes)) / smjUr.transform);
            this.#set("device_merge_rows_per_ms", (2 * rows) / rest(smjUr.match, pairsMs));
        }
        if (smjMerge !== undefined) {
            const levels = 1 + Math.max(0, Math.ceil(Math.log2(rows / 2048)));
            this.#set("device_merge_sort_bytes_per_ms", (2 * rows * 2 * pairBytes * levels) / smjMerge.transform);
        }
    }

    /** ms per insertion into a table and per search in it, and the table's size. */
    #accesses({ buildRows, probeRows, fewProbes, manyProbes }: Accesses) {
        if (fewProbes === undefined || manyProbes === undefined) return undefined;
        const tableBytes = 2 ** Math.ceil(Math.log2(Math.max(64, 2 * buildRows))) * 2 * keyBytes;
        const memory = this.#value("device_memory_bytes_per_ms");
        const [few, many] = [total(fewProbes), total(manyProbes)];
        const read = rest(many, few + (probeRows * keyBytes) / memory);
        const starts = npjLaunches * this.#value("device_launch_ms");
        const insert = rest(few, starts + (tableBytes + buildRows * keyBytes) / memory);
        return { tableBytes, insert: insert / buildRows, read: read / (probeRows * looksPerMatch) };
    }

    #randomAccesses(): void {
        const { near, far } = this.runs;
        const cached = near && this.#accesses(near);
        const beyond = far && this.#accesses(far);
        if (cached === undefined || beyond === undefined) return;
        // A share of the large table is in the cache all the same.
        const share = Math.min(0.9, this.#value("device_cache_bytes") / beyond.tableBytes);
        const farMs = (mixed: number, inCache: number): number => rest(mixed, share * inCache) / (1 - share);
        this.#set("device_cached_reads_per_ms", 1 / cached.read);
        this.#set("device_random_reads_per_ms", 1 / farMs(beyond.read, cached.read));
        this.#set("device_cached_inserts_per_ms", 1 / cached.insert);
        this.#set("device_random_inserts_per_ms", 1 / farMs(beyond.insert, cached.insert));
    }

    #groups(): void {
        const { extremes, others, partitioned } = this.runs;
        const { rows } = this;
        if (extremes !== undefined) this.#set("device_group_narrow_rows_per_ms", rows / extremes.match);
        if (others !== undefined) this.#set("device_group_rows_per_ms", rows / others.match);
        // Packed rows have 16 bytes at most, for which the figure is.
        if (partitioned !== undefined) this.#set("device_group_partition_rows_per_ms", rows / partitioned.match);
    }
}
