// SPDX-License-Identifier: Apache-2.0
import { open } from "node:fs/promises";
import { RecordBatchReader, type RecordBatch } from "apache-arrow";

/** Record batches of a file read by Arrow JS alone, one at a time: what any other Arrow program would see. */
export async function* arrowBatches(path: string): AsyncGenerator<RecordBatch> {
    const file = await open(path);
    try {
        const reader = await RecordBatchReader.from(file);
        for await (const batch of reader) yield batch;
    } finally {
        await file.close();
    }
}
