// SPDX-License-Identifier: Apache-2.0
// What explain says of stages out of core.
import { keyWordColumn } from "../model/column-type.js";
import { formatBytes, formatCount, formatMs } from "../model/sizes.js";
import { isTextExtreme, type OutOfCoreGroupStage } from "./out-of-core-group-stage.js";
import type { OutOfCoreTreeStage } from "./out-of-core-tree-stage.js";
import type {
    OutOfCoreBaseline,
    OutOfCoreGathered,
    OutOfCoreJoinWork,
    OutOfCorePath,
    OutOfCoreStage,
    OutOfCoreTurns,
    OutOfCoreWork
} from "./out-of-core-stage.js";

type GroupOperator = Extract<OutOfCoreTreeStage["operators"][number], { kind: "group" }>;
type Tiers = Pick<OutOfCoreStage["predicted"], "peerBytes" | "diskBytes">;
type Slots = Pick<OutOfCoreStage["sizes"], "chunkSlots">;

/** Where its partitions are, what each direction of the link carries and how long its phases take. */
export function outOfCoreLines(stage: OutOfCoreStage): string[] {
    const { sizes, predicted, path, work, layout, heldBytes, filter, coherent, baseline } = stage;
    if (baseline !== null) return baselineLines(stage, baseline);
    const { h2dBytes, d2hBytes, spilledBytes } = predicted;
    const resident = Math.min(1, sizes.residentPartitions / 2 ** sizes.radixBits);
    const where =
        coherent === null
            ? `${Math.round(100 * resident)} % of them stay in GPU memory`
            : `in ${formatCount(sizes.pages)} ${coherent.mapped ? "mapped " : ""}pages${turnsText(work.turns)}, ` +
              `partitioner ${coherent.partitioner}`;
    return [
        pathLine(path),
        `2^${sizes.radixBits} partitions, ${where}, chunks of ${formatCount(sizes.chunkRows)} rows`,
        `second pass: 2^${work.secondPassBits} parts of each, ${partsLine[work.secondPass]}` +
            `${bucketsText(work, coherent)} in shared memory; ` +
            noHistogram,
        streamsLine(work, sizes),
        `link: ${formatBytes(h2dBytes)} to the GPU, ${formatBytes(d2hBytes)} from it, ` +
            `with ${formatBytes(spilledBytes)} of spilled rows each way`,
        packedLine(stage, layout.join.result === "rows" && layout.gathered.length === 0),
        ...tierLines(predicted, sizes.spillBytes),
        ...filterLines(filter, spilledBytes),
        phasesLine(predicted, coherent),
        ...keyLines(layout),
        ...gatherLines(layout, predicted, heldBytes)
    ];
}

const whyTurns = {
    capacity: "as many of GPU memory as fit",
    bandwidth: "so that GPU memory and the link take as long",
    asked: "as asked for"
} as const;

function bucketsText({ secondPass }: OutOfCoreJoinWork, coherent: OutOfCoreStage["coherent"]): string {
    if (secondPass !== "hashTables" || coherent === null) return "";
    const { tableBuckets, perfectHash } = coherent;
    if (perfectHash) return " that are arrays indexed by keys (perfect hashing)";
    return tableBuckets !== null ? ` of ${formatCount(tableBuckets)} buckets` : "";
}

/** Which pages lie where. */
function turnsText(turns: OutOfCoreTurns | null): string {
    if (turns === null) return "";
    const { device, far, pages, reason } = turns;
    if (pages.peer > 0) {
        const places = [
            [pages.device, "GPU memory"],
            [pages.peer, "a peer's memory"],
            [pages.host, "host memory"]
        ] as const;
        const counts = places
            .filter(([count]) => count > 0)
            .map(([count, place]) => `${formatCount(count)} of ${place}`);
        return ` in turns, ${device} near to ${far} far: ${counts.join(", ")} (${whyTurns[reason]})`;
    }
    if (far === 0) return ` of GPU memory (${whyTurns[reason]})`;
    if (device === 0) return ` of host memory (${whyTurns[reason]})`;
    return ` of GPU and host memory in turns, ${device} to ${far} (${whyTurns[reason]})`;
}

const noHistogram = "no histogram (partitions are lists of pages)";
const partsLine = { sort: "sorted", hashTables: "joined by hash tables", none: "as they are" } as const;

/** The same of a join that others are compared with. */
function baselineLines(
    { sizes, predicted, path, work, layout, heldBytes }: OutOfCoreStage,
    baseline: OutOfCoreBaseline
): string[] {
    const { h2dBytes, d2hBytes, buildMs, probeMs, spilledMs } = predicted;
    const join = spilledMs > 0 ? `, join ${formatMs(spilledMs)}` : "";
    return [
        pathLine(path),
        ...placeLines(sizes, baseline),
        streamsLine(work, sizes),
        `link: ${formatBytes(h2dBytes)} to the GPU, ${formatBytes(d2hBytes)} from it`,
        `build ${formatMs(buildMs)}, probe ${formatMs(probeMs)}${join}`,
        ...keyLines(layout),
        ...gatherLines(layout, predicted, heldBytes)
    ];
}

const keptAs = {
    sorted: "the build side sorted in GPU memory, with which each chunk is sorted and merged",
    partitioned: "the build side partitioned in GPU memory, with which each chunk is partitioned and joined",
    table: "a hash table in GPU memory"
} as const;

/** Where its rows lie. */
function placeLines(sizes: OutOfCoreStage["sizes"], { interleave, streamProbe, overlap }: OutOfCoreBaseline): string[] {
    const chunks = `chunks of ${formatCount(sizes.chunkRows)} rows`;
    if (streamProbe !== null) {
        const apart = overlap ? [] : ["copies, joins and results of chunks one after the other"];
        const counted = streamProbe === "partitioned" ? ["histograms: of either side's rows, by the GPU"] : [];
        return [`${keptAs[streamProbe]}, ${chunks}`, ...apart, ...counted];
    }
    if (interleave !== null) {
        const { device, far } = interleave;
        return [`a hash table in stripes of GPU and host memory, ${device} to ${far}, ${chunks}`];
    }
    return [
        `2^${sizes.radixBits} partitions in host memory, ${formatBytes(sizes.spillBytes)} at most, ${chunks}`,
        workingSetLine(sizes, overlap),
        "histograms: one of each chunk, by the CPU"
    ];
}

/** What of the build side GPU memory keeps, and when it gets there. */
function workingSetLine({ residentPartitions, radixBits }: OutOfCoreStage["sizes"], overlap: boolean): string {
    if (residentPartitions === 0) return "none of the build side is kept in GPU memory: all of it comes in groups";
    const share = `${Math.round((100 * residentPartitions) / 2 ** radixBits)} % of the build side`;
    const when = overlap ? "while the CPU partitions the probe side" : "after both sides were partitioned";
    return `${share} gets into GPU memory ${when}, and is kept there`;
}

/** What is joined where it is not the keys themselves. */
function keyLines({ keys }: OutOfCoreStage["layout"]): string[] {
    if (keys === "hashed") return ["hashes of the keys are joined; pairs whose keys differ are dropped"];
    return keys === "numbered" ? ["numbers of the keys are joined, which workers give to those of the build side"] : [];
}

function pathLine({ runs, reason }: OutOfCorePath): string {
    return `path: ${runs} (${reason})`;
}

/** What runs at the same time, and how much of the GPU it has. */
function streamsLine({ streams, ...work }: OutOfCoreWork | OutOfCoreJoinWork, { chunkSlots }: Slots): string {
    const slots = `${chunkSlots} chunk slot${chunkSlots === 1 ? "" : "s"}`;
    const line = `${streams.length} streams (${streams.join(", ")}), ${slots}`;
    if (!("multiprocessors" in work) || work.multiprocessors === null) return line;
    const { firstPass, fetch, join } = work.multiprocessors;
    const fetches = work.secondPass === "hashTables" ? "partition once more" : "gather";
    return `${line}, ${firstPass} multiprocessors partition, then ${fetch} ${fetches} while ${join} join`;
}

function phasesLine(
    { buildMs, probeMs, spilledMs }: OutOfCoreStage["predicted"],
    coherent: OutOfCoreStage["coherent"]
): string {
    if (coherent === null) {
        return `build ${formatMs(buildMs)}, probe ${formatMs(probeMs)}, spilled partitions ${formatMs(spilledMs)}`;
    }
    const join = `join ${formatMs(spilledMs)}`;
    return `build side partitioned in ${formatMs(buildMs)}, probe side in ${formatMs(probeMs)}, ${join}`;
}

/** What crosses the link packed. `gives`: rows, none of whose columns is gathered: those beside them are not packed. */
function packedLine({ packed, packsResults }: { packed: readonly number[]; packsResults: boolean }, gives: boolean) {
    const parts = [
        ...(packed.length > 0 ? ["values of inputs"] : []),
        ...(packsResults && gives ? ["columns of the result without NULLs"] : [])
    ];
    if (parts.length === 0) return "values cross the link as they are, which is no slower than packed";
    return `${parts.join(" and ")} cross the link in as many bits as they need`;
}

/** What of the spilled rows goes to another GPU, and what to disk. */
function tierLines({ peerBytes, diskBytes }: Tiers, spillBytes: number): string[] {
    return [
        ...(peerBytes === 0 ? [] : [`peer: ${formatBytes(peerBytes)} of them in the memory of another GPU`]),
        ...(diskBytes === 0
            ? []
            : [`disk: ${formatBytes(diskBytes)} of them, ${formatBytes(spillBytes)} stay in host memory`])
    ];
}

/** Which probe rows are kept from being spilled, or why none are. */
function filterLines({ bytes, droppedShare, reason }: OutOfCoreStage["filter"], spilledBytes: number): string[] {
    if (bytes === 0) return spilledBytes > 0 ? [`no Bloom filter: ${reason}`] : [];
    const dropped = `about ${Math.round(100 * droppedShare)} % of the probe rows before they are spilled`;
    return [`Bloom filter of ${formatBytes(bytes)}: drops ${dropped} (${reason})`];
}

/** What does not cross the link, and why. */
function gatherLines(
    { gathered }: { readonly gathered: readonly Pick<OutOfCoreGathered, "name" | "reason">[] },
    { gatherMs }: Pick<OutOfCoreStage["predicted"], "gatherMs">,
    heldBytes: number
): string[] {
    if (gathered.length === 0) return [];
    const columns = gathered.map(({ name, reason }) => `${name} (${reason})`).join(", ");
    const held = heldBytes > 0 ? `, ${formatBytes(heldBytes)} of it read for that` : "";
    return [`gathered by row number from host memory${held}, ${formatMs(gatherMs)} of all workers: ${columns}`];
}

/** How text is grouped that has words of its own. */
function shortTextLines({ side }: OutOfCoreGroupStage["layout"]): string[] {
    const widths = side.keys.flatMap(({ kind, width }) => (kind === "bytes" && width > 0 ? [width] : []));
    return widths.map((width) => `text of up to ${width - 1} bytes is a key of ${width} bytes, longer text a number`);
}

/** What workers do with rows that the GPU does not, if anything. */
function numberedLines({ side }: OutOfCoreGroupStage["layout"]): string[] {
    const counted = side.columns.filter(({ distinct }) => distinct !== null).length;
    const extremes = side.columns.filter(({ part }) => isTextExtreme(part)).length;
    const parts = [
        side.numbered ? "number the keys of each row together" : "",
        counted > 0 ? `look whether values of ${counted} column${counted === 1 ? "" : "s"} came with them before` : "",
        extremes > 0 ? `compare texts of ${extremes} column${extremes === 1 ? "" : "s"} within their groups` : ""
    ].filter((part) => part !== "");
    const words = side.columns.filter(({ column }) => column === keyWordColumn).length;
    return [
        ...(words > 0
            ? [`keys of ${words + 1} words, grouped by a hash of 64 bits that is checked by these words`]
            : []),
        ...(parts.length === 0 ? [] : [`workers ${parts.join(" and ")}, in host memory that does not spill`])
    ];
}

/** The same of a group-by. */
export function outOfCoreGroupLines({ layout, sizes, predicted, path, work, packed }: OutOfCoreGroupStage): string[] {
    const { h2dBytes, d2hBytes, spilledBytes, readMs, residentMs, spilledMs } = predicted;
    return [
        pathLine(path),
        `2^${sizes.radixBits} partitions, pages for ${formatCount(sizes.pages * sizes.pageRows)} groups ` +
            `in GPU memory, chunks of ${formatCount(sizes.chunkRows)} rows`,
        `second pass: partitions are aggregated again, ${formatCount(sizes.mergeRows)} rows at once; ${noHistogram}`,
        streamsLine(work, sizes),
        ...shortTextLines(layout),
        ...numberedLines(layout),
        `link: ${formatBytes(h2dBytes)} to the GPU, ${formatBytes(d2hBytes)} from it, ` +
            `with ${formatBytes(spilledBytes)} of spilled rows each way`,
        packedLine({ packed, packsResults: false }, true),
        ...tierLines(predicted, sizes.spillBytes),
        `read ${formatMs(readMs)}, resident partitions ${formatMs(residentMs)}, ` +
            `spilled partitions ${formatMs(spilledMs)}`
    ];
}

/** The same of a tree: its operators in the order in which rows pass them, then its flows. */
export function outOfCoreTreeLines(stage: OutOfCoreTreeStage): string[] {
    const { operators, predicted, flows, memory } = stage;
    const { h2dBytes, d2hBytes, spilledBytes, flowsMs } = predicted;
    const order = [...new Set(flows.flatMap(({ steps }) => steps.map(({ operator }) => operator)))];
    const lines = order.map((at) => {
        const one = predicted.operators[at];
        const operator = operators[at];
        const { sizes } = operator?.kind === "join" ? operator.join : (operator as GroupOperator).group;
        const isByKernels = operator?.kind === "join" && operator.join.coherent !== null;
        const where = isByKernels ? "of their pages are in GPU memory, by kernels alone" : "of them stay there";
        const rows = (one?.rowsIn ?? []).map(formatCount).join(" x ");
        return (
            `${one?.name} ${at}: ${rows} rows in, about ${formatCount(one?.rowsOut ?? 0)} out, ` +
            `${formatBytes(one?.deviceBytes ?? 0)} of GPU memory, 2^${sizes.radixBits} partitions, ` +
            `${Math.round(100 * (one?.residentShare ?? 0))} % ${where}`
        );
    });
    const ways = flows.map(({ steps }, at) => {
        const way = steps.map(({ operator, input }) => {
            const isJoin = operators[operator]?.kind === "join";
            return isJoin ? `join ${operator} (${input === 0 ? "built" : "probed"})` : `group ${operator}`;
        });
        return `flow ${at + 1}: ${way.join(" -> ")}, ${formatMs(flowsMs[at] ?? 0)}`;
    });
    return [
        ...lines,
        ...ways,
        `link: ${formatBytes(h2dBytes)} to the GPU, ${formatBytes(d2hBytes)} from it, ` +
            `with ${formatBytes(spilledBytes)} of spilled rows each way`,
        packedLine(
            stage,
            stage.result.kind === "join" && stage.result.columns.length > 0 && stage.gathered.length === 0
        ),
        ...tierLines(predicted, memory.tableBytes),
        ...gatherLines(stage, predicted, stage.heldBytes)
    ];
}
