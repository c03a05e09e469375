// SPDX-License-Identifier: Apache-2.0
import { cpuJoinAlgorithm } from "../model/algorithms.js";
import { isNested, type ColumnType, type KeySpec } from "../model/column-type.js";
import { sumOf } from "../model/sizes.js";
import { limitOf, type InputNode, type JoinColumn, type JoinNode, type LogicalNode } from "../plan/logical.js";
import type { PipelineColumn, PipelineDescription, PipelineJoin, PipelinePasses, StageOutput } from "../plan/plan.js";
import type { CompileNode, PlanDraft, SetDraft } from "./compile.js";
import { describeJoin, neededOf, planJoinFrom, type JoinPlan } from "./join-plan.js";
import { joinSides, joinSidesFrom, otherSide, type JoinSides } from "./join-sides.js";
import { columnsRead, pipelineColumnsRead } from "./stage-memory.js";
import { looksUnique } from "./statistics.js";

/** Where a logical column of a node is in a pipeline that has come as far as the node. */
type Places = (column: number) => PipelineColumn;

interface PlannedJoin {
    readonly plan: JoinPlan;
    /** Columns of its probe side. */
    readonly probeColumn: Places;
    /** Of its key between passes over the input, in each of which the plan has its share of the build rows. */
    readonly bounds: readonly string[];
}

/** Joins through which the rows of an input stream, the first one first, and where their columns are then. */
export interface Pipeline {
    readonly input: InputNode;
    readonly joins: readonly PlannedJoin[];
    /** Tells where the logical columns of the last join are. */
    readonly column: Places;
    /** May the column be NULL, types of the inputs believed? */
    readonly mayBeNull: (column: number) => boolean;
}

/** native/cpu/materialize/vector_gather.cpp: fixed values of a vector have no more bytes. */
const vectorValueBytesMax = 64;

function isForVectors(type: ColumnType): boolean {
    return !isNested(type) && !(type.layout === "fixed" && type.byteWidth > vectorValueBytesMax);
}

/** Does each probe row tell by itself what comes out of it? Rows of the build side never come out alone then. */
function isByRow(sides: JoinSides): boolean {
    return sides.emit !== "buildOnce" && !sides.keepUnmatchedBuild;
}

/** Sides of the join with tables on one of them past which rows can stream. */
function sidesOf(draft: PlanDraft, node: JoinNode, needed: readonly number[]): JoinSides | undefined {
    const { estimator, policy } = draft.request;
    const sides = joinSides(node, needed, estimator, policy);
    if (isByRow(sides)) return sides;
    const other = node.hints.buildSide === undefined ? joinSidesFrom(node, otherSide(sides.build)) : sides;
    return isByRow(other) ? other : undefined;
}

/** native/cpu/hash_join/perfect_table.hpp: a head and a bit for each value, and for each row the next equal one. */
const perfectValueBytes = 4 + 1 / 8;
const chainBytes = 4;

/** native/executor/cpu/key_statistics.cpp: rows of a sample lie together in pieces of so many. */
const pieceRows = 256;
/** Fewer pieces of sorted keys say little of their range: the last one may end so large a share before the last row. */
const piecesMin = 8;

/** Values from the smallest to the largest key of a build side, by its sample; Infinity: nothing is known of them. */
function sampledRange(draft: PlanDraft, { node, sides }: JoinPlan, keys: readonly KeySpec[]): number {
    const { estimator, policy } = draft.request;
    const sample = estimator.statisticsOf(node[sides.build], keys);
    if (sample === undefined || sample.min === null || sample.max === null) return Infinity;
    const range = Number(sample.max - sample.min) + 1;
    if (sample.sampledRows + sample.nulls >= sample.rows) return range;
    const pieces = sample.sampledRows / pieceRows;
    return pieces < piecesMin ? Infinity : range * (1 + 2 / pieces + 2 * policy.arrayRangeSlack);
}

/** The same of the build rows in one pass. */
function rangeOf(draft: PlanDraft, { plan, bounds }: PlannedJoin): number {
    return sampledRange(draft, plan, plan.build.keys) / (bounds.length + 1);
}

/**
 * Values of one integer key that a perfect table may be spread over: as many as take no more memory than a hash table,
 * or more where memory is plenty and many rows are looked up.
 */
function perfectValues(draft: PlanDraft, join: PlannedJoin, rows: number): number | undefined {
    const { policy, budgetBytes } = draft.request;
    const { build, buildRows } = join.plan;
    const [key, ...others] = build.keys;
    if (key?.kind !== "integer" || others.length > 0 || build.nullKeys === "equal") return undefined;
    const sparse = Math.min(rows * policy.perfectValuesPerLookup, (budgetBytes * policy.readShare) / perfectValueBytes);
    const affordable = Math.max((buildRows * policy.slotBytesPerRow) / perfectValueBytes, sparse);
    return Math.ceil(Math.min(affordable, rangeOf(draft, join)));
}

function isUnique(draft: PlanDraft, { plan: { node, sides, build } }: PlannedJoin): boolean {
    const sample = draft.request.estimator.statisticsOf(node[sides.build], build.keys);
    return sample !== undefined && looksUnique(sample);
}

/** Bytes of the tables, and of the rows in them, at most; `rows` are looked up. */
function residentBytes(draft: PlanDraft, join: PlannedJoin, rows: number): { tables: number; rows: number } {
    const { build, buildRows, buildBytes } = join.plan;
    const { policy } = draft.request;
    const slack = build.feed.exact ? policy.partitionSlack : policy.partitionSlack * policy.estimateSlack;
    const values = perfectValues(draft, join, rows) ?? 0;
    const perfect = values * perfectValueBytes;
    const hashed = buildRows * policy.slotBytesPerRowMax * slack;
    // Where a sample says that all keys fit a perfect table, it is not planned for another one: should they not, the
    // query is planned again.
    const isPerfect = draft.canRunAgain && values === Math.ceil(rangeOf(draft, join));
    const chains = isUnique(draft, join) ? 0 : buildRows * chainBytes * slack;
    const tables = isPerfect ? perfect + chains : Math.max(hashed, perfect);
    return { tables, rows: buildBytes * slack };
}

/** The same together, of each join. */
function bytesOfJoins(draft: PlanDraft, { input, joins }: Pick<Pipeline, "input" | "joins">): number[] {
    const { rows } = draft.request.estimator.of(input);
    return joins.map((join) => {
        const resident = residentBytes(draft, join, rows);
        return resident.tables + resident.rows;
    });
}

/** Past tables of that size, is it cheaper to look rows up at random than to partition both sides? */
function areTablesSmall(draft: PlanDraft, join: JoinPlan): boolean {
    const { policy, machine, limits, debug } = draft.request;
    if (debug.algorithm === "pipeline") return true;
    const lastLevel = Math.max(machine.l2Bytes, (machine.l3Bytes * policy.lastLevelShare) / limits.workers);
    const table = join.buildBytes + join.tableBytes;
    return table <= Math.max(lastLevel, policy.pipelineTableBytesMax);
}

function canStream(draft: PlanDraft, join: JoinPlan): boolean {
    if (join.node.algorithm === cpuJoinAlgorithm) return false;
    const { build } = join;
    // Tables cannot be spilled later; where their rows turn out to be more, another plan reads everything again.
    const counted = build.feed.exact && join.buildBytes === join.buildRows * draft.widthOf(build).fixed;
    if (!counted && !draft.canRunAgain) return false;
    const kept = build.carry.map((column) => build.feed.types[build.feed.position(column)] as ColumnType);
    return kept.every(isForVectors) && areTablesSmall(draft, join);
}

/** The pipeline that the node ends, as far down as its joins can be part of it; undefined: it cannot end one. */
function pipelineAt(draft: PlanDraft, node: LogicalNode, needed: readonly number[]): Pipeline | undefined {
    if (node.kind === "input") {
        const isStream = node.input.streamed || !needed.every((column) => isForVectors(columnType(node, column)));
        if (isStream) return undefined;
        const mayBeNull = (column: number): boolean => columnType(node, column).nullable;
        return { input: node, joins: [], column: (column) => ({ join: -1, column }), mayBeNull };
    }
    if (node.kind !== "join") return undefined;
    const sides = sidesOf(draft, node, needed);
    if (sides === undefined) return undefined;
    const probeSide = otherSide(sides.build);
    if (limitOf(node[probeSide]) !== Infinity) return undefined;
    const join = planJoinFrom(draft, node, needed, sides);
    if (!canStream(draft, join)) return undefined;
    const before = pipelineAt(draft, node[probeSide], neededOf(node, needed, probeSide));
    if (before === undefined) return undefined;
    const place = before.joins.length;
    const isBuild = (column: JoinColumn): boolean => column.side === sides.build;
    return {
        input: before.input,
        joins: [...before.joins, { plan: join, probeColumn: before.column, bounds: [] }],
        column: (index) => {
            const column = node.columns[index] as JoinColumn;
            if (!isBuild(column)) return before.column(column[probeSide]);
            return { join: place, column: join.build.carry.indexOf(column[sides.build]) };
        },
        mayBeNull: (index) => {
            const column = node.columns[index] as JoinColumn;
            if (!isBuild(column)) return before.mayBeNull(column[probeSide]);
            const child = node[sides.build];
            const type = child.columns[column[sides.build]]?.type;
            // Types of an intermediate result promise nothing.
            return sides.keepUnmatchedProbe || child.kind !== "input" || type?.nullable !== false;
        }
    };
}

function columnType(node: InputNode, column: number): ColumnType {
    return node.columns[column]?.type as ColumnType;
}

/** Joins of the node through which the rows of one input can stream at once, if their tables fit. */
export function pipelineOf(draft: PlanDraft, node: LogicalNode, needed: readonly number[]): Pipeline | undefined {
    const { limits, debug, policy, budgetBytes } = draft.request;
    const isAllowed = debug.algorithm === undefined || debug.algorithm === "pipeline" || debug.algorithm === "hash";
    if (!limits.streaming || !isAllowed || debug.scheme !== undefined || node.kind !== "join") return undefined;
    const whole = pipelineAt(draft, node, needed);
    const inParts = whole === undefined || limits.passes === 1 ? undefined : inPasses(draft, whole);
    const pipeline = inParts ?? (limits.passes === 1 || debug.passes !== undefined ? whole : undefined);
    if (pipeline === undefined) return undefined;
    if (limits.passes > 1) return inBestOrder(draft, pipeline);
    const bytes = sumOf(bytesOfJoins(draft, pipeline));
    return bytes <= budgetBytes * policy.tableShare * 2 ? inBestOrder(draft, pipeline) : undefined;
}

/** Integers that cut the keys of a build side, as far as a sample tells, into as many ranges as there are passes. */
function boundsOf(draft: PlanDraft, { plan }: PlannedJoin): string[] {
    const { estimator, limits } = draft.request;
    const { node, sides, build } = plan;
    const child = node[sides.build];
    const [key, ...others] = build.keys;
    // Rows without a partner would come out in each pass, and a stream comes once.
    const canPass = child.kind === "input" && !sides.keepUnmatchedProbe && !sides.anti && draft.canRunAgain;
    if (!canPass || key?.kind !== "integer" || others.length > 0 || build.nullKeys !== "drop") return [];
    const sample = estimator.statisticsOf(child, build.keys);
    if (sample === undefined || sample.min === null || sample.max === null) return [];
    if (sampledRange(draft, plan, build.keys) === Infinity) return [];
    const range = sample.max - sample.min + 1n;
    // Keys are compared as signed integers of their width.
    if (range < BigInt(limits.passes) || sample.max >= 1n << BigInt(8 * key.width - 1)) return [];
    const from = sample.min;
    return Array.from({ length: limits.passes - 1 }, (_, i) =>
        String(from + (range * BigInt(i + 1)) / BigInt(limits.passes))
    );
}

/** The pipeline with the largest of its build sides in parts, if that can be. */
function inPasses(draft: PlanDraft, pipeline: Pipeline): Pipeline | undefined {
    const { limits } = draft.request;
    const bytes = bytesOfJoins(draft, pipeline);
    const largest = bytes.indexOf(Math.max(...bytes));
    const join = pipeline.joins[largest] as PlannedJoin;
    const bounds = boundsOf(draft, join);
    if (bounds.length === 0) return undefined;
    const share = (whole: number): number => Math.ceil(whole / limits.passes);
    const { build, buildRows, buildBytes, tableBytes, tableBytesMax } = join.plan;
    const plan: JoinPlan = {
        ...join.plan,
        build: { ...build, feed: { ...build.feed, rows: share(buildRows), exact: false } },
        buildRows: share(buildRows),
        buildBytes: share(buildBytes),
        tableBytes: share(tableBytes),
        tableBytesMax: share(tableBytesMax)
    };
    return { ...pipeline, joins: pipeline.joins.with(largest, { ...join, plan, bounds }) };
}

/** What a row becomes in a join, whatever the joins before it did: in one pass. */
function rowsPerRow(draft: PlanDraft, { plan, bounds }: PlannedJoin): number {
    return draft.request.estimator.rowsPerRow(plan.node, otherSide(plan.sides.build)) / (bounds.length + 1);
}

/** Joins before it that a join of the pipeline gets keys from. */
function neededBefore({ plan, probeColumn }: PlannedJoin): number[] {
    return plan.probe.keys.map(({ column }) => probeColumn(column).join).filter((join) => join >= 0);
}

/**
 * Joins that leave fewer rows come first, as far as their keys are there by then. Each row decides by itself what comes
 * out of it, so the result is the same in any order. Hints are of results in the order that was asked for.
 */
function inBestOrder(draft: PlanDraft, pipeline: Pipeline): Pipeline {
    const { joins } = pipeline;
    if (joins.length < 2 || joins.some(({ plan }) => plan.node.hints.resultRows !== undefined)) return pipeline;
    const left = new Map(joins.map((join, place) => [place, rowsPerRow(draft, join)]));
    const order: number[] = [];
    while (left.size > 0) {
        let next: number | undefined;
        for (const [place, rows] of left) {
            const isReady = neededBefore(joins[place] as PlannedJoin).every((before) => order.includes(before));
            // Estimates that are as good as equal change nothing.
            if (isReady && (next === undefined || rows < (left.get(next) as number) * 0.95)) next = place;
        }
        order.push(next as number);
        left.delete(next as number);
    }
    const moved = ({ join, column }: PipelineColumn): PipelineColumn => {
        return { join: join < 0 ? join : order.indexOf(join), column };
    };
    return {
        ...pipeline,
        joins: order.map((place) => {
            const join = joins[place] as PlannedJoin;
            return { ...join, probeColumn: (column) => moved(join.probeColumn(column)) };
        }),
        column: (column) => moved(pipeline.column(column))
    };
}

/** Times that a pipeline of these joins reads its input. */
function passesOf(joins: readonly PlannedJoin[]): number {
    return Math.max(...joins.map(({ bounds }) => bounds.length + 1));
}

/** Rows that are read, those of a build side in parts included. */
export function rowsRead(draft: PlanDraft, { input, joins }: Pipeline): number {
    const passes = passesOf(joins);
    const parted = joins.find(({ bounds }) => bounds.length > 0);
    const { estimator } = draft.request;
    return passes * (estimator.of(input).rows + passes * (parted?.plan.buildRows ?? 0));
}

/** Rows that are expected behind each join, in all passes: the last one gives what its node does. */
export function rowsBehindJoins(draft: PlanDraft, { input, joins }: Pipeline, last: LogicalNode): number[] {
    const { estimator } = draft.request;
    let rows = estimator.of(input).rows * passesOf(joins);
    const behind = joins.map((join) => (rows = Math.ceil(rows * rowsPerRow(draft, join))));
    return [...behind.slice(0, -1), estimator.of(last).rows];
}

/** What a stage of the pipeline takes beside its output. */
export interface CompiledPipeline {
    spec: PipelineDescription;
    builds: number[];
    inputBytes: number;
    tableBytes: number;
}

/** Key columns of a join as they are at its place of the pipeline. */
function keysOf({ plan, probeColumn }: PlannedJoin): Omit<PipelineJoin, "spec" | "build"> {
    const { probe, build } = plan;
    const columns = columnsRead(probe.keys, []);
    return {
        keyColumns: columns.map(probeColumn),
        columns: columns.map((column) => probe.feed.types[probe.feed.position(column)] as ColumnType),
        keys: probe.keys.map((key): KeySpec => ({ ...key, column: columns.indexOf(key.column) })),
        nullKeys: build.nullKeys === "equal" ? "equal" : "keep"
    };
}

/** The set that a build side is kept in, and the stage that fills it, if the pipeline does not. */
function compileBuild(draft: PlanDraft, { plan: join, bounds }: PlannedJoin, compileNode: CompileNode): number {
    const { limits, policy, debug } = draft.request;
    const parallel = join.buildRows >= policy.rowsPerWorkerMin * 2 && limits.workers > 1;
    const bits = debug.radixBits ?? (parallel ? Math.ceil(Math.log2(limits.workers)) : 0);
    const id = draft.addSet({ ...join.build, bits, spill: debug.forceSpill ?? false });
    const set = draft.sets[id] as SetDraft;
    set.needs.min = set.needs.wanted;
    const child = join.node[join.sides.build];
    if (bounds.length > 0) return id;
    if (child.kind === "input") draft.addPass(id, join.build.feed, "partition build");
    else compileNode(draft, child, neededOf(join.node, join.needed, join.sides.build), { to: "set", set: id });
    return id;
}

/** native/executor/cpu/interval_filter.hpp: keys of so many rows as they are read and as words, for each worker. */
const filterBytes = 2 * 16_384 * 8;

/** Memory in which a build side is filled, before the input is read. */
function partBytes({ readBytes, combiningBytes }: SetDraft): number {
    return readBytes + combiningBytes;
}

function describePasses(draft: PlanDraft, pipeline: Pipeline, join: number, morselRows: number): PipelinePasses {
    const { estimator, inputs } = draft.request;
    const { plan, bounds } = pipeline.joins[join] as PlannedJoin;
    const child = plan.node[plan.sides.build] as InputNode;
    const probe = plan.node[otherSide(plan.sides.build)];
    const sample = probe.kind === "input" ? estimator.statisticsOf(probe, plan.probe.keys) : undefined;
    // Morsels without a key of the pass are left out: in order, each pass has its own ones.
    const span = (sample?.pieceRangeShare ?? 1) + morselRows / Math.max(1, estimator.of(pipeline.input).rows);
    const readShare = Math.min(1, 1 / (bounds.length + 1) + span);
    return { join, input: inputs.indexOf(child.input), bounds, readShare };
}

/** Adds the stages of the build sides, and describes the stage that streams rows past their tables. */
export function compilePipeline(
    draft: PlanDraft,
    pipeline: Pipeline,
    needed: readonly number[],
    compileNode: CompileNode
): CompiledPipeline {
    const { limits, debug } = draft.request;
    const builds = pipeline.joins.map((join) => compileBuild(draft, join, compileNode));
    const { rows } = draft.request.estimator.of(pipeline.input);
    const joins = pipeline.joins.map((join, place): PipelineJoin => {
        const resident = residentBytes(draft, join, rows);
        // Rows that are read back stand beside their pages; others are where their set has them.
        const readBack = debug.forceSpill === true ? resident.rows : 0;
        const tableBytes = Math.ceil(resident.tables + readBack + limits.tableBytesMin);
        const perfect = { perfectValues: perfectValues(draft, join, rows), passes: join.bounds.length + 1 };
        const spec = { ...describeJoin(draft, join.plan, true, tableBytes, perfect), outputs: [] };
        return { ...keysOf(join), build: builds[place] as number, spec };
    });
    const outputs = needed.map(pipeline.column);
    const read = pipelineColumnsRead({ joins, outputs });
    const feed = draft.feedOfInput(pipeline.input);
    const pass = { role: "probe" as const, feed, keys: [], carry: read, nullKeys: "keep" as const };
    const { spec, readBytes } = draft.passSpec({ ...pass, bits: 0, spill: false });
    const parted = pipeline.joins.findIndex(({ bounds }) => bounds.length > 0);
    const partedBytes = parted < 0 ? 0 : partBytes(draft.sets[builds[parted] as number] as SetDraft);
    const filters = parted < 0 ? 0 : limits.workers * filterBytes;
    const vectors = sumOf(joins.map(({ keyColumns }) => keyColumns.length + joins.length + 6)) + 2 * outputs.length;
    return {
        spec: {
            columns: feed.types,
            joins,
            outputs,
            ...(parted < 0 ? {} : { passes: describePasses(draft, pipeline, parted, spec.morselRows) }),
            morselRows: spec.morselRows,
            workers: limits.workers
        },
        builds,
        inputBytes: filters + Math.max(partedBytes, readBytes + limits.workers * vectors * vectorColumnBytes),
        tableBytes: sumOf(joins.map((join) => join.spec.tableBytes))
    };
}

/** A column of a vector takes as much: 1,024 values of 16 bytes and NULL bits (cpu/materialize/row_vector.hpp). */
const vectorColumnBytes = 17 * 1024;

/** Does it save more than a partition pass over narrow rows costs, where they are not grouped as they come? */
function isWorthIt(draft: PlanDraft, { joins }: Pipeline): boolean {
    const { debug, policy } = draft.request;
    const [first, ...others] = joins;
    if (first === undefined || others.length > 0 || debug.algorithm === "pipeline") return true;
    // Where passes are needed, sides in partitions would go to disk.
    if (first.bounds.length > 0) return true;
    const width = draft.widthOf(first.plan.probe);
    return width.fixed + width.heap >= policy.pipelineRowBytesMin;
}

/** A pipeline whose rows go to `output` as they are. False: the node ends none that is worth it. */
export function compilePipelineJoin(
    draft: PlanDraft,
    node: JoinNode,
    needed: readonly number[],
    output: StageOutput,
    compileNode: CompileNode
): boolean {
    if (output.limit !== undefined) return false;
    const pipeline = pipelineOf(draft, node, needed);
    if (pipeline === undefined) return false;
    if (!isWorthIt(draft, pipeline)) return false;
    const { spec, builds, inputBytes, tableBytes } = compilePipeline(draft, pipeline, needed, compileNode);
    const { estimator } = draft.request;
    const { widths, rows } = estimator.of(node);
    const outputWidths = needed.map((column) => widths[column] ?? { fixed: 8, heap: 0 });
    draft.stages.push({
        kind: "pipeline",
        id: draft.stages.length,
        name: "join",
        algorithm: pipelineName(pipeline),
        rowsIn: rowsRead(draft, pipeline),
        rowsOut: rows,
        memory: { inputBytes, tableBytes, outputBytes: draft.outputBytes(outputWidths, output) },
        input: draft.request.inputs.indexOf(pipeline.input.input),
        builds,
        rowsOfJoins: rowsBehindJoins(draft, pipeline, node),
        spec,
        output
    });
    return true;
}

export function pipelineName({ joins }: Pipeline): string {
    const name = joins.length === 1 ? "hash join in a pipeline" : `${joins.length} hash joins in a pipeline`;
    const passes = passesOf(joins);
    return passes === 1 ? name : `${name} of ${passes} passes`;
}
