// SPDX-License-Identifier: Apache-2.0
import { cpuJoinAlgorithm } from "../model/algorithms.js";
import { isNested, type ColumnType, type KeySpec } from "../model/column-type.js";
import { sumOf } from "../model/sizes.js";
import { limitOf, type InputNode, type JoinColumn, type JoinNode, type LogicalNode } from "../plan/logical.js";
import type { PipelineColumn, PipelineDescription, PipelineJoin, StageOutput } from "../plan/plan.js";
import type { CompileNode, PlanDraft, SetDraft } from "./compile.js";
import { describeJoin, neededOf, planJoinFrom, type JoinPlan } from "./join-plan.js";
import { joinSides, joinSidesFrom, otherSide, type JoinSides } from "./join-sides.js";
import { columnsRead, pipelineColumnsRead } from "./stage-memory.js";

/** Where a logical column of a node is in a pipeline that has come as far as the node. */
type Places = (column: number) => PipelineColumn;

interface PlannedJoin {
    readonly plan: JoinPlan;
    /** Columns of its probe side. */
    readonly probeColumn: Places;
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

/** native/cpu/hash_join/perfect_table.hpp: a head and a bit. */
const perfectValueBytes = 4 + 1 / 8;

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

/**
 * Values of one integer key that a perfect table may be spread over: as many as take no more memory than a hash table,
 * or more where memory is plenty and many rows are looked up.
 */
function perfectValues(draft: PlanDraft, join: JoinPlan, rows: number): number | undefined {
    const { policy, budgetBytes } = draft.request;
    const { build, buildRows } = join;
    const [key, ...others] = build.keys;
    if (key?.kind !== "integer" || others.length > 0 || build.nullKeys === "equal") return undefined;
    const sparse = Math.min(rows * policy.perfectValuesPerLookup, (budgetBytes * policy.readShare) / perfectValueBytes);
    const affordable = Math.max((buildRows * policy.slotBytesPerRow) / perfectValueBytes, sparse);
    return Math.ceil(Math.min(affordable, sampledRange(draft, join, build.keys)));
}

/** Bytes of the tables and of the rows in them, at most; `rows` are looked up. */
function residentBytes(draft: PlanDraft, join: JoinPlan, rows: number): number {
    const { build, buildRows, buildBytes } = join;
    const { policy } = draft.request;
    const slack = build.feed.exact ? policy.partitionSlack : policy.partitionSlack * policy.estimateSlack;
    const hashed = buildRows * policy.slotBytesPerRowMax;
    const perfect = (perfectValues(draft, join, rows) ?? 0) * perfectValueBytes;
    return (buildBytes + Math.max(hashed, perfect)) * slack;
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
        joins: [...before.joins, { plan: join, probeColumn: before.column }],
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
    const pipeline = pipelineAt(draft, node, needed);
    if (pipeline === undefined) return undefined;
    const { rows } = draft.request.estimator.of(pipeline.input);
    const bytes = sumOf(pipeline.joins.map(({ plan }) => residentBytes(draft, plan, rows)));
    return bytes <= budgetBytes * policy.tableShare * 2 ? inBestOrder(draft, pipeline) : undefined;
}

/** What a row becomes in a join, whatever the joins before it did. */
function rowsPerRow(draft: PlanDraft, { plan }: PlannedJoin): number {
    return draft.request.estimator.rowsPerRow(plan.node, otherSide(plan.sides.build));
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
            const { plan, probeColumn } = joins[place] as PlannedJoin;
            return { plan, probeColumn: (column) => moved(probeColumn(column)) };
        }),
        column: (column) => moved(pipeline.column(column))
    };
}

/** Rows that are expected behind each join: the last one gives what its node does. */
export function rowsBehindJoins(draft: PlanDraft, { input, joins }: Pipeline, last: LogicalNode): number[] {
    const { estimator } = draft.request;
    let rows = estimator.of(input).rows;
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

/** The set that a build side is kept in, and the stage that fills it. */
function compileBuild(draft: PlanDraft, join: JoinPlan, compileNode: CompileNode): number {
    const { limits, policy, debug } = draft.request;
    const parallel = join.buildRows >= policy.rowsPerWorkerMin * 2 && limits.workers > 1;
    const bits = debug.radixBits ?? (parallel ? Math.ceil(Math.log2(limits.workers)) : 0);
    const id = draft.addSet({ ...join.build, bits, spill: debug.forceSpill ?? false });
    const set = draft.sets[id] as SetDraft;
    set.needs.min = set.needs.wanted;
    const child = join.node[join.sides.build];
    if (child.kind === "input") draft.addPass(id, join.build.feed, "partition build");
    else compileNode(draft, child, neededOf(join.node, join.needed, join.sides.build), { to: "set", set: id });
    return id;
}

/** Adds the stages of the build sides, and describes the stage that streams rows past their tables. */
export function compilePipeline(
    draft: PlanDraft,
    pipeline: Pipeline,
    needed: readonly number[],
    compileNode: CompileNode
): CompiledPipeline {
    const { limits, debug } = draft.request;
    const builds = pipeline.joins.map(({ plan }) => compileBuild(draft, plan, compileNode));
    const spill = debug.forceSpill === true ? 2 : 1; // rows that are read back stand beside their pages
    const { rows } = draft.request.estimator.of(pipeline.input);
    const joins = pipeline.joins.map((join, place): PipelineJoin => {
        const tableBytes = Math.ceil(spill * residentBytes(draft, join.plan, rows) + limits.tableBytesMin);
        const perfect = { perfectValues: perfectValues(draft, join.plan, rows) };
        const spec = { ...describeJoin(draft, join.plan, true, tableBytes, perfect), outputs: [] };
        return { ...keysOf(join), build: builds[place] as number, spec };
    });
    const outputs = needed.map(pipeline.column);
    const read = pipelineColumnsRead({ joins, outputs });
    const feed = draft.feedOfInput(pipeline.input);
    const pass = { role: "probe" as const, feed, keys: [], carry: read, nullKeys: "keep" as const };
    const { spec, readBytes } = draft.passSpec({ ...pass, bits: 0, spill: false });
    const vectors = sumOf(joins.map(({ keyColumns }) => keyColumns.length + joins.length + 6)) + 2 * outputs.length;
    return {
        spec: { columns: feed.types, joins, outputs, morselRows: spec.morselRows, workers: limits.workers },
        builds,
        inputBytes: readBytes + limits.workers * vectors * vectorColumnBytes,
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
        rowsIn: estimator.of(pipeline.input).rows,
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
    return joins.length === 1 ? "hash join in a pipeline" : `${joins.length} hash joins in a pipeline`;
}
