// SPDX-License-Identifier: Apache-2.0
import { keyWordColumn, type KeySpec } from "../../../model/column-type.js";
import type { GroupNode } from "../../../plan/logical.js";
import type { OutOfCoreGroupLayout } from "../../../plan/out-of-core-group-stage.js";
import { flaggedKeysMax, keyBytesMax, keyWidth, keyWordsMax, placesOf } from "../chunk-rows.js";

/**
 * Words that the key of a group-by takes, with a bit for each key that may be NULL if there are such (`nullable`); 1:
 * it is nothing for words. `isPacked`: is it a value of 8 bytes at most?
 */
export function keyWordsOf({ keys, child }: GroupNode, nullable: boolean, isPacked: (key: KeySpec) => boolean): number {
    const isWord = (key: KeySpec): boolean => isPacked(key) || (key.kind === "fixedBytes" && key.width > 0);
    // Rows of a stream come once, and keys that share a hash take a second plan.
    if (child.kind !== "input" || child.input.streamed || !keys.every(isWord)) return 1;
    const { words, end } = placesOf(keys.map(keyWidth));
    const needed = nullable ? Math.floor(end / keyBytesMax) + 1 : words;
    return needed > keyWordsMax || (nullable && keys.length > flaggedKeysMax) ? 1 : needed;
}

/** Words of the key that rows have as columns. */
export function moreKeyWords({ side }: OutOfCoreGroupLayout): number {
    return side.columns.filter(({ column }) => column === keyWordColumn).length;
}
