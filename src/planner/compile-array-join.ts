// SPDX-License-Identifier: Apache-2.0
import { cpuJoinAlgorithm } from "../model/algorithms.js";
import type { KeySpec } from "../model/column-type.js";
import { clamp } from "../model/sizes.js";
import type { InputNode, JoinColumn, JoinNode } from "../plan/logical.js";
import type { StageOutput } from "../plan/plan.js";
import type { PlanDraft } from "./compile.js";
import { carriedColumns, joinSides, joinSidesFrom, otherSide, type JoinSides, type Side } from "./join-sides.js";
import { looksUnique, type KeyStatistics } from "./statistics.js";

/** The values that get a bit. */
interface KeyRange {
    first: bigint;
    values: number;
}

interface ArrayJoin {
    node: JoinNode & { left: InputNode; right: InputNode };
    sides: JoinSides;
    range: KeyRange;
    bitmapBytes: number;
    /** Bitmaps that are filled side by side. */
    buildWorkers: number;
}

function ofInputs(draft: PlanDraft, node: JoinNode): node is ArrayJoin["node"] {
    return node.left.kind === "input" && node.right.kind === "input" && draft.canRunAgain;
}

/** What the sample saw and some more, within the type of the key. */
function paddedRange(statistics: KeyStatistics, key: KeySpec, slack: number): KeyRange | undefined {
    const { min, max } = statistics;
    if (min === null || max === null) return undefined;
    const seen = Number(max - min) + 1;
    const padding = BigInt(Math.ceil(seen * slack) + 1024);
    const values = Number(max - min + 2n * padding + 1n);
    return { first: min - padding, values: Math.min(values, 2 ** (8 * key.width)) };
}

/** The array join with its bits on that side, if it has one that is worth it. */
function arrayJoinOn(
    draft: PlanDraft,
    node: ArrayJoin["node"],
    needed: readonly number[],
    build: Side
): ArrayJoin | undefined {
    const { estimator, policy, limits, debug, budgetBytes } = draft.request;
    const sides = joinSidesFrom(node, build);
    const keys = node.keys.map((key) => key[build]);
    const [key] = keys;
    if (key === undefined || sides.emit === "buildOnce" || sides.keepUnmatchedBuild) return undefined;
    if (carriedColumns(node, needed, build).length > 0) return undefined;
    const statistics = estimator.statisticsOf(node[build], keys);
    if (statistics === undefined || statistics.notDense === true) return undefined;
    const range = paddedRange(statistics, key, policy.arrayRangeSlack);
    if (range === undefined) return undefined;
    const forced = debug.algorithm === "array";
    const notNull = statistics.sampledRows / Math.max(1, statistics.sampledRows + statistics.nulls);
    const rows = node[build].input.rows * notNull;
    if (!forced && range.values > rows * policy.arrayValuesPerRow) return undefined;
    // Each pair is a result row, and a bit knows no number: one key that comes twice would be one pair too few.
    if (sides.emit === "pairs" && !(looksUnique(statistics, 0) && rows <= range.values)) return undefined;
    const bitmapBytes = (Math.floor(range.values / 64) + 1) * 8; // native/cpu/hash_join/key_bitmap.hpp
    const copies = Math.floor((budgetBytes * policy.arrayShare) / bitmapBytes);
    if (copies < (forced ? 1 : Math.max(1, limits.workers / 8))) return undefined;
    return { node, sides, range, bitmapBytes, buildWorkers: clamp(copies, 1, limits.workers) };
}

function planArrayJoin(draft: PlanDraft, node: JoinNode, needed: readonly number[]): ArrayJoin | undefined {
    const { limits, debug, notDense, estimator, policy } = draft.request;
    if (node.algorithm === cpuJoinAlgorithm) return undefined;
    const wanted = debug.algorithm === undefined || debug.algorithm === "array";
    if (!wanted || debug.scheme !== undefined || notDense || !limits.streaming) return undefined;
    if (node.keys.length !== 1 || node.nullEquality || !ofInputs(draft, node)) return undefined;
    if (node.keys.some(({ left, right }) => left.kind !== "integer" || right.kind !== "integer")) return undefined;
    const first = joinSides(node, needed, estimator, policy).build;
    // The larger side will do as well: its rows are only read, and the smaller one's are not stored either.
    const candidates: Side[] = node.hints.buildSide === undefined ? [first, otherSide(first)] : [first];
    for (const side of candidates) {
        const join = arrayJoinOn(draft, node, needed, side);
        if (join !== undefined) return join;
    }
    return undefined;
}

/**
 * A join of which the build side gives no more than its keys, dense integers: one bit for each value instead of a hash
 * table, no partitioning (the array join NOPA of Schuh et al., SIGMOD 2016, without payloads). False: not such a join.
 */
export function compileArrayJoin(
    draft: PlanDraft,
    node: JoinNode,
    needed: readonly number[],
    output: StageOutput
): boolean {
    const join = planArrayJoin(draft, node, needed);
    if (join === undefined) return false;
    const { sides, range, bitmapBytes, buildWorkers } = join;
    const { estimator, limits, texts } = draft.request;
    const carried = (side: Side) => {
        const carry = carriedColumns(node, needed, side);
        return { carry, carryBytes: texts.carriedBytes(node[side], carry, estimator.of(node[side]).widths) };
    };
    const pass = (side: Side) => ({
        role: side === sides.build ? ("build" as const) : ("probe" as const),
        feed: draft.feedOfInput(join.node[side]),
        keys: node.keys.map((key) => key[side]),
        ...carried(side),
        nullKeys: sides.nullKeys[side],
        bits: 0,
        spill: false
    });
    const probeSide = otherSide(sides.build);
    const [build, probe] = [pass(sides.build), pass(probeSide)];
    const [buildPass, probePass] = [draft.passSpec(build), draft.passSpec(probe)];
    const { widths, rows } = estimator.of(node);
    const outputWidths = needed.map((column) => widths[column] ?? { fixed: 8, heap: 0 });
    draft.stages.push({
        kind: "arrayJoin",
        id: draft.stages.length,
        name: "join",
        algorithm: `no-partitioning array join, ${node.type}`,
        rowsIn: build.feed.rows + probe.feed.rows,
        rowsOut: rows,
        memory: {
            inputBytes: Math.max(buildPass.readBytes, probePass.readBytes),
            tableBytes: buildWorkers * bitmapBytes,
            outputBytes: draft.outputBytes(outputWidths, output)
        },
        buildInput: build.feed.input as number,
        buildSpec: buildPass.spec,
        probeInput: probe.feed.input as number,
        probeRows: probe.feed.rows,
        probeSpec: probePass.spec,
        spec: {
            emit: sides.emit === "pairs" ? "pairs" : "probeOnce",
            anti: sides.anti,
            keepUnmatchedProbe: sides.keepUnmatchedProbe,
            outputs: needed.map((index) => probe.carry.indexOf((node.columns[index] as JoinColumn)[probeSide])),
            firstKey: `0x${BigInt.asUintN(64, range.first).toString(16)}`,
            keyValues: range.values,
            buildWorkers,
            workers: limits.workers
        },
        output
    });
    return true;
}
