// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import type { DevicePiecesHandle, DeviceTableHandle, SinkHandle, SourceHandle } from "../native/binding.js";
import { deviceGroupAlgorithms, deviceJoinAlgorithms } from "../model/algorithms.js";
import type { NativeDeviceJoin, NativeDeviceReport, NativeDeviceTable } from "../native/device-binding.js";
import type {
    DeliverStage,
    DeviceGroupStage,
    DeviceJoinStage,
    DeviceStage,
    UploadStage
} from "../plan/device-stages.js";
import type { OutOfCoreGroupStage } from "../plan/out-of-core-group-stage.js";
import type { OutOfCoreStage } from "../plan/out-of-core-stage.js";
import type { OutOfCoreTreeStage } from "../plan/out-of-core-tree-stage.js";
import type { InputInfo } from "../plan/logical.js";
import type { Plan } from "../plan/plan.js";
import type { HeldRows } from "../plan/stage.js";
import { holdRows, type InnerOperators } from "./held-rows.js";
import type { Job } from "./job.js";
import type { ProgressTracker } from "./progress-tracker.js";
import {
    operationReport,
    outOfCoreGroupReport,
    outOfCoreReport,
    outOfCoreTreeReport,
    uploadedBytes
} from "./run-report.js";
import { StreamFeeds, type StreamObserver } from "./stream-input.js";

/** A query's turn on the GPU. */
export interface DeviceTurn {
    /** Others may compute there. `keptBytes`: GPU memory that the query still holds; all of its plan's if left out. */
    leave: (keptBytes?: number) => void;
    /** The query holds nothing there any more. Calling it again does nothing. */
    end: () => void;
}

interface DeviceRunParts {
    job: Job;
    plan: Plan;
    inputs: readonly InputInfo[];
    streams: StreamObserver;
    tracker: ProgressTracker;
    openSink: () => Promise<SinkHandle>;
    inner: InnerOperators;
    deviceTurn?: () => Promise<DeviceTurn>;
}

/** Runs the stages of a plan for the GPU; tables stay there from stage to stage. */
export class DeviceRun {
    readonly #tables = new Map<number, DeviceTableHandle>();
    /** The last join, where its result leaves the GPU in pieces: in place of the table that it would make. */
    #pieces: { handle: DevicePiecesHandle; table: number; rowsMax: number; planned: boolean } | undefined;
    #turn: DeviceTurn | undefined;
    /** Rows of earlier stages, by the number of the input that they are. */
    readonly #held = new Map<number, SourceHandle>();
    /** Rows of the stage before. */
    #rows = 0;

    public constructor(
        private readonly parts: DeviceRunParts,
        private readonly sourceOf: (input: number) => SourceHandle
    ) {}

    /** Resolves with the number of rows. */
    public async stage(stage: DeviceStage): Promise<number> {
        // Rows may wait for their reader, whose code may run queries of its own: those must find the GPU free.
        if (stage.kind === "deliver") this.#turn?.leave(this.#keptBytes(stage));
        else this.#turn ??= await this.parts.deviceTurn?.();
        const rows = await this.#run(stage);
        this.#rows = rows;
        for (const table of stage.frees) this.#free(table);
        return rows;
    }

    /** Frees all tables; the last act, whatever happened. */
    public close(): void {
        for (const id of [...this.#tables.keys()]) this.#free(id);
        if (this.#pieces !== undefined) this.parts.job.binding.closePieces(this.#pieces.handle);
        this.#pieces = undefined;
        this.#turn?.end();
        this.#turn = undefined;
    }

    /** What is held while rows are delivered: the table of the result, or all that its pieces are made of. */
    #keptBytes(stage: DeliverStage): number | undefined {
        const rowBytes = stage.bytes / Math.max(1, stage.rowsIn);
        if (this.#pieces === undefined) return Math.ceil(this.#rows * rowBytes);
        const { estimatedBytes = 0, limitBytes = 0 } = this.parts.plan.deviceMemory ?? {};
        const pieceBytes = this.#pieces.planned ? 0 : this.#pieces.rowsMax * rowBytes;
        return Math.min(estimatedBytes + pieceBytes, limitBytes);
    }

    #free(id: number): void {
        const table = this.#tables.get(id);
        if (table !== undefined) this.parts.job.binding.closeTable(table);
        this.#tables.delete(id);
    }

    #table(id: number): DeviceTableHandle {
        const table = this.#tables.get(id);
        if (table === undefined) throw new SpillwayError("INTERNAL", `The plan has no device table ${id}`);
        return table;
    }

    #keep(id: number, made: NativeDeviceTable): number {
        this.#tables.set(id, made.table);
        return made.rows;
    }

    async #run(stage: DeviceStage): Promise<number> {
        switch (stage.kind) {
            case "upload":
                return await this.#upload(stage);
            case "deviceJoin":
                return await this.#join(stage);
            case "deviceGroup":
                return await this.#group(stage);
            case "deliver":
                return await this.#deliver(stage);
            case "deviceOutOfCoreJoin":
                return await this.#outOfCore(stage);
            case "deviceOutOfCoreGroupBy":
                return await this.#outOfCoreGroup(stage);
            case "deviceOutOfCoreTree":
                return await this.#outOfCoreTree(stage);
        }
    }

    /** A source for one reading of an input: rows of a stream are fed to the stage while it runs. */
    #read(feeds: StreamFeeds, index: number): SourceHandle {
        const input = this.parts.inputs[index];
        const held = this.#held.get(index);
        if (held !== undefined) return held;
        return input?.streamed === true ? feeds.open(input) : this.sourceOf(index);
    }

    #feeds(): StreamFeeds {
        const { job, plan, streams } = this.parts;
        return new StreamFeeds(job, plan.streamGroupBytes, streams);
    }

    /** Rows may wait for code of the caller's, which may run queries of its own: those must find the GPU free. */
    #leaveTurn(feeds: StreamFeeds, holds?: HeldRows): void {
        const waits = this.parts.plan.sink === "batches" && holds === undefined;
        if (waits || feeds.count > 0) this.#turn?.leave();
    }

    /** Runs a stage that gives rows to the query's sink, unless they are counted, or whose rows are held. */
    async #giving<T>(
        { holds, counted }: { holds?: HeldRows | undefined; counted: boolean },
        run: (sink?: SinkHandle, stopped?: () => unknown) => Promise<T>
    ): Promise<T> {
        const { job, plan, inner } = this.parts;
        if (holds === undefined) return await run(counted ? undefined : await this.parts.openSink());
        const { report, source } = await holdRows(job, inner.of(holds.operator), { ...holds, plan }, run);
        this.#held.set(holds.input, source);
        return report;
    }

    async #outOfCore(stage: OutOfCoreStage): Promise<number> {
        const { job, plan, tracker } = this.parts;
        const { layout, sizes, coherent, baseline } = stage;
        const feeds = this.#feeds();
        const [build, probe] = [this.#read(feeds, stage.buildInput), this.#read(feeds, stage.probeInput)];
        const { gathered: _, join, ...decided } = layout;
        const packed = (input: number): boolean => stage.packed.includes(input);
        const sides = {
            build: { ...layout.build, packed: packed(stage.buildInput) },
            probe: { ...layout.probe, packed: packed(stage.probeInput) }
        };
        const spec = {
            ...{ ...decided, ...sides, packsResults: stage.packsResults },
            ...{ join: { ...join, sizes, coherent, baseline }, workers: plan.threads }
        };
        const { holds } = stage;
        const report = await this.#giving({ holds, counted: join.result === "count" }, async (sink, stopped) => {
            this.#leaveTurn(feeds, holds);
            return await feeds.whileFed(() => job.binding.joinOutOfCore(job.handle, build, probe, spec, sink), stopped);
        });
        tracker.uploaded(report.h2dBytes + report.savedBytes - report.spilledBytes.build - report.spilledBytes.probe);
        tracker.operated(outOfCoreReport(stage, report));
        return report.rows;
    }

    async #outOfCoreGroup(stage: OutOfCoreGroupStage): Promise<number> {
        const { job, plan, tracker } = this.parts;
        const { layout, sizes } = stage;
        const feeds = this.#feeds();
        const source = this.#read(feeds, stage.input);
        const side = { ...layout.side, packed: stage.packed.includes(stage.input) };
        const spec = { ...layout, side, group: { ...layout.group, sizes }, workers: plan.threads };
        const { holds } = stage;
        const report = await this.#giving({ holds, counted: plan.sink === "count" }, async (sink, stopped) => {
            this.#leaveTurn(feeds, holds);
            return await feeds.whileFed(() => job.binding.groupOutOfCore(job.handle, source, spec, sink), stopped);
        });
        tracker.uploaded(report.h2dBytes + report.savedBytes - report.spilledBytes);
        tracker.operated(outOfCoreGroupReport(stage, report));
        return report.rows;
    }

    async #outOfCoreTree(stage: OutOfCoreTreeStage): Promise<number> {
        const { job, plan, tracker } = this.parts;
        const { operators } = stage;
        const result = { ...stage.result, ...(stage.result.kind === "join" ? { packed: stage.packsResults } : {}) };
        const feeds = this.#feeds();
        const sources = stage.flows.map(({ input }) => this.#read(feeds, input));
        const flows = stage.flows.map(({ input, side, ...flow }, source) => {
            return { ...flow, side: { ...side, packed: stage.packed.includes(input) }, source };
        });
        const startedMs = performance.now();
        const spec = { operators, flows, result, workers: plan.threads };
        const { holds } = stage;
        const report = await this.#giving({ holds, counted: plan.sink === "count" }, async (sink, stopped) => {
            this.#leaveTurn(feeds, holds);
            return await feeds.whileFed(() => job.binding.runTreeOutOfCore(job.handle, sources, spec, sink), stopped);
        });
        tracker.uploaded(uploadedBytes(report));
        tracker.operated(outOfCoreTreeReport(stage, report, performance.now() - startedMs));
        return report.rows;
    }

    async #upload(stage: UploadStage): Promise<number> {
        const { job, plan } = this.parts;
        const made = await job.binding.uploadTable(job.handle, this.sourceOf(stage.input), {
            columns: stage.columns.map((column) => ({ ...column })),
            stagingBytes: stage.memory.inputBytes,
            workers: plan.threads
        });
        this.parts.tracker.uploaded(made.bytes);
        this.parts.tracker.sent(made.sentBytes);
        return this.#keep(stage.table, made);
    }

    async #join(stage: DeviceJoinStage): Promise<number> {
        const { job } = this.parts;
        const spec: NativeDeviceJoin = { ...stage.spec, firstKey: BigInt(stage.spec.firstKey) };
        const build = this.#table(stage.build);
        const probe = this.#table(stage.probe);
        if (stage.table === null) {
            const { rows, report } = await job.binding.countTableJoin(job.handle, build, probe, spec);
            this.#operated(stage, report);
            return rows;
        }
        const { table, pieces } = stage;
        if (pieces === null || !pieces.planned) {
            try {
                const made = await job.binding.joinTables(job.handle, build, probe, spec);
                this.#operated(stage, made.report);
                return this.#keep(table, made);
            } catch (error) {
                if (pieces === null || !lacksDeviceMemory(error)) throw error;
                job.check();
            }
        }
        const begun = await job.binding.beginJoinPieces(job.handle, build, probe, { ...spec, algorithm: "phj-tr" });
        this.#operated(stage, begun.report);
        this.#pieces = { handle: begun.pieces, table, rowsMax: pieces.rowsMax, planned: pieces.planned };
        return begun.rows;
    }

    async #group(stage: DeviceGroupStage): Promise<number> {
        const { job } = this.parts;
        const made = await job.binding.groupTable(job.handle, this.#table(stage.from), stage.spec);
        this.#operated(stage, made.report);
        return this.#keep(stage.table, made);
    }

    #operated({ kind, spec, chosenBy }: DeviceJoinStage | DeviceGroupStage, report: NativeDeviceReport): void {
        const ran = (kind === "deviceJoin" ? deviceJoinAlgorithms : deviceGroupAlgorithms)[report.algorithm];
        this.parts.tracker.operated(operationReport(spec.algorithm, chosenBy, ran, report));
    }

    async #deliver(stage: DeliverStage): Promise<number> {
        const { job, plan } = this.parts;
        const sink = await this.parts.openSink();
        const spec = {
            columns: stage.columns.map((column) => ({ ...column })),
            stagingBytes: stage.memory.inputBytes,
            workers: plan.threads,
            packed: stage.packed
        };
        const join = this.#pieces;
        if (join?.table !== stage.from) {
            const { rows, sentBytes } = await job.binding.deliverTable(job.handle, this.#table(stage.from), spec, sink);
            this.parts.tracker.sent(sentBytes);
            return rows;
        }
        const { rowsMax, handle } = join;
        const told = await job.binding.deliverPieces(job.handle, handle, { ...spec, rowsMax }, sink);
        this.parts.tracker.sent(told.sentBytes);
        this.parts.tracker.delivered(told.pieces);
        return told.rows;
    }
}

/** Did a stage fail because the GPU has not enough memory for it? */
function lacksDeviceMemory(error: unknown): boolean {
    const { code, details } = (error ?? {}) as { code?: unknown; details?: { tier?: unknown } };
    return (code === "BUDGET_TOO_SMALL" || code === "OUT_OF_MEMORY") && details?.tier === "device";
}
