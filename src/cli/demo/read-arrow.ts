// SPDX-License-Identifier: Apache-2.0
import { open } from "node:fs/promises";
import { RecordBatchReader, type RecordBatch } from "apache-arrow";

/**
 * Record batches of a file read by Arrow JS alone, one at a time: what any other Arrow program would see. Throws the
 * signal's reason instead of the next batch.
 */
export async function* arrowBatches(path: string, signal: AbortSignal): AsyncGenerator<RecordBatch> {
    const file = await open(path);
    try {
        const reader = await RecordBatchReader.from(file);
        for await (const batch of reader) {
            signal.throwIfAborted();
            yield batch;
        }
        signal.throwIfAborted(); // a signal that came during the last batch
    } finally {
        await file.close();
    }
}
