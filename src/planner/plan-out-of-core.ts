// SPDX-License-Identifier: Apache-2.0
import { isBaselineJoin, isOutOfCoreJoin } from "../model/algorithms.js";
import type { MachineProfile } from "../machine/profile.js";
import { sumOf } from "../model/sizes.js";
import { inParts, type GroupParts } from "../plan/group-parts.js";
import { innerOperators, prunedTree } from "../plan/inner-operators.js";
import { inputsOf, type LogicalNode } from "../plan/logical.js";
import type { OutOfCoreGroupStage } from "../plan/out-of-core-group-stage.js";
import type { OutOfCoreTreeStage } from "../plan/out-of-core-tree-stage.js";
import type { OutOfCoreLayout, OutOfCoreStage } from "../plan/out-of-core-stage.js";
import { freezePlan, type Plan } from "../plan/plan.js";
import { attempt, firstToTell, nearest, NotOnDevice, settled } from "./device-support.js";
import { Estimator } from "./estimates.js";
import { chooseHeld, heldLimits, heldShareLeast, mostHeldBytes, type QueryPart } from "./held-rows.js";
import { otherSide } from "./join-sides.js";
import { isForcedOutOfCore, outOfCoreName } from "./named-algorithm.js";
import type { PlanQuery } from "./plan-search.js";
import { defaultPolicy } from "./policy.js";
import { baselineDraft } from "./streaming/baseline/plan.js";
import { partitionedBytes } from "./streaming/baseline/sizes.js";
import { coherentLayout } from "./streaming/coherent/row-layout.js";
import { coherentDraft } from "./streaming/coherent/plan.js";
import { mostCoherentHostBytes } from "./streaming/coherent/sizes.js";
import { groupPartsOf } from "./streaming/group/parts.js";
import { groupHostBytes, groupStageOf } from "./streaming/group/plan.js";
import { lookUps } from "./streaming/group/predict.js";
import { hostShare, tablesFactor, unknownLimitBytes } from "./streaming/host-memory.js";
import { heldOf, inputsOfSides, numbersOf, type InputJoin, type JoinDraft } from "./streaming/join/facts.js";
import { outOfCoreLayout } from "./streaming/join/row-layout.js";
import { choosePath, pathAlgorithms, wantedPath, type PathFacts } from "./streaming/join/path.js";
import { phasesMs } from "./streaming/join/predict.js";
import { outOfCoreStartMs, packsResults } from "./streaming/link.js";
import { stagedDraft } from "./streaming/join/plan.js";
import { inputJoinSides } from "./streaming/join/stream-sides.js";
import { mostHostBytes } from "./streaming/join/sizes.js";
import { diskBytes } from "./streaming/spill.js";
import { treeHostBytes, treeStageOf } from "./streaming/tree/plan.js";

function requireInputJoin({ root }: PlanQuery): InputJoin {
    if (root.kind !== "join" || root.left.kind !== "input" || root.right.kind !== "input") {
        throw new NotOnDevice("it is no join of two inputs");
    }
    if (root.algorithm !== undefined && !isOutOfCoreJoin(root.algorithm)) {
        throw new NotOnDevice(`"${root.algorithm}" was asked for, which joins tables in GPU memory`);
    }
    return root as InputJoin;
}

function pathFactsOf({ root, coherentDevice, measuredDevice }: PlanQuery): PathFacts {
    return { isCoherent: coherentDevice, isMeasured: measuredDevice, asked: outOfCoreName(root) };
}

/** Is it more than a join of two inputs, or a group-by of one? */
function isTree({ root }: PlanQuery): boolean {
    if (root.kind === "group") return root.child.kind !== "input";
    return root.kind === "join" && (root.left.kind !== "input" || root.right.kind !== "input");
}

/** As outOfCoreHostBytes, of a join; throws NotOnDevice. */
function joinHostBytes(query: PlanQuery, limitBytes: number): number {
    const node = requireInputJoin(query);
    const policy = query.policy ?? defaultPolicy;
    const estimator = new Estimator(node, query.statistics, policy, query.tableFull);
    const counted = query.sink === "count";
    const sides = inputJoinSides(node, [], { unread: counted || query.isHeld === true, estimator, policy });
    const layout = outOfCoreLayout(node, sides, inputsOfSides(node), { counted });
    const memory = query.deviceMemory.ofJoin(layout.join);
    const { rowBytes } = memory;
    const rows = { build: node[sides.build].input.rows, probe: node[otherSide(sides.build)].input.rows };
    const bytes = rows.build * rowBytes.build + rows.probe * rowBytes.probe;
    if (!isForcedOutOfCore(query) && tablesFactor * bytes < limitBytes) return 0;
    const size = {
        ...{ buildRows: rows.build, probeRows: rows.probe, limitBytes, debug: query.debug },
        blockBytes: query.profile.deviceBlockBytes
    };
    // A baseline puts rows of both sides into host memory, or slots for those of one side in twice the room.
    const extra = isBaselineJoin(node.algorithm) ? 2 * partitionedBytes(memory, rows) : 0;
    const beside = (own: OutOfCoreLayout): number =>
        heldOf(node, sides, own) + numbersOf(node, sides, own, estimator).bytes;
    const most = mostHostBytes({ ...size, memory }) + extra + beside(layout);
    if (wantedPath(pathFactsOf(query)) === "staged") return Math.ceil(most / hostShare);
    const coherent = attempt(() => {
        const own = coherentLayout(node, sides, counted);
        return mostCoherentHostBytes({ ...size, memory: query.deviceMemory.ofJoin(own.join) }) + beside(own);
    });
    return Math.ceil((coherent instanceof NotOnDevice ? most : Math.max(most, coherent)) / hostShare);
}

/** The stage of a join whose tables do not fit GPU memory. Throws NotOnDevice where it cannot run there. */
function joinStageOf(query: PlanQuery, host: Plan, limitBytes: number): OutOfCoreStage {
    const node = requireInputJoin(query);
    const { sink } = query;
    const policy = query.policy ?? defaultPolicy;
    const estimator = new Estimator(node, query.statistics, policy, query.tableFull);
    const columns = sink === "count" ? [] : node.columns.map((_, column) => column);
    const unread = sink === "count" || query.isHeld === true;
    const sides = inputJoinSides(node, columns, { unread, estimator, policy });
    const facts = { query, host, node, sides, estimator, limitBytes };
    const { algorithm } = node;
    const byCopies = () => (isBaselineJoin(algorithm) ? baselineDraft(facts, algorithm) : stagedDraft(facts));
    const drafts = { staged: byCopies, coherent: () => coherentDraft(facts) };
    const { draft, path } = choosePath<JoinDraft>(pathFactsOf(query), drafts);
    const asked = outOfCoreName(node);
    const joinAlgorithm = asked ?? pathAlgorithms[path.runs];
    const chosenBy = asked === undefined ? "planner" : "user";
    const { way, work, rings, packed, ...decided } = draft;
    const { sizes, predicted, heldBytes } = decided;
    const inputs = inputsOf(node);
    const [build, probe] = [node[sides.build], node[otherSide(sides.build)]];
    const type = node.type === "inner" ? "" : `, ${node.type}`;
    return {
        id: 0,
        kind: "deviceOutOfCoreJoin",
        name: sink === "count" ? "count" : "join",
        algorithm:
            `${joinAlgorithm}, out of core on the GPU: ${way}${type} ` +
            `(build side: ${sides.build}, chosen by the ${chosenBy})`,
        rowsIn: Math.ceil(estimator.of(build).rows) + Math.ceil(estimator.of(probe).rows),
        rowsOut: estimator.of(node).rows,
        frees: [],
        live: [],
        memory: {
            inputBytes: rings.chunks + heldBytes,
            tableBytes: sizes.spillBytes + diskBytes(sizes) + numbersOf(node, sides, decided.layout, estimator).bytes,
            outputBytes: rings.results
        },
        predictedMs: phasesMs(predicted) + outOfCoreStartMs,
        predictedSpillBytes: predicted.diskBytes,
        buildInput: inputs.indexOf(build.input),
        probeInput: inputs.indexOf(probe.input),
        ...decided,
        packed: [
            ...new Set([
                ...(packed.build ? [inputs.indexOf(build.input)] : []),
                ...(packed.probe ? [inputs.indexOf(probe.input)] : [])
            ])
        ],
        packsResults: packsResults(query, host.threads),
        ...{ path, work, joinAlgorithm, chosenBy }
    };
}

/**
 * Host memory that a query could use for chunks and spilled rows; 0 where its tables are likely to fit GPU memory, or
 * where it cannot run out of core at all. `limitBytes` undefined: not known yet.
 */
export function outOfCoreHostBytes(query: PlanQuery, limitBytes = unknownLimitBytes): number {
    const hostBytesOf = (parts: readonly QueryPart[]): number => {
        const most = Math.max(...parts.map((part) => partHostBytes(part.query, limitBytes)));
        return most === 0 ? 0 : most + mostHeldBytes(parts);
    };
    const isMore = (one: number, other: number): boolean => one > other;
    const bytes = attempt(() => chooseHeld(withGroupParts(query).query, hostBytesOf, isMore));
    return bytes instanceof NotOnDevice ? 0 : bytes;
}

/**
 * The query without aggregates that nobody reads, and with joins of parts in place of group-bys that no operator can
 * make; throws NotOnDevice.
 */
function withGroupParts(query: PlanQuery): { query: PlanQuery; groupParts: readonly GroupParts[] } {
    const counted = query.sink === "count";
    const hasGroups = innerOperators(query.root).some(({ kind }) => kind === "group");
    const root = hasGroups ? prunedTree(query.root, counted) : query.root;
    const groupParts = groupPartsOf(root, counted);
    return { query: { ...query, root: inParts(root, groupParts) }, groupParts };
}

function partHostBytes(query: PlanQuery, limitBytes: number): number {
    const { root } = query;
    if (isTree(query)) return treeHostBytes(query, limitBytes);
    return root.kind === "group" ? groupHostBytes(query, root, limitBytes) : joinHostBytes(query, limitBytes);
}

type AnyStage = OutOfCoreStage | OutOfCoreGroupStage | OutOfCoreTreeStage;

function partStageOf(query: PlanQuery, host: Plan, limitBytes: number): AnyStage {
    const { root } = query;
    if (isTree(query)) return treeStageOf(query, host, limitBytes);
    if (root.kind === "group") return groupStageOf(query, root, host, limitBytes);
    const join = attempt(() => joinStageOf(query, host, limitBytes));
    if (!mayCompareWords(query, join)) return settled(join);
    const tree = attempt(() => treeStageOf(query, host, limitBytes));
    if (tree instanceof NotOnDevice) return settled(join);
    return join instanceof NotOnDevice || tree.predictedMs < join.predictedMs ? tree : join;
}

/**
 * A join of held rows, of which hashes of keys would be compared and all columns gathered: an operator of a tree
 * compares words of keys, with a byte that says which are NULL, and brings the columns.
 */
function mayCompareWords({ root }: PlanQuery, join: OutOfCoreStage | NotOnDevice): boolean {
    const isHeld = (node: LogicalNode): boolean => node.kind === "input" && node.input.source.kind === "held";
    if (root.kind !== "join" || root.algorithm !== undefined || !isHeld(root.left) || !isHeld(root.right)) return false;
    return join instanceof NotOnDevice || join.layout.keys === "hashed";
}

/** A stage by the numbers that inputs have in the whole query. */
function inQuery(stage: AnyStage, { inputs }: QueryPart): AnyStage {
    const numberOf = (input: number): number => inputs[input] ?? -1;
    const packed = stage.packed.map(numberOf);
    switch (stage.kind) {
        case "deviceOutOfCoreJoin":
            return { ...stage, packed, buildInput: numberOf(stage.buildInput), probeInput: numberOf(stage.probeInput) };
        case "deviceOutOfCoreGroupBy":
            return { ...stage, packed, input: numberOf(stage.input) };
        case "deviceOutOfCoreTree":
            return { ...stage, packed, flows: stage.flows.map((flow) => ({ ...flow, input: numberOf(flow.input) })) };
    }
}

/** What it costs that held rows are written to disk, and read by a later stage. */
function withHeldOnDisk(
    { predictedMs, predictedSpillBytes }: AnyStage,
    diskBytes: number,
    { spillWriteBytesPerMs, spillReadBytesPerMs }: MachineProfile
): Pick<AnyStage, "predictedMs" | "predictedSpillBytes"> {
    return {
        predictedMs: predictedMs + diskBytes / spillWriteBytesPerMs + diskBytes / spillReadBytesPerMs,
        predictedSpillBytes: predictedSpillBytes + diskBytes
    };
}

/**
 * The stages of the parts of a query, of which all but the last one hold their rows. Where several of them cannot run,
 * what no memory lifts is told, or the most GPU memory that one takes.
 */
function stagesOf(query: PlanQuery, parts: readonly QueryPart[], host: Plan, limitBytes: number): AnyStage[] {
    const limits = attempt(() => heldLimits(parts, host));
    const { length: inputs } = inputsOf(query.root);
    let heldBytes = 0;
    const made = parts.map((part, id): AnyStage | NotOnDevice => {
        const limit = limits instanceof NotOnDevice ? undefined : limits[id];
        heldBytes += limit?.limitBytes ?? 0;
        const { memory } = host;
        const left = { ...host, memory: { ...memory, fixedBytes: memory.fixedBytes + heldBytes } };
        const stage = attempt(() => inQuery(partStageOf(part.query, left, limitBytes), part));
        if (stage instanceof NotOnDevice) return stage;
        if (part.held === undefined || limit === undefined) return { ...stage, id };
        const holds = { operator: part.held.operator, input: inputs + id, ...limit };
        return { ...stage, id, holds, ...withHeldOnDisk(stage, limit.diskBytes ?? 0, query.profile) };
    });
    const worst = firstToTell([limits, ...made].filter((one) => one instanceof NotOnDevice));
    if (worst !== undefined) throw worst;
    return made.flatMap((stage) => (stage instanceof NotOnDevice ? [] : [stage]));
}

/** Do workers look up each row of an input in a table of the host, before it goes to the GPU? */
export function looksUpRows({ stages }: Plan): boolean {
    return stages.some((stage) => stage.kind === "deviceOutOfCoreGroupBy" && lookUps(stage.layout) > 0);
}

/**
 * What `make` makes of a query. Held rows go to disk where they have to: columns that are gathered from there are
 * copied to host memory, so that less fits than where rows stay in it. If too little is left for the stages that read
 * them, next to none of it is for held rows, and rows of streams stay in it where no plan fits otherwise.
 */
function heldSomewhere<T>(query: PlanQuery, make: (query: PlanQuery) => T): T | NotOnDevice {
    const first = attempt(() => make(query));
    const { heldOnDisk, ...inMemory } = query;
    if (!(first instanceof NotOnDevice) || heldOnDisk === undefined) return first;
    if (innerOperators(query.root).length === 0) return first;
    const all = { ...query, heldOnDisk: "all" } as const;
    const little = { ...all, heldShare: heldShareLeast };
    let refused = first;
    for (const other of heldOnDisk === "all" ? [little] : [all, little, inMemory]) {
        const made = attempt(() => make(other));
        if (!(made instanceof NotOnDevice)) return made;
        refused = nearest(refused, made);
    }
    return refused;
}

function msOf(stages: readonly AnyStage[]): number {
    return sumOf(stages.map(({ predictedMs }) => predictedMs));
}

interface StagesOfHost {
    readonly stages: readonly AnyStage[];
    /** The plan whose limits these stages keep to. */
    readonly within: Plan;
}

/** As limits of plans for the CPU engine have them (limits.ts): from one to the next, and the last of the policy's. */
const fewerGroupBytes = 1 / 8;
const fewestGroupBytes = 1 / 64;

/** The stages of a query. Where host memory is too little, batches of streams come in smaller groups. */
function stagesWithin(query: PlanQuery, host: Plan, limitBytes: number): StagesOfHost {
    const make = (within: Plan): StagesOfHost => {
        const stagesFor = (parts: readonly QueryPart[]): AnyStage[] => stagesOf(query, parts, within, limitBytes);
        return { stages: chooseHeld(query, stagesFor, (one, other) => msOf(one) < msOf(other)), within };
    };
    const made = attempt(() => make(host));
    if (!(made instanceof NotOnDevice)) return made;
    if (made.isFinal) throw made;
    const streamGroupBytes = host.streamGroupBytes * fewerGroupBytes;
    const { streamGroupBytes: mostBytes } = query.policy ?? defaultPolicy;
    const isStreamed = inputsOf(query.root).some(({ streamed }) => streamed);
    if (!isStreamed || streamGroupBytes < mostBytes * fewestGroupBytes) throw made;
    const fewer = attempt(() => make({ ...host, streamGroupBytes }));
    if (fewer instanceof NotOnDevice) throw made;
    return fewer;
}

/** The plan of a query whose tables do not fit GPU memory, or why it cannot run there. */
export function planOutOfCore(query: PlanQuery, host: Plan, limitBytes: number): Plan | NotOnDevice {
    const cut = attempt(() => withGroupParts(query));
    if (cut instanceof NotOnDevice) return cut;
    const { groupParts } = cut;
    const made = heldSomewhere(cut.query, (own) => stagesWithin(own, host, limitBytes));
    if (made instanceof NotOnDevice) return made;
    const { stages, within } = made;
    return freezePlan<Plan>({
        ...within,
        device: "gpu",
        deviceReason: null,
        deviceMemory: {
            limitBytes,
            estimatedBytes: Math.max(...stages.map(({ deviceBytes }) => deviceBytes)),
            uploadedBytes: sumOf(stages.map(({ predicted }) => predicted.h2dBytes)),
            downloadedBytes: sumOf(stages.map(({ predicted }) => predicted.d2hBytes))
        },
        sets: [],
        stages,
        ...(groupParts.length === 0 ? {} : { groupParts }),
        predictedMs: query.profile.deviceQueryStartMs + msOf(stages)
    });
}
