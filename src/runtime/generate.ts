// SPDX-License-Identifier: Apache-2.0
import {
    DataType,
    Field,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    Schema,
    Table,
    Utf8,
    vectorFromArray,
    type Dictionary,
    type RecordBatch
} from "apache-arrow";

import { recordBatchOf, resultColumns, type Dictionaries } from "../arrow/batch-from-native.js";
import { encodeFooter, encodeSchemaMessage } from "../arrow/ipc-encoding.js";
import { clamp, powerOfTwoAtMost } from "../model/sizes.js";
import type { Binding, NativeGenerateSpec, SinkHandle } from "../native/binding.js";
import { budgetTooSmall } from "../planner/plan-query.js";
import type { Job } from "../execute/job.js";
import { show } from "../execute/progress-tracker.js";
import { expectedTableRows, tableRowBytes, tableSchema, type Benchmark } from "./benchmark-tables.js";
import type { RunRequest } from "./query-run.js";
import type { QueryRunner } from "./query-runner.js";

export interface GeneratedColumn {
    name: string;
    kind: "int" | "float" | "utf8";
    width: number;
}

/** Checked options of `generate`; batchRows 0 = choose. */
export type GenerateRequest =
    | {
          kind: "relation";
          rows: number;
          seed: bigint;
          key: NativeGenerateSpec["key"];
          payload: GeneratedColumn[];
          batchRows: number;
      }
    | {
          kind: "table";
          benchmark: Benchmark;
          table: string;
          scale: number;
          seed: bigint;
          dictionary: boolean;
          part: number;
          parts: number;
          batchRows: number;
      };

const integerTypes: Readonly<Record<number, () => DataType>> = {
    1: () => new Int8(),
    2: () => new Int16(),
    4: () => new Int32()
};

function columnType({ kind, width }: GeneratedColumn): DataType {
    if (kind === "utf8") return new Utf8();
    if (kind === "float") return width === 4 ? new Float32() : new Float64();
    return (integerTypes[width] ?? (() => new Int64()))();
}

export function generatedSchema(request: GenerateRequest): Schema {
    if (request.kind === "table") return tableSchema(request, request.dictionary);
    const { name, width } = request.key;
    const key = new Field(name, width === 4 ? new Int32() : new Int64(), false);
    return new Schema([key, ...request.payload.map((column) => new Field(column.name, columnType(column), false))]);
}

function rowBytes(request: GenerateRequest): number {
    if (request.kind === "table") return tableRowBytes(request);
    return request.payload.reduce<number>((sum, column) => sum + column.width + 4, request.key.width);
}

// Each batch costs its reader a message to decode (50 us in Arrow JS), which at this size is nothing, and the batches
// of all workers are still small next to most budgets.
const batchBytes = 16 * 1024 * 1024;
const batchRowsRange = [1024, 512 * 1024] as const;

interface Size {
    batchRows: number;
    workers: number;
    bytes: number;
}

/** Rows per batch and workers so that the batches in flight fit the budget. */
function sizeFor(request: GenerateRequest, threads: number, budgetBytes: number): Size {
    const row = rowBytes(request);
    for (let workers = threads; ; workers = Math.ceil(workers / 2)) {
        // Each worker fills one batch and hands on another; text columns double their buffers as they grow.
        const perBatch = budgetBytes / (workers * 4 + 8);
        const fitting = powerOfTwoAtMost(Math.min(batchBytes, perBatch) / row);
        const batchRows = request.batchRows || clamp(fitting, ...batchRowsRange);
        const bytes = batchRows * row * (workers * 4 + 4);
        if (bytes <= budgetBytes || workers === 1) return { batchRows, workers, bytes };
    }
}

function dictionaryFields(schema: Schema): Dictionary[] {
    return schema.fields.map(({ type }): unknown => type).filter((type) => DataType.isDictionary(type));
}

async function generateInto(
    job: Job,
    request: GenerateRequest,
    schema: Schema,
    size: Size,
    sink: SinkHandle
): Promise<number> {
    const { batchRows, workers } = size;
    const { binding, handle } = job;
    if (request.kind === "table") {
        const { benchmark, table, scale, seed, part, parts } = request;
        const dictionaryIds = dictionaryFields(schema).map(({ id }) => id);
        const spec = { benchmark, table, scale, seed, part, parts, dictionaryIds, batchRows, workers };
        return await binding.generateTable(handle, spec, sink);
    }
    const { rows, seed, key, payload } = request;
    return await binding.generate(handle, { rows, seed, key, payload, batchRows, workers }, sink);
}

/** The dictionaries of the columns that have one. */
function generatedDictionaries(binding: Binding, request: GenerateRequest): Dictionaries {
    if (request.kind !== "table" || !request.dictionary) return [];
    const { benchmark, table } = request;
    return binding.generatedDictionaries(benchmark, table).map((words) => vectorFromArray(words, new Utf8()));
}

async function admit(runner: QueryRunner, job: Job, request: GenerateRequest): Promise<Size> {
    const limit = runner.memory().limitBytes;
    const size = sizeFor(request, runner.threads, limit / 2);
    if (size.bytes > limit) throw budgetTooSmall(size.bytes, limit, "are allowed", "Generating");
    const needs = { minimumBytes: () => size.bytes, wantedBytes: size.bytes, waitsForUser: false };
    await runner.admitRequest(job, needs);
    return size;
}

/** Generates straight into an Arrow file. */
export async function generateToFile(
    runner: QueryRunner,
    request: GenerateRequest,
    path: string,
    run: RunRequest
): Promise<number> {
    return await runner.runJob(run.signal, async (job) => {
        const { binding, handle } = job;
        const schema = generatedSchema(request);
        const size = await admit(runner, job, request);
        const sink = binding.createFileSink(handle, resultColumns(schema), {
            path,
            schemaMessage: encodeSchemaMessage(schema),
            overwrite: run.overwrite ?? false,
            batchRows: size.batchRows,
            batchBytes: size.bytes
        });
        job.onEnd(() => binding.closeSink(sink));
        const stop = watch(job, request, run);
        try {
            const rows = await generateInto(job, request, schema, size, sink);
            const { dictionaries, records } = binding.fileBlocks(sink);
            await binding.finishFileSink(handle, sink, encodeFooter(schema, dictionaries, records));
            stop(true);
            return rows;
        } finally {
            stop(false);
        }
    });
}

/** Generates a table in memory. It is the caller's and does not count against the budget. */
export async function generateToMemory(
    runner: QueryRunner,
    request: GenerateRequest
): Promise<{ table: Table; name: string }> {
    return await runner.runJob(undefined, async (job) => {
        const { binding, handle } = job;
        const schema = generatedSchema(request);
        const columns = resultColumns(schema);
        const size = await admit(runner, job, request);
        const sink = binding.createQueueSink(handle, columns, {
            batchRows: size.batchRows,
            batchBytes: size.bytes,
            maxBatches: 2,
            kept: true
        });
        let open = true;
        const close = (): void => {
            if (open) binding.closeSink(sink);
            open = false;
        };
        job.onEnd(close);
        const done = generateInto(job, request, schema, size, sink);
        // Reported below, after the queue has ended: a stage that failed before it began has not ended it.
        done.catch(close);
        const batches: RecordBatch[] = [];
        const words = generatedDictionaries(binding, request);
        try {
            for (let batch = await binding.nextBatch(sink); batch !== null; batch = await binding.nextBatch(sink)) {
                batches.push(recordBatchOf(schema, columns, batch, words));
            }
        } catch (error) {
            close();
            await done; // why the queue was closed, if the stage failed
            throw error;
        }
        await done;
        const table = batches.length === 0 ? new Table(schema) : new Table(batches);
        return { table, name: request.kind === "table" ? request.table : "generated" };
    });
}

function expectedRows(request: GenerateRequest): number {
    if (request.kind === "relation") return request.rows;
    return Math.round(expectedTableRows(request, request.scale) / request.parts);
}

/** Calls onProgress ten times a second until stopped. */
function watch(job: Job, request: GenerateRequest, run: RunRequest): (done: boolean) => void {
    const { onProgress } = run;
    if (onProgress === undefined) return () => undefined;
    const total = expectedRows(request);
    const started = performance.now();
    const report = (done: boolean): void => {
        const { rowsOut, bytesOut } = job.progress();
        const fraction = done ? 1 : Math.min(0.999, rowsOut / Math.max(1, total));
        const elapsedMs = performance.now() - started;
        const etaMs = done ? 0 : fraction < 0.02 ? null : (elapsedMs * (1 - fraction)) / fraction;
        const counts = { rows: rowsOut, bytes: bytesOut, spilledBytes: 0, rowsOut, totalRows: total };
        show(onProgress, { phase: "generate", ...counts, fraction, etaMs, elapsedMs, done });
    };
    const timer = setInterval(() => report(false), 100);
    timer.unref();
    return (done) => {
        clearInterval(timer);
        if (done) report(true);
    };
}
