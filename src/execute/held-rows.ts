// SPDX-License-Identifier: Apache-2.0
import type { RecordBatch, Schema } from "apache-arrow";

import { batchBytes, recordBatchOf, resultColumns } from "../arrow/batch-from-native.js";
import { encodeFooter, encodeSchemaMessage } from "../arrow/ipc-encoding.js";
import { memoryLayout } from "../arrow/memory-layout.js";
import { openArrowFiles } from "../arrow/open-files.js";
import { SpillwayError, toSpillwayError } from "../errors.js";
import type { FileBatches } from "../model/column-type.js";
import { formatBytes } from "../model/sizes.js";
import type { NativeOutputBatch, SinkHandle, SourceHandle } from "../native/binding.js";
import { innerOperators, type OperatorNode } from "../plan/inner-operators.js";
import { limitOf, logicalSchema, resultTypes, type LogicalColumn, type LogicalNode } from "../plan/logical.js";
import type { Plan } from "../plan/plan.js";
import type { HeldRows } from "../plan/stage.js";
import type { Job } from "./job.js";
import { dictionaryNodes, loadDictionaries, writeDictionaries, type SourceOf } from "./result-dictionaries.js";

/** Joins and group-bys below other operators of a query, of which plans may hold the rows, by their numbers. */
export class InnerOperators {
    #nodes: readonly OperatorNode[] | undefined;

    /** rootOf: makes the tree without what no operator above reads (`prunedTree`), which few plans ask for. */
    public constructor(
        private readonly rootOf: () => LogicalNode,
        private readonly sourceOf: SourceOf
    ) {}

    public of(operator: number): { node: OperatorNode; sourceOf: SourceOf } {
        this.#nodes ??= innerOperators(this.rootOf());
        const node = this.#nodes[operator];
        if (node === undefined) throw new SpillwayError("INTERNAL", `The query has no inner operator ${operator}`);
        return { node, sourceOf: this.sourceOf };
    }
}

/** Batches of plans that count rows have no size of their own. */
const leastBatch = { batchRows: 1024, batchBytes: 2 ** 16 };

/** The file of rows that host memory has no room for. It has no name, and is closed when the job ends. */
class HeldFile {
    readonly #sink: SinkHandle;
    #isOpen = true;

    /** Takes what does not wait in the queue by now. */
    public constructor(
        private readonly job: Job,
        private readonly schema: Schema,
        queue: SinkHandle
    ) {
        this.#sink = job.binding.divertQueue(queue, resultColumns(schema), encodeSchemaMessage(schema));
        job.onEnd(() => this.close());
    }

    public close(): void {
        if (this.#isOpen) this.job.binding.closeSink(this.#sink);
        this.#isOpen = false;
    }

    /** After the last row: its batches, which are closed when the job ends; null where there are none. */
    public async batches(columns: readonly LogicalColumn[], sourceOf: SourceOf): Promise<FileBatches | null> {
        const { binding, engine, handle } = this.job;
        if (binding.fileBlocks(this.#sink).records.length === 0) return null;
        await writeDictionaries(this.job, this.#sink, dictionaryNodes(this.schema, columns), sourceOf);
        const { dictionaries, records } = binding.fileBlocks(this.#sink);
        const footer = encodeFooter(this.schema, dictionaries, records);
        const path = await binding.finishFileSink(handle, this.#sink, footer);
        const { layout } = await openArrowFiles(path, {
            ends: async (...wanted) => await binding.readEnds(engine, ...wanted),
            ranges: async (...wanted) => await binding.readRanges(engine, ...wanted),
            footer: async (name) => await binding.readFooter(engine, name),
            batches: async (spec) => await binding.openFileBatches(engine, spec)
        });
        const { files } = layout;
        if (files !== null) this.job.onEnd(() => binding.closeFileBatches(files));
        return files;
    }
}

/** Runs a stage that gives rows to a sink. `stopped` tells why that takes no more of them; undefined: it does. */
type GivingStage<T> = (sink: SinkHandle, stopped: () => unknown) => Promise<T>;

interface Held<T> {
    readonly report: T;
    readonly found: readonly NativeOutputBatch[];
    readonly file: HeldFile | undefined;
}

/** Takes all rows of a stage: into host memory, and what that has no room for into a file, if there may be one. */
async function takeRows<T>(
    job: Job,
    node: OperatorNode,
    schema: Schema,
    { limitBytes, diskBytes, plan }: HeldRows & { plan: Plan },
    run: GivingStage<T>
): Promise<Held<T>> {
    const { binding } = job;
    const sink = binding.createQueueSink(job.handle, resultColumns(schema), {
        batchRows: Math.max(plan.batchRows, leastBatch.batchRows),
        batchBytes: Math.max(plan.batchBytes, leastBatch.batchBytes),
        maxBatches: plan.queuedBatches,
        kept: true
    });
    const limit = limitOf(node);
    if (limit < Infinity) binding.limitSink(sink, limit, false);
    let isOpen = true;
    const close = (): void => {
        if (isOpen) binding.closeSink(sink);
        isOpen = false;
    };
    job.onEnd(close);
    const found: NativeOutputBatch[] = [];
    let bytes = 0;
    let file: HeldFile | undefined;
    let stopped: unknown;
    const done = run(sink, () => stopped);
    // Reported below, after the queue has ended: a stage that failed before it began has not ended it.
    done.catch(close);
    try {
        for (let next = await binding.nextBatch(sink); next !== null; next = await binding.nextBatch(sink)) {
            found.push(next);
            const nextBytes = batchBytes(next);
            bytes += nextBytes;
            if (diskBytes === undefined) {
                if (bytes > limitBytes) throw tooManyRows(node.kind, bytes, limitBytes);
            } else if (bytes + plan.queuedBatches * nextBytes > limitBytes) {
                // Batches that wait by now still come.
                file ??= new HeldFile(job, schema, sink);
            }
        }
        const report = await done;
        close();
        return { report, found, file };
    } catch (error) {
        stopped = error;
        close();
        const reason = await failureOf(done, error);
        file?.close();
        throw isHeldFull(error) ? error : undelivered(reason);
    }
}

/**
 * Runs a stage whose rows are held, and opens them as a source, which is closed when the job ends. Throws
 * BUDGET_TOO_SMALL where they come to more than the plan has for them in host memory and may not go to disk, and
 * DISK_FULL where that has no room: no row of the result is gone by then.
 */
export async function holdRows<T>(
    job: Job,
    { node, sourceOf }: { node: OperatorNode; sourceOf: SourceOf },
    holds: HeldRows & { plan: Plan },
    run: GivingStage<T>
): Promise<{ report: T; source: SourceHandle }> {
    const { binding } = job;
    const schema = logicalSchema(node);
    const { report, found, file } = await takeRows(job, node, schema, holds, run);
    const files = (await file?.batches(node.columns, sourceOf)) ?? null;
    const dictionaries = await loadDictionaries(job, dictionaryNodes(schema, node.columns), sourceOf);
    const columns = resultColumns(schema);
    const batches = found.map((batch): RecordBatch => recordBatchOf(schema, columns, batch, dictionaries));
    const layout = { ...memoryLayout(resultTypes(node), batches, binding.keptMemory()), files };
    const source = await binding.openSource(job.engine, layout);
    job.onEnd(() => binding.closeSource(source));
    return { report, source };
}

function tooManyRows(kind: OperatorNode["kind"], wantedBytes: number, limitBytes: number): SpillwayError {
    const [what, hint] =
        kind === "group" ? ["Groups", "groups` of the group-by"] : ["Rows of a join", "resultRows` of the join"];
    return new SpillwayError(
        "BUDGET_TOO_SMALL",
        `${what} that are joined or grouped again take more than the ${formatBytes(limitBytes)} of host memory that ` +
            `the plan has for them: raise \`memory.host\`, say how many there are (\`hints.${hint}), or use ` +
            'device "cpu"',
        { tier: "host", wantedBytes, limitBytes, option: "memory.host", delivered: "nothing", reason: "heldFull" }
    );
}

/** Held rows came to more than the plan has for them. */
export function isHeldFull(error: unknown): boolean {
    return error instanceof SpillwayError && error.details["reason"] === "heldFull";
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
