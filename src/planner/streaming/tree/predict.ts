// SPDX-License-Identifier: Apache-2.0
import { deviceConstants } from "../../../model/device-constants.js";
import { nsPerMs, sumOf } from "../../../model/sizes.js";
import type { OutOfCoreAggregate } from "../../../plan/out-of-core-group-stage.js";
import type { KeySpec } from "../../../model/column-type.js";
import { otherSide } from "../../join-sides.js";
import type { OutOfCoreFlow, OutOfCoreTreePrediction } from "../../../plan/out-of-core-tree-stage.js";
import { inputRowBytes } from "../chunk-rows.js";
import { deliveryMs, deliveryWorkMs, fillMs, linkMs, readMs, rowKernelsMs } from "../link.js";
import type { Delivered, Filling, Movers, PeerBytes } from "../link.js";
import { expectedOnDisk, expectedOnPeer } from "../spill.js";
import type { SizedOperator, TreeSizes } from "./sizes.js";

export interface TreeLoad extends Movers {
    readonly operators: readonly SizedOperator[];
    readonly flows: readonly OutOfCoreFlow[];
    /** Of each flow. */
    readonly fillings: readonly Filling[];
    /** No bytes where rows are counted. */
    readonly result: Delivered;
    /** Bytes of columns that are gathered and have to be read first. */
    readonly heldBytes: number;
}

/** The bytes of a flow, with those of rows that its operators spill, and that come back when their last input ends. */
interface FlowLoad {
    readonly inBytes: number;
    readonly filling: Filling;
    /** What kernels take for these rows beside the link. */
    readonly kernelsMs: number;
    readonly outBytes: number;
    readonly backBytes: number;
    /** The parts of both in the memory of another GPU. */
    readonly peer: PeerBytes;
    /** Chunks that its operators get from each other, and their rows. */
    readonly pipedChunks: number;
    /** What their rows take the GPU. */
    readonly pipedMs: number;
    /** Does the result leave the GPU with it? */
    readonly isLast: boolean;
}

/**
 * A row that comes from another operator takes an operator so long, in nanoseconds: the kernels that count, write and
 * project it and aggregate it or look it up, and waits of the host in between. Copies of later chunks go on meanwhile.
 * On an H100 queries of 2^28 rows took at 16 GiB, from a join to sums 160 ms, of which filling chunks is expected to
 * take 140, to 2^26 groups 119 (70), and from a join to another and to sums 169 (98).
 */
const pipedRowNs = { join: 0.25, sums: 0.25, groups: 0.4 };

const sumPartBytes = 4;

/** Are all that the group-by wants counts and sums of integers, which the join before it adds up as it finds pairs? */
function areAddedUp(from: SizedOperator | undefined, to: SizedOperator | undefined): boolean {
    if (from?.sized.kind !== "join" || to?.operator.kind !== "group" || to.sized.kind !== "group") return false;
    const { emit, keepUnmatchedBuild, keepUnmatchedProbe, coherent } = from.sized.join;
    const { aggregates, widths } = to.sized.group;
    const isInner = emit === "pairs" && !keepUnmatchedBuild && !keepUnmatchedProbe && coherent === null;
    const isSum = ({ kind, number }: OutOfCoreAggregate): boolean => kind === "sum" && number !== "float";
    const added = new Set(aggregates.filter(isSum).map(({ column }) => column));
    const parts = sumOf([...added].map((column) => Math.ceil((widths[column] ?? 0) / sumPartBytes)));
    const others = aggregates.some((one) => one.kind !== "countRows" && !isSum(one));
    return isInner && to.operator.node.keys.length === 0 && !others && parts <= deviceConstants.sumPartsMax;
}
/**
 * What a chunk of such rows takes beside, in milliseconds: the launches of its kernels. At 1 GiB, with chunks of 2^18
 * rows, the same queries took 279 and 358 ms; the link takes 149 and 64.
 */
const pipedChunkMs = 0.06;

const nameOf = ({ operator }: SizedOperator): string => (operator.kind === "join" ? "join" : "group");

/** Of a row of a source. */
function mayBeNull({ operator }: SizedOperator, input: number, { column }: KeySpec): boolean {
    if (operator.kind === "group") return operator.node.child.columns[column]?.type.nullable === true;
    const { node, sides } = operator;
    return node[input === 0 ? sides.build : otherSide(sides.build)].columns[column]?.type.nullable === true;
}

/** Bytes that a flow brings to its first operator. */
export function flowBytes({ steps, side }: OutOfCoreFlow, operators: readonly SizedOperator[]): number {
    const [first] = steps;
    const to = operators[first?.operator ?? -1];
    if (first === undefined || to === undefined) return 0;
    const rows = to.rowsIn[first.input] ?? 0;
    const hasKeyBits = side.nullByte < 0 && side.keys.some((key) => mayBeNull(to, first.input, key));
    if (to.sized.kind === "group") {
        const { keyBytes, widths } = to.sized.group;
        return rows * inputRowBytes(keyBytes, widths, hasKeyBits);
    }
    const { keyBytes, buildWidths, probeWidths } = to.sized.join;
    return rows * inputRowBytes(keyBytes, first.input === 0 ? buildWidths : probeWidths, hasKeyBits);
}

function pipedRowsMs(of: SizedOperator | undefined, input: number): number {
    if (of === undefined) return 0;
    const { operator } = of;
    const kind = operator.kind === "join" ? "join" : operator.node.keys.length === 0 ? "sums" : "groups";
    return ((of.rowsIn[input] ?? 0) * pipedRowNs[kind]) / nsPerMs;
}

function chunksOf(of: SizedOperator | undefined, input: number): number {
    if (of === undefined) return 0;
    const { sizes } = of.sized.kind === "join" ? of.sized.join : of.sized.group;
    return Math.ceil((of.rowsIn[input] ?? 0) / Math.max(1, sizes.chunkRows));
}

function sizesOf({ sized }: SizedOperator): TreeSizes {
    return (sized.kind === "join" ? sized.join : sized.group).sizes;
}

/** Bytes of each input that are expected in the memory of another GPU. */
function onPeerOf(one: SizedOperator): readonly [number, number] {
    const [build = 0, probe = 0] = one.spilledBytes;
    const found = expectedOnPeer({ build, probe }, sizesOf(one));
    return [found.build, found.probe];
}

function loadOf(load: TreeLoad, flow: OutOfCoreFlow, at: number): FlowLoad {
    const passed = flow.steps.map(({ operator, input }) => ({ of: load.operators[operator], input }));
    const piped = passed.slice(1).filter(({ of }, before) => !areAddedUp(passed[before]?.of, of));
    const spilled = passed.map(({ of, input }) => of?.spilledBytes[input] ?? 0);
    const ended = passed.filter(({ of, input }) => of !== undefined && input === of.rowsIn.length - 1);
    const filling = load.fillings[at] as Filling;
    return {
        inBytes: flowBytes(flow, load.operators) * filling.sentShare,
        filling,
        kernelsMs: rowKernelsMs(flowBytes(flow, load.operators)),
        outBytes: sumOf(spilled),
        pipedChunks: sumOf(piped.map(({ of, input }) => chunksOf(of, input))),
        pipedMs: sumOf(piped.map(({ of, input }) => pipedRowsMs(of, input))),
        backBytes: sumOf(ended.map(({ of }) => sumOf([...(of?.spilledBytes ?? [])]))),
        peer: {
            in: sumOf(ended.map(({ of }) => (of === undefined ? 0 : sumOf([...onPeerOf(of)])))),
            out: sumOf(passed.map(({ of, input }) => (of === undefined ? 0 : (onPeerOf(of)[input] ?? 0))))
        },
        isLast: at === load.flows.length - 1
    };
}

/** Bytes per direction of the link, and how long each flow takes. */
export function predictTree(load: TreeLoad): OutOfCoreTreePrediction {
    const { operators, profile } = load;
    const [root] = operators;
    const resultBytes = root === undefined || load.sink === "count" ? 0 : root.rowsOut * root.resultRowBytes;
    const flows = load.flows.map((flow, at) => loadOf(load, flow, at));
    const peerBytes = sumOf(operators.map((one) => sumOf([...onPeerOf(one)])));
    const disk = operators.map((one) => {
        const { spilledBytes } = one;
        const [build = 0, probe = 0] = spilledBytes;
        return sumOf(Object.values(expectedOnDisk({ build, probe }, sizesOf(one))));
    });
    const diskBytes = sumOf(disk);
    const diskMs = diskBytes / profile.spillWriteBytesPerMs + diskBytes / profile.spillReadBytesPerMs;
    const flowMs = (flow: FlowLoad): number => {
        const { inBytes, peer, pipedChunks, pipedMs, isLast } = flow;
        const [outBytes, backBytes] = [flow.outBytes - peer.out, flow.backBytes - peer.in];
        const downBytes = isLast ? resultBytes : 0;
        const fillingMs = fillMs(load, flow.filling) + (isLast ? readMs(load, load.heldBytes) : 0);
        const inMs = linkMs(load, inBytes, outBytes, { in: 0, out: peer.out }) + flow.kernelsMs;
        const readingMs = Math.max(inMs, fillingMs);
        const wholeMs = Math.max(
            linkMs(load, inBytes + backBytes, outBytes + downBytes, peer),
            isLast ? deliveryMs(load, load.result) : 0
        );
        // Spilled rows come back when all of an input has been read.
        const readAllMs = readingMs + linkMs(load, backBytes, 0, { in: peer.in, out: 0 });
        // The same workers fill chunks and deliver rows.
        const workersMs = fillingMs + (isLast ? deliveryWorkMs(load, load.result) : 0);
        const movedMs = Math.max(wholeMs, readAllMs, pipedMs, workersMs);
        return profile.deviceInputStartMs + movedMs + pipedChunks * pipedChunkMs + (isLast ? diskMs : 0);
    };
    const spilledBytes = sumOf(flows.map(({ outBytes }) => outBytes));
    return {
        h2dBytes: Math.ceil(sumOf(flows.map(({ inBytes, backBytes }) => inBytes + backBytes))),
        d2hBytes: Math.ceil(spilledBytes + resultBytes),
        spilledBytes: Math.ceil(spilledBytes),
        peerBytes: Math.ceil(peerBytes),
        diskBytes: Math.ceil(diskBytes),
        flowsMs: flows.map(flowMs),
        gatherMs: load.result.gatherMs ?? 0,
        operators: operators.map((one) => ({
            name: nameOf(one),
            rowsIn: one.rowsIn,
            rowsOut: one.rowsOut,
            spilledBytes: Math.ceil(sumOf([...one.spilledBytes])),
            residentShare: one.residentShare,
            deviceBytes: one.deviceBytes
        }))
    };
}
