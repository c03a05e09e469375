// SPDX-License-Identifier: Apache-2.0
import { formatBytes } from "../../model/sizes.js";
import { inputsOf, type JoinNode } from "../../plan/logical.js";
import type { OutOfCoreStage } from "../../plan/out-of-core-stage.js";
import type { Plan } from "../../plan/plan.js";
import { NotOnDevice } from "../device-support.js";
import { arrowRowBytes, Estimator } from "../estimates.js";
import { joinSides, otherSide, type Side } from "../join-sides.js";
import type { PlanQuery } from "../plan-search.js";
import { defaultPolicy } from "../policy.js";
import { deviceBytes, rowBytes } from "./device-bytes.js";
import { hostBytes, hostShare, tablesFactor } from "./host-memory.js";
import { chooseFilter, noFilter, type FilterDraft } from "./filter.js";
import { gatherRowNs, heldOf, inputsOfSides, layoutOf, type InputJoin } from "./join-layout.js";
import { outOfCoreLayout } from "./layout.js";
import { choosePath } from "./path.js";
import { packedRowBytes, predictOutOfCore, type LinkLoad } from "./predict.js";
import { chooseSizes, mostHostBytes, ringBytes, spilledBytes, type SizeRequest } from "./sizes.js";
import { diskBytes, expectedOnDisk } from "./spill.js";

function requireInputJoin({ root }: PlanQuery): InputJoin {
    if (root.kind !== "join" || root.left.kind !== "input" || root.right.kind !== "input") {
        throw new NotOnDevice("joins of more than two relations do not run out of core yet");
    }
    if (root.algorithm !== undefined) {
        throw new NotOnDevice(`"${root.algorithm}" was asked for, which joins tables in GPU memory`);
    }
    for (const { input } of [root.left, root.right]) {
        if (input.streamed) throw new NotOnDevice(`\`${input.name}\` is a stream of batches`);
    }
    return root as InputJoin;
}

/** Host memory that a join could use for chunks and spilled rows; 0 where its tables are likely to fit GPU memory. */
export function joinHostBytes(query: PlanQuery, limitBytes: number): number {
    const node = requireInputJoin(query);
    const policy = query.policy ?? defaultPolicy;
    const estimator = new Estimator(node, query.statistics, policy, query.tableFull);
    const sides = joinSides(node, [], estimator, policy);
    const layout = outOfCoreLayout(node, sides, inputsOfSides(node), query.sink === "count");
    const { join } = layout;
    const rows = { build: node[sides.build].input.rows, probe: node[otherSide(sides.build)].input.rows };
    const bytes = rows.build * rowBytes(join, "build") + rows.probe * rowBytes(join, "probe");
    if (query.debug.outOfCore !== true && tablesFactor * bytes < limitBytes) return 0;
    const most = mostHostBytes(join, rows.build, rows.probe, limitBytes) + heldOf(node, sides, layout);
    return Math.ceil(most / hostShare);
}

function nameOf(node: JoinNode, build: Side, onDisk: boolean): string {
    const kind = node.type === "inner" ? "" : `, ${node.type}`;
    const spilled = `spilled to host memory${onDisk ? " and disk" : ""}`;
    return `partitioned in GPU memory, ${spilled}${kind} (build side: ${build})`;
}

/** Of free host memory at most, for a result that stays there as a table. */
const resultShareMax = 3 / 4;

/** What columns that are gathered, and a result that stays in memory, leave of host memory. */
function freeHostBytes(host: Plan, held: number, resultBytes: number): number {
    const free = hostBytes(host) - held;
    // A table that is larger than that is another matter: it may turn out smaller than expected.
    if (free > 0) return free - Math.min(resultBytes, free * resultShareMax);
    throw new NotOnDevice(
        `columns that are gathered from host memory need ${formatBytes(held)} of it, ` +
            `${formatBytes(Math.max(0, free + held))} are left of the budget`
    );
}

/** What a filter of the build side's keys would see. */
function matchOf(node: InputJoin, build: Side, estimator: Estimator): { buildKeys: number; matchRatio: number } {
    const keys = node.keys.map((key) => key[build]);
    return {
        buildKeys: estimator.distinct(node[build], keys),
        matchRatio: estimator.matchRatio(node, otherSide(build))
    };
}

/** Sizes with such a filter, or none, and what they come to. */
function planWith(
    plain: SizeRequest,
    filter: FilterDraft,
    load: Omit<LinkLoad, "spilled" | "onDisk" | "droppedRows" | "residentShare">
) {
    const request = { ...plain, filter };
    const sizes = chooseSizes(request);
    const spilled = spilledBytes(request, sizes);
    const predicted = predictOutOfCore({
        ...load,
        spilled,
        onDisk: expectedOnDisk(spilled, sizes),
        droppedRows: request.probeRows * filter.droppedShare,
        residentShare: Math.min(1, sizes.residentPartitions / 2 ** sizes.radixBits)
    });
    return { sizes, predicted };
}

/** The stage of a join whose tables do not fit GPU memory. Throws NotOnDevice where it cannot run there. */
export function joinStageOf(query: PlanQuery, host: Plan, limitBytes: number): OutOfCoreStage {
    const node = requireInputJoin(query);
    const { sink, profile, debug } = query;
    const policy = query.policy ?? defaultPolicy;
    const estimator = new Estimator(node, query.statistics, policy, query.tableFull);
    const columns = sink === "count" ? [] : node.columns.map((_, column) => column);
    const sides = joinSides(node, columns, estimator, policy);
    const by = { build: sides.build, probe: otherSide(sides.build) } as const;
    const { layout, costs } = layoutOf(query, node, sides, estimator, host, limitBytes);
    const held = heldOf(node, sides, layout);
    const rowsOf = (side: Side): number => Math.ceil(estimator.of(node[side]).rows);
    const keysOf = (side: Side): readonly InputJoin["keys"][number]["left"][] => node.keys.map((key) => key[side]);
    const packed = (role: "build" | "probe"): number => {
        const statistics = estimator.statisticsOf(node[by[role]], keysOf(by[role]));
        return packedRowBytes(layout, role, debug.radixBits ?? 8, statistics);
    };
    const rowsOut = estimator.of(node).rows;
    const resultRowBytes = sink === "count" ? 0 : arrowRowBytes(estimator.of(node).widths);
    const request: SizeRequest = {
        shape: layout.join,
        buildRows: rowsOf(by.build),
        probeRows: rowsOf(by.probe),
        packedBytes: { build: packed("build"), probe: packed("probe") },
        limitBytes,
        hostBytes: freeHostBytes(host, held, sink === "table" ? rowsOut * resultRowBytes : 0),
        sparing: sink === "table",
        filter: noFilter,
        debug
    };
    const nullable = (side: Side): boolean =>
        node.keys.some((key) => node[side].columns[key[side].column]?.type.nullable === true);
    const load = {
        layout,
        rows: { build: request.buildRows, probe: request.probeRows, result: rowsOut },
        keyBits: { build: nullable(by.build), probe: nullable(by.probe) },
        resultRowBytes,
        heldBytes: held,
        gatherNs: gatherRowNs(node, layout, costs),
        ...{ workers: host.threads, sink, profile }
    };
    const match = matchOf(node, by.build, estimator);
    const { sizes, predicted, filter } = chooseFilter({ ...request, ...match }, (draft) =>
        planWith(request, draft, load)
    );
    const rings = ringBytes(layout.join, sizes);
    const inputs = inputsOf(node);
    return {
        id: 0,
        kind: "deviceOutOfCoreJoin",
        name: sink === "count" ? "count" : "join",
        algorithm: `out of core on the GPU: ${nameOf(node, by.build, predicted.diskBytes > 0)}`,
        rowsIn: request.buildRows + request.probeRows,
        rowsOut,
        frees: [],
        live: [],
        memory: {
            inputBytes: rings.chunks + held,
            tableBytes: sizes.spillBytes + diskBytes(sizes),
            outputBytes: rings.results
        },
        predictedMs: predicted.buildMs + predicted.probeMs + predicted.spilledMs + profile.deviceStageStartMs,
        predictedSpillBytes: predicted.diskBytes,
        buildInput: inputs.indexOf(node[by.build].input),
        probeInput: inputs.indexOf(node[by.probe].input),
        ...{ layout, sizes, predicted, deviceBytes: deviceBytes(layout.join, sizes), heldBytes: held },
        path: choosePath({ isCoherent: query.coherentDevice }),
        filter
    };
}
