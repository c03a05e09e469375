// SPDX-License-Identifier: Apache-2.0
// A binding without an engine: notes every call, keeps count of open handles, answers with made-up sizes.
import type { Binding, NativeJoined, NativeOutputBatch, NativePartitionSpec } from "../../src/native/binding.js";
import { memoryModel } from "./device-memory.js";
import { machine } from "./planning.js";

type Calls = Partial<Record<keyof Binding, (...args: never[]) => unknown>>;

interface FakeHandle {
    kind: string;
    cancelled?: boolean;
    spec?: NativePartitionSpec;
}

export class FakeBinding {
    readonly calls: string[] = [];
    readonly open = new Set<FakeHandle>();
    readonly jobs: FakeHandle[] = [];
    /** Batches that a queue delivers. */
    batches: NativeOutputBatch[] = [];
    usedBytes = 0;

    constructor(private readonly overrides: Calls = {}) {}

    #make(kind: string, more: Partial<FakeHandle> = {}): never {
        const handle: FakeHandle = { kind, ...more };
        this.open.add(handle);
        return handle as never;
    }

    /** Kinds of the handles that nobody closed. */
    get leftOpen(): string[] {
        return [...this.open].map((handle) => handle.kind);
    }

    get binding(): Binding {
        const methods = { ...this.#methods(), ...this.overrides };
        const noted = Object.entries(methods).map(([name, method]) => [
            name,
            (...args: never[]): unknown => {
                this.calls.push(name);
                return method(...args);
            }
        ]);
        const binding = Object.fromEntries(noted) as Binding;
        if (!("partitionAndJoin" in methods)) binding.partitionAndJoin = this.#bothStages(binding);
        if (!("fillPartitions" in methods)) binding.fillPartitions = this.#allStages(binding);
        return binding;
    }

    /** Noted as the calls that it stands for. */
    #bothStages(binding: Binding): Binding["partitionAndJoin"] {
        return async (job, build, buildSource, ...join) => {
            await binding.partitionSource(job, build, buildSource);
            const { totalRows } = await binding.finishPartitions(job, build);
            const rows = await binding.joinStreaming(job, build, ...join);
            return { rows, builds: [{ rowsIn: totalRows, rows: totalRows, elapsedMs: 0 }] };
        };
    }

    #allStages(binding: Binding): Binding["fillPartitions"] {
        return async (job, sets, sources) => {
            const filled = [];
            for (const [i, set] of sets.entries()) {
                await binding.partitionSource(job, set, sources[i]!);
                const sizes = await binding.finishPartitions(job, set);
                filled.push({ sizes, rowsIn: sizes.totalRows, elapsedMs: 0 });
            }
            return filled;
        };
    }

    #sizes(spec: NativePartitionSpec) {
        const partitions = 2 ** spec.radixBits + 1;
        const rows = new Float64Array(partitions).fill(10);
        const bytes = rows.map((count) => count * 16);
        const totalRows = partitions * 10;
        return { rows, bytes, spilledBytes: new Float64Array(partitions), rowBytes: 16, totalRows, heldBytes: 4096 };
    }

    #methods(): Calls {
        const close = (handle: FakeHandle): void => {
            if (!this.open.delete(handle)) throw new Error(`${handle.kind} closed twice`);
        };
        const rows = (): Promise<number> => Promise.resolve(42);
        const joined = (...of: unknown[]): Promise<NativeJoined> => {
            const builds = (of.at(-1) as unknown[]).map(() => ({ rowsIn: 10, rows: 10, elapsedMs: 0 }));
            return Promise.resolve({ rows: 42, builds });
        };
        const nothing = (): Promise<void> => Promise.resolve();
        return {
            machine: () => machine,
            createEngine: () => this.#make("engine"),
            engineMemory: () => ({ limitBytes: 2 ** 28, usedBytes: this.usedBytes, peakBytes: 5, relationBytes: 0 }),
            deliveredMemory: () => ({ aliveBytes: 0, unusedBytes: 2 ** 28, readBytes: 0, limitBytes: 2 ** 28 }),
            releaseMemory: () => undefined,
            closeEngine: close,
            drainEngine: nothing,
            trimEngine: nothing,
            trimCache: () => undefined,
            createJob: () => {
                this.jobs.push({ kind: "job" });
                return this.jobs.at(-1);
            },
            cancelJob: (job: FakeHandle) => (job.cancelled = true),
            waitForJob: () => undefined,
            runStagesHere: () => undefined,
            jobProgress: () => ({
                ...{ rowsIn: 0, bytesIn: 0, rowsOut: 0, bytesOut: 0 },
                ...{ spilledBytes: 0, unspilledBytes: 0, partitionsDone: 0 }
            }),
            openSource: () => Promise.resolve(this.#make("source")),
            closeSource: close,
            keptMemory: () => "always",
            checkMemory: () => undefined,
            // Long ones, which stay references.
            longestTexts: (_job: never, _source: never, columns: number[]) => Promise.resolve(columns.map(() => 1000)),
            keyStatistics: () =>
                Promise.resolve({
                    ...{ rows: 1e6, nulls: 0, min: 0n, max: 10n },
                    ...{ sampledRows: 1000, sampledDistinct: 1000, heaviestShare: 0 }
                }),
            keyPairs: () => Promise.resolve(1e6),
            createPartitions: (_: unknown, spec: NativePartitionSpec) => this.#make("partitions", { spec }),
            partitionSource: nothing,
            finishPartitions: (_: unknown, handle: FakeHandle) => Promise.resolve(this.#sizes(handle.spec!)),
            closePartitions: close,
            joinPartitions: rows,
            joinStreaming: rows,
            joinPipeline: joined,
            groupPipeline: joined,
            joinArray: rows,
            groupPartitions: rows,
            groupSource: rows,
            createCountSink: () => this.#make("sink"),
            createQueueSink: () => this.#make("sink"),
            nextBatch: () => Promise.resolve(this.batches.shift() ?? null),
            createFileSink: () => this.#make("sink"),
            fileBlocks: () => ({ dictionaries: [], records: [] }),
            finishFileSink: nothing,
            createPartitionSink: () => this.#make("sink"),
            closeSink: close,
            ...memoryModel
        };
    }
}
