// SPDX-License-Identifier: Apache-2.0
import type { KeySpec } from "../../model/column-type.js";
import type { LogicalNode } from "../../plan/logical.js";
import { isTextKey } from "./chunk-rows.js";

/** Keys of so many bytes hold a text of one byte less. */
const shortTextKeyBytes = [8, 16];
/** Texts of so few bytes get their number without a hash (TextNumbers in native/executor/streaming). */
const tinyTextBytes = 2;
/** Buffers of a batch end at a multiple of 64 bytes, which is so much a row where a batch has 1,280 rows. */
const paddedBytes = 0.1;

/** Bytes of a text of an input, in the mean; infinite where that is not known, or where it has no offsets. */
function meanTextBytes(node: LogicalNode, { kind, column }: KeySpec): number {
    const type = node.columns[column]?.type;
    if (kind !== "bytes" || node.kind !== "input" || node.input.streamed || type?.layout !== "binary") return Infinity;
    const { rows, columnBytes } = node.input;
    const bytes = columnBytes[column] ?? 0;
    return bytes === 0 || rows === 0 ? Infinity : bytes / rows - type.byteWidth - (type.nullable ? 1 / 8 : 0);
}

/**
 * Bytes of a key that holds most texts of a column, or of both columns that are compared, in words of its own; 0: it is
 * no text, or numbers take less. What a worker takes for a text that is a word of its own is a fraction of what
 * it takes to look up a number (short_text.hpp); longer texts have their number there. Texts of a byte or two stay
 * numbers, but where they are the only key. bytesMax: of a key.
 */
export function shortTextBytes(
    columns: readonly { node: LogicalNode; key: KeySpec }[],
    isOnlyKey: boolean,
    bytesMax = Infinity
): number {
    const mean = Math.max(...columns.map(({ node, key }) => meanTextBytes(node, key)));
    if (mean <= tinyTextBytes + paddedBytes && !isOnlyKey) return 0;
    return shortTextKeyBytes.find((bytes) => bytes <= bytesMax && mean <= bytes - 1 + paddedBytes) ?? 0;
}

/** Keys that are text in words of its own. */
export function shortTexts(keys: readonly KeySpec[]): KeySpec[] {
    return keys.filter((key) => isTextKey(key) && key.width > 0);
}
