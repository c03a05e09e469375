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

/** What of a limit can be planned with: blocks are rounded up to 2 MiB, and small ones are taken meanwhile. */
function budgetOf(limitBytes: number): number {
    return limitBytes - Math.min(limitBytes / 16, 16 * mebibyte + limitBytes / 256);
}

/** The least limit of which so much can be planned with. */
function limitFor(budgetBytes: number): number {
    return Math.ceil(Math.min((budgetBytes * 16) / 15, ((budgetBytes + 16 * mebibyte) * 256) / 255));
}

/**
 * The most pages, from `least` to `most`, with which the GPU memory that `bytesOf` says fits a limit. `bytesOf` must
 * not fall with more pages. Throws NotOnDevice where the fewest do not fit.
 */
export function mostPages(least: number, most: number, limitBytes: number, bytesOf: (pages: number) => number): number {
    const budgetBytes = budgetOf(limitBytes);
    if (bytesOf(least) > budgetBytes) throw NotOnDevice.below(limitFor(bytesOf(least)));
    let [fitting, tooMany] = [least, most + 1];
    while (fitting + 1 < tooMany) {
        const pages = Math.floor((fitting + tooMany) / 2);
        if (bytesOf(pages) <= budgetBytes) fitting = pages;
        else tooMany = pages;
    }
    return fitting;
}
