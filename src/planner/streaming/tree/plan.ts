// SPDX-License-Identifier: Apache-2.0
import { nsPerMs, sumOf } from "../../../model/sizes.js";
import { inputsOf, type InputInfo, type LogicalNode } from "../../../plan/logical.js";
import type { OutOfCoreTreePrediction, OutOfCoreTreeStage } from "../../../plan/out-of-core-tree-stage.js";
import type { Plan } from "../../../plan/plan.js";
import { arrowRowBytes, Estimator } from "../../estimates.js";
import { isForcedOutOfCore } from "../../named-algorithm.js";
import type { PlanQuery } from "../../plan-search.js";
import { defaultPolicy } from "../../policy.js";
import { shortSumsOf } from "../group/short-sums.js";
import { gatherNs, heldBytes } from "../join/gather.js";
import { freeHostBytes, hostShare, isKept, tablesFactor } from "../host-memory.js";
import { fillingOf, isPacked, outOfCoreStartMs, packsResults, type Filling } from "../link.js";
import { hostChunkBytes, packedBlockBytes, ringsOf } from "../sizes.js";
import { spilledTo } from "../spill.js";
import { flowBytes, predictTree } from "./predict.js";
import { treeLayout, type TreeLayout } from "./row-layout.js";
import {
    chooseTreeSizes,
    mostTreeHostBytes,
    treeDeviceBytes,
    type SizedOperator,
    type TreeFacts,
    type TreeSizes
} from "./sizes.js";

/** The operators of a tree, and what is known of them before anything is decided; throws NotOnDevice. */
function factsOf(query: PlanQuery) {
    const policy = query.policy ?? defaultPolicy;
    const estimator = new Estimator(query.root, query.statistics, policy, query.tableFull);
    const layout = treeLayout({
        ...{ root: query.root, estimator, policy },
        shortSumsOf: (node) => shortSumsOf(query, node, estimator),
        ...{ counted: query.sink === "count", held: query.isHeld === true }
    });
    return { facts: { query, estimator, ...layout } satisfies TreeFacts, layout, estimator };
}

/** Host memory for columns that are gathered. */
function heldBytesOf({ gathered, flows }: TreeLayout, root: LogicalNode): number {
    const inputs = inputsOf(root);
    const bytes = flows.map(({ input }, flow) => {
        const columns = gathered.filter((one) => one.flow === flow).map(({ column }) => column);
        const from = inputs[input];
        return from === undefined ? 0 : heldBytes(from, [...new Set(columns)]);
    });
    return Math.ceil(sumOf(bytes));
}

/** Nanoseconds for the values that a worker fetches for a row of the result. */
function gatherRowNs({ gathered, flows }: TreeLayout, { query, all }: Gathering): number {
    const inputs = inputsOf(query.root);
    const last = flows.length - 1;
    // Rows of the last flow come in their order, but for those that an operator spills.
    const resident = (flows[last]?.steps ?? []).map(({ operator }) => all[operator]?.residentShare ?? 1);
    const spilledShare = 1 - Math.min(1, ...resident);
    const costs = { probe: "left", policy: query.policy ?? defaultPolicy, spilledShare } as const;
    const each = gathered.map(({ flow, column }) => {
        const type = inputs[flows[flow]?.input ?? -1]?.columns[column]?.type;
        return type === undefined ? 0 : gatherNs(type, flow === last ? "left" : "right", costs);
    });
    return sumOf(each);
}

interface Gathering {
    readonly query: PlanQuery;
    readonly all: readonly SizedOperator[];
}

/** As outOfCoreHostBytes; throws NotOnDevice. */
export function treeHostBytes(query: PlanQuery, limitBytes: number): number {
    const { facts, layout: tree, estimator } = factsOf(query);
    const bytes = facts.operators.map(({ node, layout }) => {
        if (node.kind === "group" && "group" in layout) {
            return estimator.of(node.child).rows * query.deviceMemory.ofGroupBy(layout.group).rowBytes;
        }
        if (node.kind !== "join" || !("join" in layout)) return 0;
        const { build, probe } = query.deviceMemory.ofJoin(layout.join).rowBytes;
        return (estimator.of(node.left).rows + estimator.of(node.right).rows) * Math.max(build, probe);
    });
    if (!isForcedOutOfCore(query) && tablesFactor * sumOf(bytes) < limitBytes) return 0;
    return Math.ceil((mostTreeHostBytes(facts, limitBytes) + heldBytesOf(tree, query.root)) / hostShare);
}

const sizesOf = ({ sized }: SizedOperator): TreeSizes => (sized.kind === "join" ? sized.join : sized.group).sizes;

/** Pinned memory for chunks of the flow that has the largest ones, and for rows of the result. */
function ringBytes({ flows }: TreeFacts, all: readonly SizedOperator[]) {
    const chunks = flows.map(({ steps: [first] }) => {
        const operator = all[first?.operator ?? -1];
        if (operator === undefined) return { slots: 0, bytes: 0 };
        const sizes = sizesOf(operator);
        return {
            slots: sizes.hostChunkSlots,
            bytes: hostChunkBytes(sizes, operator.chunkBytes[first?.input ?? 0] ?? 0)
        };
    });
    const [root] = all as [SizedOperator];
    const hostChunkSlots = Math.max(...chunks.map(({ slots }) => slots));
    const hostBytes = Math.max(...chunks.map(({ bytes }) => bytes));
    const isJoin = root.sized.kind === "join";
    const resultBytes = isJoin ? packedBlockBytes(root.resultBytes) : root.resultBytes;
    return ringsOf({ ...sizesOf(root), hostChunkSlots }, hostBytes, resultBytes);
}

function algorithmText(all: readonly SizedOperator[], predicted: OutOfCoreTreePrediction): string {
    const joins = all.filter(({ sized }) => sized.kind === "join").length;
    const parts = [
        joins > 0 ? `${joins} join${joins === 1 ? "" : "s"}` : "",
        joins < all.length ? "a group-by" : ""
    ].filter((part) => part !== "");
    return (
        `out of core on the GPU: rows flow through ${parts.join(" and ")} in GPU memory, ` +
        `spilled to ${spilledTo(predicted)}`
    );
}

/** Throws NotOnDevice with why the query cannot run out of core. */
export function treeStageOf(query: PlanQuery, host: Plan, limitBytes: number): OutOfCoreTreeStage {
    const { sink, profile, root } = query;
    const { facts, layout, estimator } = factsOf(query);
    const result = estimator.of(root);
    const arrowBytes = sink === "count" ? 0 : result.rows * arrowRowBytes(result.widths);
    const heldBytes = heldBytesOf(layout, root);
    const hostBytes = freeHostBytes(host, {
        ...{ heldBytes, numberBytes: 0 },
        guessedBytes: isKept(query) ? arrowBytes : 0
    });
    const all = chooseTreeSizes(facts, { limitBytes, hostBytes, peerBytes: query.peerBytes ?? 0 });
    const gatherMs = (result.rows * gatherRowNs(layout, { query, all })) / nsPerMs / host.threads;
    const shared = gatherMs > 0 ? {} : { sharedColumns: root.columns.length };
    const inputs = inputsOf(root);
    const fillings = layout.flows.map((flow) => {
        const input = inputs[flow.input] as InputInfo;
        const leastBytes = input.streamed ? flowBytes(flow, all) : 0;
        return fillingOf(input, flow.side, leastBytes, { ...query, workers: host.threads });
    });
    const predicted = predictTree({
        ...{ operators: all, flows: layout.flows, fillings, sink, profile, heldBytes },
        result: { bytes: arrowBytes, gatherMs, ...shared },
        workers: host.threads
    });
    const rings = ringBytes(facts, all);
    return {
        id: 0,
        kind: "deviceOutOfCoreTree",
        name: sink === "count" ? "count" : root.kind === "group" ? "group" : "join",
        algorithm: algorithmText(all, predicted),
        rowsIn: sumOf(inputsOf(root).map(({ rows }) => rows)),
        rowsOut: result.rows,
        frees: [],
        live: [],
        memory: {
            inputBytes: rings.chunks + heldBytes,
            tableBytes: sumOf(all.map(({ hostSpillBytes }) => hostSpillBytes)),
            outputBytes: rings.results
        },
        predictedMs: sumOf([...predicted.flowsMs]) + outOfCoreStartMs,
        predictedSpillBytes: predicted.diskBytes,
        operators: all.map(({ sized }) => sized),
        flows: layout.flows,
        packed: [
            ...new Set(layout.flows.filter((_, at) => isPacked(fillings[at] as Filling)).map(({ input }) => input))
        ],
        packsResults: packsResults(query, host.threads),
        result: layout.result,
        gathered: layout.gathered,
        heldBytes,
        deviceBytes: treeDeviceBytes(facts, all),
        predicted
    };
}
