// SPDX-License-Identifier: Apache-2.0
import type { RecordBatch, Schema, Table, TypeMap } from "apache-arrow";

import { CountSink, FileSink } from "../execute/result-sink.js";
import type { RunReport } from "../execute/run-report.js";
import type { JoinAlgorithm } from "../model/algorithms.js";
import { checkInteger, checkPath, readArgument } from "../model/arguments.js";
import type { DebugKnobs, Knobs } from "../model/debug-knobs.js";
import type { ExperimentOptions } from "../model/experiment.js";
import type {
    AggregateOf,
    GroupColumns,
    JoinColumns,
    JoinOn,
    JoinType,
    Name,
    Selected
} from "../model/schema-types.js";
import { limitOf, logicalSchema, type InputInfo, type LogicalNode } from "../plan/logical.js";
import type { Explanation } from "../plan/plan-text.js";
import type { SinkKind } from "../plan/plan.js";
import { BatchStream } from "./batch-stream.js";
import { checkBatchesOptions, checkExplainOptions, checkFileOptions, checkRunOptions } from "./check-options.js";
import { groupNode } from "./group-by.js";
import { joinNode } from "./join.js";
import type { BatchesOptions, ExplainOptions, FileOptions, GroupByOptions, JoinHints, RunOptions } from "./options.js";
import { runQuery, type QueryRequest, type RunRequest } from "./query-run.js";
import type { QueryRunner } from "./query-runner.js";
import { queryTable } from "./table-of.js";

/** Something a query can read: a relation or another query. */
export type Input<T extends TypeMap> = Relation<T> | Query<T>;

export interface JoinOptions<
    L extends TypeMap,
    R extends TypeMap,
    On extends JoinOn<L, R>,
    Kind extends JoinType,
    Suffix extends string,
    Select extends readonly string[]
> {
    left: Input<L>;
    right: Input<R>;
    /**
     * Key columns: `"key"`, `["a", "b"]` or `{ leftName: "rightName" }`. Keys of equal name come out once. A right
     * column may be the partner of several left ones.
     */
    on: On;
    /**
     * - `"inner"`: pairs of rows with equal keys.
     * - `"left"`, `"right"`, `"full"`: also the rows of that side (or both) without a partner, filled with NULL.
     * - `"semi"`: left rows that have a partner, each once.
     * - `"anti"`: left rows that have none.
     *
     * Defaults to `"inner"`.
     */
    type?: Kind;
    /** Result columns, in this order. Defaults to all of the left, then those of the right that are no shared key. */
    select?: Select & readonly Name<JoinColumns<L, R, On, Kind, Suffix>>[];
    /** Appended to right columns whose name the left has too. Defaults to `"_right"`. */
    suffix?: Suffix;
    /** Does NULL equal NULL in keys? Defaults to false, as in SQL. */
    nullEquality?: boolean;
    /**
     * How to join. `"auto"`, the default, leaves it to the planner. These are algorithms of tables in GPU memory and
     * take the query there whenever that is possible, whatever the predicted times:
     *
     * - `"phj-tr"`: radix-partitioned hash join of packed rows.
     * - `"phj-ur"`: the same of keys and row numbers, payloads gathered.
     * - `"phj-shared"`: partitioned through histograms that blocks share.
     * - `"phj-gftr"`: each payload column partitioned with the key by itself, gathered from there; by name alone.
     * - `"npj"`: one hash table, nothing partitioned; `"npj-perfect"`: an array indexed by dense, unique integer keys.
     * - `"smj-ur"`, `"smj-tr"`, `"smj-merge"`: sort-merge joins.
     *
     * Each does every type of join. The planner itself takes `"npj"` where build keys come once or a few times each,
     * and `"npj-perfect"` where they are unique and dense.
     *
     * With device `"cpu"` such a name is the error INVALID_ARGUMENT; with `"auto"` and no GPU the CPU engine runs the
     * query and `deviceReason` says why.
     *
     * These join relations that need not fit GPU memory, and run so where they would fit, too. Nothing takes the place
     * of one that cannot be: without a GPU it is the error NO_DEVICE, for a join that it does not make the error
     * INVALID_ARGUMENT, with too little GPU memory BUDGET_TOO_SMALL.
     *
     * - `"staged"`: copy engines bring chunks into GPU memory, where they are partitioned, and packed rows out. Each
     *   type of join; also in joins of joins and group-bys of joins.
     * - `"triton"`: kernels partition both relations from and to host memory, with as many pages as fit GPU memory in
     *   turns between those of host memory (Lutz, Breß, Zeuch, Rabl and Markl, "Triton Join", SIGMOD 2022, sections 4
     *   and 5).
     * - `"triton-uncached"`: the same with all pages in host memory: the two-pass radix join of section 6.2.7.
     * - `"stream-probe"`: the probe side streams past the build side in GPU memory, which is sorted once and merged
     *   with each chunk, or partitioned and joined with it, as Rui and Tu have it ("Fast Equi-Join Algorithms on GPUs",
     *   SSDBM 2017, section 3.4); `experiment.streamProbe` says which.
     * - `"npj-far"`: the no-partitioning join of the Triton paper's comparison (sections 6.2.1 and 6.2.7), with a table
     *   of linear probing in stripes of GPU and host memory.
     * - `"cpu-partitioned"`: the CPU partitions both sides, the GPU joins the partitions (Sioulas et al.,
     *   "Hardware-conscious Hash-Joins on GPUs", ICDE 2019; section 6.2.4 of the Triton paper).
     *
     * The last five join two relations. `"triton"` and `"triton-uncached"` make each type of join, of keys of 8 bytes
     * together where it is no inner one; the last three make inner joins and are there to compare with.
     *
     * `"cpu-radix"` is the radix join of the CPU engine, whatever the device and the sizes.
     */
    algorithm?: JoinAlgorithm;
    hints?: JoinHints;
    /**
     * What the planner decides of joins out of core and of partitions, given by you. An option that nothing of the
     * named `algorithm` depends on is the error INVALID_ARGUMENT.
     */
    experiment?: ExperimentOptions;
    /** Knobs for tests; not covered by semantic versioning. */
    debug?: DebugKnobs;
}

/** Something that can be joined and grouped: a relation or the result of another query. */
export abstract class Source<T extends TypeMap = TypeMap> {
    /** @internal */
    public readonly _runner: QueryRunner;
    /** @internal */
    public readonly _node: LogicalNode;
    /** @internal */
    public readonly _debug: Knobs;
    #schema: Schema<T> | undefined;

    /** @internal */
    protected constructor(runner: QueryRunner, node: LogicalNode, debug: Knobs) {
        this._runner = runner;
        this._node = node;
        this._debug = debug;
    }

    /** Columns: names, Arrow types, nullability. */
    public get schema(): Schema<T> {
        return (this.#schema ??= logicalSchema(this._node) as Schema<T>);
    }

    /** Joins this (left) with `right`. */
    public join<
        R extends TypeMap,
        const On extends JoinOn<T, R>,
        const Kind extends JoinType = "inner",
        const Suffix extends string = "_right",
        const Select extends readonly string[] = readonly Name<JoinColumns<T, R, On, Kind, Suffix>>[]
    >(
        right: Input<R>,
        options: Omit<JoinOptions<T, R, On, Kind, Suffix, Select>, "left" | "right">
    ): Query<Selected<JoinColumns<T, R, On, Kind, Suffix>, Select>> {
        const given = readArgument("options", () => ({ ...(options as object) }));
        return makeJoin({ ...given, left: this, right });
    }

    /** Groups the rows by equal keys and aggregates each group. */
    public groupBy<
        const Keys extends readonly Name<T>[] = readonly [],
        const Aggregates extends Readonly<Record<string, AggregateOf<Name<T>>>> = Readonly<Record<never, never>>
    >(options: GroupByOptions<T, Keys, Aggregates>): Query<GroupColumns<T, Keys, Aggregates>> {
        this._runner.checkOpen();
        const { node, debug } = readArgument("options", () => groupNode(this, options));
        this._runner.device.checkAlgorithms(node);
        return new Query(this._runner, node, debug);
    }
}

/** Rows of files, of tables in memory or of a stream of batches. Rows stay where they are until a query needs them. */
export class Relation<T extends TypeMap = TypeMap> extends Source<T> {
    readonly #input: InputInfo;

    /** @internal */
    public constructor(runner: QueryRunner, input: InputInfo) {
        super(runner, { kind: "input", input, columns: input.columns }, {});
        this.#input = input;
    }

    /** Name shown in plans and messages. */
    public get name(): string {
        return this.#input.name;
    }

    /** Number of rows; null for `fromBatches`, which is known only after it has been read. */
    public get rows(): number | null {
        return this.#input.streamed ? null : this.#input.rows;
    }

    /** Bytes of all columns as they lie in files or memory; null for `fromBatches`. */
    public get bytes(): number | null {
        if (this.#input.streamed) return null;
        return this.#input.columnBytes.reduce((sum, bytes) => sum + bytes, 0);
    }
}

/** A query: nothing runs until `count`, `batches`, `toTable` or `toArrowFile` is called; each call runs it anew. */
export class Query<T extends TypeMap = TypeMap> extends Source<T> {
    #report: RunReport | undefined;

    /** @internal */
    public constructor(runner: QueryRunner, node: LogicalNode, debug: Knobs) {
        super(runner, node, debug);
    }

    /**
     * The plan, for the memory that the query gets when it runs alone: stages, sizes, reservations and predicted times.
     * Text by `String()`, data by `.plan`. Counting needs fewer columns than rows do, so its plan may be another one:
     * `result` says what is to be explained.
     */
    public async explain(options?: ExplainOptions): Promise<Explanation> {
        return await this._runner.explain(this._node, checkExplainOptions(options), this._debug);
    }

    /** Number of result rows; columns that the count does not need are not read. */
    public async count(options?: RunOptions): Promise<number> {
        const query = this.#request("count", checkRunOptions(options));
        return await runQuery(query, (job) => new CountSink(job));
    }

    /**
     * Result rows as Arrow record batches, in bounded memory: the query waits while the consumer does. Leaving the
     * loop early cancels the query.
     */
    public batches(options?: BatchesOptions): AsyncIterableIterator<RecordBatch<T>> {
        const query = this.#request("batches", checkBatchesOptions(options));
        this._runner.checkOpen();
        return new BatchStream(query) as AsyncIterableIterator<RecordBatch<T>>;
    }

    /** The same as `batches()`, so that a query can stand in a loop: `for await (const batch of query)`. */
    public [Symbol.asyncIterator](): AsyncIterableIterator<RecordBatch<T>> {
        return this.batches();
    }

    /** The whole result in memory. It must fit the budget; if it may not, use `batches` or `toArrowFile`. */
    public async toTable(options?: BatchesOptions): Promise<Table<T>> {
        return (await queryTable(this.#request("table", checkBatchesOptions(options)))) as Table<T>;
    }

    /** Writes the result to an Arrow IPC file; resolves with the number of rows. The file appears when it is whole. */
    public async toArrowFile(path: string | URL, options?: FileOptions): Promise<number> {
        const target = checkPath(path, "path");
        const query = this.#request("file", checkFileOptions(options));
        const { overwrite = false } = query.request;
        return await runQuery(query, (job) => new FileSink(job, this._node, target, overwrite));
    }

    /**
     * A query of at most `rows` rows of this result, whichever come first: rows have no order, and each run may give
     * others. It stops as soon as it has them. Of two limits the smaller one holds; 0 gives the columns alone.
     * Throws INVALID_ARGUMENT where `rows` is no whole number of at least 0.
     */
    public limit(rows: number): Query<T> {
        this._runner.checkOpen();
        return new Query<T>(this._runner, limitedNode(this._node, checkInteger(rows, "rows", 0)), this._debug);
    }

    /** Statistics of the last run of this query that ended well; undefined before. */
    public report(): RunReport | undefined {
        return this.#report;
    }

    #request(kind: SinkKind, request: RunRequest): QueryRequest {
        const report = (ran: RunReport): void => {
            this.#report = ran;
        };
        return { runner: this._runner, node: this._node, debug: this._debug, kind, request, report };
    }
}

function limitedNode(node: LogicalNode, rows: number): LogicalNode {
    return node.kind === "input" ? node : { ...node, limit: Math.min(limitOf(node), rows) };
}

/** Checks the options of a join and makes its query. @internal */
export function makeJoin<T extends TypeMap>(options: object): Query<T> {
    const { runner, node, debug } = readArgument("options", () => joinNode(options, isSource));
    runner.checkOpen();
    runner.device.checkAlgorithms(node);
    return new Query<T>(runner, node, debug);
}

function isSource(value: unknown): value is Source {
    return value instanceof Source;
}
