// SPDX-License-Identifier: Apache-2.0
import type {
    OutOfCoreCoherent,
    OutOfCoreFilter,
    OutOfCoreJoinWork,
    OutOfCoreLayout,
    OutOfCorePrediction,
    OutOfCoreSizes
} from "../../../plan/out-of-core-stage.js";
import { arrowRowBytes } from "../../estimates.js";
import { otherSide, type Side } from "../../join-sides.js";
import { freeHostBytes } from "../host-memory.js";
import { gatherRowNs, heldOf, type CostedLayout, type JoinFacts } from "./facts.js";
import type { JoinLoad } from "./predict.js";

/** A join out of core by one of its paths. */
export interface JoinDraft {
    readonly layout: OutOfCoreLayout;
    readonly sizes: OutOfCoreSizes;
    readonly coherent: OutOfCoreCoherent | null;
    readonly predicted: OutOfCorePrediction;
    readonly filter: OutOfCoreFilter;
    readonly deviceBytes: number;
    readonly heldBytes: number;
    readonly work: OutOfCoreJoinWork;
    /** For people: where its partitions are. */
    readonly way: string;
}

/** What both paths ask of their sizes. */
export function sizeRequestOf({ query, host, node, sides, estimator, limitBytes }: JoinFacts, load: JoinLoad) {
    const { layout, rows, resultRowBytes, heldBytes } = load;
    const rowsOf = (side: Side): number => Math.ceil(estimator.of(node[side]).rows);
    const resultBytes = query.sink === "table" ? rows.result * resultRowBytes : 0;
    return {
        shape: layout.join,
        buildRows: rowsOf(sides.build),
        probeRows: rowsOf(otherSide(sides.build)),
        limitBytes,
        hostBytes: freeHostBytes(host, heldBytes, resultBytes),
        sparing: query.sink === "table",
        blockBytes: query.profile.deviceBlockBytes,
        multiprocessors: query.multiprocessors,
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
