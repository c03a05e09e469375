// SPDX-License-Identifier: Apache-2.0
import { sumOf } from "../../../model/sizes.js";
import type {
    OutOfCoreBaseline,
    OutOfCoreCoherent,
    OutOfCoreFilter,
    OutOfCoreJoinWork,
    OutOfCoreLayout,
    OutOfCorePrediction,
    OutOfCoreSizes
} from "../../../plan/out-of-core-stage.js";
import type { KeySpec } from "../../../model/column-type.js";
import type { InputInfo, InputNode, JoinNode } from "../../../plan/logical.js";
import type { Plan } from "../../../plan/plan.js";
import { arrowRowBytes, type Estimator } from "../../estimates.js";
import { otherSide, type JoinSides, type Side } from "../../join-sides.js";
import type { PlanQuery } from "../../plan-search.js";
import { defaultPolicy } from "../../policy.js";
import { freeHostBytes, isKept } from "../host-memory.js";
import { inputRowBytes, isTextKey, numberedKeyBytes, numberPlacesBytes } from "../chunk-rows.js";
import { fillingOf, type Filling } from "../link.js";
import type { Rings } from "../sizes.js";
import { gatherNs, heldBytes, type GatherCosts } from "./gather.js";
import { outOfCoreLayout, type RowLimits } from "./row-layout.js";
import type { JoinLoad } from "./predict.js";

/** A join of two relations. */
export type InputJoin = JoinNode & { readonly left: InputNode; readonly right: InputNode };

/** Build rows that stay in GPU memory get about this share of the limit. */
const residentBytesShare = 0.8;

export function inputsOfSides({ left, right }: InputJoin): Record<Side, InputInfo> {
    return { left: left.input, right: right.input };
}

/** Columns of a side that are fetched by row number: gathered ones, and keys of which the GPU had a hash. */
function fetchedColumns({ keys }: InputJoin, side: Side, { build }: JoinSides, layout: OutOfCoreLayout): number[] {
    const role = side === build ? "build" : "probe";
    const gathered = layout.gathered.filter((found) => found.side === role).map(({ column }) => column);
    return [...new Set([...gathered, ...(layout.keys === "hashed" ? keys.map((key) => key[side].column) : [])])];
}

/** Host memory for the columns that are fetched. */
export function heldOf(node: InputJoin, sides: JoinSides, layout: OutOfCoreLayout): number {
    const heldOn = (side: Side): number => heldBytes(node[side].input, fetchedColumns(node, side, sides, layout));
    return Math.ceil(heldOn("left") + heldOn("right"));
}

/**
 * Different keys of the build side where workers number them, and host memory for that; text is kept once, too. Of a
 * stream it is a guess.
 */
export function numbersOf(
    { left, right, keys }: InputJoin,
    { build }: JoinSides,
    layout: OutOfCoreLayout,
    estimator: Estimator
): { readonly keys: number; readonly bytes: number; readonly guessedBytes: number } {
    if (layout.keys !== "numbered") return { keys: 0, bytes: 0, guessedBytes: 0 };
    const child = build === "left" ? left : right;
    const specs = keys.map((key) => key[build]);
    const rows = Math.max(1, estimator.of(child).rows);
    const distinct = Math.min(rows, estimator.distinct(child, specs));
    const textOf = ({ column }: KeySpec): number => {
        const values = (child.input.columnBytes[column] ?? 0) * Math.min(1, distinct / rows);
        return values + distinct * numberPlacesBytes;
    };
    const texts = sumOf(specs.filter(isTextKey).map(textOf));
    const all = Math.ceil(distinct * numberedKeyBytes(specs) + texts);
    const { streamed } = child.input;
    return { keys: distinct, bytes: streamed ? 0 : all, guessedBytes: streamed ? all : 0 };
}

/** A join with what is known of it before anything is decided. */
export interface JoinFacts {
    readonly query: PlanQuery;
    /** Its plan for the CPU engine. */
    readonly host: Plan;
    readonly node: InputJoin;
    readonly sides: JoinSides;
    readonly estimator: Estimator;
    readonly limitBytes: number;
}

/** A layout with what delivering its rows costs. */
export interface CostedLayout {
    readonly layout: OutOfCoreLayout;
    readonly costs: GatherCosts;
}

/** What delivering the rows of a join costs if such a share of them is spilled. */
export function gatherCostsOf({ query, host, node, sides, estimator }: JoinFacts, spilledShare: number): GatherCosts {
    const inputs = inputsOfSides(node);
    return {
        rows: { left: inputs.left.rows, right: inputs.right.rows },
        resultRows: estimator.of(node).rows,
        spilledShare,
        probe: otherSide(sides.build),
        ...{ workers: host.threads, profile: query.profile, policy: query.policy ?? defaultPolicy }
    };
}

/** The layout as costs want it: those depend on how many rows are spilled, and that on the layout without them. */
export function layoutOf(facts: JoinFacts, limits?: RowLimits): CostedLayout {
    const { query, node, sides, limitBytes } = facts;
    const inputs = inputsOfSides(node);
    const counted = query.sink === "count";
    const request = { counted, ...(limits === undefined ? {} : { limits }) };
    const plain = outOfCoreLayout(node, sides, inputs, request);
    const { rowBytes } = query.deviceMemory.ofJoin(plain.join);
    const built = inputs[sides.build].rows * rowBytes.build;
    const resident = Math.min(1, (limitBytes * residentBytesShare) / Math.max(1, built));
    const costs = gatherCostsOf(facts, 1 - (query.debug.residentShare ?? resident));
    return { layout: outOfCoreLayout(node, sides, inputs, { ...request, costs }), costs };
}

/** Nanoseconds for the values that a worker fetches for a row of the result. */
function gatherRowNs({ node, sides }: JoinFacts, { layout, costs }: CostedLayout): number {
    const sideNs = (side: Side): number =>
        sumOf(
            fetchedColumns(node, side, sides, layout).map((column) => {
                const type = node[side].columns[column]?.type;
                return type === undefined ? 0 : gatherNs(type, side, costs);
            })
        );
    return sideNs("left") + sideNs("right");
}

/** A join out of core by one of its paths. */
export interface JoinDraft {
    readonly layout: OutOfCoreLayout;
    readonly sizes: OutOfCoreSizes;
    readonly coherent: OutOfCoreCoherent | null;
    readonly baseline: OutOfCoreBaseline | null;
    readonly predicted: OutOfCorePrediction;
    readonly filter: OutOfCoreFilter;
    readonly deviceBytes: number;
    readonly heldBytes: number;
    /** Pinned memory of the host. */
    readonly rings: Rings;
    readonly work: OutOfCoreJoinWork;
    /** Sides whose values cross the link in as many bits as they need. */
    readonly packed: { readonly build: boolean; readonly probe: boolean };
    /** For people: where its partitions are. */
    readonly way: string;
}

/** What both paths ask of their sizes. */
export function sizeRequestOf({ query, host, node, limitBytes }: JoinFacts, load: JoinLoad) {
    const { memory, rows, resultRowBytes, heldBytes, numbers } = load;
    const resultBytes = isKept(query) ? rows.result * resultRowBytes : 0;
    return {
        memory,
        buildRows: rows.build,
        probeRows: rows.probe,
        limitBytes,
        hostBytes: freeHostBytes(host, {
            ...{ heldBytes, numberBytes: numbers.bytes },
            guessedBytes: resultBytes + numbers.guessedBytes
        }),
        peerBytes: query.peerBytes,
        sparing: query.sink === "table",
        guessed: node.left.input.streamed || node.right.input.streamed,
        blockBytes: query.profile.deviceBlockBytes,
        ...{ multiprocessors: query.multiprocessors, computeMajor: query.computeMajor },
        debug: query.debug
    };
}

/** What a join of that layout has to move. `mayPack`: of kernels that do not read chunks where they lie. */
export function loadOf(facts: JoinFacts, costed: CostedLayout, mayPack = false): JoinLoad {
    const { layout } = costed;
    const { query, host, node, sides, estimator } = facts;
    const by = { build: sides.build, probe: otherSide(sides.build) } as const;
    // Text of the probe side that the build side does not have is no key, either.
    const nullable = (side: Side): boolean =>
        node.keys.some(
            (key) =>
                node[side].columns[key[side].column]?.type.nullable === true ||
                (side === by.probe && layout.keys === "packed" && isTextKey(key[side]))
        );
    const rowsOf = (side: Side): number => Math.ceil(estimator.of(node[side]).rows);
    const result = estimator.of(node);
    const numbers = numbersOf(node, sides, layout, estimator);
    const lookedUp = (role: "build" | "probe"): number => (layout.keys === "numbered" ? rowsOf(by[role]) : 0);
    const filling = (role: "build" | "probe"): Filling => {
        const widths = role === "build" ? layout.join.buildWidths : layout.join.probeWidths;
        const leastBytes = rowsOf(by[role]) * inputRowBytes(layout.join.keyBytes, widths, false);
        const { streamed } = node[by[role]].input;
        const link = mayPack ? { ...query, workers: host.threads } : undefined;
        return fillingOf(
            node[by[role]].input,
            { ...layout[role], hashed: layout.keys === "hashed" },
            streamed ? leastBytes : 0,
            link
        );
    };
    return {
        layout,
        memory: query.deviceMemory.ofJoin(layout.join),
        rows: { build: rowsOf(by.build), probe: rowsOf(by.probe), result: result.rows },
        filling: { build: filling("build"), probe: filling("probe") },
        keyBits: { build: nullable(by.build), probe: nullable(by.probe) },
        resultRowBytes: query.sink === "count" ? 0 : arrowRowBytes(result.widths),
        heldBytes: heldOf(node, sides, layout),
        gatherNs: gatherRowNs(facts, costed),
        numbered: { keys: numbers.keys, build: lookedUp("build"), probe: lookedUp("probe") },
        numbers,
        ...{ workers: host.threads, sink: query.sink, profile: query.profile }
    };
}
