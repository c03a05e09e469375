// SPDX-License-Identifier: Apache-2.0
import { Table, type RecordBatch } from "apache-arrow";

import { SpillwayError } from "../errors.js";
import { formatBytes } from "../model/sizes.js";
import type { NativeMemory } from "../native/binding.js";
import type { BatchStream } from "./batch-stream.js";

/** Collects a whole result. Its batches count against the budget like everything else that the query holds. */
export async function tableOf(stream: BatchStream, memory: () => NativeMemory): Promise<Table> {
    const batches: RecordBatch[] = [];
    for await (const batch of stream) {
        batches.push(batch);
        const { usedBytes, limitBytes } = memory();
        if (stream.deliveredBytes + usedBytes <= limitBytes) continue;
        throw new SpillwayError(
            "BUDGET_TOO_SMALL",
            `The result does not fit the ${formatBytes(limitBytes)} of host memory: ` +
                `${formatBytes(stream.deliveredBytes)} of it are there and more is to come; read it with batches(), ` +
                "write it with toArrowFile(), or raise `memory.host`",
            {
                tier: "host",
                wantedBytes: stream.deliveredBytes + usedBytes,
                freeBytes: Math.max(0, limitBytes - usedBytes),
                option: "memory.host"
            }
        );
    }
    return batches.length === 0 ? new Table(stream.schema) : new Table(batches);
}
