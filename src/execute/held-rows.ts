// SPDX-License-Identifier: Apache-2.0
import type { RecordBatch } from "apache-arrow";

import { batchBytes, recordBatchOf, resultColumns } from "../arrow/batch-from-native.js";
import { columnTypeOf } from "../arrow/column-type-of.js";
import { memoryLayout } from "../arrow/memory-layout.js";
import { SpillwayError, toSpillwayError } from "../errors.js";
import { formatBytes } from "../model/sizes.js";
import type { NativeOutputBatch, SinkHandle, SourceHandle } from "../native/binding.js";
import { innerOperators, prunedTree, type OperatorNode } from "../plan/inner-operators.js";
import { logicalSchema, type LogicalNode } from "../plan/logical.js";
import type { Plan } from "../plan/plan.js";
import type { HeldRows } from "../plan/stage.js";
import type { Job } from "./job.js";
import { dictionaryNodes, loadDictionaries, type SourceOf } from "./result-dictionaries.js";

/** Joins and group-bys below other operators of a query, of which plans may hold the rows, by their numbers. */
export class InnerOperators {
    readonly #nodes: readonly OperatorNode[];

    public constructor(
        root: LogicalNode,
        counted: boolean,
        private readonly sourceOf: SourceOf
    ) {
        this.#nodes = innerOperators(prunedTree(root, counted));
    }

    public of(operator: number): { node: OperatorNode; sourceOf: SourceOf } {
        const node = this.#nodes[operator];
        if (node === undefined) throw new SpillwayError("INTERNAL", `The query has no inner operator ${operator}`);
        return { node, sourceOf: this.sourceOf };
    }
}

/** Batches of plans that count rows have no size of their own. */
const leastBatch = { batchRows: 1024, batchBytes: 2 ** 16 };

/**
 * Runs a stage whose rows stay in host memory, and opens them as a source, which is closed when the job ends. Throws
 * BUDGET_TOO_SMALL where they come to more than the plan has for them: no row of the result is gone by then.
 */
export async function holdRows<T>(
    job: Job,
    { node, sourceOf }: { node: OperatorNode; sourceOf: SourceOf },
    { limitBytes, plan }: HeldRows & { plan: Plan },
    run: (sink: SinkHandle) => Promise<T>
): Promise<{ report: T; source: SourceHandle }> {
    const { binding } = job;
    const schema = logicalSchema(node);
    const columns = resultColumns(schema);
    const sink = binding.createQueueSink(job.handle, columns, {
        batchRows: Math.max(plan.batchRows, leastBatch.batchRows),
        batchBytes: Math.max(plan.batchBytes, leastBatch.batchBytes),
        maxBatches: plan.queuedBatches,
        kept: true
    });
    let isOpen = true;
    const close = (): void => {
        if (isOpen) binding.closeSink(sink);
        isOpen = false;
    };
    job.onEnd(close);
    const found: NativeOutputBatch[] = [];
    let bytes = 0;
    const done = run(sink);
    // Reported below, after the queue has ended: a stage that failed before it began has not ended it.
    done.catch(close);
    try {
        for (let next = await binding.nextBatch(sink); next !== null; next = await binding.nextBatch(sink)) {
            found.push(next);
            bytes += batchBytes(next);
            if (bytes > limitBytes) throw tooManyRows(node, bytes, limitBytes);
        }
    } catch (error) {
        close();
        if (!isTooMany(error)) throw undelivered(await failureOf(done, error));
        await failureOf(done, error);
        throw error;
    }
    const report = await done.catch((error: unknown) => {
        throw undelivered(error);
    });
    close();
    const dictionaries = await loadDictionaries(job, dictionaryNodes(schema, node.columns), sourceOf);
    const batches = found.map((batch): RecordBatch => recordBatchOf(schema, columns, batch, dictionaries));
    const types = schema.fields.map((field) => columnTypeOf(field));
    const source = await binding.openSource(job.engine, memoryLayout(types, batches, binding.keptMemory()));
    job.onEnd(() => binding.closeSource(source));
    return { report, source };
}

function tooManyRows({ kind }: OperatorNode, wantedBytes: number, limitBytes: number): SpillwayError {
    const [what, hint] =
        kind === "group" ? ["Groups", "groups` of the group-by"] : ["Rows of a join", "resultRows` of the join"];
    return new SpillwayError(
        "BUDGET_TOO_SMALL",
        `${what} that are joined or grouped again take more than the ${formatBytes(limitBytes)} of host memory that ` +
            `the plan has for them: raise \`memory.host\`, say how many there are (\`hints.${hint}), or use ` +
            'device "cpu"',
        { tier: "host", wantedBytes, limitBytes, option: "memory.host", delivered: "nothing" }
    );
}

function isTooMany(error: unknown): boolean {
    return error instanceof SpillwayError && error.details["delivered"] === "nothing";
}

/** Why the queue was closed, if the stage failed; else `error`. */
async function failureOf(done: Promise<unknown>, error: unknown): Promise<unknown> {
    try {
        await done;
        return error;
    } catch (reason) {
        return reason;
    }
}

/** No stage after this one has given a row of the result. */
function undelivered(reason: unknown): SpillwayError {
    const { code, message, details, cause } = toSpillwayError(reason);
    return new SpillwayError(code, message, { ...details, delivered: "nothing" }, cause);
}
