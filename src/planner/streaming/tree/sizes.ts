// SPDX-License-Identifier: Apache-2.0
import { deviceConstants } from "../../../model/device-constants.js";
import { sumOf } from "../../../model/sizes.js";
import type { OutOfCoreGroupSizes } from "../../../plan/out-of-core-group-stage.js";
import type { OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";
import type { OutOfCoreFlow, OutOfCoreOperator } from "../../../plan/out-of-core-tree-stage.js";
import { inputsOf } from "../../../plan/logical.js";
import { attempt, NotOnDevice } from "../../device-support.js";
import { otherSide } from "../../join-sides.js";
import { requirePerfectKeys } from "../../perfect-keys.js";
import type { PlanQuery } from "../../plan-search.js";
import { defaultPolicy } from "../../policy.js";
import type { Estimator } from "../../estimates.js";
import {
    chooseCoherentSizes,
    isPerfectlyHashed,
    mostCoherentHostBytes,
    type CoherentSizeRequest
} from "../coherent/sizes.js";
import { packedPartialBytes } from "../group/predict.js";
import { chooseGroupSizes, mostGroupHostBytes, spilledGroupRows, type GroupSizeRequest } from "../group/sizes.js";
import { noFilter } from "../join/filter.js";
import { packedRowBytes, usualRadixBits } from "../join/predict.js";
import { residentShareOf } from "../join/resident-share.js";
import { chooseSizes, mostHostBytes, spilledBytes, type SizeRequest } from "../join/sizes.js";
import { diskBytes } from "../spill.js";
import { isByKernels, type TreeOperator } from "./row-layout.js";

/** What an operator may have. */
export interface OperatorShare {
    readonly limitBytes: number;
    readonly hostBytes: number;
    /** Memory of another GPU. */
    readonly peerBytes: number;
}

/** An operator with its sizes and what they come to. */
export interface SizedOperator {
    readonly operator: TreeOperator;
    readonly sized: OutOfCoreOperator;
    /** Rows of each input. */
    readonly rowsIn: readonly number[];
    readonly rowsOut: number;
    readonly deviceBytes: number;
    /** Packed rows of each input that leave GPU memory. */
    readonly spilledBytes: readonly number[];
    /** Share of the build rows, or of the groups, that GPU memory holds. */
    readonly residentShare: number;
    /** Bytes of a chunk of each input, and of a pipe into it. */
    readonly chunkBytes: readonly number[];
    readonly resultBytes: number;
    readonly resultRowBytes: number;
    /** Host memory for spilled rows, those on their way to disk included. */
    readonly hostSpillBytes: number;
}

export interface TreeFacts {
    readonly query: PlanQuery;
    readonly estimator: Estimator;
    readonly operators: readonly TreeOperator[];
    readonly flows: readonly OutOfCoreFlow[];
}

type JoinOperator = Extract<TreeOperator, { kind: "join" }>;
type GroupOperator = Extract<TreeOperator, { kind: "group" }>;

const rowsOf = (estimator: Estimator, node: TreeOperator["node"] | JoinOperator["node"]["left"]): number =>
    Math.ceil(estimator.of(node).rows);

export type TreeSizes = OutOfCoreSizes | OutOfCoreGroupSizes;

const hostSpillBytesOf = (sizes: TreeSizes): number => sizes.spillBytes + diskBytes(sizes);

function joinRequest({ query, estimator }: TreeFacts, operator: JoinOperator, share: OperatorShare): SizeRequest {
    const { node, sides, layout } = operator;
    const by = { build: sides.build, probe: otherSide(sides.build) } as const;
    const memory = query.deviceMemory.ofJoin(layout.join);
    const packed = (role: "build" | "probe"): number => {
        const keys = node.keys.map((key) => key[by[role]]);
        const statistics = estimator.statisticsOf(node[by[role]], keys);
        return packedRowBytes(layout, role, query.debug.radixBits ?? usualRadixBits, { memory, statistics });
    };
    return {
        memory,
        buildRows: rowsOf(estimator, node[by.build]),
        probeRows: rowsOf(estimator, node[by.probe]),
        ...share,
        sparing: query.sink === "table",
        guessed: inputsOf(node).some(({ streamed }) => streamed),
        blockBytes: query.profile.deviceBlockBytes,
        debug: query.debug,
        packedBytes: { build: packed("build"), probe: packed("probe") },
        filter: noFilter,
        linkBytesPerMs: query.profile.deviceCopyInBytesPerMs
    };
}

/** The same of a join by kernels alone. */
function coherentRequest(facts: TreeFacts, operator: JoinOperator, share: OperatorShare): CoherentSizeRequest {
    const { multiprocessors, computeMajor } = facts.query;
    const isUncached = operator.node.algorithm === "triton-uncached";
    const hasNeighbours = facts.operators.length > 1;
    return { ...joinRequest(facts, operator, share), multiprocessors, computeMajor, isUncached, hasNeighbours };
}

function sizedByKernels(facts: TreeFacts, operator: JoinOperator, share: OperatorShare): SizedOperator {
    const { node, sides, layout } = operator;
    const { query, estimator } = facts;
    if (isPerfectlyHashed(layout.join, query.debug)) {
        requirePerfectKeys(node, sides.build, estimator, query.policy ?? defaultPolicy);
    }
    const request = coherentRequest(facts, operator, share);
    const { sizes, coherent, deviceBytes, rowBytes, shares } = chooseCoherentSizes(request);
    const memory = request.memory.of(sizes);
    const gives = layout.join.result === "rows";
    const rowsIn = [request.buildRows, request.probeRows];
    return {
        operator,
        sized: { kind: "join", join: { ...layout.join, sizes, coherent } },
        rowsIn,
        rowsOut: rowsOf(estimator, node),
        deviceBytes,
        spilledBytes: rowsIn.map((rows) => rows * rowBytes * (1 - shares.near)),
        residentShare: shares.near,
        chunkBytes: [memory.chunkBytes.build, memory.chunkBytes.probe],
        resultBytes: gives ? memory.resultBytes : 0,
        resultRowBytes: gives ? request.memory.resultRowBytes : 0,
        hostSpillBytes: sizes.spillBytes
    };
}

function sizedJoin(facts: TreeFacts, operator: JoinOperator, share: OperatorShare): SizedOperator {
    if (isByKernels(operator.node)) return sizedByKernels(facts, operator, share);
    const request = joinRequest(facts, operator, share);
    const sizes = chooseSizes(request);
    const memory = request.memory.of(sizes);
    const spilled = spilledBytes(request, sizes);
    const gives = operator.layout.join.result === "rows";
    return {
        operator,
        sized: { kind: "join", join: { ...operator.layout.join, sizes, coherent: null } },
        rowsIn: [request.buildRows, request.probeRows],
        rowsOut: rowsOf(facts.estimator, operator.node),
        deviceBytes: memory.deviceBytes,
        spilledBytes: [spilled.build, spilled.probe],
        residentShare: residentShareOf(sizes),
        chunkBytes: [memory.chunkBytes.build, memory.chunkBytes.probe],
        resultBytes: gives ? memory.resultBytes : 0,
        resultRowBytes: gives ? request.memory.resultRowBytes : 0,
        hostSpillBytes: hostSpillBytesOf(sizes)
    };
}

function groupRequest(facts: TreeFacts, operator: GroupOperator, share: OperatorShare): GroupSizeRequest {
    const { query, estimator } = facts;
    const { node, layout } = operator;
    const statistics = node.keys.length === 0 ? undefined : estimator.statisticsOf(node.child, node.keys);
    return {
        memory: query.deviceMemory.ofGroupBy(layout.group),
        rows: rowsOf(estimator, node.child),
        groups: rowsOf(estimator, node),
        ...share,
        packedBytes: packedPartialBytes(layout, statistics),
        sparing: query.sink === "table",
        piped: true,
        isKeyless: node.keys.length === 0,
        guessed: inputsOf(node).some(({ streamed }) => streamed),
        debug: query.debug
    };
}

function sizedGroup(facts: TreeFacts, operator: GroupOperator, share: OperatorShare): SizedOperator {
    const request = groupRequest(facts, operator, share);
    const sizes = chooseGroupSizes(request);
    const memory = request.memory.of(sizes);
    const spilledRows = spilledGroupRows(request, sizes);
    return {
        operator,
        sized: { kind: "group", group: { ...operator.layout.group, sizes } },
        rowsIn: [request.rows],
        rowsOut: request.groups,
        deviceBytes: memory.deviceBytes,
        spilledBytes: [spilledRows * request.packedBytes],
        residentShare: request.rows === 0 ? 1 : 1 - spilledRows / request.rows,
        chunkBytes: [memory.chunkBytes],
        resultBytes: memory.resultBytes,
        resultRowBytes: request.memory.resultRowBytes,
        hostSpillBytes: hostSpillBytesOf(sizes)
    };
}

function sized(facts: TreeFacts, operator: TreeOperator, share: OperatorShare): SizedOperator {
    return operator.kind === "join" ? sizedJoin(facts, operator, share) : sizedGroup(facts, operator, share);
}

/** GPU memory of the pipes between operators, each of which is a block of its own. */
function pipeBytes({ flows }: TreeFacts, all: readonly SizedOperator[]): number {
    const { deviceBlockStepBytes: step } = deviceConstants;
    const pipes = flows.flatMap(({ steps }) =>
        steps.slice(1).map(({ operator, input }) => all[operator]?.chunkBytes[input] ?? 0)
    );
    return sumOf(pipes.map((bytes) => Math.ceil(bytes / step) * step));
}

export function treeDeviceBytes(facts: TreeFacts, all: readonly SizedOperator[]): number {
    return sumOf(all.map(({ deviceBytes }) => deviceBytes)) + pipeBytes(facts, all);
}

/** Memory for what each operator spills. */
interface SpillShares {
    readonly host: readonly number[];
    readonly peer: readonly number[];
}

/**
 * Each operator has the same share at first. What those leave that need less, as they hold all of their rows, is for
 * those that would spill.
 */
function sharedOut(facts: TreeFacts, limitBytes: number, shares: SpillShares): SizedOperator[] {
    const { operators } = facts;
    const fair = Math.floor(limitBytes / operators.length);
    const shareOf = (at: number, bytes: number): OperatorShare => ({
        limitBytes: bytes,
        hostBytes: shares.host[at] ?? 0,
        peerBytes: shares.peer[at] ?? 0
    });
    const all = operators.map((operator, at) => sized(facts, operator, shareOf(at, fair)));
    const spills = ({ residentShare }: SizedOperator): boolean => residentShare < 1;
    const left = limitBytes - sumOf(all.map(({ deviceBytes }) => deviceBytes));
    const takers = all.filter(spills).length;
    if (takers === 0 || left <= 0) return all;
    const more = fair + Math.floor(left / takers);
    return all.map((one, at) => (spills(one) ? sized(facts, one.operator, shareOf(at, more)) : one));
}

/** Shares are made again with less until pipes find room beside them. */
const triesMax = 6;

function withPipes(facts: TreeFacts, limitBytes: number, shares: SpillShares): SizedOperator[] {
    let budget = limitBytes;
    for (let tried = 0; tried < triesMax; ++tried) {
        const all = sharedOut(facts, budget, shares);
        const excess = treeDeviceBytes(facts, all) - limitBytes;
        if (excess <= 0) return all;
        budget = Math.min(budget - excess, budget * 0.97);
        if (budget <= 0) break;
    }
    throw NotOnDevice.below(limitBytes + 1);
}

/** Limits that are tried for the one that an error names: each this much larger than the one before. */
const limitStep = 1.125;
const limitMax = 2 ** 40;

/**
 * Where GPU memory is too little: what one operator lacks says nothing of the others, so that the least limit is
 * searched, and there may be none, as host memory is too little for any.
 */
function orLeastLimit(limitBytes: number, choose: (limitBytes: number) => SizedOperator[]): SizedOperator[] {
    const chosen = attempt(() => choose(limitBytes));
    if (!(chosen instanceof NotOnDevice)) return chosen;
    if (chosen.leastBytes === undefined) throw chosen;
    for (let limit = limitBytes * limitStep; limit <= limitMax; limit *= limitStep) {
        const made = attempt(() => choose(Math.floor(limit)));
        if (!(made instanceof NotOnDevice)) throw NotOnDevice.below(Math.floor(limit));
        if (made.leastBytes === undefined) throw made;
    }
    throw chosen;
}

/**
 * Sizes of all operators, which are in GPU memory at the same time. Other memory goes to those that are expected to
 * spill, by what they spill. Throws NotOnDevice where GPU or host memory is too little.
 */
export function chooseTreeSizes(facts: TreeFacts, share: OperatorShare): SizedOperator[] {
    return orLeastLimit(share.limitBytes, (limitBytes) => sizesWithin(facts, { ...share, limitBytes }));
}

function sizesWithin(facts: TreeFacts, { limitBytes, hostBytes, peerBytes }: OperatorShare): SizedOperator[] {
    const count = facts.operators.length;
    const sharesBy = (parts: readonly number[]): SpillShares => ({
        host: parts.map((part) => hostBytes * part),
        peer: parts.map((part) => Math.floor(peerBytes * part))
    });
    const first = withPipes(facts, limitBytes, sharesBy(facts.operators.map(() => 1 / count)));
    const expected = first.map(({ spilledBytes: spilled }) => sumOf(spilled));
    const all = sumOf(expected);
    if (count === 1 || all === 0) return first;
    // Half of it goes by what is expected, which may be wrong.
    return withPipes(facts, limitBytes, sharesBy(expected.map((bytes) => (1 / count + bytes / all) / 2)));
}

/** Host memory that the operators could use. */
export function mostTreeHostBytes(facts: TreeFacts, limitBytes: number): number {
    const operatorBytes = Math.floor(limitBytes / facts.operators.length);
    const share = { limitBytes: operatorBytes, hostBytes: Infinity, peerBytes: 0 };
    return sumOf(
        facts.operators.map((operator) => {
            if (operator.kind === "join" && isByKernels(operator.node)) {
                return mostCoherentHostBytes(coherentRequest(facts, operator, share));
            }
            if (operator.kind === "join") return mostHostBytes(joinRequest(facts, operator, share));
            const { memory, rows, debug } = groupRequest(facts, operator, share);
            return mostGroupHostBytes(memory, rows, share.limitBytes, debug);
        })
    );
}
