// SPDX-License-Identifier: Apache-2.0
import { type NullKeys, rowNumberColumn } from "../model/column-type.js";
import { clamp } from "../model/sizes.js";
import { limitOf, type AggregateKind, type GroupNode } from "../plan/logical.js";
import type { AggregateDescription, GroupDescription, StageOutput } from "../plan/plan.js";
import { hashMaskText, type CompileNode, type Feed, type PlanDraft, type SetRequest } from "./compile.js";
import { countedGroups } from "./distinct-groups.js";
import {
    compilePipeline,
    pipelineName,
    pipelineOf,
    rowsBehindJoins,
    rowsRead,
    type Pipeline
} from "./compile-pipeline.js";
import { fanout } from "./partitioning.js";

// Widest common state: row number, value and flag of `first`; a compensated sum with its count.
const stateBytes = 24;
// A (group, value) pair of count distinct in a set that has just grown (native/executor/cpu/distinct_pairs.cpp),
// without the value's own bytes.
const pairBytes = 48;
// While they are at most so many, groups are numbered and their states are arrays (native/cpu/group_by): slots and an
// address for each number, a count and up to two words for each state. Few groups have copies, up to so many places.
export const numberedGroupsMax = 16384;
const numberBytes = 80;
const placesMin = 512;
const keepValues: ReadonlySet<AggregateKind> = new Set(["min", "max", "first", "any"]);

interface GroupPlan {
    /** Of its stage. */
    name: string;
    node: GroupNode;
    pass: Omit<SetRequest, "bits" | "spill">;
    /** Wanted result columns. */
    needed: readonly number[];
    groups: number;
    /** Bytes of one group in a table. */
    recordBytes: number;
    /** Bytes of all (group, value) pairs of the count distinct that keeps most, if no two are equal; 0 without any. */
    pairsBytes: number;
}

/** The order of rows is defined only while they come from one relation: a join has none. */
function keepsOrder(feed: Feed): boolean {
    return feed.input !== undefined;
}

function neededOf(node: GroupNode, needed: readonly number[]): { keys: number[]; values: number[] } {
    const values = new Set<number>();
    for (const index of needed) {
        const column = node.aggregates[index - node.keys.length]?.column;
        if (column !== undefined && column >= 0) values.add(column);
    }
    return { keys: node.keys.map((key) => key.column), values: [...values].sort((a, b) => a - b) };
}

/** Ascending, as every stage delivers its columns. */
function feedColumns(keys: readonly number[], values: readonly number[]): number[] {
    return [...new Set([...keys, ...values])].sort((a, b) => a - b);
}

function planGroup(draft: PlanDraft, node: GroupNode, needed: readonly number[]): GroupPlan {
    const { child } = node;
    const { policy, estimator, texts } = draft.request;
    const { keys, values } = neededOf(node, needed);
    const wanted = feedColumns(keys, values);
    const feed = child.kind === "input" ? draft.feedOfInput(child) : draft.feedOfStage(child, wanted);
    const aggregates = needed
        .filter((index) => index >= node.keys.length)
        .map((index) => node.aggregates[index - node.keys.length]);
    const ordered = keepsOrder(feed) && aggregates.some((aggregate) => aggregate?.kind === "first");
    const carry = ordered ? [...wanted, rowNumberColumn] : wanted;
    // Without NULLs the mask that tells them from zeros is not needed: an int64 key stays one word, half the time.
    // Types of an intermediate result promise nothing (outer joins add NULLs).
    const mayBeNull = feed.input === undefined || node.keys.some((key) => feed.types[key.column]?.nullable !== false);
    const nullKeys: NullKeys = mayBeNull ? "equal" : "drop";
    const inlineKeys = texts.groupKeys(child, node.keys, estimator.of(child).widths);
    const pass = { role: "groups", feed, keys: inlineKeys, carry, nullKeys } as const;
    const keyWidth = draft.widthOf({ ...pass, carry: keys });
    let recordBytes = keyWidth.fixed + keyWidth.heap + policy.groupOverheadBytes;
    let pairsBytes = 0;
    for (const aggregate of aggregates) {
        const { kind, column } = aggregate ?? { kind: "countRows", column: -1 };
        const heap = column < 0 ? 0 : (feed.widths[feed.position(column)]?.heap ?? 0);
        recordBytes += stateBytes + (keepValues.has(kind) ? heap : 0);
        if (kind === "countDistinct") pairsBytes = Math.max(pairsBytes, feed.rows * (pairBytes + heap));
    }
    return {
        name: "group",
        node,
        pass,
        needed,
        groups: estimator.of(node).rows,
        recordBytes,
        pairsBytes
    };
}

/**
 * A table per worker and no partition pass? Pays while the tables stay small and merging them is little work.
 * `pipeline`: where the rows come from, if not from an input.
 */
function hashes(draft: PlanDraft, plan: GroupPlan, pipeline: Pipeline | undefined): boolean {
    const { policy, debug, budgetBytes, limits, machine } = draft.request;
    const { feed } = plan.pass;
    const distinct = plan.node.aggregates.some(
        (aggregate, i) => aggregate.kind === "countDistinct" && plan.needed.includes(plan.node.keys.length + i)
    );
    if ((feed.input === undefined && pipeline === undefined) || draft.isStreamed(feed) || distinct) return false;
    if (debug.algorithm === "partitioned" || draft.request.tableFull) return false;
    if (debug.algorithm === "hash") return true;
    if (!draft.canRunAgain) return false;
    const perWorker = plan.groups * plan.recordBytes * 2;
    if (perWorker * limits.workers > budgetBytes * policy.tableShare) return false;
    const small = perWorker <= Math.max(machine.l2Bytes, (machine.l3Bytes * policy.lastLevelShare) / limits.workers);
    return small || feed.rows / Math.max(1, plan.groups) >= policy.rowsPerGroupMin * limits.workers;
}

function describe(draft: PlanDraft, plan: GroupPlan, tableBytes: number): GroupDescription {
    const { node, pass } = plan;
    const field = (column: number): number => pass.carry.indexOf(column);
    const ordered = pass.carry.includes(rowNumberColumn);
    const aggregates = plan.needed
        .filter((index) => index >= node.keys.length)
        .map((index): AggregateDescription => {
            const aggregate = node.aggregates[index - node.keys.length] as GroupNode["aggregates"][number];
            const kind = aggregate.kind === "first" && !ordered ? "any" : aggregate.kind;
            return {
                kind,
                field: aggregate.column < 0 ? -1 : field(aggregate.column),
                resultType: (node.columns[index] as GroupNode["columns"][number]).type,
                decimalScale: aggregate.decimalScale
            };
        });
    return {
        keyFields: plan.needed
            .filter((index) => index < node.keys.length)
            .map((index) => field(node.keys[index]?.column ?? 0)),
        aggregates,
        rowNumberField: ordered ? field(rowNumberColumn) : -1,
        tableBytes,
        workers: draft.request.limits.workers,
        hashMask: hashMaskText(draft.request.debug.hashMask)
    };
}

function tableMemory(draft: PlanDraft, plan: GroupPlan, copies: number, copyBytes = 0): number {
    const { limits, policy, budgetBytes } = draft.request;
    const least = limits.workers * limits.tableBytesMin;
    const wanted = Math.ceil((plan.groups * plan.recordBytes * 4 + copyBytes) * copies + plan.pairsBytes);
    return clamp(wanted, least, Math.max(least, Math.floor(budgetBytes * policy.tableShare)));
}

/** Twice what the arrays of few groups take: each may have half of what a table has left. The least plan has none. */
function arrayBytes(draft: PlanDraft, plan: GroupPlan): number {
    if (draft.request.limits.tableBytesMin < draft.request.policy.tableBytesMin) return 0;
    const places = Math.max(placesMin, 2 * Math.min(plan.groups, numberedGroupsMax));
    return 2 * places * (numberBytes + 16 * plan.node.aggregates.length);
}

function compilePartitioned(
    draft: PlanDraft,
    plan: GroupPlan,
    output: StageOutput,
    outputWidths: number[],
    compileNode: CompileNode
): void {
    const { node, pass } = plan;
    const allBytes = plan.groups * plan.recordBytes * 2;
    const rowBytes = draft.widthOf(pass).fixed;
    const bits = node.keys.length === 0 ? 0 : fanout(draft.request, allBytes, pass.feed.rows, rowBytes).first;
    const set = draft.addSet({ ...pass, bits, spill: true });
    if (node.child.kind === "input") draft.addPass(set, pass.feed, "partition groups");
    else {
        const { keys, values } = neededOf(node, plan.needed);
        compileNode(draft, node.child, feedColumns(keys, values), { to: "set", set });
    }
    const tableBytes = tableMemory(draft, plan, 1);
    const page = draft.sets[set]?.spec.pageBytes ?? 0;
    draft.stages.push({
        kind: "group",
        id: draft.stages.length,
        name: plan.name,
        algorithm: "partitioned group-by",
        rowsIn: pass.feed.rows,
        rowsOut: plan.groups,
        memory: {
            inputBytes: draft.workers * 2 * page,
            tableBytes,
            outputBytes: draft.outputBytes(resultWidths(draft, plan, outputWidths), output)
        },
        set,
        spec: describe(draft, plan, tableBytes),
        output
    });
}

function resultWidths(draft: PlanDraft, plan: GroupPlan, columns: number[]): { fixed: number; heap: number }[] {
    const { widths } = draft.request.estimator.of(plan.node);
    return columns.map((column) => widths[column] ?? { fixed: 8, heap: 0 });
}

function compileHash(draft: PlanDraft, plan: GroupPlan, output: StageOutput): void {
    const { pass } = plan;
    const input = draft.passSpec({ ...pass, bits: 0, spill: false });
    const tableBytes = tableMemory(draft, plan, draft.workers, arrayBytes(draft, plan));
    draft.stages.push({
        kind: "hashGroup",
        id: draft.stages.length,
        name: "group",
        algorithm: "hash group-by",
        rowsIn: pass.feed.rows,
        rowsOut: plan.groups,
        memory: {
            inputBytes: input.readBytes,
            tableBytes,
            outputBytes: draft.outputBytes(resultWidths(draft, plan, [...plan.needed]), output)
        },
        input: pass.feed.input as number,
        inputSpec: input.spec,
        spec: describe(draft, plan, tableBytes),
        output
    });
}

/** The rows of joins that stream past their tables, grouped as they come. */
function compileGroupedPipeline(
    draft: PlanDraft,
    plan: GroupPlan,
    pipeline: Pipeline,
    output: StageOutput,
    compileNode: CompileNode
): void {
    const { inputs } = draft.request;
    const { keys, values } = neededOf(plan.node, plan.needed);
    const columns = feedColumns(keys, values);
    const { spec, builds, inputBytes, tableBytes } = compilePipeline(draft, pipeline, columns, compileNode);
    const nullable = plan.node.keys.some((key) => pipeline.mayBeNull(key.column));
    const pass = { ...plan.pass, nullKeys: nullable ? ("equal" as const) : ("drop" as const) };
    const grouped = draft.passSpec({ ...pass, bits: 0, spill: false });
    const groupBytes = tableMemory(draft, plan, draft.workers, arrayBytes(draft, plan));
    draft.stages.push({
        kind: "pipeline",
        id: draft.stages.length,
        name: "join and group",
        algorithm: `${pipelineName(pipeline)}, hash group-by`,
        rowsIn: rowsRead(draft, pipeline),
        rowsOut: plan.groups,
        memory: {
            inputBytes: inputBytes + grouped.encodingBytes,
            tableBytes: tableBytes + groupBytes,
            outputBytes: draft.outputBytes(resultWidths(draft, plan, [...plan.needed]), output)
        },
        input: inputs.indexOf(pipeline.input.input),
        builds,
        rowsOfJoins: rowsBehindJoins(draft, pipeline, plan.node.child),
        spec,
        group: { inputSpec: grouped.spec, spec: describe(draft, plan, groupBytes) },
        output
    });
}

/** Does it pay to count groups of values instead? The least plan makes sets: those can do with less memory. */
function countsGroups(draft: PlanDraft, { child }: GroupNode): boolean {
    const { policy, limits, estimator } = draft.request;
    const isLeast = limits.tableBytesMin < policy.tableBytesMin;
    return !isLeast && estimator.givenRows(child) >= policy.countedGroupsRowsMin;
}

/** Stages of a group-by whose columns `needed` go to `output`. `compileNode`: for what is grouped, if it is a query. */
export function compileGroup(
    draft: PlanDraft,
    node: GroupNode,
    needed: readonly number[],
    output: StageOutput,
    compileNode: CompileNode
): void {
    // The engine writes keys first, then aggregates; a result column that is not needed is left out.
    const ordered = [...needed].sort((a, b) => a - b);
    const counted = ordered.length > 0 && countsGroups(draft, node) ? countedGroups(node) : undefined;
    if (counted !== undefined) {
        const groups = planGroup(draft, counted.count, ordered);
        compilePartitioned(draft, { ...groups, name: "count distinct values" }, output, ordered, compileNode);
        return;
    }
    const plan = planGroup(draft, node, ordered);
    const { keys, values } = neededOf(node, ordered);
    const isCut = limitOf(node.child) !== Infinity;
    const pipeline = isCut ? undefined : pipelineOf(draft, node.child, feedColumns(keys, values));
    if (!hashes(draft, plan, pipeline)) compilePartitioned(draft, plan, output, ordered, compileNode);
    else if (pipeline === undefined) compileHash(draft, plan, output);
    else compileGroupedPipeline(draft, plan, pipeline, output, compileNode);
}
