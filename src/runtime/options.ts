// SPDX-License-Identifier: Apache-2.0
import type { Schema, TypeMap } from "apache-arrow";

import type { GroupByAlgorithm } from "../model/algorithms.js";
import type { DebugKnobs } from "../model/debug-knobs.js";
import type { ExperimentOptions } from "../model/experiment.js";
import type { Progress } from "../model/progress.js";
import type { AggregateOf, Name } from "../model/schema-types.js";
import type { ByteSize } from "../model/sizes.js";

export interface MemoryOptions {
    /**
     * Host memory that the engine may use, in bytes or as text such as "16GiB". A hard limit: what does not fit is
     * spilled. Tables given to `fromTable` are yours and do not count.
     * Defaults to half of the memory that is available (and that the control group allows).
     */
    host?: ByteSize;
    /**
     * GPU memory that queries may use, in bytes or as text such as "16GiB". A hard limit: a query that does not fit
     * runs on the CPU engine with device "auto", and is the error BUDGET_TOO_SMALL with device "gpu". Without a GPU it
     * has no effect. Defaults to what is free on the GPU when the first query is to run there.
     */
    device?: ByteSize;
    /**
     * Memory of a second GPU, in bytes or as text such as "16GiB", for rows that queries out of core spill: they go
     * there before they go to host memory. It is the first GPU that the one which runs the queries reaches by itself
     * (NVLink, or PCIe where the system allows it); where there is none, it has no effect. Defaults to none.
     */
    peer?: ByteSize;
    /**
     * Existing folder for spill files. They are unlinked as soon as they are made, so nothing is left behind.
     * Defaults to the system's folder for temporary files, or to /var/tmp where that is memory (tmpfs) or cannot be
     * written. Where neither can be, queries run that do not spill.
     */
    spillDirectory?: string;
}

export interface RuntimeOptions {
    /**
     * - `"auto"`: for each query the GPU if it is predicted to be faster there and can be run there, else the CPU. The
     *   GPU is opened in the background once the queries of the process would have saved more time on it than opening
     *   it takes (some 0.6 s); until it is open, queries run on the CPU.
     * - `"cpu"`: the CPU engine.
     * - `"gpu"`: a GPU, or the error NO_DEVICE that says why there is none. A query that it cannot run is the error
     *   UNSUPPORTED_TYPE (BUDGET_TOO_SMALL where its memory is the reason).
     *
     * Defaults to `"auto"`.
     */
    device?: "auto" | "cpu" | "gpu";
    /**
     * Begin to open the GPU at once, in the background, instead of when it is known to be worth it: for a runtime that
     * holds large tables. Where there is no GPU, `"auto"` runs on the CPU as ever. Defaults to false.
     */
    warm?: boolean;
    memory?: MemoryOptions;
    /** Worker threads of a stage. Defaults to the number of cores this process may use. */
    threads?: number;
    /**
     * File with the speeds of this machine, as `spillway machine calibrate` writes it: plans are made by predicted
     * times. Defaults to the figures of a common machine, and to those of the GPU where its model was measured.
     */
    machine?: string | URL;
    /** What the planner decides and experiments vary, for every query; those of a query come before these. */
    experiment?: ExperimentOptions;
    /** Knobs for tests, applied to every query; not covered by semantic versioning. */
    debug?: DebugKnobs;
}

export interface ExplainOptions {
    /** What is to be explained: rows by "batches" (the default), a "table", a "file", or their "count" alone. */
    result?: "batches" | "count" | "table" | "file";
}

export interface RunOptions {
    /** Cancels the query; its promise rejects with `signal.reason`. */
    signal?: AbortSignal;
    /** Called with the state of the query. What it throws is ignored. */
    onProgress?: (progress: Progress) => void;
}

export interface BatchesOptions extends RunOptions {
    /** Most rows of a batch. Defaults to what the plan finds best. */
    batchRows?: number;
}

export interface FileOptions extends RunOptions {
    /** Replace a file of that name. Defaults to false: an existing file is the error OUTPUT_EXISTS. */
    overwrite?: boolean;
    /** Most rows of a record batch in the file. Defaults to what the plan finds best. */
    batchRows?: number;
}

/** What you know and the planner cannot see. Wrong hints cost time, never the result. */
export interface JoinHints {
    /** Number of result rows to plan for. */
    resultRows?: number;
    /** Build the hash tables on this side. Defaults to the smaller one. */
    buildSide?: "left" | "right";
}

export interface GroupByHints {
    /** Number of groups to plan for. */
    groups?: number;
}

export interface GroupByOptions<
    T extends TypeMap,
    Keys extends readonly Name<T>[],
    Aggregates extends Readonly<Record<string, AggregateOf<Name<T>>>>
> {
    /** Columns whose equal values make a group; none = one group of all rows. NULL is a value of its own. */
    keys?: Keys;
    /** Result columns: `{ revenue: { sum: "price" }, orders: { count: "*" } }`. */
    aggregates?: Aggregates;
    /**
     * How the GPU groups. `"auto"`, the default, leaves it to the planner; every other name takes the query to the GPU
     * as the option of joins does: `"hgb"`, `"hgb-global"` (hash tables), `"pgb-tr"`, `"pgb-ur"` (partitioned),
     * `"sgb-ur"`, `"sgb-tr"`, `"sgb-de-tr"` (sorted). An `"hgb"` that you name meets more groups than tables in shared
     * memory hold by the one table of `"hgb-global"`, one that the planner took by `"pgb-tr"`; reports say which ran.
     */
    algorithm?: GroupByAlgorithm;
    hints?: GroupByHints;
    /** What the planner decides of partitions and of group-bys out of core, given by you. */
    experiment?: ExperimentOptions;
    /** Knobs for tests; not covered by semantic versioning. */
    debug?: DebugKnobs;
}

/** Facts of `fromBatches` that help to plan. */
export interface FromBatchesOptions {
    /** Rows to expect. */
    rows?: number;
    /** Name of the relation in plans and messages. */
    name?: string;
}

export interface NameOption {
    /** Name of the relation in plans and messages. Defaults to the file's name, or to "table". */
    name?: string;
}

export interface FromArrowFileOptions<T extends TypeMap> extends NameOption {
    /**
     * All columns of the file, in any order: an object of types by name, such as `{ id: new Int64() }`, or an Arrow
     * schema. A file with other columns or types is the error INVALID_ARGUMENT, which names each difference. The
     * compiler takes the relation's columns from it. Nullability and metadata are not compared.
     */
    schema?: Schema<T> | T;
}
