// SPDX-License-Identifier: Apache-2.0
import { DataType, type Data, type RecordBatch, type Schema } from "apache-arrow";

import { memoryLayout, recordBatchesOf } from "../arrow/memory-layout.js";
import { schemaDifference } from "../arrow/schema-difference.js";
import { readingFailure } from "../arrow/reading-failure.js";
import { StreamDictionaries } from "../arrow/stream-dictionaries.js";
import { SpillwayError } from "../errors.js";
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
    job: Job
): AsyncGenerator<RecordBatch[], void, undefined> {
    if (input.source.kind !== "stream") return;
    const { schema, open } = input.source;
    const dictionaries = new StreamDictionaries(schema);
    let group: RecordBatch[] = [];
    let bytes = 0;
    let yielded = false;
    const iterator = new CallersIterator(job, open());
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
 * Sends all batches of a stream through the partitioner. Returns the source of the last group, still open: its
 * dictionaries are the final ones. It is closed when the job ends.
 */
export async function partitionStream(
    job: Job,
    input: InputInfo,
    partitions: PartitionsHandle,
    bytesPerGroup: number
): Promise<SourceHandle | undefined> {
    if (input.source.kind !== "stream") return undefined;
    const { binding } = job;
    const types = input.columns.map((column) => column.type);
    const kept = binding.keptMemory();
    const reader = groups(input, bytesPerGroup, job);
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
            await binding.partitionSource(job.handle, partitions, source, rows);
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
