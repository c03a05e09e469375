// SPDX-License-Identifier: Apache-2.0
import type { ColumnType } from "../model/column-type.js";
import { cpuJoinAlgorithm } from "../model/algorithms.js";
import { clamp } from "../model/sizes.js";
import type { JoinNode } from "../plan/logical.js";
import type { StageOutput } from "../plan/plan.js";
import { compileArrayJoin } from "./compile-array-join.js";
import { compilePipelineJoin } from "./compile-pipeline.js";
import type { CompileNode, PlanDraft, SetDraft } from "./compile.js";
import { describeJoin, hashingScheme, neededOf, planJoin, type JoinPlan } from "./join-plan.js";
import { otherSide, type Side } from "./join-sides.js";
import { fanout, spillReadBytes } from "./partitioning.js";

function hasDictionary({ layout, children }: ColumnType): boolean {
    return layout === "dictionary" || children.some(hasDictionary);
}

/** One table for the whole build side, with the probe rows streaming past it? */
function streams(draft: PlanDraft, join: JoinPlan, { limit }: StageOutput): boolean {
    const { policy, machine, debug, budgetBytes, limits } = draft.request;
    const { build, probe } = join;
    // The build side must be an input whose rows are counted: a table cannot be spilled later. A stream goes past it
    // where it need not be read to its end, by which alone all of its dictionaries are known.
    const possible =
        build.feed.exact &&
        build.feed.input !== undefined &&
        probe.feed.input !== undefined &&
        (!draft.isStreamed(probe.feed) || (limit !== undefined && !probe.feed.types.some(hasDictionary))) &&
        (join.buildBytes === join.buildRows * draft.widthOf(build).fixed || draft.canRunAgain);
    const bytesMax = join.buildBytes * policy.partitionSlack + join.buildRows * policy.slotBytesPerRowMax;
    const partitioned = debug.algorithm === "radix" || join.node.algorithm === cpuJoinAlgorithm;
    if (!possible || !limits.streaming || partitioned || bytesMax > budgetBytes * policy.tableShare * 2) return false;
    if (debug.algorithm === "streaming") return true;
    const table = join.buildBytes + join.tableBytes;
    const lastLevel = Math.max(machine.l2Bytes, (machine.l3Bytes * policy.lastLevelShare) / limits.workers);
    if (table <= lastLevel) return true;
    const probeWidth = draft.widthOf(probe);
    const probeBytes = probe.feed.rows * (probeWidth.fixed + probeWidth.heap);
    // What comes out once for all of its partners comes last where the table is never done with.
    const isShort = limit !== undefined && join.sides.emit !== "buildOnce" && limit.share <= policy.streamedShareMax;
    if (isShort && probeBytes >= join.buildRows * policy.streamedBytesPerRow) return true;
    return table <= policy.streamingTableBytesMax && probeBytes >= join.buildBytes * policy.streamingRatio;
}

function compileChild(draft: PlanDraft, join: JoinPlan, side: Side, set: number, compileNode: CompileNode): void {
    const child = join.node[side];
    const request = side === join.sides.build ? join.build : join.probe;
    if (child.kind === "input") draft.addPass(set, request.feed, `partition ${request.role}`);
    else compileNode(draft, child, neededOf(join.node, join.needed, side), { to: "set", set });
}

function compileRadix(draft: PlanDraft, join: JoinPlan, output: StageOutput, compileNode: CompileNode): void {
    const { limits, policy, budgetBytes } = draft.request;
    const rows = Math.max(join.buildRows, join.probe.feed.rows);
    const widest = Math.max(draft.widthOf(join.build).fixed, draft.widthOf(join.probe).fixed);
    const { first: bits, second } = fanout(draft.request, join.buildBytes + join.tableBytes, rows, widest);
    const build = draft.addSet({ ...join.build, bits, spill: true });
    const probe = draft.addSet({ ...join.probe, bits, spill: true });
    const buildSide = join.sides.build;
    // A side that is itself a join comes first: its partitions are not yet needed while the other side waits on disk.
    const order: Side[] =
        join.node[buildSide].kind === "input" && join.node[otherSide(buildSide)].kind !== "input"
            ? [otherSide(buildSide), buildSide]
            : [buildSide, otherSide(buildSide)];
    for (const side of order) compileChild(draft, join, side, side === buildSide ? build : probe, compileNode);

    const perPartition = (join.buildBytes + join.tableBytesMax) / 2 ** bits;
    const wanted = Math.ceil(limits.workers * perPartition * policy.partitionSlack);
    const least = limits.workers * limits.tableBytesMin;
    const tableBytes = clamp(wanted, least, Math.max(least, Math.floor(budgetBytes * policy.tableShare)));
    const cursors = limits.workers * spillReadBytes((draft.sets[probe] as SetDraft).spec);
    const widths = join.needed.map(
        (column) => draft.request.estimator.of(join.node).widths[column] ?? { fixed: 8, heap: 0 }
    );
    draft.stages.push({
        kind: "join",
        id: draft.stages.length,
        name: "join",
        algorithm: `radix hash join, ${join.node.type}`,
        rowsIn: join.buildRows + join.probe.feed.rows,
        rowsOut: draft.request.estimator.of(join.node).rows,
        memory: { inputBytes: cursors, tableBytes, outputBytes: draft.outputBytes(widths, output) },
        build,
        probe,
        spec: describeJoin(draft, join, false, tableBytes, { secondRadixBits: second }),
        output
    });
}

function compileStreaming(draft: PlanDraft, join: JoinPlan, output: StageOutput): void {
    const { limits, policy, debug } = draft.request;
    // Few partitions, so that workers build tables side by side; all of them stay.
    const parallel = join.buildRows >= policy.rowsPerWorkerMin * 2 && limits.workers > 1;
    const { scheme } = hashingScheme(draft, join, true);
    const bits = debug.radixBits ?? (parallel && scheme !== "perfect" ? Math.ceil(Math.log2(limits.workers)) : 0);
    const build = draft.addSet({ ...join.build, bits, spill: debug.forceSpill ?? false });
    const set = draft.sets[build] as SetDraft;
    set.needs.min = set.needs.wanted;
    draft.addPass(build, join.build.feed, "partition build");
    const probe = draft.passSpec({ ...join.probe, bits, spill: false });
    const loaded = debug.forceSpill ? join.buildBytes * policy.partitionSlack : 0;
    const tableBytes = Math.ceil(join.buildRows * policy.slotBytesPerRowMax + loaded + limits.tableBytesMin);
    const widths = join.needed.map(
        (column) => draft.request.estimator.of(join.node).widths[column] ?? { fixed: 8, heap: 0 }
    );
    draft.stages.push({
        kind: "streamingJoin",
        id: draft.stages.length,
        name: "join",
        algorithm: `no-partitioning hash join, ${join.node.type}`,
        rowsIn: join.probe.feed.rows,
        rowsOut: draft.request.estimator.of(join.node).rows,
        memory: { inputBytes: probe.readBytes, tableBytes, outputBytes: draft.outputBytes(widths, output) },
        build,
        probeInput: join.probe.feed.input as number,
        probeSpec: probe.spec,
        spec: describeJoin(draft, join, true, tableBytes),
        output
    });
}

/** Stages of a join whose columns `needed` go to `output`. `compileNode`: for sides that are joins or group-bys. */
export function compileJoin(
    draft: PlanDraft,
    node: JoinNode,
    needed: readonly number[],
    output: StageOutput,
    compileNode: CompileNode
): void {
    if (compileArrayJoin(draft, node, needed, output)) return;
    if (compilePipelineJoin(draft, node, needed, output, compileNode)) return;
    const join = planJoin(draft, node, needed);
    if (streams(draft, join, output)) compileStreaming(draft, join, output);
    else compileRadix(draft, join, output, compileNode);
}
