// SPDX-License-Identifier: Apache-2.0
import {
    DateDay,
    Decimal,
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
    type DataType,
    type RecordBatch
} from "apache-arrow";

import { recordBatchOf, resultColumns } from "../arrow/batch-from-native.js";
import { encodeFooter, encodeSchemaMessage } from "../arrow/ipc-encoding.js";
import { clamp, powerOfTwoAtMost } from "../model/sizes.js";
import type { NativeGenerateSpec, SinkHandle } from "../native/binding.js";
import { budgetTooSmall } from "../planner/plan-query.js";
import type { Job } from "../execute/job.js";
import { show } from "../execute/progress-tracker.js";
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
    | { kind: "tpch"; table: "orders" | "lineitem"; scale: number; seed: bigint; batchRows: number };

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

const money = (): DataType => new Decimal(2, 15, 128);

/** Columns in the order of native/generate/generate_spec.hpp. */
const tpchColumns = {
    orders: {
        o_orderkey: () => new Int64(),
        o_custkey: () => new Int64(),
        o_orderstatus: () => new Utf8(),
        o_totalprice: money,
        o_orderdate: () => new DateDay(),
        o_orderpriority: () => new Utf8(),
        o_clerk: () => new Utf8(),
        o_shippriority: () => new Int32(),
        o_comment: () => new Utf8()
    },
    lineitem: {
        l_orderkey: () => new Int64(),
        l_partkey: () => new Int64(),
        l_suppkey: () => new Int64(),
        l_linenumber: () => new Int32(),
        l_quantity: money,
        l_extendedprice: money,
        l_discount: money,
        l_tax: money,
        l_returnflag: () => new Utf8(),
        l_linestatus: () => new Utf8(),
        l_shipdate: () => new DateDay(),
        l_commitdate: () => new DateDay(),
        l_receiptdate: () => new DateDay(),
        l_shipinstruct: () => new Utf8(),
        l_shipmode: () => new Utf8(),
        l_comment: () => new Utf8()
    }
} as const;

// Mean bytes of a row of text and numbers, for batch sizes only.
const tpchRowBytes = { orders: 140, lineitem: 180 } as const;

export function generatedSchema(request: GenerateRequest): Schema {
    if (request.kind === "tpch") {
        const columns: Record<string, () => DataType> = tpchColumns[request.table];
        return new Schema(Object.entries(columns).map(([name, type]) => new Field(name, type(), false)));
    }
    const { name, width } = request.key;
    const key = new Field(name, width === 4 ? new Int32() : new Int64(), false);
    return new Schema([key, ...request.payload.map((column) => new Field(column.name, columnType(column), false))]);
}

function rowBytes(request: GenerateRequest): number {
    if (request.kind === "tpch") return tpchRowBytes[request.table];
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

async function generateInto(job: Job, request: GenerateRequest, size: Size, sink: SinkHandle): Promise<number> {
    const { batchRows, workers } = size;
    const { binding, handle } = job;
    if (request.kind === "tpch") {
        const { table, scale, seed } = request;
        return await binding.generateTpch(handle, { table, scale, seed, batchRows, workers }, sink);
    }
    const { rows, seed, key, payload } = request;
    return await binding.generate(handle, { rows, seed, key, payload, batchRows, workers }, sink);
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
            const rows = await generateInto(job, request, size, sink);
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
        const done = generateInto(job, request, size, sink);
        // Reported below, after the queue has ended: a stage that failed before it began has not ended it.
        done.catch(close);
        const batches: RecordBatch[] = [];
        try {
            for (let batch = await binding.nextBatch(sink); batch !== null; batch = await binding.nextBatch(sink)) {
                batches.push(recordBatchOf(schema, columns, batch, []));
            }
        } catch (error) {
            close();
            await done; // why the queue was closed, if the stage failed
            throw error;
        }
        await done;
        const table = batches.length === 0 ? new Table(schema) : new Table(batches);
        return { table, name: request.kind === "tpch" ? request.table : "generated" };
    });
}

// About 1.5 million orders with four lines each, at scale 1.
const tpchRows = { orders: 1_500_000, lineitem: 6_000_000 } as const;

/** Calls onProgress ten times a second until stopped. */
function watch(job: Job, request: GenerateRequest, run: RunRequest): (done: boolean) => void {
    const { onProgress } = run;
    if (onProgress === undefined) return () => undefined;
    const total = request.kind === "tpch" ? Math.round(tpchRows[request.table] * request.scale) : request.rows;
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
