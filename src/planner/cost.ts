// SPDX-License-Identifier: Apache-2.0
import type { MachineInfo } from "../machine/machine.js";
import type { MachineProfile } from "../machine/profile.js";
import { isVariable, type ColumnType, type KeySpec } from "../model/column-type.js";
import { nsPerMs, sumOf } from "../model/sizes.js";
import type { GroupDescription, PartitionDescription, SinkKind } from "../plan/plan.js";
import type { SetDraft, StageDraft } from "./compile.js";
import { numberedGroupsMax } from "./compile-group.js";
import { arrowRowBytes, type ValueWidth } from "./estimates.js";
import { defaultPolicy } from "./policy.js";
import { columnsRead, copiedRowBytes, pipelineColumnsRead } from "./stage-memory.js";

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

/** The input that a stage reads. */
export interface StageInput {
    widths: readonly ValueWidth[];
    types: readonly ColumnType[];
    inMemory: boolean;
    /** Share of rows whose keys are not those of the rows beside them, by a sample; 1 where there is none. */
    newKeyShare: (keys: readonly KeySpec[]) => number;
}

/** Of a stage. */
export interface Cost {
    ms: number;
    spillBytes: number;
}

/**
 * How many times as much as one worker all of them do: each doubling leaves 0.9 of a worker's speed, as they share
 * memory and often cores. Of the time that so many single workers would take, 16 on a host of 16 cores took 1.26 to
 * 1.75 times to partition rows of 16 to 56 bytes, and two on two cores 0.9 to 1.3 times.
 */
const movers = ({ workers }: CostContext): number => workers ** (1 + Math.log2(0.9));

/**
 * What the figures of a profile, which are of one key of 8 bytes and of two columns, are for other rows. Fitted to the
 * suite on 16 and on 2 cores (docs/results/h200-host and amd-epyc-2-cores, cpu-suite.json) together; what is said of
 * rows is their CPU time. Text keys: 18 bytes joined and counted took 49 to 55 ns on 16 cores and 32 to 37 on two,
 * two numbers 44 to 45 and 27 to 28.
 */
const textKeyNs = 22;
const furtherKeyNs = 18;
/** Bytes of a text that is compared and hashed as a number is. */
const shortKeyBytes = 8;
/** Values of a result: 25 columns, of which 12 are text, took 200 to 256 ns on 16 cores and 263 to 297 on two. */
const textValueNs = 15.5;
/**
 * Where groups are numbered a short key takes this share of the figure of an aggregate, and a value. In memory on two
 * cores: 5 aggregates by two short texts 11 ns, 10 aggregates 12, 4 sums by an integer 10, 4 without a key 4.
 */
const numberedKeyShare = 0.36;
const numberedValueShare = 0.03;
/**
 * Elsewhere a row takes this share, each of its values that are added up another one, and each group so many times the
 * figure, with a share of that for each of its values. 6 M rows that are in partitions took two workers 11 ns each by
 * 200,000 keys if counted, 12 with a sum of integers and 16 with four, 15 with a sum of decimals and 24 with four. By
 * 1.5 M keys they took 20 to 27 ns with their partitions if counted, and 50 to 69 as a table with a sum of decimals.
 */
const groupedRowShare = 0.67;
const groupedValueShare = 0.2;
const newGroupShare = 4;
const newValueShare = 0.6;
/** To find its group a row's keys are compared once more than they were for its partition. */
const comparedKeyShare = 1 / 4;
/** A value of a set of distinct ones: 6 M rows by 200,000 keys took 47 to 63 ns each with it, 30 to 38 without. */
const distinctNs = 33;
/**
 * Rows that stream past a table are looked up in vectors, whose slots are asked for before they are needed; those
 * that match then wait for the row of the table, for this share of a miss and another one for each line that it spans.
 * From memory on two cores: 3 ns for rows of which 1 in 1,000 has a partner among 224 (SSB Q2.3), 6 with 1 in 25 among
 * 7,921, whose table is as large as the L2 cache (Q2.1), 113 where all have one among 200,000 of 32 bytes (part x
 * lineitem) and 148 among 800,000 of 48 (lineitem x partsupp), of which columns come out.
 */
const lookUpNs = 2.6;
const overlappedMissShare = 1 / 8;
const rowMissShare = 0.6;
/** A slot, and a row number. */
const tableSlotBytes = 40;
/**
 * Values in memory are read in their place: 10 sums of 4 M rows took 12 ns a row from memory and 30 from files on two
 * cores, 24 and 32 on 16.
 */
const readInPlaceShare = 0.2;

/** Is a key a number, or a text of so few bytes, behind which its length is? */
const isShort = ({ kind, width }: KeySpec): boolean => kind === "integer" || (width > 0 && width <= shortKeyBytes + 1);

function keysNs(keys: readonly KeySpec[]): number {
    return sumOf(keys.map((key, i) => (isShort(key) ? (i > 0 ? furtherKeyNs : 0) : textKeyNs)));
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

function partitionCost(
    context: CostContext,
    stage: Extract<StageDraft, { kind: "partition" }>,
    input: StageInput | undefined
): Cost {
    const draft = context.sets[stage.set];
    const rowBytes = draft === undefined ? 16 : draft.width.fixed + draft.width.heap;
    const others = draft === undefined ? 0 : keysNs(draft.spec.keys) + carriedNs(draft.spec);
    const ns = encodeNs(context, stage.rowsIn, rowBytes) + stage.rowsIn * others;
    const read = stage.rowsIn * readNs(context, stage, input);
    return {
        ms: (ns + read) / nsPerMs / movers(context) + spillMs(context, stage.set),
        spillBytes: spilled(context, stage.set)
    };
}

/** Share of the probe rows that a join looks at before it has given all rows that are wanted. */
function shareOf(stage: Extract<StageDraft, { kind: "join" | "streamingJoin" | "arrayJoin" }>): number {
    // What comes out once for all of its partners comes last where the tables are never done with.
    const comesLast = stage.kind === "streamingJoin" && stage.spec.emit === "buildOnce";
    return comesLast ? 1 : (stage.output.limit?.share ?? 1);
}

/** Rows that are looked up in the tables of a build side, which stay. */
interface LookUp {
    build: SetDraft | undefined;
    /** Columns of the build side that come out, as places among those that it carries. */
    fields: readonly number[];
    keys: readonly KeySpec[];
    newKeyShare: number;
    rows: number;
    /** Rows that come out of it. */
    matched: number;
    /** Times that the tables are made; left out: once. */
    made?: number;
}

/** Misses of a row of which these columns come out: lines that a row of the table spans, and texts behind the rows. */
function missesOf({ machine }: CostContext, build: SetDraft | undefined, fields: readonly number[]): number {
    if (build === undefined || fields.length === 0) return 0;
    const { carry, carryBytes, columns } = build.spec;
    const isApart = (field: number): boolean => {
        const type = columns[carry[field] ?? -1];
        return type !== undefined && isVariable(type) && (carryBytes?.[field] ?? 0) === 0;
    };
    return rowMissShare + build.width.fixed / machine.cacheLineBytes + fields.filter(isApart).length;
}

function lookedUpNs(context: CostContext, lookUp: LookUp): number {
    const { build, fields, keys, newKeyShare, rows, matched, made = 1 } = lookUp;
    const { profile } = context;
    const buildRows = build?.rows ?? 0;
    const miss = missNs(context, buildRows * ((build?.width.fixed ?? 16) + (build?.width.heap ?? 0) + tableSlotBytes));
    // Rows that repeat the keys beside them mostly come in the order of these, and find what they look up side by side:
    // 12 ns a row on two cores with such keys (orders x lineitem by date), 74 without (part x lineitem by brand).
    const apart = miss * Math.max(0, 2 * newKeyShare - 1);
    const built = made * buildRows * (profile.buildNsPerRow + miss * overlappedMissShare);
    const looked = rows * (lookUpNs + apart * overlappedMissShare + keysNs(keys));
    return built + looked + matched * (profile.probeNsPerRow + apart * missesOf(context, build, fields));
}

function streamingJoinCost(
    context: CostContext,
    stage: Extract<StageDraft, { kind: "streamingJoin" }>,
    input: StageInput | undefined
): Cost {
    const { keys } = stage.probeSpec;
    const rows = shareOf(stage) * stage.rowsIn;
    const fields = stage.spec.outputs.filter(({ side }) => side !== "probe").map(({ buildField }) => buildField);
    const looked = lookedUpNs(context, {
        ...{ build: context.sets[stage.build], fields, keys, newKeyShare: input?.newKeyShare(keys) ?? 1 },
        ...{ rows, matched: Math.min(rows, stage.rowsOut) }
    });
    const ms = (rows * readNs(context, stage, input) + looked) / nsPerMs / movers(context);
    return { ms: ms + outputMs(context, stage), spillBytes: outputSpill(context, stage) };
}

function joinCost(context: CostContext, stage: Extract<StageDraft, { kind: "join" }>): Cost {
    const { profile } = context;
    const build = context.sets[stage.build];
    const buildRows = build?.rows ?? 0;
    const partitions = 2 ** (build?.spec.radixBits ?? 0);
    // Slots, and row numbers unless matches are only counted.
    const slotBytes = stage.output.to === "sink" && context.sink === "count" ? 20 : tableSlotBytes;
    const perRow = (build?.width.fixed ?? 16) + (build?.width.heap ?? 0) + slotBytes;
    const miss = missNs(context, (buildRows * perRow) / partitions);
    const probeRows = context.sets[stage.probe]?.rows ?? 0;
    const ns = buildRows * (profile.buildNsPerRow + miss) + probeRows * (profile.probeNsPerRow + miss);
    const readMs = (spilled(context, stage.build) + spilled(context, stage.probe)) / profile.spillReadBytesPerMs;
    // Partitions are built and looked up one after the other.
    const joinMs = (shareOf(stage) * ns) / nsPerMs / movers(context);
    return { ms: readMs + joinMs + outputMs(context, stage), spillBytes: outputSpill(context, stage) };
}

/** Both sides' keys are read, their bits set or looked up; probe rows are encoded where their columns are wanted. */
function arrayJoinCost(
    context: CostContext,
    stage: Extract<StageDraft, { kind: "arrayJoin" }>,
    input: StageInput | undefined
): Cost {
    const { profile } = context;
    const miss = missNs(context, stage.spec.keyValues / 8) * overlappedMissShare;
    const probeRows = stage.probeRows * shareOf(stage);
    const keyBytes = 8 * (input?.inMemory === true ? readInPlaceShare : 1);
    const keys =
        (stage.rowsIn - stage.probeRows + probeRows) *
        (profile.arrayNsPerKey + miss + (keyBytes * nsPerMs) / profile.readBytesPerMs);
    const merge = ((stage.spec.buildWorkers * stage.spec.keyValues) / 8 / profile.readBytesPerMs) * nsPerMs;
    const encoded = readNs(context, stage, input) + profile.partitionNsPerRow + carriedNs(stage.probeSpec);
    const ns = keys + merge + (stage.spec.outputs.length === 0 ? 0 : probeRows * encoded);
    return { ms: ns / nsPerMs / movers(context) + outputMs(context, stage), spillBytes: outputSpill(context, stage) };
}

function filledNs(context: CostContext, set: number): number {
    const draft = context.sets[set];
    return draft === undefined ? 0 : encodeNs(context, draft.rows, draft.width.fixed + draft.width.heap);
}

/** Each row is looked up in one table after the other, for which its key is brought together; groups as they come. */
function pipelineCost(
    context: CostContext,
    stage: Extract<StageDraft, { kind: "pipeline" }>,
    input: StageInput | undefined
): Cost {
    const { passes } = stage.spec;
    const made = (passes?.bounds.length ?? 0) + 1;
    let rows = stage.rowsIn * (passes?.readShare ?? 1);
    let ns = rows * readNs(context, stage, input);
    // All keys are looked at in each pass.
    if (passes !== undefined) ns += stage.rowsIn * context.profile.arrayNsPerKey;
    const newKeyShares: number[] = [];
    stage.builds.forEach((build, place) => {
        const { keys = [], keyColumns = [] } = stage.spec.joins[place] ?? {};
        const inputKeys = keys.map((key) => ({ ...key, column: keyColumns[key.column]?.column ?? -1 }));
        const [from = -1, ...others] = new Set(keys.map(({ column }) => keyColumns[column]?.join));
        // Rows that found the same row of one join take the same key to the next one.
        const found = from < 0 ? input?.newKeyShare(inputKeys) : newKeyShares[from];
        const newKeyShare = others.length > 0 ? 1 : (found ?? 1);
        newKeyShares.push(newKeyShare);
        const matched = stage.rowsOfJoins[place] ?? rows;
        ns += lookedUpNs(context, {
            build: context.sets[build],
            fields: stage.spec.outputs.filter(({ join }) => join === place).map(({ column }) => column),
            keys,
            newKeyShare,
            rows,
            matched,
            made
        });
        // Other build sides are filled by a stage of their own.
        if (place === passes?.join) ns += made * filledNs(context, build);
        rows = matched;
    });
    if (stage.group !== undefined) {
        const { spec, inputSpec } = stage.group;
        ns += groupNs(context, spec, inputSpec.keys, rows, stage.rowsOut, 1);
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
        const short = keys.filter(isShort);
        const shares = numberedKeyShare * short.length + numberedValueShare * aggregates.length;
        return rows * (groupNsPerRow * shares + textKeyNs * (keys.length - short.length) + distinct);
    }
    const miss = missNs(context, (groups * (40 + 16 * (aggregates.length + 1))) / partitions);
    const values = aggregates.filter(({ field }) => field >= 0).length;
    const valuesNs = groupNsPerRow * (groupedRowShare + groupedValueShare * values) + distinct;
    const perGroup = groupNsPerRow * newGroupShare * (1 + newValueShare * values);
    return rows * (valuesNs + miss + comparedKeyShare * keysNs(keys)) + groups * perGroup;
}

function groupCost(
    context: CostContext,
    stage: Extract<StageDraft, { kind: "group" | "hashGroup" }>,
    input: StageInput | undefined
): Cost {
    const { profile } = context;
    const spec = stage.kind === "group" ? context.sets[stage.set]?.spec : stage.inputSpec;
    const partitions = 2 ** (spec?.radixBits ?? 0);
    let ns = groupNs(context, stage.spec, spec?.keys ?? [], stage.rowsIn, stage.rowsOut, partitions);
    let ms = 0;
    if (stage.kind === "hashGroup") ns += stage.rowsIn * readNs(context, stage, input);
    else ms += spilled(context, stage.set) / profile.spillReadBytesPerMs;
    return {
        ms: ms + ns / nsPerMs / movers(context) + outputMs(context, stage),
        spillBytes: outputSpill(context, stage)
    };
}

/** Time of a worker to read a row of the input, of the columns that the stage needs. */
function readNs(context: CostContext, stage: StageDraft, input: StageInput | undefined): number {
    if (input === undefined) return 0;
    const columns = readColumns(stage, context.sets);
    const widths = columns.map((column) => input.widths[column] ?? { fixed: 8, heap: 0 });
    const bytes = arrowRowBytes(widths);
    const types = columns.map((column) => input.types[column] as ColumnType);
    const copied = input.inMemory ? Math.min(bytes, copiedRowBytes(types, widths)) : bytes;
    return ((copied + (bytes - copied) * readInPlaceShare) * nsPerMs) / context.profile.readBytesPerMs;
}

function readColumns(stage: StageDraft, sets: readonly SetDraft[]): number[] {
    if (stage.kind === "pipeline") return pipelineColumnsRead(stage.spec);
    const spec =
        stage.kind === "partition"
            ? sets[stage.set]?.spec
            : stage.kind === "streamingJoin" || stage.kind === "arrayJoin"
              ? stage.probeSpec
              : stage.kind === "hashGroup"
                ? stage.inputSpec
                : undefined;
    return spec === undefined ? [] : columnsRead(spec.keys, spec.carry);
}

/**
 * A stage of several workers takes a turn of the event loop, and a share of `stageStartMs` for each thread that begins
 * and ends. A query of one stage took 2 ms beside its work on 16 cores and on two, and of two stages 4 (customer anti
 * join orders, SSB Q1.2). The few rows of a table's side are read in the same turn as what follows.
 */
const stageTurnMs = 0.7;
const startedWorkerShare = 0.35;

function startMs({ profile, workers }: CostContext, stage: StageDraft): number {
    const isOneTurn = stage.kind === "partition" && stage.rowsIn <= defaultPolicy.rowsAtOnceMax;
    if (workers === 1 || isOneTurn) return profile.stageStartMs;
    return stageTurnMs + profile.stageStartMs * workers * startedWorkerShare;
}

function workCost(context: CostContext, stage: StageDraft, input: StageInput | undefined): Cost {
    switch (stage.kind) {
        case "partition":
            return partitionCost(context, stage, input);
        case "join":
            return joinCost(context, stage);
        case "streamingJoin":
            return streamingJoinCost(context, stage, input);
        case "arrayJoin":
            return arrayJoinCost(context, stage, input);
        case "pipeline":
            return pipelineCost(context, stage, input);
        default:
            return groupCost(context, stage, input);
    }
}

/** Predicted time and spill of a stage. `input`: what it reads, if any. */
export function stageCost(context: CostContext, stage: StageDraft, input: StageInput | undefined): Cost {
    const { ms, spillBytes } = workCost(context, stage, input);
    return { ms: ms + startMs(context, stage), spillBytes };
}
