// SPDX-License-Identifier: Apache-2.0
import type { KeySpec } from "../../model/column-type.js";
import { sumOf } from "../../model/sizes.js";
import type { InputInfo, LogicalNode } from "../../plan/logical.js";
import { isTextKey } from "./chunk-rows.js";

/** Keys of so many bytes hold a text of one byte less. */
const shortTextKeyBytes = [8, 16];
/** Texts of so few bytes get their number without a hash (TextNumbers in native/executor/streaming). */
const tinyTextBytes = 2;
/** Buffers of a batch end at a multiple of 64 bytes, which is so much a row where a batch has 1,280 rows. */
const paddedBytes = 0.1;

/** Bytes of all texts of a column; undefined where that is not known, or where it has no offsets. */
function bytesOfTexts({ columns, columnBytes, rows, streamed }: InputInfo, key: KeySpec): number | undefined {
    const type = columns[key.column]?.type;
    if (key.kind !== "bytes" || streamed || type?.layout !== "binary") return undefined;
    const bytes = columnBytes[key.column] ?? 0;
    return bytes === 0 ? undefined : bytes - rows * (type.byteWidth + (type.nullable ? 1 / 8 : 0));
}

/** Bytes of a text in the mean, of one column or of both that are compared; infinite where that is not known. */
function meanTextBytes(columns: readonly { node: LogicalNode; key: KeySpec }[]): number {
    const inputs = columns.flatMap(({ node, key }) => (node.kind === "input" ? [{ input: node.input, key }] : []));
    const bytes = inputs.flatMap(({ input, key }) => bytesOfTexts(input, key) ?? []);
    const rows = sumOf(inputs.map(({ input }) => input.rows));
    return bytes.length < columns.length || rows === 0 ? Infinity : sumOf(bytes) / rows;
}

/**
 * Bytes of a key that holds most texts of a column, or of both columns that are compared, in words of its own; 0: it is
 * no text, or numbers take less. What a worker takes for a text that is a word of its own is a fraction of what it
 * takes to look up a number (short_text.hpp); longer texts have their number there. Texts of a byte or two stay
 * numbers, but where they are the only key. bytesMax: of a key.
 */
export function shortTextBytes(
    columns: readonly { node: LogicalNode; key: KeySpec }[],
    isOnlyKey: boolean,
    bytesMax = Infinity
): number {
    const mean = meanTextBytes(columns);
    if (mean <= tinyTextBytes + paddedBytes && !isOnlyKey) return 0;
    return shortTextKeyBytes.find((bytes) => bytes <= bytesMax && mean <= bytes - 1 + paddedBytes) ?? 0;
}

/** Is the key a text in words of its own? */
export function isShortText(key: KeySpec): boolean {
    return isTextKey(key) && key.width > 0;
}

/** Do most texts of such a key get their number without a hash? */
export function isTinyText(input: InputInfo, key: KeySpec): boolean {
    const bytes = key.width === 0 ? bytesOfTexts(input, key) : undefined;
    return bytes !== undefined && bytes <= input.rows * (tinyTextBytes + paddedBytes);
}
