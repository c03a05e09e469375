// SPDX-License-Identifier: Apache-2.0
import type { Progress } from "../model/progress.js";
import type { NativeFilled, NativeJoined, NativeProgress } from "../native/binding.js";
import type { Plan, PlanStage } from "../plan/plan.js";
import { copyReport, type DeviceStageReport, type RunReport, type StageReport } from "./run-report.js";

// Ten a second: smooth for a progress bar, nothing for the event loop.
const intervalMs = 100;
// Below this share the speed is that of start-up and an ETA would jump.
const etaFromFraction = 0.02;

const noProgress: NativeProgress = {
    rowsIn: 0,
    bytesIn: 0,
    rowsOut: 0,
    bytesOut: 0,
    spilledBytes: 0,
    unspilledBytes: 0,
    partitionsDone: 0
};

interface RunningStage {
    stage: PlanStage;
    startedMs: number;
    before: NativeProgress;
    /** Partitions that the stage will visit; 0 while unknown. */
    partitions: number;
    /** What an operation on the GPU says of itself. */
    device?: DeviceStageReport;
    uploadedBytes: number;
    /** Of copies between host and GPU: what crossed the link. */
    sentBytes: number;
}

/** Calls `onProgress`: a progress bar must not break what it shows, nor an asynchronous one end the process. */
export function show(onProgress: (progress: Progress) => unknown, progress: Progress): void {
    try {
        Promise.resolve(onProgress(progress)).catch(() => undefined);
    } catch {
        return;
    }
}

const nothingYet = { partitions: 0, uploadedBytes: 0, sentBytes: 0 };

/** Inputs whose rows a stage reads, those that it reads twice as often. */
function readBy(stage: PlanStage): number[] {
    if (stage.kind === "deviceOutOfCoreTree") return stage.flows.map(({ input }) => input);
    if (stage.kind === "streamingJoin") return [stage.probeInput];
    if (stage.kind === "deviceOutOfCoreJoin") return [stage.buildInput, stage.probeInput];
    return "input" in stage ? [stage.input] : [];
}

type Ran = Pick<StageReport, "actualMs" | "rowsIn" | "rowsOut" | "spilledBytes">;

function stageReport({ name, algorithm, predictedMs }: PlanStage, ran: Ran): StageReport {
    return { name, algorithm, predictedMs, ...ran };
}

/** Watches a running query: calls `onProgress`, and keeps what each stage did for the report. */
export class ProgressTracker {
    readonly #startedMs = performance.now();
    readonly #stages: StageReport[] = [];
    #timer: NodeJS.Timeout | undefined;
    #plan: Plan | undefined;
    #current: RunningStage | undefined;
    /** The engine's figures at the end of the last stage, and so at the beginning of the next one. */
    #atEnd: NativeProgress | undefined;
    #predictedDoneMs = 0;
    #fraction = 0;
    #uploadedBytes = 0;
    #devicePieces = 0;
    #transferMs = 0;
    /** Rows of inputs of which no plan knows how many they have. */
    #streamedRows = 0;

    public constructor(
        private readonly read: () => NativeProgress,
        private readonly onProgress: ((progress: Progress) => void) | undefined
    ) {}

    /** Is somebody told of stages while they run? */
    public get isWatched(): boolean {
        return this.onProgress !== undefined;
    }

    /** A plan begins (again: a query may be planned anew when its groups did not fit). */
    public begin(plan: Plan): void {
        this.#plan = plan;
        this.#predictedDoneMs = 0;
        this.#stages.length = 0;
        this.#uploadedBytes = 0;
        this.#devicePieces = 0;
        this.#transferMs = 0;
        this.#streamedRows = 0;
        this.#atEnd = undefined;
        if (this.onProgress === undefined || this.#timer !== undefined) return;
        this.#timer = setInterval(() => this.#report(false), intervalMs);
        this.#timer.unref();
    }

    public stageBegins(stage: PlanStage): void {
        const before = this.#atEnd ?? this.read();
        this.#current = { stage, startedMs: performance.now(), before, ...nothingYet };
        // A stage that is over before the next interval is seen all the same.
        this.#report(false);
    }

    public stageVisits(partitions: number): void {
        if (this.#current !== undefined) this.#current.partitions = partitions;
    }

    /** Input that a stage has copied to GPU memory. */
    public uploaded(bytes: number): void {
        this.#uploadedBytes += bytes;
        if (this.#current !== undefined) this.#current.uploadedBytes += bytes;
    }

    /** Bytes of a copy to GPU memory or from it that crossed the link. */
    public sent(bytes: number): void {
        if (this.#current !== undefined) this.#current.sentBytes += bytes;
    }

    /** What a join or group-by on the GPU took. */
    public operated(device: DeviceStageReport): void {
        if (this.#current !== undefined) this.#current.device = device;
    }

    /** Pieces in which the result came from the GPU. */
    public delivered(pieces: number): void {
        this.#devicePieces = pieces;
    }

    public stageEnds(rowsOut: number): void {
        const current = this.#current;
        if (current === undefined) return;
        const { stage, before } = current;
        const now = (this.#atEnd = this.read());
        const actualMs = performance.now() - current.startedMs;
        let device = current.device;
        const { uploadedBytes, sentBytes } = current;
        if (stage.kind === "upload") device = copyReport(actualMs, uploadedBytes, sentBytes);
        if (stage.kind === "deliver") device = copyReport(actualMs, now.bytesOut - before.bytesOut, sentBytes);
        if (stage.kind === "upload" || stage.kind === "deliver") this.#transferMs += actualMs;
        this.#streamedRows += this.#streamedBy(stage, now.rowsIn - before.rowsIn);
        const rowsIn = now.rowsIn - before.rowsIn || stage.rowsIn;
        const spilledBytes = now.spilledBytes - before.spilledBytes;
        const report = stageReport(stage, { actualMs, rowsIn, rowsOut, spilledBytes });
        this.#stages.push(device === undefined ? report : { ...report, device });
        this.#predictedDoneMs += stage.predictedMs;
        this.#current = undefined;
    }

    /** Stages from the one that runs on, which make the build sides of a join, and that have ended in one call. */
    public joinEnds(fills: readonly PlanStage[], join: PlanStage, { builds }: NativeJoined, rowsOut: number): void {
        const current = this.#current;
        if (current === undefined) return;
        const now = (this.#atEnd = this.read());
        let rowsIn = now.rowsIn - current.before.rowsIn;
        let actualMs = performance.now() - current.startedMs;
        for (const [i, stage] of fills.entries()) {
            const built = builds[i] as NativeJoined["builds"][number];
            rowsIn -= built.rowsIn;
            actualMs -= built.elapsedMs;
            const ran = { rowsIn: built.rowsIn || stage.rowsIn, rowsOut: built.rows, spilledBytes: 0 };
            this.#stages.push(stageReport(stage, { actualMs: built.elapsedMs, ...ran }));
            this.#predictedDoneMs += stage.predictedMs;
        }
        const spilledBytes = now.spilledBytes - current.before.spilledBytes;
        const ran = { rowsIn: rowsIn || join.rowsIn, rowsOut, spilledBytes, actualMs: Math.max(0, actualMs) };
        this.#stages.push(stageReport(join, ran));
        this.#predictedDoneMs += join.predictedMs;
        this.#current = undefined;
    }

    /** Stages from the one that runs on, which each fill a set, have ended in one call. */
    public fillsEnd(stages: readonly PlanStage[], filled: readonly NativeFilled[]): void {
        this.#atEnd = this.read();
        for (const [i, stage] of stages.entries()) {
            const { sizes, rowsIn, elapsedMs } = filled[i] as NativeFilled;
            const spilledBytes = sizes.spilledBytes.reduce((sum, bytes) => sum + bytes, 0);
            const ran = { rowsIn: rowsIn || stage.rowsIn, rowsOut: sizes.totalRows, spilledBytes };
            this.#stages.push(stageReport(stage, { actualMs: elapsedMs, ...ran }));
            this.#predictedDoneMs += stage.predictedMs;
        }
        this.#current = undefined;
    }

    /** Stops the timer; `done`: the query has ended well and the last call says so. */
    public end(done: boolean): void {
        clearInterval(this.#timer);
        this.#timer = undefined;
        if (done) this.#report(true);
    }

    public runReport(plan: Plan, rowsOut: number, peakBytes: number, devicePeakBytes = 0): RunReport {
        const now = this.read();
        const elapsedMs = performance.now() - this.#startedMs;
        return {
            elapsedMs,
            predictedMs: plan.predictedMs,
            rowsIn: this.#rowsIn(plan, now),
            rowsOut,
            bytesIn: now.bytesIn,
            bytesOut: now.bytesOut,
            spilledBytes: now.spilledBytes,
            unspilledBytes: now.unspilledBytes,
            budgetBytes: plan.memory.budgetBytes,
            peakBytes,
            threads: plan.threads,
            device: plan.device,
            deviceReason: plan.deviceReason,
            uploadedBytes: plan.device === "gpu" ? this.#uploadedBytes : 0,
            downloadedBytes: plan.device === "gpu" ? now.bytesOut : 0,
            devicePieces: plan.device === "gpu" ? this.#devicePieces : 0,
            transferMs: this.#transferMs,
            withoutTransferMs: elapsedMs - this.#transferMs,
            devicePeakBytes,
            stages: [...this.#stages]
        };
    }

    /** Rows of streams among those that a stage has read. */
    #streamedBy(stage: PlanStage, rowsIn: number): number {
        const inputs = readBy(stage).map((index) => this.#plan?.inputs[index]);
        if (!inputs.some((input) => input?.exact === false)) return 0;
        return Math.max(
            0,
            inputs.reduce((left, input) => left - (input?.exact === true ? input.rows : 0), rowsIn)
        );
    }

    /** Rows of inputs that were read, each once. A query of some rows ends before it has read all. */
    #rowsIn(plan: Plan, now: NativeProgress): number {
        const all = this.#inputRows(plan) || now.rowsIn;
        return plan.limit === undefined ? all : Math.min(all, now.rowsIn);
    }

    /** Rows of all inputs, each once: most stages pass the same rows on. */
    #inputRows({ inputs }: Plan): number {
        return inputs.reduce((sum, input) => sum + (input.exact ? input.rows : 0), this.#streamedRows);
    }

    #stageFraction(now: NativeProgress): number {
        const current = this.#current;
        if (current === undefined) return 0;
        const { stage, before, partitions } = current;
        const rows = (now.rowsIn - before.rowsIn) / Math.max(1, stage.rowsIn);
        const visited = partitions > 0 ? (now.partitionsDone - before.partitionsDone) / partitions : 0;
        return Math.min(1, Math.max(rows, visited));
    }

    #report(done: boolean): void {
        if (this.onProgress === undefined) return;
        const now = this.#readSafely();
        const elapsedMs = performance.now() - this.#startedMs;
        const current = this.#current;
        const predictedMs = Math.max(this.#plan?.predictedMs ?? 0, 1e-6);
        const doneMs = this.#predictedDoneMs + this.#stageFraction(now) * (current?.stage.predictedMs ?? 0);
        // Never backwards: stages are planned with estimates, a bar that jumps back is worse than one that waits.
        this.#fraction = done ? 1 : Math.max(this.#fraction, Math.min(0.999, doneMs / predictedMs));
        const before = current?.before ?? noProgress;
        const progress: Progress = {
            phase: current?.stage.name ?? (done ? "done" : "start"),
            rows: done && this.#plan !== undefined ? this.#inputRows(this.#plan) : now.rowsIn - before.rowsIn,
            bytes: now.bytesIn - before.bytesIn,
            spilledBytes: now.spilledBytes,
            rowsOut: now.rowsOut,
            fraction: this.#fraction,
            etaMs: done
                ? 0
                : this.#fraction < etaFromFraction
                  ? null
                  : (elapsedMs * (1 - this.#fraction)) / this.#fraction,
            elapsedMs,
            done
        };
        if (current !== undefined) progress.totalRows = current.stage.rowsIn;
        show(this.onProgress, progress);
    }

    /** Where the engine has no figures any more, a stage has added nothing. */
    #readSafely(): NativeProgress {
        try {
            return this.read();
        } catch {
            return this.#current?.before ?? noProgress;
        }
    }
}
