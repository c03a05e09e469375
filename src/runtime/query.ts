// SPDX-License-Identifier: Apache-2.0
import type { RecordBatch, Schema, Table, TypeMap } from "apache-arrow";

import type { QueryRunner } from "./query-runner.js";
import type { RunReport } from "../execute/run-report.js";
import { checkPath, readArgument } from "../model/arguments.js";
import type { DebugKnobs } from "../model/debug-knobs.js";
import type {
    AggregateOf,
    GroupColumns,
    JoinColumns,
    JoinOn,
    JoinType,
    Name,
    Selected
} from "../model/schema-types.js";
import { logicalSchema, type LogicalNode } from "../plan/logical.js";
import type { Explanation } from "../plan/plan-text.js";
import { checkBatchesOptions, checkExplainOptions, checkFileOptions, checkRunOptions } from "./check-options.js";
import { groupNode } from "./group-by.js";
import { joinNode } from "./join.js";
import type {
    BatchesOptions,
    ExplainOptions,
    FileOptions,
    GroupByOptions,
    Input,
    JoinOptions,
    RunOptions
} from "./options.js";

/** Something that can be joined and grouped: a relation or the result of another query. */
export abstract class Source<T extends TypeMap = TypeMap> {
    /** @internal */
    public readonly _runner: QueryRunner;
    /** @internal */
    public readonly _node: LogicalNode;
    /** @internal */
    public readonly _debug: DebugKnobs;
    readonly #schema: Schema<T>;

    /** @internal */
    protected constructor(runner: QueryRunner, node: LogicalNode, debug: DebugKnobs) {
        this._runner = runner;
        this._node = node;
        this._debug = debug;
        this.#schema = logicalSchema(node) as Schema<T>;
    }

    /** Columns: names, Arrow types, nullability. */
    public get schema(): Schema<T> {
        return this.#schema;
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
        this._runner.device.checkAlgorithm(node.algorithm);
        return new Query(this._runner, node, debug);
    }
}

/** A query: nothing runs until `count`, `batches`, `toTable` or `toArrowFile` is called; each call runs it anew. */
export class Query<T extends TypeMap = TypeMap> extends Source<T> {
    #report: RunReport | undefined;

    /** @internal */
    public constructor(runner: QueryRunner, node: LogicalNode, debug: DebugKnobs) {
        super(runner, node, debug);
    }

    /**
     * The plan: stages, sizes, reservations and predicted times. Text by `String()`, data by `.plan`. Counting needs
     * fewer columns than rows do, so its plan may be another one: `result` says what is to be explained.
     */
    public async explain(options?: ExplainOptions): Promise<Explanation> {
        return await this._runner.explain(this._node, checkExplainOptions(options), this._debug);
    }

    /** Number of result rows; columns that the count does not need are not read. */
    public async count(options?: RunOptions): Promise<number> {
        const run = checkRunOptions(options);
        return await this._runner.count(this._node, this._debug, run, this.#keepReport);
    }

    /**
     * Result rows as Arrow record batches, in bounded memory: the query waits while the consumer does. Leaving the
     * loop early cancels the query.
     */
    public batches(options?: BatchesOptions): AsyncIterableIterator<RecordBatch<T>> {
        const run = checkBatchesOptions(options);
        const batches = this._runner.batches(this._node, this._debug, run, this.#keepReport);
        return batches as AsyncIterableIterator<RecordBatch<T>>;
    }

    /** The same as `batches()`, so that a query can stand in a loop: `for await (const batch of query)`. */
    public [Symbol.asyncIterator](): AsyncIterableIterator<RecordBatch<T>> {
        return this.batches();
    }

    /** The whole result in memory. It must fit the budget; if it may not, use `batches` or `toArrowFile`. */
    public async toTable(options?: BatchesOptions): Promise<Table<T>> {
        const run = checkBatchesOptions(options);
        return (await this._runner.toTable(this._node, this._debug, run, this.#keepReport)) as Table<T>;
    }

    /** Writes the result to an Arrow IPC file; resolves with the number of rows. The file appears when it is whole. */
    public async toArrowFile(path: string | URL, options?: FileOptions): Promise<number> {
        const target = checkPath(path, "path");
        const run = checkFileOptions(options);
        return await this._runner.toArrowFile(this._node, this._debug, target, run, this.#keepReport);
    }

    /** Statistics of the last run of this query that ended well; undefined before. */
    public report(): RunReport | undefined {
        return this.#report;
    }

    readonly #keepReport = (report: RunReport): void => {
        this.#report = report;
    };
}

/** Checks the options of a join and makes its query. @internal */
export function makeJoin<T extends TypeMap>(options: object): Query<T> {
    const { runner, node, debug } = readArgument("options", () => joinNode(options, isSource));
    runner.checkOpen();
    runner.device.checkAlgorithm(node.algorithm);
    return new Query<T>(runner, node, debug);
}

function isSource(value: unknown): value is Source {
    return value instanceof Source;
}
