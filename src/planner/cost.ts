// SPDX-License-Identifier: Apache-2.0
import type { MachineInfo } from "../machine/machine.js";
import type { MachineProfile } from "../machine/profile.js";
import { isVariable, type ColumnType, type KeySpec } from "../model/column-type.js";
import { nsPerMs, sumOf } from "../model/sizes.js";
import type { GroupDescription, PartitionDescription, SinkKind } from "../plan/plan.js";
import type { SetDraft, StageDraft } from "./compile.js";
import { numberedGroupsMax } from "./compile-group.js";
import { arrowRowBytes, type ValueWidth } from "./estimates.js";
import { columnsRead, pipelineColumnsRead } from "./stage-memory.js";

export interface CostContext {
    sets: readonly SetDraft[];
    poolBytes: readonly number[];
    profile: MachineProfile;
    machine: MachineInfo;
    workers: number;
    sink: SinkKind;
    /** Mean bytes of a result row; 0 for a count. */
    resultRowBytes: number;
    /** None for a count. */
    resultTypes: readonly ColumnType[];
}

export interface Cost {
    ms: number;
    spillBytes: number;
}

/**
 * How many times as much as one worker all of them do where they move rows: each doubling leaves 0.9 of a worker's
 * speed, as they share memory and often cores. Of the time that so many single workers would take, 16 on a host of 16
 * cores took 1.26 to 1.75 times to partition rows of 16 to 56 bytes, and two on two cores 0.9 to 1.3 times. It is not
 * for bits of array joins and for groups by a key, which took 0.8 to 1.2 times on these 16 cores, nor for sums without
 * keys, which took a third.
 */
const movers = ({ workers }: CostContext): number => workers ** (1 + Math.log2(0.9));

/**
 * What the figures of a profile, which are of one key of 8 bytes and of two columns, are for other rows. Fitted to the
 * suite on 16 cores (docs/results/h200-host/cpu-suite.json), whose CPU time for each row is given. Text keys: 18 bytes
 * joined and counted 64 ns, where 4 columns of numbers took 56 with their results; two integers counted 57.
 */
const textKeyNs = 25;
const furtherKeyNs = 20;
/** Values of a result: 25 columns, of which 12 are text, took 279 ns, 5 with one text 71. */
const textValueNs = 16;
/**
 * Where groups are numbered a short key takes this share of the figure of an aggregate, and a value. Two cores: 5
 * aggregates by two short texts 27 ns, 10 aggregates 35, 4 sums by an integer 20, 4 without a key 10, of which 5 to 11
 * are for reading.
 */
const numberedKeyShare = 0.5;
const numberedValueShare = 0.1;
/**
 * Partitioned, each aggregate beyond the key takes this share, and each group so many times the figure: 6 M rows took
 * 38 ns each for 200,000 groups, 50 for 1.5 M, and 132 for as many groups as rows.
 */
const valueShare = 1 / 3;
const newGroupShare = 4;
const shortKeyBytes = 8;
/** A value of a set of distinct ones: 6 M rows took 61 ns each to be counted by 200,000 keys, 38 to be added up. */
const distinctNs = 20;
/**
 * Rows that are looked up in vectors wait for several lines of memory at a time. Two cores, a join and a group-by of
 * 6 M rows: 22 ns in all where their keys are sorted (orders x lineitem by date), 71 where they are in no order (part x
 * lineitem by brand and container).
 */
const overlappedMissShare = 0.3;

function keysNs(keys: readonly KeySpec[]): number {
    return sumOf(keys.map(({ kind }, i) => (kind === "integer" ? (i > 0 ? furtherKeyNs : 0) : textKeyNs)));
}

/** Texts that go along in encoded rows, and are no keys. */
function carriedNs({ columns, keys, carry }: Pick<PartitionDescription, "columns" | "keys" | "carry">): number {
    const others = carry.filter((column) => column >= 0 && keys.every((key) => key.column !== column));
    return textValueNs * others.filter((column) => isVariable(columns[column] as ColumnType)).length;
}

/** Bytes of a set that its pool cannot hold. */
function spilled(context: CostContext, set: number): number {
    const draft = context.sets[set];
    if (draft === undefined) return 0;
    const bytes = draft.rows * (draft.width.fixed + draft.width.heap);
    return Math.max(0, bytes - (context.poolBytes[set] ?? 0));
}

/** Mean time of a table access beyond one in the L2 cache: each level of the caches holds its share of the table. */
function missNs(context: CostContext, tableBytes: number): number {
    const { machine, profile } = context;
    const bytes = Math.max(1, tableBytes);
    const inL2 = Math.min(1, machine.l2Bytes / bytes);
    const inL3 = Math.min(1, Math.max(machine.l2Bytes, machine.l3Bytes) / bytes);
    return (inL3 - inL2) * profile.l3MissNs + (1 - inL3) * profile.memoryMissNs;
}

function encodeNs(context: CostContext, rows: number, rowBytes: number): number {
    const { profile } = context;
    return rows * (profile.partitionNsPerRow + (rowBytes * nsPerMs) / profile.partitionBytesPerMs);
}

function outputMs(context: CostContext, stage: StageDraft): number {
    const { profile, sink, resultRowBytes } = context;
    if (stage.kind === "partition") return 0;
    if (stage.output.to === "set") {
        const set = context.sets[stage.output.set];
        const rows = Math.min(stage.rowsOut, stage.output.limit?.rows ?? Infinity);
        const ns = encodeNs(context, rows, set === undefined ? 16 : set.width.fixed + set.width.heap);
        return (ns + rows * profile.outputNsPerRow) / nsPerMs / movers(context) + spillMs(context, stage.output.set);
    }
    if (sink === "count") return 0;
    const rows = Math.min(stage.rowsOut, stage.output.limit?.rows ?? Infinity);
    const bytes = rows * resultRowBytes;
    const { resultTypes } = context;
    const values =
        (profile.outputNsPerRow * resultTypes.length) / 2 + textValueNs * resultTypes.filter(isVariable).length;
    const gather = (rows * values) / nsPerMs + bytes / profile.outputBytesPerMs;
    // Workers gather while others write.
    return Math.max(gather / movers(context), sink === "file" ? bytes / profile.fileWriteBytesPerMs : 0);
}

function spillMs(context: CostContext, set: number): number {
    return spilled(context, set) / context.profile.spillWriteBytesPerMs;
}

function partitionCost(context: CostContext, stage: Extract<StageDraft, { kind: "partition" }>, read: number): Cost {
    const draft = context.sets[stage.set];
    const rowBytes = draft === undefined ? 16 : draft.width.fixed + draft.width.heap;
    const others = draft === undefined ? 0 : keysNs(draft.spec.keys) + carriedNs(draft.spec);
    const ns = encodeNs(context, stage.rowsIn, rowBytes) + stage.rowsIn * others;
    const readMs = (stage.rowsIn * read) / context.profile.readBytesPerMs;
    return {
        ms: (ns / nsPerMs + readMs) / movers(context) + spillMs(context, stage.set),
        spillBytes: spilled(context, stage.set)
    };
}

/** Share of the probe rows that a join looks at before it has given all rows that are wanted. */
function shareOf(stage: Extract<StageDraft, { kind: "join" | "streamingJoin" | "arrayJoin" }>): number {
    // What comes out once for all of its partners comes last where the tables are never done with.
    const comesLast = stage.kind === "streamingJoin" && stage.spec.emit === "buildOnce";
    return comesLast ? 1 : (stage.output.limit?.share ?? 1);
}

function joinCost(
    context: CostContext,
    stage: Extract<StageDraft, { kind: "join" | "streamingJoin" }>,
    read: number
): Cost {
    const { profile } = context;
    const build = context.sets[stage.build];
    const buildRows = build?.rows ?? 0;
    const partitions = 2 ** (build?.spec.radixBits ?? 0);
    // Slots, and row numbers unless matches are only counted.
    const slotBytes = stage.output.to === "sink" && context.sink === "count" ? 20 : 40;
    const perRow = (build?.width.fixed ?? 16) + (build?.width.heap ?? 0) + slotBytes;
    const streaming = stage.kind === "streamingJoin";
    const table = (buildRows * perRow) / (streaming ? 1 : partitions);
    const miss = missNs(context, table);
    const share = shareOf(stage);
    const probeRows = share * (streaming ? stage.rowsIn : (context.sets[stage.probe]?.rows ?? 0));
    // Tables that stay are all there before the first probe row; others are built one after the other.
    const builtRows = buildRows * (streaming ? 1 : share);
    const probeMiss = streaming ? miss * overlappedMissShare : miss;
    let ns = builtRows * (profile.buildNsPerRow + miss) + probeRows * (profile.probeNsPerRow + probeMiss);
    let ms = 0;
    if (streaming) {
        ns += encodeNs(context, probeRows, 0) + probeRows * keysNs(stage.probeSpec.keys);
        ns += (probeRows * read * nsPerMs) / profile.readBytesPerMs;
    } else {
        ms += (spilled(context, stage.build) + spilled(context, stage.probe)) / profile.spillReadBytesPerMs;
    }
    const joinMs = ns / nsPerMs / movers(context);
    return { ms: ms + joinMs + outputMs(context, stage), spillBytes: outputSpill(context, stage) };
}

/** Both sides' keys are read, their bits set or looked up; probe rows are encoded where their columns are wanted. */
function arrayJoinCost(context: CostContext, stage: Extract<StageDraft, { kind: "arrayJoin" }>, read: number): Cost {
    const { profile, workers } = context;
    const miss = missNs(context, stage.spec.keyValues / 8);
    const probeRows = stage.probeRows * shareOf(stage);
    const keys =
        (stage.rowsIn - stage.probeRows + probeRows) *
        (profile.arrayNsPerKey + miss + (8 * nsPerMs) / profile.readBytesPerMs);
    const merge = ((stage.spec.buildWorkers * stage.spec.keyValues) / 8 / profile.readBytesPerMs) * nsPerMs;
    const encoded =
        stage.spec.outputs.length === 0
            ? 0
            : encodeNs(context, probeRows, read) + probeRows * carriedNs(stage.probeSpec);
    const ns = keys + merge + encoded;
    return { ms: ns / nsPerMs / workers + outputMs(context, stage), spillBytes: outputSpill(context, stage) };
}

/** Each row is looked up in one table after the other, for which its key is brought together; groups as they come. */
function pipelineCost(context: CostContext, stage: Extract<StageDraft, { kind: "pipeline" }>, read: number): Cost {
    const { profile } = context;
    let ns = (stage.rowsIn * read * nsPerMs) / profile.readBytesPerMs;
    let rows = stage.rowsIn;
    stage.builds.forEach((build, place) => {
        const set = context.sets[build];
        const buildRows = set?.rows ?? 0;
        const miss = missNs(context, buildRows * ((set?.width.fixed ?? 16) + (set?.width.heap ?? 0) + 40));
        ns += buildRows * (profile.buildNsPerRow + miss);
        ns += encodeNs(context, rows, 0) + rows * (profile.probeNsPerRow + miss * overlappedMissShare);
        ns += rows * keysNs(stage.spec.joins[place]?.keys ?? []);
        rows = stage.rowsOfJoins[place] ?? rows;
    });
    if (stage.group !== undefined) {
        const { spec, inputSpec } = stage.group;
        ns += encodeNs(context, rows, 0) + groupNs(context, spec, inputSpec.keys, rows, stage.rowsOut, 1);
    }
    return { ms: ns / nsPerMs / movers(context) + outputMs(context, stage), spillBytes: outputSpill(context, stage) };
}

function outputSpill(context: CostContext, stage: StageDraft): number {
    return stage.kind !== "partition" && stage.output.to === "set" ? spilled(context, stage.output.set) : 0;
}

/** Rows that are added up in tables of so many partitions. */
function groupNs(
    context: CostContext,
    { aggregates }: GroupDescription,
    keys: readonly KeySpec[],
    rows: number,
    groups: number,
    partitions: number
): number {
    const { groupNsPerRow } = context.profile;
    const distinct = distinctNs * aggregates.filter(({ kind }) => kind === "countDistinct").length;
    if (groups <= numberedGroupsMax) {
        const short = keys.filter(({ kind, width }) => kind === "integer" || (width > 0 && width <= shortKeyBytes + 1));
        const shares = numberedKeyShare * short.length + numberedValueShare * aggregates.length;
        return rows * (groupNsPerRow * shares + textKeyNs * (keys.length - short.length) + distinct);
    }
    const miss = missNs(context, (groups * (40 + 16 * (aggregates.length + 1))) / partitions);
    const perRow = groupNsPerRow * (1 + valueShare * aggregates.length) + miss + distinct;
    return rows * perRow + groups * groupNsPerRow * newGroupShare;
}

function groupCost(
    context: CostContext,
    stage: Extract<StageDraft, { kind: "group" | "hashGroup" }>,
    read: number
): Cost {
    const { profile, workers } = context;
    const spec = stage.kind === "group" ? context.sets[stage.set]?.spec : stage.inputSpec;
    const partitions = 2 ** (spec?.radixBits ?? 0);
    let ns = groupNs(context, stage.spec, spec?.keys ?? [], stage.rowsIn, stage.rowsOut, partitions);
    let ms = 0;
    if (stage.kind === "hashGroup") {
        ns += (stage.rowsIn * read * nsPerMs) / profile.readBytesPerMs;
    } else ms += spilled(context, stage.set) / profile.spillReadBytesPerMs;
    return { ms: ms + ns / nsPerMs / workers + outputMs(context, stage), spillBytes: outputSpill(context, stage) };
}

/** Mean input bytes per row that a stage reads. */
function readBytesPerRow(
    stage: StageDraft,
    sets: readonly SetDraft[],
    widths: readonly ValueWidth[] | undefined
): number {
    if (widths === undefined) return 0;
    if (stage.kind === "pipeline") {
        const columns = pipelineColumnsRead(stage.spec);
        return arrowRowBytes(columns.map((column) => widths[column] ?? { fixed: 8, heap: 0 }));
    }
    const spec =
        stage.kind === "partition"
            ? sets[stage.set]?.spec
            : stage.kind === "streamingJoin" || stage.kind === "arrayJoin"
              ? stage.probeSpec
              : stage.kind === "hashGroup"
                ? stage.inputSpec
                : undefined;
    if (spec === undefined) return 0;
    return arrowRowBytes(columnsRead(spec.keys, spec.carry).map((column) => widths[column] ?? { fixed: 8, heap: 0 }));
}

/** What each worker adds to the start of a stage, of that of a stage with one: 0.2 ms with one, 1.3 with 16. */
const startedWorkerShare = 0.4;

/** Predicted time and spill of a stage. `widths`: value widths of the input that it reads, if any. */
export function stageCost(context: CostContext, stage: StageDraft, widths: readonly ValueWidth[] | undefined): Cost {
    const read = readBytesPerRow(stage, context.sets, widths);
    const cost =
        stage.kind === "partition"
            ? partitionCost(context, stage, read)
            : stage.kind === "join" || stage.kind === "streamingJoin"
              ? joinCost(context, stage, read)
              : stage.kind === "arrayJoin"
                ? arrayJoinCost(context, stage, read)
                : stage.kind === "pipeline"
                  ? pipelineCost(context, stage, read)
                  : groupCost(context, stage, read);
    const start = context.profile.stageStartMs * Math.max(1, context.workers * startedWorkerShare);
    return { ms: cost.ms + start, spillBytes: cost.spillBytes };
}
