// SPDX-License-Identifier: Apache-2.0
import { clamp, kibibyte, mebibyte, powerOfTwoAtLeast } from "../../model/sizes.js";
import type { OutOfCoreSizes } from "../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../device-support.js";

const pageBytesMin = 64 * kibibyte;
const pageBytesMax = 2 * mebibyte;
const pagesMax = 2 ** 15;

/** Rows of a page: few, since each partition wastes half a page. */
export function pageRowsFor(limitBytes: number, rowBytes: number): number {
    const wanted = clamp(limitBytes / pagesMax, pageBytesMin, pageBytesMax);
    return powerOfTwoAtLeast(Math.ceil(wanted / rowBytes));
}

/** Without so many pages not even the rows of a chunk have a place. */
export function leastPages({ chunkRows, pageRows }: Pick<OutOfCoreSizes, "chunkRows" | "pageRows">): number {
    return Math.ceil(chunkRows / pageRows) + 1;
}

/** So many hold all rows, even if the last pages of all partitions are almost empty. */
export function pagesOfAll(
    rows: number,
    { pageRows, radixBits }: Pick<OutOfCoreSizes, "pageRows" | "radixBits">
): number {
    return Math.ceil(rows / pageRows) + 2 ** radixBits;
}

/** What of a limit can be planned with: blocks are rounded up to 2 MiB, and small ones are taken meanwhile. */
function budgetOf(limitBytes: number): number {
    return limitBytes - Math.min(limitBytes / 16, 16 * mebibyte + limitBytes / 256);
}

/** The least limit of which so much can be planned with. */
function limitFor(budgetBytes: number): number {
    return Math.ceil(Math.min((budgetBytes * 16) / 15, ((budgetBytes + 16 * mebibyte) * 256) / 255));
}

/** Pages with the GPU memory that they come to. */
interface Tried {
    readonly pages: number;
    readonly bytes: number;
}

/** The most pages with so many bytes, if the bytes are on the line through two tries. */
function onLine(a: Tried, b: Tried, bytes: number): number {
    return Math.floor(a.pages + ((bytes - a.bytes) / (b.bytes - a.bytes)) * (b.pages - a.pages));
}

/**
 * The most pages, from `least` to `most`, with which the GPU memory that `bytesOf` says fits a limit. `bytesOf` must
 * grow with the pages. It is asked for few of them if it is made of a few straight pieces. Throws NotOnDevice where the
 * fewest do not fit.
 */
export function mostPages(least: number, most: number, limitBytes: number, bytesOf: (pages: number) => number): number {
    const budgetBytes = budgetOf(limitBytes);
    const tried = (pages: number): Tried => ({ pages, bytes: bytesOf(pages) });
    let fits = tried(least);
    if (fits.bytes > budgetBytes) throw NotOnDevice.below(limitFor(fits.bytes));
    if (most === least) return least;
    let exceeds = tried(most);
    if (exceeds.bytes <= budgetBytes) return most;
    let [before, last] = [fits, exceeds];
    for (let tries = 1; fits.pages + 1 < exceeds.pages; ++tries) {
        // Now and then the middle, so that pieces of whatever kind take no more tries than a few times as many.
        const middle = Math.floor((fits.pages + exceeds.pages) / 2);
        const guess = tries % 4 === 0 ? middle : onLine(before, last, budgetBytes);
        [before, last] = [last, tried(clamp(guess, fits.pages + 1, exceeds.pages - 1))];
        if (last.bytes <= budgetBytes) fits = last;
        else exceeds = last;
    }
    return fits.pages;
}
