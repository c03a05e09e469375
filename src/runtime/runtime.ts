// SPDX-License-Identifier: Apache-2.0
import type { RecordBatch, Schema, Table, TypeMap } from "apache-arrow";

import { memoryInput, streamInput } from "./inputs.js";
import { generateToFile, generateToMemory } from "./generate.js";
import type { PeerMemory } from "./query-device.js";
import type { QueryRunner } from "./query-runner.js";
import { checkStatedSchema, requireStatedSchema } from "../arrow/stated-schema.js";
import type { DeviceInfo } from "../machine/devices.js";
import type { MachineInfo } from "../machine/machine.js";
import {
    checkFunction,
    checkInteger,
    checkOptions,
    checkPath,
    checkText,
    invalidArgument,
    readArgument
} from "../model/arguments.js";
import type {
    AggregateOf,
    GroupColumns,
    JoinColumns,
    JoinOn,
    JoinType,
    Name,
    Selected
} from "../model/schema-types.js";
import { fileInput } from "./inputs.js";
import { checkFileOptions } from "./check-options.js";
import { checkGenerateOptions, type GenerateOptions } from "./generate-options.js";
import type { FileOptions, FromArrowFileOptions, FromBatchesOptions, GroupByOptions, NameOption } from "./options.js";
import { makeJoin, Relation, Source, type Input, type JoinOptions, type Query } from "./query.js";

/** Bytes of host memory and spill that the engine holds. */
export interface MemoryState {
    host: { limitBytes: number; usedBytes: number; peakBytes: number };
    /** Memory of another GPU: there where `memory.peer` has opened one, as soon as a query has opened the GPU. */
    peer?: PeerMemory;
    spillDirectory: string;
}

/** What openRuntime found and decided. @internal */
export interface RuntimeParts {
    readonly runner: QueryRunner;
    readonly machine: MachineInfo;
    /** Looks for GPUs at the first call. */
    readonly devices: () => readonly DeviceInfo[];
    readonly spillDirectory: string;
}

/** Engine, memory budget and threads. Open one with {@link openRuntime}; close it when done. */
export class Runtime {
    readonly #parts: RuntimeParts;

    /** @internal */
    public constructor(parts: RuntimeParts) {
        this.#parts = parts;
    }

    /**
     * A relation of one or several Arrow IPC files (file or stream format) of equal schema. Reads footers and message
     * headers only.
     *
     * With the option `schema` the columns are checked, and the relation's type follows from them. A type argument
     * alone (`fromArrowFile<{ id: Int64 }>(path)`) tells the compiler what you know and is not checked.
     */
    public async fromArrowFile<T extends TypeMap = TypeMap>(
        path: string | URL | readonly (string | URL)[],
        options?: FromArrowFileOptions<T>
    ): Promise<Relation<T>> {
        const { runner } = this.#parts;
        runner.checkOpen();
        const given = checkOptions(options, "", ["name", "schema"]);
        const name = given["name"] === undefined ? undefined : checkText(given["name"], "name");
        const stated = given["schema"] === undefined ? undefined : checkStatedSchema(given["schema"]);
        const files = await runner.openFiles(path);
        if (stated !== undefined) requireStatedSchema(stated, files.schema, files.paths[0] ?? "");
        return new Relation<T>(runner, fileInput(files, name));
    }

    /** A relation of rows in memory, without a copy: tables or record batches. They must not change while in use. */
    public fromTable<T extends TypeMap = TypeMap>(
        table: Table<T> | RecordBatch<T> | readonly (RecordBatch<T> | Table<T>)[],
        options?: NameOption
    ): Relation<T> {
        const { runner } = this.#parts;
        runner.checkOpen();
        return new Relation<T>(runner, memoryInput(table, nameOption(options) ?? "table", runner.keptMemory));
    }

    /**
     * A relation of record batches (or tables of them) that arrive one after the other, in bounded memory. `open` is
     * called for each run of a query, so it must be able to deliver the rows again if more than one query is run. A
     * batch must not change before the query has ended: yield new ones instead of filling the same buffers again.
     * A query that ends early calls the iterator's `return()`; one that is aborted waits neither for that nor for a
     * pending `next()`.
     */
    public fromBatches<T extends TypeMap = TypeMap>(
        schema: Schema<T>,
        open: () => AsyncIterable<RecordBatch<T> | Table<T>>,
        options?: FromBatchesOptions
    ): Relation<T> {
        const { runner } = this.#parts;
        runner.checkOpen();
        if (typeof open !== "function") checkFunction(open, "open");
        const given = checkOptions(options, "", ["rows", "name"]);
        const rows = given["rows"] === undefined ? undefined : checkInteger(given["rows"], "rows", 0);
        const name = given["name"] === undefined ? "batches" : checkText(given["name"], "name");
        return new Relation<T>(runner, streamInput(schema, open, name, rows));
    }

    /** Joins two relations or queries. Nothing runs until a result is asked for. */
    public join<
        L extends TypeMap,
        R extends TypeMap,
        const On extends JoinOn<L, R>,
        const Kind extends JoinType = "inner",
        const Suffix extends string = "_right",
        const Select extends readonly string[] = readonly Name<JoinColumns<L, R, On, Kind, Suffix>>[]
    >(
        options: JoinOptions<L, R, On, Kind, Suffix, Select>
    ): Query<Selected<JoinColumns<L, R, On, Kind, Suffix>, Select>> {
        this.#parts.runner.checkOpen();
        return makeJoin(options);
    }

    /** Groups a relation or query: the same as `input.groupBy(options)`. */
    public groupBy<
        T extends TypeMap,
        const Keys extends readonly Name<T>[] = readonly [],
        const Aggregates extends Readonly<Record<string, AggregateOf<Name<T>>>> = Readonly<Record<never, never>>
    >(input: Input<T>, options: GroupByOptions<T, Keys, Aggregates>): Query<GroupColumns<T, Keys, Aggregates>> {
        const isSource = readArgument("input", () => input instanceof Source);
        if (!isSource) throw invalidArgument("input", "a relation or a query", input);
        return input.groupBy(options);
    }

    /**
     * Generates a relation natively, in parallel and repeatably: into an Arrow file that `fromArrowFile` reads, or
     * into memory.
     */
    public async generate(
        options: GenerateOptions,
        target: "memory" | ({ path: string | URL } & Omit<FileOptions, "batchRows">)
    ): Promise<Relation> {
        const { runner } = this.#parts;
        runner.checkOpen();
        const request = checkGenerateOptions(options);
        if (target === "memory") {
            const { table, name } = await generateToMemory(runner, request);
            return new Relation(runner, memoryInput(table, name, runner.keptMemory));
        }
        if (typeof target !== "object" || target === null) {
            throw invalidArgument("target", '"memory" or { path }', target);
        }
        const { path, ...rest } = readArgument("target", () => ({ ...target }));
        const file = checkPath(path, "target.path");
        await generateToFile(runner, request, file, checkFileOptions(rest));
        return await this.fromArrowFile(file);
    }

    /**
     * Devices that were found, whether they are used, and if not why. The first call of a process asks the GPU driver,
     * which takes it some tenths of a second where there are GPUs.
     */
    public devices(): readonly DeviceInfo[] {
        return this.#parts.devices();
    }

    /** Cores, caches, memory and NUMA nodes of this machine. */
    public machine(): MachineInfo {
        return this.#parts.machine;
    }

    /** Memory of the engine now and at its peak. */
    public memory(): MemoryState {
        const { runner, spillDirectory } = this.#parts;
        const { limitBytes, usedBytes, peakBytes } = runner.memory();
        const peer = runner.device.peer();
        return { host: { limitBytes, usedBytes, peakBytes }, ...(peer === undefined ? {} : { peer }), spillDirectory };
    }

    /** Threads that a stage uses. */
    public get threads(): number {
        return this.#parts.runner.threads;
    }

    /** True after `close()`. */
    public get closed(): boolean {
        return this.#parts.runner.closed;
    }

    /** Cancels running queries, waits for them and frees everything. Calling it again does nothing more. */
    public async close(): Promise<void> {
        await this.#parts.runner.close();
    }

    public async [Symbol.asyncDispose](): Promise<void> {
        await this.close();
    }
}

function nameOption(options: unknown): string | undefined {
    const given = checkOptions(options, "", ["name"]);
    return given["name"] === undefined ? undefined : checkText(given["name"], "name");
}
