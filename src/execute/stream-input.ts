// SPDX-License-Identifier: Apache-2.0
import { DataType, type Data, type RecordBatch, type Schema } from "apache-arrow";

import { memoryLayout, recordBatchesOf } from "../arrow/memory-layout.js";
import { schemaDifference } from "../arrow/schema-difference.js";
import { readingFailure } from "../arrow/reading-failure.js";
import { StreamDictionaries } from "../arrow/stream-dictionaries.js";
import { SpillwayError, toSpillwayError } from "../errors.js";
import { invalidArgument } from "../model/arguments.js";
import type { PartitionsHandle, SourceHandle } from "../native/binding.js";
import type { InputInfo } from "../plan/logical.js";
import { CallersIterator } from "./callers-iterator.js";
import type { Job } from "./job.js";

/**
 * Runs `look` on a batch of the caller's. What his iterator throws comes out as it is; what its batches make our own
 * code throw does not.
 */
function looking<T>(input: InputInfo, look: () => T): T {
    try {
        return look();
    } catch (error) {
        if (error instanceof SpillwayError) throw error;
        const message = `A batch of relation '${input.name}' cannot be read: ${readingFailure(error)}`;
        throw new SpillwayError("INVALID_ARGUMENT", message, { option: "open" }, error);
    }
}

/** The batches with rows of what a stream delivered: a record batch, or a table, which has several. */
function statedBatches(input: InputInfo, schema: Schema, value: unknown): RecordBatch[] {
    const found = Array.isArray(value) ? undefined : recordBatchesOf(value);
    if (found === undefined) throw invalidArgument("open", "an async iterable of Arrow record batches", value);
    for (const batch of found.batches) {
        const difference = schemaDifference(schema, batch.schema, sides);
        if (difference === undefined) continue;
        throw new SpillwayError(
            "INVALID_ARGUMENT",
            `A batch of relation '${input.name}' does not have the schema that was stated: ${difference}` +
                dictionaryHint(schema, batch.schema),
            { option: "schema" }
        );
    }
    return found.batches.filter((batch) => batch.numRows > 0);
}

/** Arrow JS makes dictionaries of texts unless it is told another type. */
function dictionaryHint(stated: Schema, found: Schema): string {
    const differs = stated.fields.some((field, column) => {
        const [type, own] = [field.type as DataType, found.fields[column]?.type as DataType | undefined];
        return DataType.isDictionary(own) && !DataType.isDictionary(type) && String(own.dictionary) === String(type);
    });
    if (!differs) return "; state the schema that the batches have, such as batch.schema";
    return (
        "; tableFromJSON and tableFromArrays make dictionaries of texts: state the batch's own schema " +
        "(batch.schema), or make plain text with vectorFromArray(values, new Utf8())"
    );
}

const sides = ["the stated schema", "the batch"] as const;

/**
 * Reads the batches of a stream in groups of about `bytesPerGroup`: a pass over tiny batches one by one would be
 * all overhead. One group is read while the one before is partitioned, so at most two are alive.
 */
async function* groups(
    input: InputInfo,
    bytesPerGroup: number,
    iterator: CallersIterator
): AsyncGenerator<RecordBatch[], void, undefined> {
    if (input.source.kind !== "stream") return;
    const { schema } = input.source;
    const dictionaries = new StreamDictionaries(schema);
    let group: RecordBatch[] = [];
    let bytes = 0;
    let yielded = false;
    try {
        for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
            for (const batch of looking(input, () => statedBatches(input, schema, next.value))) {
                group.push(looking(input, () => dictionaries.unify(batch)));
                bytes += looking(input, () => (batch.data as Data).byteLength);
                if (bytes < bytesPerGroup) continue;
                yield group;
                yielded = true;
                group = [];
                bytes = 0;
            }
        }
    } finally {
        await iterator.leave();
    }
    // The source of the last group gives the result its dictionaries: an empty one behind others would have none.
    if (group.length > 0 || !yielded) yield group;
}

/**
 * Opens the batches of a stream as sources, one after the other, and gives each to `take` with the number of its first
 * row; false: no more are wanted. Returns the source of the last group, still open: its dictionaries are the final
 * ones. It is closed when the job ends.
 */
async function readStream(
    iterator: CallersIterator,
    { job, input, bytesPerGroup }: { job: Job; input: InputInfo; bytesPerGroup: number },
    take: (source: SourceHandle, firstRow: number) => Promise<boolean>
): Promise<SourceHandle | undefined> {
    const { binding } = job;
    const types = input.columns.map((column) => column.type);
    const kept = binding.keptMemory();
    const reader = groups(input, bytesPerGroup, iterator);
    let last: SourceHandle | undefined;
    let rows = 0;
    try {
        let next = reader.next();
        for (;;) {
            const { value: batches, done } = await next;
            if (done === true) break;
            next = reader.next();
            next.catch(() => undefined); // reported by the await above, unless this group fails first
            const layout = looking(input, () => memoryLayout(types, batches, kept));
            const source = await binding.openSource(job.engine, layout);
            if (last !== undefined) binding.closeSource(last);
            last = source;
            if (!(await take(source, rows))) {
                iterator.abandon();
                break;
            }
            binding.checkMemory(source);
            rows += batches.reduce((sum, batch) => sum + batch.numRows, 0);
        }
    } catch (error) {
        job.fail(error);
        throw error;
    } finally {
        if (last !== undefined) {
            const source = last;
            job.onEnd(() => binding.closeSource(source));
        }
        await reader.return().catch(() => undefined);
    }
    return last;
}

/** Sends all batches of a stream through the partitioner. Returns its last source, as `readStream` does. */
export async function partitionStream(
    job: Job,
    input: InputInfo,
    partitions: PartitionsHandle,
    bytesPerGroup: number
): Promise<SourceHandle | undefined> {
    if (input.source.kind !== "stream") return undefined;
    const iterator = new CallersIterator(job, input.source.open());
    return await readStream(iterator, { job, input, bytesPerGroup }, async (source, firstRow) => {
        await job.binding.partitionSource(job.handle, partitions, source, firstRow);
        return true;
    });
}

/** Who is told what happens to the streams of a stage. */
export interface StreamObserver {
    /** Batches are asked for: they come once only, so that no other plan can have them. */
    began: (input: InputInfo) => void;
    /** All have been read, and `last` has the final dictionaries. Rows that depend on these come after this. */
    ended: (input: InputInfo, last: SourceHandle | undefined) => Promise<void>;
}

interface OpenedStream {
    input: InputInfo;
    handle: SourceHandle;
    /** When it is read. */
    iterator?: CallersIterator;
    /** The stage has ended. */
    stopped?: boolean;
}

/** The streams that one stage reads, each of which is fed to it as soon as it asks for rows. */
export class StreamFeeds {
    readonly #streams: OpenedStream[] = [];
    #began = false;

    public constructor(
        private readonly job: Job,
        private readonly bytesPerGroup: number,
        private readonly observer: StreamObserver
    ) {}

    public get count(): number {
        return this.#streams.length;
    }

    /** A source for one reading of the input. */
    public open(input: InputInfo): SourceHandle {
        const { binding, engine } = this.job;
        const types = input.columns.map((column) => column.type);
        const handle = binding.openStream(engine, memoryLayout(types, [], binding.keptMemory()));
        this.job.onEnd(() => binding.closeSource(handle));
        this.#streams.push({ input, handle });
        return handle;
    }

    /** Runs the stage that reads them. `stopped` tells why rows of the stage are taken no more, if they are not. */
    public async whileFed<T>(stage: () => Promise<T>, stopped?: () => unknown): Promise<T> {
        const { job } = this;
        const feeding = this.#streams.map((stream) => this.#feed(stream));
        try {
            return await stage();
        } catch (error) {
            const reason = isAbort(error) ? (stopped?.() ?? error) : error;
            // Its rows are gone, and an iterator that delivers nothing must not hold up the end.
            if (this.#began) job.fail(toSpillwayError(reason));
            throw reason;
        } finally {
            for (const stream of this.#streams) {
                job.binding.stopStream(stream.handle);
                stream.stopped = true;
                // A stage that wants no more rows waits for none.
                stream.iterator?.abandon();
            }
            // Each has told the job what failed.
            await Promise.allSettled(feeding);
        }
    }

    async #feed(stream: OpenedStream): Promise<void> {
        const { job, observer, bytesPerGroup } = this;
        const { input, handle } = stream;
        const { binding } = job;
        if (input.source.kind !== "stream") return;
        try {
            if (!(await unlessStopped(binding.streamWanted(job.handle, handle)))) return;
            this.#began = true;
            observer.began(input);
            let isRead = true;
            const iterator = new CallersIterator(job, input.source.open());
            stream.iterator = iterator;
            const last = await readStream(iterator, { job, input, bytesPerGroup }, async (source) => {
                isRead = await unlessStopped(binding.feedStream(job.handle, handle, source));
                return isRead;
            });
            if (!isRead || stream.stopped === true) return;
            await observer.ended(input, last);
            binding.endStream(handle);
        } catch (error) {
            job.fail(error);
        }
    }
}

/** A stage of a query that has failed does not begin: the failure of the other one counts. */
async function unlessStopped(stage: Promise<boolean>): Promise<boolean> {
    try {
        return await stage;
    } catch (error) {
        if (isAbort(error)) return false;
        throw error;
    }
}

function isAbort(error: unknown): boolean {
    return toSpillwayError(error).code === "ABORTED";
}
