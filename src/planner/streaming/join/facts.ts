// SPDX-License-Identifier: Apache-2.0
import type {
    OutOfCoreCoherent,
    OutOfCoreFilter,
    OutOfCoreJoinWork,
    OutOfCoreLayout,
    OutOfCorePrediction,
    OutOfCoreSizes
} from "../../../plan/out-of-core-stage.js";
import type { InputInfo, InputNode, JoinNode } from "../../../plan/logical.js";
import type { Plan } from "../../../plan/plan.js";
import { arrowRowBytes, type Estimator } from "../../estimates.js";
import { otherSide, type JoinSides, type Side } from "../../join-sides.js";
import type { PlanQuery } from "../../plan-search.js";
import { defaultPolicy } from "../../policy.js";
import { freeHostBytes } from "../host-memory.js";
import type { Rings } from "../sizes.js";
import { gatherNs, heldBytes, type GatherCosts } from "./gather.js";
import { outOfCoreLayout } from "./layout.js";
import type { JoinLoad } from "./predict.js";

/** A join of two relations. */
export type InputJoin = JoinNode & { readonly left: InputNode; readonly right: InputNode };

/** Build rows that stay in GPU memory get about this share of the limit. */
const residentBytesShare = 0.8;

export function inputsOfSides({ left, right }: InputJoin): Record<Side, InputInfo> {
    return { left: left.input, right: right.input };
}

/** Host memory for columns that are gathered, and for keys that are compared with them. */
export function heldOf(node: InputJoin, { build }: JoinSides, layout: OutOfCoreLayout): number {
    const heldOn = (side: Side): number => {
        const role = side === build ? "build" : "probe";
        const columns = new Set(layout.gathered.filter((found) => found.side === role).map(({ column }) => column));
        if (layout.keys === "hashed") for (const key of node.keys) columns.add(key[side].column);
        return heldBytes(node[side].input, [...columns]);
    };
    return Math.ceil(heldOn("left") + heldOn("right"));
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
export function layoutOf(facts: JoinFacts): CostedLayout {
    const { query, node, sides, limitBytes } = facts;
    const inputs = inputsOfSides(node);
    const counted = query.sink === "count";
    const plain = outOfCoreLayout(node, sides, inputs, { counted });
    const { rowBytes } = query.deviceMemory.ofJoin(plain.join);
    const built = inputs[sides.build].rows * rowBytes.build;
    const resident = Math.min(1, (limitBytes * residentBytesShare) / Math.max(1, built));
    const costs = gatherCostsOf(facts, 1 - (query.debug.residentShare ?? resident));
    return { layout: outOfCoreLayout(node, sides, inputs, { counted, costs }), costs };
}

/**
 * Nanoseconds for the values that a worker fetches by row number for a row of the result: what is gathered, and keys
 * that it compares because the GPU had a hash of them.
 */
export function gatherRowNs(node: InputJoin, layout: OutOfCoreLayout, costs: GatherCosts): number {
    const fetched = (side: Side): Set<number> => {
        const role = side === costs.probe ? "probe" : "build";
        const columns = layout.gathered.filter((found) => found.side === role).map(({ column }) => column);
        const keys = layout.keys === "hashed" ? node.keys.map((key) => key[side].column) : [];
        return new Set([...columns, ...keys]);
    };
    const sideNs = (side: Side): number => {
        const ordered = side === costs.probe ? 1 - costs.spilledShare : 0;
        return [...fetched(side)].reduce((ns, column) => {
            const type = node[side].columns[column]?.type;
            return ns + (type === undefined ? 0 : gatherNs(type, ordered, costs.policy));
        }, 0);
    };
    return sideNs("left") + sideNs("right");
}

/** A join out of core by one of its paths. */
export interface JoinDraft {
    readonly layout: OutOfCoreLayout;
    readonly sizes: OutOfCoreSizes;
    readonly coherent: OutOfCoreCoherent | null;
    readonly predicted: OutOfCorePrediction;
    readonly filter: OutOfCoreFilter;
    readonly deviceBytes: number;
    readonly heldBytes: number;
    /** Pinned memory of the host. */
    readonly rings: Rings;
    readonly work: OutOfCoreJoinWork;
    /** For people: where its partitions are. */
    readonly way: string;
}

/** What both paths ask of their sizes. */
export function sizeRequestOf({ query, host, limitBytes }: JoinFacts, load: JoinLoad) {
    const { layout, rows, resultRowBytes, heldBytes } = load;
    const resultBytes = query.sink === "table" ? rows.result * resultRowBytes : 0;
    return {
        memory: query.deviceMemory.ofJoin(layout.join),
        buildRows: rows.build,
        probeRows: rows.probe,
        limitBytes,
        hostBytes: freeHostBytes(host, heldBytes, resultBytes),
        sparing: query.sink === "table",
        blockBytes: query.profile.deviceBlockBytes,
        ...{ multiprocessors: query.multiprocessors, computeMajor: query.computeMajor },
        debug: query.debug
    };
}

/** What a join of that layout has to move. */
export function loadOf(facts: JoinFacts, { layout, costs }: CostedLayout): JoinLoad {
    const { query, host, node, sides, estimator } = facts;
    const by = { build: sides.build, probe: otherSide(sides.build) } as const;
    const nullable = (side: Side): boolean =>
        node.keys.some((key) => node[side].columns[key[side].column]?.type.nullable === true);
    const rowsOf = (side: Side): number => Math.ceil(estimator.of(node[side]).rows);
    const result = estimator.of(node);
    return {
        layout,
        rows: { build: rowsOf(by.build), probe: rowsOf(by.probe), result: result.rows },
        keyBits: { build: nullable(by.build), probe: nullable(by.probe) },
        resultRowBytes: query.sink === "count" ? 0 : arrowRowBytes(result.widths),
        heldBytes: heldOf(node, sides, layout),
        gatherNs: gatherRowNs(node, layout, costs),
        ...{ workers: host.threads, sink: query.sink, profile: query.profile }
    };
}
