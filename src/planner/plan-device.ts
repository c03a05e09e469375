// SPDX-License-Identifier: Apache-2.0
import { clamp, sumOf } from "../model/sizes.js";
import type { DevicePieces, TableStage } from "../plan/device-stages.js";
import { innerOperators } from "../plan/inner-operators.js";
import { inputsOf, limitOf, type InputInfo } from "../plan/logical.js";
import { freezePlan, type Plan } from "../plan/plan.js";
import { DeviceDraft, type DeviceStageDraft, type DeviceTableDraft } from "./compile-device.js";
import { totalMs } from "./device-cost/choose-algorithm.js";
import { rowNumberBytes } from "./device-cost/memory-cost.js";
import { packRowBytes, wholeRowBytesMax } from "./device-cost/shapes.js";
import { nearest, NotOnDevice } from "./device-support.js";
import { Estimator } from "./estimates.js";
import { deviceName, isForcedOutOfCore, outOfCoreName } from "./named-algorithm.js";
import { unknownLimitBytes } from "./streaming/host-memory.js";
import { deliveryMs, fillMs, packsResults, savedBytes, uploadedColumns } from "./streaming/link.js";
import { looksUpRows, planOutOfCore } from "./plan-out-of-core.js";
import { defaultPolicy, type Policy } from "./policy.js";
import type { PlanQuery } from "./plan-search.js";

/** A plan for the GPU. */
export interface DevicePlan {
    readonly plan: Plan;
    /** GPU memory that it takes at least, whatever the estimates are worth. */
    readonly leastBytes: number;
    /** Its tables do not fit GPU memory, and this is why it cannot run out of core either. */
    readonly notOutOfCore?: string;
}

/** Bytes of a slot of the array that "npj-perfect" takes: the number of a row. */
const perfectSlotBytes = 4;

interface Draft {
    stage: DeviceStageDraft;
    /** Tables read for the last time. */
    frees: number[];
    makes: number | null;
}

function tablesOf(stage: DeviceStageDraft): { frees: number[]; makes: number | null } {
    switch (stage.kind) {
        case "upload":
            return { frees: [], makes: stage.table };
        case "deviceJoin":
            return { frees: [stage.build, stage.probe], makes: stage.table };
        case "deviceGroup":
            return { frees: [stage.from], makes: stage.table };
        case "deliver":
            return { frees: [stage.from], makes: null };
    }
}

const bytesOf = ({ rows, rowBytes }: DeviceTableDraft): number => rows * rowBytes;

/**
 * Rows that an operation makes of a table it reads, while there are `copies` of them: whole, or if they are too wide
 * for that and the operation is a join, their keys and places, beside packs of their columns of which there is one.
 */
function copiedBytes(table: DeviceTableDraft, policy: Policy, copies: number, ofJoin = true): number {
    const { rows, movedRowBytes } = table;
    const whole = policy.deviceKeyBytes + movedRowBytes;
    if (whole <= wholeRowBytesMax || !ofJoin) return rows * Math.min(whole, wholeRowBytesMax) * copies;
    const packs = sumOf(packRowBytes([Math.ceil(movedRowBytes)]));
    return rows * ((policy.deviceKeyBytes + rowNumberBytes(rows)) * copies + packs);
}

/** The most GPU memory held at a time: tables from the stage that makes them to the one that reads them, and copies. */
function peakBytes(
    drafts: readonly Draft[],
    tables: readonly DeviceTableDraft[],
    policy: Policy,
    sure: boolean
): number {
    const size = (id: number, bytes: (table: DeviceTableDraft) => number): number => {
        const table = tables[id] as DeviceTableDraft;
        return sure && !table.exact ? 0 : bytes(table);
    };
    const live = new Set<number>();
    let peak = 0;
    for (const { stage, frees, makes } of drafts) {
        if (makes !== null) live.add(makes);
        let bytes = 0;
        for (const id of live) bytes += size(id, bytesOf);
        if (stage.kind === "deviceJoin") bytes += stage.spec.keyRange * perfectSlotBytes;
        // What is certain of the copies is one of each row.
        const copies = sure ? 1 : policy.deviceRowCopies;
        if (stage.kind !== "deliver") {
            const ofJoin = stage.kind === "deviceJoin";
            for (const id of frees) bytes += size(id, (table) => copiedBytes(table, policy, copies, ofJoin));
        }
        peak = Math.max(peak, bytes);
        for (const id of frees) live.delete(id);
    }
    return Math.ceil(peak);
}

interface Sized {
    drafts: readonly Draft[];
    tables: readonly DeviceTableDraft[];
    estimatedBytes: number;
}

function draftsOf({ stages }: DeviceDraft): Draft[] {
    return stages.map((stage) => ({ stage, ...tablesOf(stage) }));
}

/** The stages with what they free, and the last join in pieces if that is asked for, or if its result does not fit. */
function withPieces(draft: DeviceDraft, query: PlanQuery, limitBytes: number, policy: Policy): Sized {
    const { tables } = draft;
    const drafts = draftsOf(draft);
    const whole = { drafts, tables, estimatedBytes: peakBytes(drafts, tables, policy, false) };
    const pieces = piecesOf(draft, query, limitBytes, policy);
    const at = drafts.length - 2;
    const join = drafts[at]?.stage;
    if (pieces === undefined || join?.kind !== "deviceJoin" || join.table === null) return whole;
    const planned = pieces.planned || (limitBytes > 0 && whole.estimatedBytes > limitBytes);
    const withJoin = (all: Draft[]): Draft[] => {
        const last = all[at] as Draft;
        return all.with(at, { ...last, stage: { ...(last.stage as typeof join), pieces: { ...pieces, planned } } });
    };
    if (!planned) return { ...whole, drafts: withJoin(drafts) };
    const result = tables[join.table] as DeviceTableDraft;
    const pieced = tables.with(join.table, { ...result, rows: Math.min(result.rows, pieces.rowsMax) });
    return {
        // What was chosen among all algorithms is not what makes pieces.
        drafts: withJoin(draftsOf(compile(query, policy, true))),
        tables,
        estimatedBytes: peakBytes(drafts, pieced, policy, false)
    };
}

function stageMs(query: PlanQuery, workers: number, stage: DeviceStageDraft): number {
    const { profile, sink } = query;
    const work = (): number => {
        switch (stage.kind) {
            case "upload": {
                const input = inputsOf(query.root)[stage.input] as InputInfo;
                const { filling } = uploadedColumns(input, stage.columns, { ...query, workers });
                const linkMs = (stage.bytes - savedBytes(filling)) / profile.deviceCopyBytesPerMs;
                return profile.deviceInputStartMs + Math.max(linkMs, fillMs({ workers, profile }, filling));
            }
            case "deviceJoin": {
                const { predictedMs } = stage.choice;
                if (!stage.pieces?.planned) return totalMs(predictedMs);
                // Rows of pieces are counted first, which is a second search for matches, of the pieces that are made.
                const { transformMs, matchMs, materializeMs } = predictedMs;
                return transformMs + matchMs + (matchMs + materializeMs) * wantedShare(query, stage.rowsOut);
            }
            case "deviceGroup":
                return totalMs(stage.choice.predictedMs);
            case "deliver": {
                const bytes = stage.bytes * wantedShare(query, stage.rowsIn);
                return Math.max(
                    bytes / profile.deviceCopyBytesPerMs,
                    deliveryMs({ workers, sink, profile }, { bytes, packed: packsResults(query, workers) })
                );
            }
        }
    };
    return work() + profile.deviceStageStartMs;
}

/**
 * Pieces of a result that is delivered as a join makes it; undefined where there is no such join. The packed rows of
 * both sides stay until the last piece, and so do their tables.
 */
function piecesOf(draft: DeviceDraft, query: PlanQuery, limitBytes: number, policy: Policy): DevicePieces | undefined {
    const { stages, tables } = draft;
    const [join, deliver] = stages.slice(-2);
    if (join?.kind !== "deviceJoin" || deliver?.kind !== "deliver" || join.table === null) return undefined;
    const sides = [join.build, join.probe].map((id) => tables[id] as DeviceTableDraft);
    const held = sides.reduce((sum, side) => sum + bytesOf(side) + copiedBytes(side, policy, 1), 0);
    const { rowBytes } = tables[join.table] as DeviceTableDraft;
    const rows = ((limitBytes - held) * policy.devicePieceShare) / (rowBytes + policy.devicePieceRowBytes);
    const { pieceRows } = query.debug;
    if (pieceRows !== undefined) return { rowsMax: pieceRows, planned: true };
    const rowsMax = Math.floor(Math.max(rows, policy.devicePieceRowsMin));
    // All rows that are wanted are in the first piece, and the others are never made.
    const wanted = Math.ceil(Math.max(limitOf(query.root), policy.devicePieceRowsMin));
    const isShort = wanted * rowsPerWanted <= join.rowsOut && deviceName(query.root) === undefined;
    if (!isShort) return { rowsMax, planned: false };
    return { rowsMax: limitBytes > 0 ? Math.min(rowsMax, wanted) : wanted, planned: true };
}

/** A result of fewer times the rows that are wanted is made whole: its rows are not counted first. */
const rowsPerWanted = 8;

/** Share of the rows of the result that are wanted. */
function wantedShare(query: PlanQuery, rows: number): number {
    return Math.min(1, limitOf(query.root) / Math.max(1, rows));
}

/** Compiles the stages, the last of which sends the result to the sink. */
function compile(query: PlanQuery, policy: Policy, inPieces = false): DeviceDraft {
    const { root, sink, statistics, profile, plainDevice = false } = query;
    const estimator = new Estimator(root, statistics, policy, query.tableFull);
    const draft = new DeviceDraft({
        root,
        sink,
        inputs: inputsOf(root),
        estimator,
        policy,
        profile,
        plain: plainDevice,
        inPieces
    });
    const result = draft.compile();
    if (result === undefined) return draft;
    const table = draft.tables[result] as DeviceTableDraft;
    draft.stages.push({
        kind: "deliver",
        name: "deliver",
        algorithm: "copy from the GPU",
        rowsIn: table.rows,
        rowsOut: table.rows,
        from: result,
        columns: root.columns.map(({ type }, column) => ({
            column: table.slots.findIndex((slot) => slot.column === column && !slot.decoded),
            type
        })),
        bytes: Math.ceil(bytesOf(table)),
        packed: false
    });
    return draft;
}

/** Pinned memory that copies of so many bytes want: halves of some MiB for each worker hide the start of a copy. */
function wantedStagingBytes(copiedBytes: number, workers: number, policy: Policy): number {
    return Math.min(workers * policy.deviceStagingBytesPerWorker, 2 * copiedBytes, policy.deviceStagingBytesMax);
}

/** Pinned memory of a stage's copies, with the budget that the query was granted. */
function stagingBytes(stage: DeviceStageDraft, workers: number, budgetBytes: number, policy: Policy): number {
    if (stage.kind !== "upload" && stage.kind !== "deliver") return 0;
    const most = Math.max(policy.deviceStagingBytesMin, budgetBytes * policy.deviceStagingShare);
    return Math.floor(clamp(wantedStagingBytes(stage.bytes, workers, policy), policy.deviceStagingBytesMin, most));
}

/**
 * Host memory that a query with all of its tables in GPU memory could use, in bytes: for copies at the speed of the
 * link, and for batches of its result. Its plan for the CPU, `host`, may want far less: a group-by of few groups does.
 */
export function tablesHostBytes(query: PlanQuery, host: Plan): number {
    const policy = query.policy ?? defaultPolicy;
    const { result, sink, threads, queuedBatches, batchBytes } = host;
    const uploads = inputsOf(query.root).map(({ columnBytes }) => columnBytes.reduce((sum, bytes) => sum + bytes, 0));
    const delivered = sink === "count" ? 0 : result.rows * result.rowBytes;
    const copied = Math.max(delivered, ...uploads);
    const batches = sink === "count" ? 0 : Math.min((queuedBatches + threads) * batchBytes, 2 * delivered);
    return Math.ceil(wantedStagingBytes(copied, threads, policy) / policy.deviceStagingShare + batches);
}

/**
 * The plan of a query for the GPU, or why there is none: with its tables in GPU memory where they are expected to fit,
 * else out of core where that can be. `host`: its plan for the CPU, with the sizes of result batches
 * and the workers. `limitBytes`: GPU memory that it may use.
 */
export function planOnDevice(query: PlanQuery, host: Plan, limitBytes: number): DevicePlan | NotOnDevice {
    if (outOfCoreName(query.root) !== undefined) return planAsNamed(query, host, limitBytes);
    const inCore = planInCore(query, host, limitBytes);
    if (inCore instanceof NotOnDevice) return planWithoutTables(query, host, limitBytes, inCore);
    if (limitBytes === 0) return inCore;
    const forced = isForcedOutOfCore(query);
    if (!forced && (inCore.plan.deviceMemory?.estimatedBytes ?? 0) <= limitBytes) return inCore;
    const plan = outOfCore(query, host, limitBytes);
    if (plan instanceof NotOnDevice) {
        const leastBytes = Math.min(inCore.leastBytes, plan.leastBytes ?? Infinity);
        return forced ? plan : { ...inCore, leastBytes, notOutOfCore: plan.reason };
    }
    if (!forced && isWorthTrying(inCore, plan, limitBytes)) return tried(inCore);
    return { plan, leastBytes: plan.deviceMemory?.estimatedBytes ?? 0 };
}

/**
 * Is the plan with all tables in GPU memory worth a try, although they are expected to exceed it? Out of core, workers
 * would look every row up in a table of the host, and may take longer than a try that fails and all that follows it.
 */
function isWorthTrying(inCore: DevicePlan, outOfCore: Plan, limitBytes: number): boolean {
    return looksUpRows(outOfCore) && inCore.leastBytes <= limitBytes && inCore.plan.predictedMs < outOfCore.predictedMs;
}

function tried(inCore: DevicePlan): DevicePlan {
    const { plan, leastBytes } = inCore;
    if (plan.deviceMemory === null) return inCore;
    return {
        leastBytes,
        plan: freezePlan<Plan>({ ...plan, deviceMemory: { ...plan.deviceMemory, elseOutOfCore: true } })
    };
}

/**
 * A plan out of core. What it takes it keeps while its rows wait for their reader, or while it waits for a stream:
 * where that is the user's code, which may run queries of its own meanwhile, something is left for these.
 */
function outOfCore(query: PlanQuery, host: Plan, limitBytes: number): Plan | NotOnDevice {
    const waits = query.sink === "batches" || inputsOf(query.root).some(({ streamed }) => streamed);
    if (!waits) return planOutOfCore(query, host, limitBytes);
    const { deviceReaderShare } = query.policy ?? defaultPolicy;
    const plan = planOutOfCore(query, host, Math.floor(limitBytes * deviceReaderShare));
    if (plan instanceof NotOnDevice || plan.deviceMemory === null) return planOutOfCore(query, host, limitBytes);
    return freezePlan({ ...plan, deviceMemory: { ...plan.deviceMemory, limitBytes } });
}

/** A plan of what has no other than one out of core, since the user named a join that is. */
function planAsNamed(query: PlanQuery, host: Plan, limitBytes: number): DevicePlan | NotOnDevice {
    const plan = outOfCore(query, host, limitBytes === 0 ? unknownLimitBytes : limitBytes);
    if (plan instanceof NotOnDevice) return plan;
    return { plan, leastBytes: plan.deviceMemory?.estimatedBytes ?? 0 };
}

/**
 * A join out of core needs no more than row numbers of columns that cannot be in GPU memory, such as lists. One whose
 * inputs would fit is not worth that. Streams have no number of rows that a table could be made for, and are read by
 * operators that need none, which keep in GPU memory what fits. So do some rows of a query that others read.
 */
function planWithoutTables(
    query: PlanQuery,
    host: Plan,
    limitBytes: number,
    refused: NotOnDevice
): DevicePlan | NotOnDevice {
    const forced = isForcedOutOfCore(query);
    const limit = limitBytes === 0 ? unknownLimitBytes : limitBytes;
    const inputs = inputsOf(query.root);
    const streamed = inputs.some((input) => input.streamed);
    const bytes = inputs.reduce((sum, input) => sum + input.columnBytes.reduce((a, b) => a + b, 0), 0);
    const isHeld = innerOperators(query.root).some((node) => limitOf(node) < Infinity);
    if (!forced && !streamed && !isHeld && bytes <= limit) return refused;
    const plan = outOfCore(query, host, limit);
    const named = deviceName(query.root) !== undefined;
    if (plan instanceof NotOnDevice) {
        if (forced || (streamed && !named)) return plan;
        return named ? refused : nearest(refused, plan);
    }
    return { plan, leastBytes: plan.deviceMemory?.estimatedBytes ?? 0 };
}

/** A stage that says which values cross the link in as many bits as they need. */
function withPacking(query: PlanQuery, workers: number, stage: DeviceStageDraft): DeviceStageDraft {
    if (stage.kind === "deliver") return { ...stage, packed: packsResults(query, workers) };
    if (stage.kind !== "upload") return stage;
    const input = inputsOf(query.root)[stage.input] as InputInfo;
    const { columns, filling } = uploadedColumns(input, stage.columns, { ...query, workers });
    return { ...stage, columns, sentBytes: Math.ceil(stage.bytes - savedBytes(filling)) };
}

/** The plan with all tables in GPU memory. `limitBytes` 0: not known yet. */
function planInCore(query: PlanQuery, host: Plan, limitBytes: number): DevicePlan | NotOnDevice {
    const policy = query.policy ?? defaultPolicy;
    let draft: DeviceDraft;
    try {
        draft = compile(query, policy);
    } catch (error) {
        if (error instanceof NotOnDevice) return error;
        throw error;
    }
    const { tables, drafts, estimatedBytes } = withPieces(draft, query, limitBytes, policy);
    const workers = host.threads;
    const stages = drafts.map(({ stage, frees }, id): TableStage => ({
        ...withPacking(query, workers, stage),
        id,
        frees,
        live: [],
        memory: {
            inputBytes: stagingBytes(stage, workers, host.memory.budgetBytes, policy),
            tableBytes: 0,
            outputBytes: 0
        },
        predictedMs: stageMs(query, workers, stage),
        predictedSpillBytes: 0
    }));
    const sum = (kind: "upload" | "deliver"): number =>
        stages.reduce((bytes, stage) => bytes + (stage.kind === kind ? stage.bytes : 0), 0);
    return {
        leastBytes: peakBytes(drafts, tables, policy, true),
        plan: freezePlan<Plan>({
            ...host,
            device: "gpu",
            deviceReason: null,
            deviceMemory: { limitBytes, estimatedBytes, uploadedBytes: sum("upload"), downloadedBytes: sum("deliver") },
            sets: [],
            stages,
            predictedMs: stages.reduce((ms, stage) => ms + stage.predictedMs, query.profile.deviceQueryStartMs)
        })
    };
}
