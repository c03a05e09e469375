// SPDX-License-Identifier: Apache-2.0
import { Table, type RecordBatch } from "apache-arrow";

import { SpillwayError } from "../errors.js";
import { bytesOption, formatBytes, formatCount } from "../model/sizes.js";
import type { NativeMemory } from "../native/binding.js";
import { expectations, type Expectations } from "../planner/plan-query.js";
import type { Admission } from "./admission.js";
import { BatchStream } from "./batch-stream.js";
import type { QueryRequest } from "./query-run.js";
import { readsStream } from "./query-runner.js";

interface Collected {
    rows: number;
    bytes: number;
    /** Held by the query itself. */
    usedBytes: number;
}

// Rows that are still to come may be longer than those that are there.
const marginFactor = 1.1;

/** The whole result does not fit. How large it is nobody knows: a budget that would do can only be estimated. */
function doesNotFit(collected: Collected, limitBytes: number, expected: Expectations): SpillwayError {
    const { rows, bytes, usedBytes } = collected;
    const details = {
        tier: "host",
        wantedBytes: bytes + usedBytes,
        freeBytes: Math.max(0, limitBytes - usedBytes),
        option: "memory.host"
    };
    const message =
        `The result does not fit the ${formatBytes(limitBytes)} of host memory: ${formatCount(rows)} rows of it, ` +
        `${formatBytes(bytes)}, are there and more may come; read it with batches(), ` +
        "write it with toArrowFile(), or raise `memory.host`";
    // More rows came than were expected: then nothing tells how many there are.
    if (expected.rows <= rows) return new SpillwayError("BUDGET_TOO_SMALL", message, details);
    // With a larger budget the query itself holds more as well.
    const heldBytes = Math.max(usedBytes, expected.wantedBytes);
    const wholeBytes = (bytes / Math.max(1, rows)) * expected.rows + heldBytes;
    const estimated = bytesOption(wholeBytes * marginFactor);
    return new SpillwayError(
        "BUDGET_TOO_SMALL",
        `${message}: about "${estimated}" if it has the ${formatCount(expected.rows)} rows that are expected`,
        { ...details, estimated }
    );
}

/**
 * Collects a whole result. Its batches count against the budget like everything else that the query holds.
 * `expected`: asked for when the result does not fit. `waitsForUser`: see MemoryRequest.
 */
export async function tableOf(
    stream: BatchStream,
    memory: () => NativeMemory,
    expected: () => Expectations,
    admission: Admission,
    waitsForUser: boolean
): Promise<Table> {
    const batches: RecordBatch[] = [];
    let rows = 0;
    try {
        for await (const batch of stream) {
            batches.push(batch);
            rows += batch.numRows;
            const { usedBytes, limitBytes } = memory();
            const bytes = stream.deliveredBytes;
            if (bytes + usedBytes > limitBytes) throw doesNotFit({ rows, bytes, usedBytes }, limitBytes, expected());
            admission.holdTable(stream, { bytes, waitsForUser });
        }
    } finally {
        admission.dropTable(stream);
    }
    return batches.length === 0 ? new Table(stream.schema) : new Table(batches);
}

/** The whole result of a query. */
export async function queryTable(query: QueryRequest): Promise<Table> {
    const { runner, node, debug } = query;
    const expected = (): Expectations => {
        const asked = runner.planRequest(node, "table", debug);
        // Those that the run has taken, if it took any.
        const statistics = runner.statistics.known(node, runner.samplingPolicy(asked.debug, node)) ?? new Map();
        return expectations({ ...asked, statistics });
    };
    const stream = new BatchStream(query, false);
    return await tableOf(stream, () => runner.memory(), expected, runner.admission, readsStream(node));
}
