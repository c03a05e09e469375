// SPDX-License-Identifier: Apache-2.0
import type { MachineProfile } from "../../machine/profile.js";
import type { KeySpec } from "../../model/column-type.js";
import { nsPerMs, sumOf } from "../../model/sizes.js";
import type { InputInfo } from "../../plan/logical.js";
import type { SinkKind } from "../../plan/plan.js";
import { deviceConstants } from "../../model/device-constants.js";
import { defaultPolicy } from "../policy.js";
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
}

/** What a side of an operator reads of an input. */
export interface ReadSide {
    readonly keys: readonly KeySpec[];
    readonly columns: readonly { readonly column: number }[];
}

/** These columns of an input. What a stream will have is not known before it comes: so many bytes, at least. */
export function fillingOf(input: InputInfo, side: ReadSide, leastBytes: number): Filling {
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
    return {
        bytes: Math.max(leastBytes, sumOf(read.map((column) => input.columnBytes[column] ?? 0))),
        texts: texts.length * input.rows,
        shortTextsNs: sumOf(short.map(nsOf)) * input.rows,
        inMemory: input.inMemory || input.streamed
    };
}

/** Time in which workers fill that memory, from the start of the first of them. */
export function fillMs({ workers, profile }: Pick<Movers, "workers" | "profile">, filling: Filling): number {
    const { deviceFileFillBytesPerMs, deviceMemoryFillBytesPerMs, deviceTextNs } = profile;
    const bytesPerMs = filling.inMemory ? deviceMemoryFillBytesPerMs : deviceFileFillBytesPerMs;
    const textsNs = filling.texts * deviceTextNs + filling.shortTextsNs;
    return (filling.bytes / bytesPerMs + textsNs / nsPerMs) / workers;
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
    return fillMs(movers, { bytes, texts: 0, shortTextsNs: 0, inMemory: true });
}

/**
 * What a batch takes JavaScript that reads one after the other. H100: 412 batches, of 18 million rows, took 44 to 62 ms
 * where their bytes take the link and the workers 20.
 */
const batchMs = 0.1;

/** A result in Arrow's layout. */
export interface Delivered {
    readonly bytes: number;
    /** Time of values that workers fetch. */
    readonly gatherMs?: number;
    /** Columns of batches that workers make together; else a batch is one worker's. */
    readonly sharedColumns?: number;
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

/** Time of all workers in which they copy a result, which they take from what else they do. */
export function deliveryWorkMs({ workers, sink, profile }: Movers, { bytes, gatherMs = 0 }: Delivered): number {
    return gatherMs + bytes / (sink === "table" ? profile.deviceDeliverBytesPerMs : profile.outputBytesPerMs) / workers;
}

/** Time in which workers deliver a result. */
export function deliveryMs({ workers, sink, profile }: Movers, result: Delivered): number {
    const { bytes: arrowBytes, gatherMs = 0 } = result;
    if (sink === "table") {
        return gatherMs + arrowBytes / profile.deviceDeliverBytesPerMs / busyWorkers(workers, result);
    }
    const copyMs = arrowBytes / profile.outputBytesPerMs / workers;
    const takenMs = sink === "batches" ? (arrowBytes / defaultPolicy.batchBytes) * batchMs : 0;
    const fileMs = sink === "file" ? arrowBytes / profile.fileWriteBytesPerMs : 0;
    return gatherMs + Math.max(copyMs, takenMs) + fileMs;
}
