// SPDX-License-Identifier: Apache-2.0
import type { MachineProfile } from "../../machine/profile.js";
import type { KeySpec } from "../../model/column-type.js";
import { nsPerMs, sumOf } from "../../model/sizes.js";
import type { InputInfo, LogicalColumn } from "../../plan/logical.js";
import type { UploadedColumn } from "../../plan/device-stages.js";
import type { SinkKind } from "../../plan/plan.js";
import { deviceConstants } from "../../model/device-constants.js";
import type { PlanQuery } from "../plan-search.js";
import { defaultPolicy } from "../policy.js";
import { canPack } from "../statistics.js";
import { isText } from "./chunk-rows.js";
import { isShortText, isTinyText } from "./short-texts.js";
import { resultSlots } from "./sizes.js";

/** Who moves the rows of a query. */
export interface Movers {
    readonly workers: number;
    readonly sink: SinkKind;
    readonly profile: MachineProfile;
}

/** Bytes that come from another GPU's memory, and that go there. */
export interface PeerBytes {
    readonly in: number;
    readonly out: number;
}

const noPeerBytes: PeerBytes = { in: 0, out: 0 };

/**
 * Time of copy engines that carry so much in both directions at once: over the link to the host, and between its
 * copies, in the same streams, from and to a peer.
 */
export function linkMs(
    { profile }: Pick<Movers, "profile">,
    bytesIn: number,
    bytesOut: number,
    peer = noPeerBytes
): number {
    return Math.max(
        bytesIn / profile.deviceCopyInBytesPerMs + peer.in / profile.devicePeerReadBytesPerMs,
        bytesOut / profile.deviceCopyOutBytesPerMs + peer.out / profile.devicePeerWriteBytesPerMs,
        (bytesIn + bytesOut) / profile.deviceCopyBothBytesPerMs
    );
}

/**
 * What a worker takes, in nanoseconds, for a text that is a key of so many bytes, and for one whose number it finds by
 * a place for each text of a byte or two. On an H100's host 16 workers filled chunks with 60 million ship modes in 22
 * ms, of which their bytes are to take 16, and with 15 million clerks of 15 bytes in 19, of which bytes and hashes of
 * words are to take 15; with two flags a row of 60 million and a sum in 73, where a date and that sum took 40.
 */
const shortTextNs: Readonly<Record<number, number>> = { 8: 2, 16: 5 };
const tinyTextNs = 6;

/** What workers read of an input to fill the memory from which rows go to the GPU. */
export interface Filling {
    readonly bytes: number;
    /** Values that are text, which has to be copied, or is looked up to get its number. */
    readonly texts: number;
    /** What a worker takes for text that is a word of its own, or short enough for a number without that. */
    readonly shortTextsNs: number;
    readonly inMemory: boolean;
    /** The part of these bytes whose values are packed on the way, and the share of all that crosses the link then. */
    readonly packedBytes: number;
    readonly sentShare: number;
}

/** What decides whether values of inputs are packed. */
export type LinkFacts = Pick<PlanQuery, "profile" | "policy" | "debug" | "valueSamples"> & Pick<Movers, "workers">;

/** A core packed 41 GB/s of values that were in its cache, and 10.5 that came from memory. */
const cachedPackFactor = 4;

type Packed = Pick<Filling, "packedBytes" | "sentShare">;

/** Share of its bits that a column takes packed; 1: it is not packed, as it would not take clearly fewer. */
function packedShare(input: InputInfo, column: number, { policy, debug, valueSamples }: LinkFacts): number {
    const { devicePackedRowsMin, devicePackedShareMax } = policy ?? defaultPolicy;
    const { type } = input.columns[column] as LogicalColumn;
    const isIndex = type.layout === "dictionary";
    if (debug.packLink === false || input.streamed || !(isIndex || canPack(type))) return 1;
    // Nobody counted the values of dictionaries of held rows.
    const values = input.source.kind === "layout" ? (input.dictionaryRows[column] ?? 0) : Infinity;
    const bits = isIndex ? indexBits(values) : valueSamples?.get(input)?.[column]?.bits;
    const share = (bits ?? Infinity) / (8 * (isIndex ? dictionaryIndexBytes : type.byteWidth));
    if (debug.packLink === true) return Math.min(share, devicePackedShareMax);
    return share <= devicePackedShareMax && input.rows >= devicePackedRowsMin ? share : 1;
}

/** Of columns whose values would take clearly fewer bits packed. */
function packable(
    input: InputInfo,
    columns: readonly number[],
    facts: LinkFacts,
    asOthers: ReadonlySet<number>
): Packed {
    let [bytes, packedBytes, sentBytes] = [0, 0, 0];
    for (const column of columns) {
        const columnBytes = input.columnBytes[column] ?? 0;
        const share = asOthers.has(column) ? 1 : packedShare(input, column, facts);
        bytes += columnBytes;
        packedBytes += share < 1 ? columnBytes : 0;
        sentBytes += columnBytes * share;
    }
    return bytes === 0 ? unpacked : { packedBytes, sentShare: sentBytes / bytes };
}

/** Columns of an upload, with whether their values are packed. */
export function uploadedColumns(
    input: InputInfo,
    columns: readonly UploadedColumn[],
    facts: LinkFacts
): { columns: UploadedColumn[]; filling: Filling } {
    const filling = fillingOf(input, { keys: [], columns }, 0, facts);
    const packs = ({ column, decode }: UploadedColumn): boolean =>
        isPacked(filling) && !decode && packedShare(input, column, facts) < 1;
    return { filling, columns: columns.map((column) => ({ ...column, packed: packs(column) })) };
}

const dictionaryIndexBytes = 4;

/** Of indices that are all used somewhere in a block, with the header of the block. */
function indexBits(values: number): number {
    return Math.ceil(Math.log2(Math.max(2, values))) + 1 / 8;
}

/** Values are packed where copies take less time then: on a link as fast as memory they take as long as workers. */
function packedIfFaster(filling: Filling, packed: Packed, { profile, policy, debug, workers }: LinkFacts): Filling {
    const { devicePackedGain } = policy ?? defaultPolicy;
    const msOf = (of: Filling): number =>
        Math.max(fillMs({ workers, profile }, of), (of.bytes * of.sentShare) / profile.deviceCopyInBytesPerMs);
    const other = { ...filling, ...packed };
    if (debug.packLink === true || msOf(other) <= msOf(filling) * devicePackedGain) return other;
    return filling;
}

export function isPacked({ packedBytes }: Filling): boolean {
    return packedBytes > 0;
}

/**
 * Are values of results packed by the GPU? Workers unpack them as fast as they copy them, so that it costs nothing but
 * where the link carries more than they take from it.
 */
export function packsResults({ profile, debug }: Pick<PlanQuery, "profile" | "debug">, workers: number): boolean {
    return debug.packLink ?? profile.deviceCopyOutBytesPerMs < 2 * workers * profile.deviceDeliverBytesPerMs;
}

/** What a side of an operator reads of an input. */
export interface ReadSide {
    readonly keys: readonly KeySpec[];
    readonly columns: readonly { readonly column: number; readonly decode?: boolean }[];
    /** Hashes of keys travel in their place. */
    readonly hashed?: boolean;
}

/** What values save of the link that are packed. */
export function savedBytes({ bytes, sentShare }: Filling): number {
    return bytes * (1 - sentShare);
}

/** Where values lie as they are. */
const unpacked = { packedBytes: 0, sentShare: 1 } as const;

/**
 * These columns of an input. What a stream will have is not known before it comes: so many bytes, at least. `facts`:
 * left out where values cannot be packed.
 */
export function fillingOf(input: InputInfo, side: ReadSide, leastBytes: number, facts?: LinkFacts): Filling {
    const nsOf = (key: KeySpec): number => (isShortText(key) ? (shortTextNs[key.width] ?? 0) : tinyTextNs);
    const short = side.keys.filter((key) => isShortText(key) || isTinyText(input, key));
    const others = side.keys.filter((key) => !short.includes(key));
    const columnsOf = (all: readonly { readonly column: number }[]): number[] =>
        [...new Set(all.map(({ column }) => column))].filter((column) => column >= 0);
    const texts = columnsOf([...others, ...side.columns]).filter((column) => {
        const type = input.columns[column]?.type;
        return type !== undefined && isText(type);
    });
    const read = columnsOf([...side.keys, ...side.columns]);
    const filling: Filling = {
        bytes: Math.max(leastBytes, sumOf(read.map((column) => input.columnBytes[column] ?? 0))),
        texts: texts.length * input.rows,
        shortTextsNs: sumOf(short.map(nsOf)) * input.rows,
        inMemory: input.inMemory || input.streamed,
        ...unpacked
    };
    if (facts === undefined) return filling;
    const decoded = side.columns.filter(({ decode }) => decode === true);
    const asOthers = new Set([...decoded, ...(side.hashed === true ? side.keys : [])].map(({ column }) => column));
    return packedIfFaster(filling, packable(input, read, facts, asOthers), facts);
}

/** Time in which workers fill that memory, from the start of the first of them. */
export function fillMs({ workers, profile }: Pick<Movers, "workers" | "profile">, filling: Filling): number {
    const { deviceFileFillBytesPerMs, deviceMemoryFillBytesPerMs, deviceMemoryPackBytesPerMs, deviceTextNs } = profile;
    const { bytes, packedBytes, inMemory } = filling;
    // What was read from a file is in the cache when it is packed.
    const readMs = inMemory
        ? (bytes - packedBytes) / deviceMemoryFillBytesPerMs + packedBytes / deviceMemoryPackBytesPerMs
        : bytes / deviceFileFillBytesPerMs + packedBytes / (cachedPackFactor * deviceMemoryPackBytesPerMs);
    const textsNs = filling.texts * deviceTextNs + filling.shortTextsNs;
    return (readMs + textsNs / nsPerMs) / workers;
}

/**
 * What a stage out of core takes beside its phases: memory for its operators and rings, and its end. On an H100 four
 * group-bys of 15 and 60 million rows took 1.7 to 3.6 ms, a join 4.5, and where 2 and 15 million groups became tables 8
 * and 14.
 */
export const outOfCoreStartMs = 2;

/** Cache lines in which a worker finds the texts that it met last, two in each: at least, and at most. */
const recentTextSets = { least: 2 ** 10, most: 2 ** 15 };
/**
 * What a worker takes for another one, in nanoseconds, which it looks up in the table of all workers. 16 workers of an
 * H100's host read 15 million rows of 10,000 texts in 58 ms when each remembered 8,192 of them, one in a place, so that
 * it looked up 0.42 of them, and a query took 121 ms when each remembered 1,024, and looked up 0.9.
 */
const otherTextNs = 105;

/** Share of texts that are found so: each shares its line with as many others as chance has it (Poisson). */
function recentShare(distinct: number): number {
    const wanted = 2 ** Math.ceil(Math.log2(2 * distinct));
    const others = distinct / Math.min(recentTextSets.most, Math.max(recentTextSets.least, wanted));
    // All where there is at most one other. Of k that share a line, two of k are the last ones.
    return (2 * (1 - Math.exp(-others))) / others - Math.exp(-others);
}

/** Time in which workers look up so many texts of so many different ones, beside what each takes as a text. */
export function otherTextsMs({ workers }: Pick<Movers, "workers">, texts: number, distinct: number): number {
    if (texts === 0 || distinct <= 0) return 0;
    return (texts * (1 - recentShare(distinct)) * otherTextNs) / (Math.max(1, workers) * nsPerMs);
}

/**
 * What a worker takes to number the keys of a row, or to look whether a value came with them before, in nanoseconds: as
 * of texts, of which a group-by of 7.5 million rows took 65 ms on the 16 cores of an H100's host (no record). What is
 * new takes so much more: of 18 million keys of 17 bytes, 2.4 million of them different, one took a core of two 209 ns,
 * with 11.4 million different ones 385.
 */
const [numberedRowNs, newNumberNs] = [140, 300];

/** Time in which workers number the keys of so many rows, so many of which are new. */
export function numberingMs({ workers }: Pick<Movers, "workers">, rows: number, newKeys: number): number {
    return (rows * numberedRowNs + newKeys * newNumberNs) / (Math.max(1, workers) * nsPerMs);
}

/** The same of so many bytes in memory. */
export function readMs(movers: Pick<Movers, "workers" | "profile">, bytes: number): number {
    return fillMs(movers, { bytes, texts: 0, shortTextsNs: 0, inMemory: true, ...unpacked });
}

/**
 * What a batch takes JavaScript that reads one after the other, and its bytes, which the engine has to copy into memory
 * that the batches before have left. H200: 1,536 batches of 4 MiB took 166 ms, and 128 where each was released, 1,664
 * of them 159; by a core of two a batch of 64 KiB took 27 us and one of 1 MiB 66.
 */
const batchMs = 0.025;
const readBytesPerMs = 50_000_000;

/**
 * So many times as fast as others do workers make tables of results whose values the GPU has packed: 16 of them wrote
 * 6.44 GB into memory that was used before in 74 to 96 ms (H200).
 */
const packedTableFactor = 1.8;

/**
 * What kernels that partition, index and look up rows add for a byte of a row, in nanoseconds, to copies of chunks and
 * to workers, beside which they go on for the most part. On an H200, packed, a count of 2^28 x 2^28 rows of 8 bytes at
 * 4 GiB took 65 to 68 ms and is planned with 70, sums of as many rows of 16 bytes took 166 to 172 (178); at 16 GiB and
 * 2^30 rows a side 245 to 249 (266) and 568 to 572 (623).
 */
const rowNsPerByte = 0.006;

/** Time that kernels add to that of the link for so many bytes of rows. */
export function rowKernelsMs(bytes: number): number {
    return (bytes * rowNsPerByte) / nsPerMs;
}

/** Bytes of such a batch; of a large result they are more (see PlanDraft.outputBytes). */
function readBatchBytes(resultBytes: number): number {
    const { batchBytes, readBatchBytes, readBatchesMin } = defaultPolicy;
    return resultBytes < readBatchesMin * readBatchBytes ? batchBytes : readBatchBytes;
}

/** A result in Arrow's layout. */
export interface Delivered {
    readonly bytes: number;
    /** Time of values that workers fetch. */
    readonly gatherMs?: number;
    /** Columns of batches that workers make together; else a batch is one worker's. */
    readonly sharedColumns?: number;
    /** Does it cross the link packed? */
    readonly packed?: boolean;
}

/** Result rows out of core wait in so many blocks, each of which is a batch of a table. */
const resultBlocks = resultSlots + deviceConstants.hostSlots;

/** Workers that have something to do while they make so many columns of batches together. */
export function busyOn(workers: number, columns: number): number {
    return Math.min(workers, resultBlocks * Math.max(1, columns));
}

/** Workers that have something to do while a table of so many bytes is made. */
function busyWorkers(workers: number, { bytes, sharedColumns }: Delivered): number {
    if (sharedColumns !== undefined) return busyOn(workers, sharedColumns);
    return Math.min(workers, Math.max(1, bytes / defaultPolicy.tableBatchBytes));
}

/**
 * Time of all workers in which they copy a result, which they take from what else they do. V8 collects what was read of
 * batches on the same cores: on an H200 joins of 2^26 to 2^30 rows out of core took 5 to 34 us for each batch longer
 * than to a table, and 87 where 28 GB came in batches.
 */
export function deliveryWorkMs({ workers, sink, profile }: Movers, { bytes, gatherMs = 0 }: Delivered): number {
    if (sink === "file") return gatherMs + bytes / profile.outputBytesPerMs / workers;
    const takenMs = sink === "batches" ? (bytes / readBatchBytes(bytes)) * batchMs : 0;
    return gatherMs + bytes / profile.deviceDeliverBytesPerMs / workers + takenMs;
}

/** Time in which workers deliver a result. */
export function deliveryMs({ workers, sink, profile }: Movers, result: Delivered): number {
    const { bytes: arrowBytes, gatherMs = 0 } = result;
    if (sink === "table") {
        const bytesPerMs = profile.deviceDeliverBytesPerMs * (result.packed === true ? packedTableFactor : 1);
        return gatherMs + arrowBytes / bytesPerMs / busyWorkers(workers, result);
    }
    const copyMs = arrowBytes / profile.outputBytesPerMs / workers;
    const taken = sink === "batches" ? arrowBytes : 0;
    const takenMs = (taken / readBatchBytes(arrowBytes)) * batchMs + taken / readBytesPerMs;
    const fileMs = sink === "file" ? arrowBytes / profile.fileWriteBytesPerMs : 0;
    return gatherMs + Math.max(copyMs, takenMs) + fileMs;
}
