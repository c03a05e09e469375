// SPDX-License-Identifier: Apache-2.0
import type { Data, RecordBatch } from "apache-arrow";

import { memoryLayout } from "../arrow/memory-layout.js";
import { schemaDifference } from "../arrow/open-files.js";
import { StreamDictionaries } from "../arrow/stream-dictionaries.js";
import { SpillwayError, toSpillwayError } from "../errors.js";
import { invalidArgument } from "../model/arguments.js";
import type { PartitionsHandle, SourceHandle } from "../native/binding.js";
import type { InputInfo } from "../plan/logical.js";
import type { Job } from "./job.js";

function isBatch(value: unknown): value is RecordBatch {
    return typeof value === "object" && value !== null && "schema" in value && "data" in value && "numRows" in value;
}

/**
 * Runs `look` on a batch of the caller's. What his iterator throws comes out as it is; what its batches make our own
 * code throw does not.
 */
function looking<T>(input: InputInfo, look: () => T): T {
    try {
        return look();
    } catch (error) {
        if (error instanceof SpillwayError) throw error;
        const message = `A batch of relation '${input.name}' cannot be read: ${toSpillwayError(error).message}`;
        throw new SpillwayError("INVALID_ARGUMENT", message, { option: "open" }, error);
    }
}

function groupBytes(batches: readonly RecordBatch[]): number {
    return batches.reduce((sum, batch) => sum + (batch.data as Data).byteLength, 0);
}

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
    const iterable: unknown = open();
    if (
        typeof iterable !== "object" ||
        iterable === null ||
        !(Symbol.asyncIterator in iterable || Symbol.iterator in iterable)
    ) {
        throw invalidArgument("open", "a function that returns an async iterable of record batches", iterable);
    }
    const dictionaries = new StreamDictionaries(schema);
    let group: RecordBatch[] = [];
    let yielded = false;
    for await (const batch of iterable as AsyncIterable<unknown>) {
        job.check();
        if (!isBatch(batch)) throw invalidArgument("open", "an async iterable of Arrow record batches", batch);
        const difference = looking(input, () => schemaDifference(schema, batch.schema));
        if (difference !== undefined) {
            throw new SpillwayError(
                "INVALID_ARGUMENT",
                `A batch of relation '${input.name}' does not have the schema that was stated: ${difference}`,
                { option: "schema" }
            );
        }
        if (batch.numRows === 0) continue;
        group.push(looking(input, () => dictionaries.unify(batch)));
        if (looking(input, () => groupBytes(group)) >= bytesPerGroup) {
            yield group;
            yielded = true;
            group = [];
        }
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
            const layout = looking(input, () => memoryLayout(types, batches));
            const source = await binding.openSource(job.engine, layout);
            if (last !== undefined) binding.closeSource(last);
            last = source;
            await binding.partitionSource(job.handle, partitions, source, rows);
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
