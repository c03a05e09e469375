// SPDX-License-Identifier: Apache-2.0
import { type ColumnType, isVariable, type KeySpec, rowNumberColumn } from "../model/column-type.js";
import { limitOf, type InputInfo, type LogicalNode } from "../plan/logical.js";
import type { CpuStage, PartitionDescription, PartitionSet, SinkKind, StageMemory, StageOutput } from "../plan/plan.js";
import type { Estimator } from "./estimates.js";
import { arrowRowBytes, rowWidth, type ValueWidth } from "./estimates.js";
import type { InlineTexts } from "./inline-texts.js";
import {
    combiningBytes,
    packsSpilled,
    pageBytes,
    type PartitionContext,
    spillRunBytes,
    spillScratchBytes,
    spillWriteBytes
} from "./partitioning.js";
import { columnsRead, outputMemory, poolNeeds, readMemory, type OutputMemory, type PoolNeeds } from "./stage-memory.js";

/** Where a join side or a group-by gets its rows. */
export interface Feed {
    /** Index of the input, or undefined for the result of an earlier stage. */
    input: number | undefined;
    node: LogicalNode;
    /** Columns as the partition pass sees them; position of each logical column among them. */
    types: readonly ColumnType[];
    widths: readonly ValueWidth[];
    position: (column: number) => number;
    rows: number;
    exact: boolean;
}

/** Everything of a partition pass but its radix bits and page size. */
export interface SetRequest {
    role: PartitionSet["role"];
    feed: Feed;
    keys: readonly KeySpec[];
    /** Logical columns; -1 = row number. */
    carry: readonly number[];
    /** For each of them the bytes that a text takes in the row itself; left out: 0 for all. */
    carryBytes?: readonly number[] | undefined;
    nullKeys: PartitionDescription["nullKeys"];
    bits: number;
    spill: boolean;
}

/** A stage without what is known only when all stages are (memory of pools, times). */
export type StageDraft = {
    [K in CpuStage["kind"]]: Omit<Extract<CpuStage, { kind: K }>, "live" | "predictedMs" | "predictedSpillBytes">;
}[CpuStage["kind"]];

/** A pass with the memory of its readers. */
interface PassSpec {
    spec: PartitionDescription;
    width: ValueWidth;
    readBytes: number;
    encodingBytes: number;
}

export interface SetDraft {
    role: PartitionSet["role"];
    spec: PartitionDescription;
    rows: number;
    width: ValueWidth;
    needs: PoolNeeds;
    combiningBytes: number;
    readBytes: number;
    /** The part of readBytes that encodes rows, also those that an earlier stage brings. */
    encodingBytes: number;
    /** Bytes of a batch that an earlier stage brings. */
    batchBytes: number;
}

export interface CompileRequest extends PartitionContext {
    root: LogicalNode;
    estimator: Estimator;
    texts: InlineTexts;
    inputs: readonly InputInfo[];
    sink: SinkKind;
    /** Most rows of a batch that the user allows. */
    batchRows: number | undefined;
    /** Are batches to be so large, or those of a reader larger, in their share of the budget, or as large as usual? */
    largeBatches: boolean;
    /** The tables of a hash group-by have overflowed. */
    tableFull: boolean;
    /** The keys of an array join were not dense or unique. */
    notDense: boolean;
}

export function hashMaskText(mask: bigint | undefined): string {
    return `0x${(mask ?? 0xffff_ffff_ffff_ffffn).toString(16)}`;
}

/** Adds the stages whose last one sends the columns `needed` of `node` to `output`; inputs have no own stage. */
export type CompileNode = (draft: PlanDraft, node: LogicalNode, needed: readonly number[], output: StageOutput) => void;

/** Collects the stages and partition sets of one plan. */
export class PlanDraft {
    public readonly stages: StageDraft[] = [];
    public readonly sets: SetDraft[] = [];
    public output: OutputMemory = { batchRows: 0, batchBytes: 0, bytes: 0 };

    public constructor(public readonly request: CompileRequest) {}

    public get workers(): number {
        return this.request.limits.workers;
    }

    public feedOfInput(node: LogicalNode & { kind: "input" }): Feed {
        const estimate = this.request.estimator.of(node);
        return {
            input: this.request.inputs.indexOf(node.input),
            node,
            types: node.columns.map((column) => column.type),
            widths: estimate.widths,
            position: (column) => column,
            rows: estimate.rows,
            exact: estimate.exact
        };
    }

    /** The rows that a stage hands to a partition set: only the columns that are needed later. */
    public feedOfStage(node: LogicalNode, needed: readonly number[]): Feed {
        const { estimator } = this.request;
        const estimate = estimator.of(node);
        return {
            input: undefined,
            node,
            types: needed.map((column) => (node.columns[column] as { type: ColumnType }).type),
            widths: needed.map((column) => estimate.widths[column] as ValueWidth),
            position: (column) => needed.indexOf(column),
            rows: estimator.givenRows(node),
            exact: false
        };
    }

    /** Where the rows of a node go, with its limit. */
    public limited(node: LogicalNode, output: StageOutput): StageOutput {
        const limit = limitOf(node);
        if (limit === Infinity) return output;
        const { rows } = this.request.estimator.of(node);
        return { ...output, limit: { rows: limit, share: Math.min(1, limit / Math.max(1, rows)) } };
    }

    public isStreamed(feed: Feed): boolean {
        return feed.input !== undefined && (this.request.inputs[feed.input]?.streamed ?? false);
    }

    /** After a wrong estimate. Streams cannot be read again: an iterable may come to its end only once. */
    public get canRunAgain(): boolean {
        return !this.request.inputs.some((input) => input.streamed);
    }

    public isInMemory(feed: Feed): boolean {
        return feed.input !== undefined && (this.request.inputs[feed.input]?.inMemory ?? false);
    }

    public widthOf(request: Omit<SetRequest, "bits" | "spill">): ValueWidth {
        const { keys, carry } = this.positions(request);
        return rowWidth(request.feed.types, request.feed.widths, keys, carry, request.nullKeys, request.carryBytes);
    }

    public positions(request: Pick<SetRequest, "feed" | "keys" | "carry">): { keys: KeySpec[]; carry: number[] } {
        const { feed } = request;
        return {
            keys: request.keys.map((key) => ({ ...key, column: feed.position(key.column) })),
            carry: request.carry.map((column) => (column === rowNumberColumn ? column : feed.position(column)))
        };
    }

    /** Specification of a pass, with the memory of its readers. */
    public passSpec(request: SetRequest): PassSpec {
        const { limits, policy, debug } = this.request;
        const { feed, carryBytes, nullKeys, bits, spill } = request;
        const { keys, carry } = this.positions(request);
        const width = rowWidth(feed.types, feed.widths, keys, carry, nullKeys, carryBytes);
        const rowBytes = width.fixed + width.heap;
        const read = readMemory(
            feed.types,
            feed.widths,
            columnsRead(keys, carry),
            width,
            this.isInMemory(feed) || this.isStreamed(feed),
            limits,
            policy
        );
        const page = pageBytes(this.request, { rows: feed.rows, width }, bits);
        const spec: PartitionDescription = {
            columns: feed.types,
            keys,
            carry,
            ...(carryBytes === undefined ? {} : { carryBytes }),
            nullKeys,
            radixBits: bits,
            pageBytes: page,
            spillRunBytes: spillRunBytes(this.request, page, bits, feed.rows * rowBytes),
            spillWriteBytes: spillWriteBytes(this.request),
            spill,
            packSpilled: packsSpilled(this.request, feed.rows * rowBytes),
            forceSpill: debug.forceSpill ?? false,
            morselRows: debug.morselRows ?? read.morselRows,
            workers: limits.workers,
            hashMask: hashMaskText(debug.hashMask)
        };
        // The batches of a stream are JavaScript's, but up to two groups of them are alive at a time.
        const streamBytes = this.isStreamed(feed) ? 2 * limits.streamGroupBytes : 0;
        return { spec, width, readBytes: read.bytes + streamBytes, encodingBytes: read.encodingBytes };
    }

    public addSet(request: SetRequest): number {
        const { limits, policy } = this.request;
        const { spec, width, readBytes, encodingBytes } = this.passSpec(request);
        const { feed, bits } = request;
        const bytes = feed.rows * (width.fixed + width.heap);
        const needs = poolNeeds(feed.rows, bytes, feed.exact, limits.workers, bits, spec.pageBytes, limits, policy);
        // Byte strings are estimated by their mean, which a sample of pages never meets exactly.
        const variable = feed.types.some(isVariable) ? 1.1 : 1;
        this.sets.push({
            role: request.role,
            spec,
            rows: feed.rows,
            width,
            needs: { min: needs.min, wanted: Math.ceil(needs.wanted * variable) },
            combiningBytes: combiningBytes(limits.workers, bits, width) + spillScratchBytes(spec),
            readBytes,
            encodingBytes,
            batchBytes: 0
        });
        return this.sets.length - 1;
    }

    /** The pass over an input; rows of a stage are partitioned while that stage runs. */
    public addPass(set: number, feed: Feed, name: string): void {
        const draft = this.sets[set] as SetDraft;
        if (feed.input === undefined) return;
        this.stages.push({
            kind: "partition",
            id: this.stages.length,
            name,
            algorithm: `radix partitioning, 2^${draft.spec.radixBits} partitions`,
            rowsIn: feed.rows,
            rowsOut: feed.rows,
            memory: { inputBytes: draft.readBytes + draft.combiningBytes, tableBytes: 0, outputBytes: 0 },
            input: feed.input,
            set
        });
    }

    /** Memory of a stage's result rows: batches for the sink, or batches on their way into the next set. */
    public outputBytes(widths: readonly ValueWidth[], output: StageOutput): number {
        const { limits, policy, sink, batchRows, largeBatches, budgetBytes } = this.request;
        if (output.to === "set") {
            const next = this.sets[output.set];
            // A batch of a partition sink has as many rows as a morsel of its set.
            const rows = next?.spec.morselRows ?? policy.morselRowsMax;
            const batches = outputMemory(widths, limits, policy, undefined, { rows, bytes: Infinity });
            if (next !== undefined) next.batchBytes = batches.batchBytes;
            return batches.bytes + (next?.combiningBytes ?? 0) + (next?.encodingBytes ?? 0);
        }
        if (sink === "count") return 0;
        const queued = sink === "file" ? undefined : limits.queuedBatches + 1;
        const bytes = largeBatches ? budgetBytes * policy.outputShare : 0;
        // Each worker fills a batch before it hands it over: together no more than are wanted, unless that is little.
        const most = output.limit === undefined ? Infinity : limitedBatchRows(output.limit.rows, limits.workers);
        const rows = Math.min(batchRows ?? Infinity, most, this.#expectedRows(widths));
        const wish = rows === Infinity ? undefined : { rows, bytes };
        const usual = outputMemory(widths, limits, policy, queued, wish);
        this.output = (output.limit === undefined ? this.#readBatches(widths, queued) : undefined) ?? usual;
        return this.output.bytes;
    }

    /** Rows of a batch at most, by how many are expected: of a table, and of all results where memory is short. */
    #expectedRows(widths: readonly ValueWidth[]): number {
        const { sink, estimator, root, policy, limits } = this.request;
        // A batch ends at the bytes that its rows are planned for: texts far longer than the mean would have one each.
        const isShort = limits.batchBytes < policy.batchBytes && widths.every(({ heap }) => heap === 0);
        if (sink !== "table" && !isShort) return Infinity;
        const least = isShort ? policy.batchRowsMin * policy.tableRowsSlack : policy.tableRowsMin;
        return Math.max(least, Math.ceil(estimator.of(root).rows * policy.tableRowsSlack));
    }

    /** Batches of a large result for a reader, where they are to be larger than usual. */
    #readBatches(widths: readonly ValueWidth[], queued: number | undefined): OutputMemory | undefined {
        const { limits, policy, sink, batchRows, largeBatches, estimator, root } = this.request;
        if (sink !== "batches" || !largeBatches || batchRows !== undefined) return undefined;
        const bytes = estimator.of(root).rows * arrowRowBytes(widths);
        if (bytes < policy.readBatchesMin * policy.readBatchBytes) return undefined;
        return outputMemory(widths, { ...limits, batchBytes: policy.readBatchBytes }, policy, queued, undefined);
    }
}

/** A worker has gathered so many rows in no time. */
const fewRows = 1024;

function limitedBatchRows(limit: number, workers: number): number {
    return Math.max(1, Math.min(limit, fewRows), Math.ceil(limit / workers));
}

export const noMemory: StageMemory = { inputBytes: 0, tableBytes: 0, outputBytes: 0 };
