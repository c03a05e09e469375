// SPDX-License-Identifier: Apache-2.0
import type { RecordBatch, Schema } from "apache-arrow";
import { setImmediate, setTimeout } from "node:timers/promises";

import { batchBytes, recordBatchOf, resultColumns, type Dictionaries } from "../arrow/batch-from-native.js";
import { encodeFooter, encodeSchemaMessage } from "../arrow/ipc-encoding.js";
import type { ColumnType } from "../model/column-type.js";
import type { NativeDelivered, SinkHandle } from "../native/binding.js";
import { logicalSchema, type LogicalNode } from "../plan/logical.js";
import { freezePlan, type Plan } from "../plan/plan.js";
import type { Job } from "./job.js";
import { droppedBatches } from "./dropped-batches.js";
import { keepTooMuch, noteRead, waitForReaders } from "./read-batches.js";
import { dictionaryNodes, loadDictionaries, writeDictionaries, type SourceOf } from "./result-dictionaries.js";

// While batches wait, a reader goes from one to the next without the event loop in between: after this time it gets a
// turn. Handing a batch over takes 0.1 ms; the rest is what the reader does with it.
const turnMs = 1;

/**
 * Blocks of large tables are an eighth longer than what is in them, at most, and half of that on average: those of
 * tables of 2 and 5 million rows came to 1.06 and 1.07 of their bytes.
 */
const [blockSlackMax, blockSlackMean] = [1.125, 1.0625];

/** Where the rows of a query go. */
export interface ResultSink {
    /** Called before the first row, when the dictionaries are known; `later`: some are not, and `learn` follows. */
    open(plan: Plan, sourceOf: SourceOf, later?: boolean): Promise<SinkHandle>;
    /** Called before the first row, where the dictionaries were not known when it was opened. */
    learn(sourceOf: SourceOf): Promise<void>;
    /** Drops the rows that came, for another plan that will open the sink anew. False: somebody has got some. */
    restart(): boolean;
    /** After the last row. */
    finish(): Promise<void>;
}

function batchSize({ batchRows, batchBytes }: Plan): { batchRows: number; batchBytes: number } {
    return { batchRows: Math.max(1, batchRows), batchBytes: Math.max(1, batchBytes) };
}

export class CountSink implements ResultSink {
    readonly #handle: SinkHandle;

    public constructor(job: Job) {
        this.#handle = job.binding.createCountSink(job.handle);
        job.onEnd(() => job.binding.closeSink(this.#handle));
    }

    public async open(): Promise<SinkHandle> {
        return await Promise.resolve(this.#handle);
    }

    public async learn(): Promise<void> {}

    /** A stage that fails tells no number. */
    public restart(): boolean {
        return true;
    }

    public async finish(): Promise<void> {}
}

/** Writes an Arrow file. Made before any work, so that a file that may not be written is found at once. */
export class FileSink implements ResultSink {
    readonly #schema: Schema;
    readonly #node: LogicalNode;
    #handle: SinkHandle | undefined;
    #plan: Plan | undefined;
    /** Those of a plan that could not go on: a file has each dictionary once. */
    #hasDictionaries = false;

    public constructor(
        private readonly job: Job,
        node: LogicalNode,
        private readonly path: string,
        private readonly overwrite: boolean
    ) {
        this.#node = node;
        this.#schema = logicalSchema(node);
    }

    /** Creates the (still unnamed) file, and again if another plan wants batches of other sizes. */
    public prepare(plan: Plan): void {
        const { batchRows, batchBytes } = plan;
        if (this.#handle !== undefined) {
            const fits = this.#plan?.batchRows === batchRows && this.#plan.batchBytes === batchBytes;
            if (fits && !this.#hasDictionaries) return;
            this.job.binding.closeSink(this.#handle);
            this.#handle = undefined;
        }
        this.#plan = plan;
        const { job } = this;
        const handle = job.binding.createFileSink(job.handle, resultColumns(this.#schema), {
            path: this.path,
            schemaMessage: encodeSchemaMessage(this.#schema),
            overwrite: this.overwrite,
            ...batchSize(plan)
        });
        job.onEnd(() => job.binding.closeSink(handle));
        this.#handle = handle;
    }

    public async open(plan: Plan, sourceOf: SourceOf, later = false): Promise<SinkHandle> {
        this.prepare(plan);
        if (!later) await this.learn(sourceOf);
        return this.#handle as SinkHandle;
    }

    public async learn(sourceOf: SourceOf): Promise<void> {
        const handle = this.#handle as SinkHandle;
        this.#hasDictionaries = true;
        await writeDictionaries(this.job, handle, dictionaryNodes(this.#schema, this.#node.columns), sourceOf);
    }

    /** Another file takes the place of this one, which has no name yet; nothing that waits for it takes memory. */
    public restart(): boolean {
        if (this.#handle !== undefined) this.job.binding.closeSink(this.#handle);
        this.#handle = undefined;
        this.#hasDictionaries = false;
        return true;
    }

    public async finish(): Promise<void> {
        const { job } = this;
        const handle = this.#handle as SinkHandle;
        const { dictionaries, records } = job.binding.fileBlocks(handle);
        await job.binding.finishFileSink(job.handle, handle, encodeFooter(this.#schema, dictionaries, records));
    }
}

interface Signal {
    readonly given: Promise<void>;
    readonly give: () => void;
}

function makeSignal(): Signal {
    let give = (): void => undefined;
    const given = new Promise<void>((resolve) => {
        give = resolve;
    });
    return { given, give };
}

/** How the engine's batches become those of Arrow. */
interface ResultShape {
    readonly schema: Schema;
    readonly columns: readonly ColumnType[];
}

const knownShapes = new WeakMap<Plan, ResultShape>();

/** Plans of queries that are asked again are the same objects, and the engine knows frozen types again. */
function shapeOf(plan: Plan, node: LogicalNode): ResultShape {
    let shape = knownShapes.get(plan);
    if (shape === undefined) {
        const schema = logicalSchema(node);
        shape = { schema, columns: freezePlan(resultColumns(schema)) };
        knownShapes.set(plan, shape);
    }
    return shape;
}

/** Hands batches to JavaScript. */
export class QueueSink implements ResultSink {
    readonly #node: LogicalNode;
    #shape: ResultShape | undefined;
    #handle: SinkHandle | undefined;
    /** A table: every batch stays with the reader until the last one. */
    #kept = false;
    #dictionaries: Dictionaries = [];
    #deliveredBytes = 0;
    /** Memory of a table's batches that are there, about. */
    #tableBytes = 0;
    /** The reader has got a batch. */
    #given = false;
    /** Readers wait for the queue that another plan will open. */
    #restarting: Signal | undefined;
    /** Given when another queue takes the place of this one, when it is closed, and when the query has ended. */
    #followed = makeSignal();
    /** When the event loop had its last turn. */
    #turnAt = performance.now();

    public constructor(
        private readonly job: Job,
        node: LogicalNode
    ) {
        this.#node = node;
    }

    /** Bytes of all batches handed over so far. */
    public get deliveredBytes(): number {
        return this.#deliveredBytes;
    }

    /** Opens the queue, and another one for a plan that is made anew: it reserved for batches of its own sizes. */
    public async open(plan: Plan, sourceOf: SourceOf, later = false): Promise<SinkHandle> {
        const { job } = this;
        const { columns } = (this.#shape = shapeOf(plan, this.#node));
        if (!later) await this.learn(sourceOf);
        this.#drop();
        this.#followed = makeSignal();
        this.#kept = plan.sink === "table";
        this.#handle = job.binding.createQueueSink(job.handle, columns, {
            maxBatches: plan.queuedBatches,
            kept: this.#kept,
            ...batchSize(plan)
        });
        this.#restarted();
        return this.#handle;
    }

    public async learn(sourceOf: SourceOf): Promise<void> {
        // Rows that are held have their dictionaries learnt before the queue is open.
        const schema = this.#shape?.schema ?? logicalSchema(this.#node);
        const nodes = dictionaryNodes(schema, this.#node.columns);
        this.#dictionaries = await loadDictionaries(this.job, nodes, sourceOf);
    }

    public restart(): boolean {
        if (this.#given) return false;
        this.#restarting ??= makeSignal();
        this.#drop();
        return true;
    }

    #restarted(): void {
        this.#restarting?.give();
        this.#restarting = undefined;
    }

    public async finish(): Promise<void> {
        this.#followed.give();
        await Promise.resolve();
    }

    /** The next batch, or null after the last; only after `open`. */
    public async next(): Promise<RecordBatch | null> {
        if (performance.now() - this.#turnAt > turnMs) {
            await setImmediate();
            this.#turnAt = performance.now();
        }
        const memory = (): NativeDelivered => this.#delivered();
        if (droppedBatches.wantRoom(memory)) await droppedBatches.makeRoom(memory);
        if (!this.#kept && keepTooMuch(this.job.binding.deliveredMemory(this.job.engine))) await this.#waitForReader();
        while (this.#restarting !== undefined) await this.#restarting.given;
        const [handle, followed, shape] = [this.#handle, this.#followed.given, this.#shape];
        if (handle === undefined || shape === undefined) return null;
        const batch = await this.job.binding.nextBatch(handle);
        // A plan that fails ends its queue too, and the next one has not taken its place yet.
        if (batch === null) await followed;
        // Neither the end nor a batch of a queue that another one replaces (see `restart`) is one of the result.
        if (this.#handle !== handle) return await this.next();
        if (batch === null) return null;
        this.#given = true;
        const bytes = batchBytes(batch);
        this.#deliveredBytes += bytes;
        if (this.#kept) this.#keep(bytes);
        const made = recordBatchOf(shape.schema, shape.columns, batch, this.#dictionaries);
        if (!this.#kept) noteRead(made, this.job.binding, batch.memory);
        return made;
    }

    async #waitForReader(): Promise<void> {
        const { job } = this;
        const pause = async (ms: number): Promise<void> => {
            if (ms > 0) await job.unlessCancelled(setTimeout(ms));
            job.check();
        };
        await waitForReaders(() => job.binding.deliveredMemory(job.engine), pause);
    }

    /** What readers have, and what the budget leaves when other queries have taken what they were granted. */
    #delivered(): NativeDelivered {
        if (this.#handle === undefined) return { aliveBytes: 0, unusedBytes: 0 };
        const { binding, engine } = this.job;
        const { aliveBytes, unusedBytes } = binding.deliveredMemory(engine);
        const left = Math.min(unusedBytes - this.#tableBytes, this.job.grantableBytes());
        return { aliveBytes: droppedBatches.withoutTables(aliveBytes), unusedBytes: Math.max(0, left) };
    }

    /** What is freed for the next request, too, must leave room for the table. */
    #keep(bytes: number): void {
        const blockBytes = Math.ceil(bytes * blockSlackMean);
        this.#tableBytes += blockBytes;
        droppedBatches.tableGrew(blockBytes);
        this.job.binding.trimCache(this.job.engine, Math.ceil(this.#deliveredBytes * blockSlackMax));
    }

    /** Drops what was not delivered. */
    public close(): void {
        this.#drop();
        this.#restarted();
    }

    #drop(): void {
        if (this.#handle !== undefined) this.job.binding.closeSink(this.#handle);
        this.#handle = undefined;
        droppedBatches.tableGrew(-this.#tableBytes);
        this.#tableBytes = 0;
        this.#followed.give();
    }
}
