// SPDX-License-Identifier: Apache-2.0
import { inputsOf } from "../../plan/logical.js";
import type { OutOfCoreStage } from "../../plan/out-of-core-stage.js";
import type { Plan } from "../../plan/plan.js";
import { attempt, NotOnDevice } from "../device-support.js";
import { Estimator } from "../estimates.js";
import { joinSides, otherSide } from "../join-sides.js";
import type { PlanQuery } from "../plan-search.js";
import { defaultPolicy } from "../policy.js";
import { requirePairs } from "./coherent-layout.js";
import { coherentDraft } from "./coherent-plan.js";
import { mostCoherentHostBytes } from "./coherent-sizes.js";
import { rowBytes } from "./device-bytes.js";
import { hostShare, tablesFactor } from "./host-memory.js";
import type { JoinDraft } from "./join-draft.js";
import { heldOf, inputsOfSides, type InputJoin } from "./join-layout.js";
import { outOfCoreLayout } from "./layout.js";
import { choosePath, wantedPath, type PathFacts } from "./path.js";
import { mostHostBytes, ringBytes } from "./sizes.js";
import { diskBytes } from "./spill.js";
import { stagedDraft } from "./staged-plan.js";
import { joinWork } from "./work.js";

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

function pathFactsOf({ coherentDevice, measuredDevice, debug }: PlanQuery): PathFacts {
    return { isCoherent: coherentDevice, isMeasured: measuredDevice, asked: debug.path };
}

/** Host memory that a join could use for chunks and spilled rows; 0 where its tables are likely to fit GPU memory. */
export function joinHostBytes(query: PlanQuery, limitBytes: number): number {
    const node = requireInputJoin(query);
    const policy = query.policy ?? defaultPolicy;
    const estimator = new Estimator(node, query.statistics, policy, query.tableFull);
    const sides = joinSides(node, [], estimator, policy);
    const inputs = inputsOfSides(node);
    const counted = query.sink === "count";
    const layout = outOfCoreLayout(node, sides, inputs, { counted });
    const { join } = layout;
    const rows = { build: node[sides.build].input.rows, probe: node[otherSide(sides.build)].input.rows };
    const bytes = rows.build * rowBytes(join, "build") + rows.probe * rowBytes(join, "probe");
    if (query.debug.outOfCore !== true && tablesFactor * bytes < limitBytes) return 0;
    const size = {
        ...{ buildRows: rows.build, probeRows: rows.probe, limitBytes, debug: query.debug },
        blockBytes: query.profile.deviceBlockBytes
    };
    const most = mostHostBytes({ ...size, shape: join }) + heldOf(node, sides, layout);
    if (wantedPath(pathFactsOf(query)) === "staged") return Math.ceil(most / hostShare);
    const coherent = attempt(() => {
        requirePairs(node, sides);
        const own = outOfCoreLayout(node, sides, inputs, { counted, path: "coherent" });
        return mostCoherentHostBytes({ ...size, shape: own.join }) + heldOf(node, sides, own);
    });
    return Math.ceil((coherent instanceof NotOnDevice ? most : Math.max(most, coherent)) / hostShare);
}

/** The stage of a join whose tables do not fit GPU memory. Throws NotOnDevice where it cannot run there. */
export function joinStageOf(query: PlanQuery, host: Plan, limitBytes: number): OutOfCoreStage {
    const node = requireInputJoin(query);
    const { sink, profile } = query;
    const policy = query.policy ?? defaultPolicy;
    const estimator = new Estimator(node, query.statistics, policy, query.tableFull);
    const columns = sink === "count" ? [] : node.columns.map((_, column) => column);
    const sides = joinSides(node, columns, estimator, policy);
    const facts = { query, host, node, sides, estimator, limitBytes };
    const drafts = { staged: () => stagedDraft(facts), coherent: () => coherentDraft(facts) };
    const { draft, path } = choosePath<JoinDraft>(pathFactsOf(query), drafts);
    const { way, ...decided } = draft;
    const { layout, sizes, predicted, heldBytes } = decided;
    const rings = ringBytes(layout.join, sizes);
    const inputs = inputsOf(node);
    const [build, probe] = [node[sides.build], node[otherSide(sides.build)]];
    const type = node.type === "inner" ? "" : `, ${node.type}`;
    return {
        id: 0,
        kind: "deviceOutOfCoreJoin",
        name: sink === "count" ? "count" : "join",
        algorithm: `out of core on the GPU: ${way}${type} (build side: ${sides.build})`,
        rowsIn: Math.ceil(estimator.of(build).rows) + Math.ceil(estimator.of(probe).rows),
        rowsOut: estimator.of(node).rows,
        frees: [],
        live: [],
        memory: {
            inputBytes: rings.chunks + heldBytes,
            tableBytes: sizes.spillBytes + diskBytes(sizes),
            outputBytes: rings.results
        },
        predictedMs: predicted.buildMs + predicted.probeMs + predicted.spilledMs + profile.deviceStageStartMs,
        predictedSpillBytes: predicted.diskBytes,
        buildInput: inputs.indexOf(build.input),
        probeInput: inputs.indexOf(probe.input),
        ...decided,
        path,
        work: joinWork({
            ...{ shape: layout.join, sizes, coherent: decided.coherent, multiprocessors: query.multiprocessors },
            buildRows: estimator.of(build).rows,
            blockBytes: profile.deviceBlockBytes
        })
    };
}
