// SPDX-License-Identifier: Apache-2.0
import type { DataType } from "apache-arrow";

import { typeText } from "../../../arrow/type-text.js";
import { keyWordColumn, type KeySpec } from "../../../model/column-type.js";
import { sumOf } from "../../../model/sizes.js";
import type { GroupNode, LogicalColumn } from "../../../plan/logical.js";
import type { OutOfCoreGroupLayout } from "../../../plan/out-of-core-group-stage.js";
import { NotOnDevice } from "../../device-support.js";
import {
    chunkWidth,
    flaggedKeysMax,
    isTextKey,
    keyBytesMax,
    keyWidth,
    keyWordsMax,
    numberedKeysMax,
    placesOf
} from "../chunk-rows.js";
import { shortTextBytes } from "../short-texts.js";

const inputOf = ({ child }: GroupNode, column: number): LogicalColumn => child.columns[column] as LogicalColumn;

/** Is it a value of the key's own word? Indices of a dictionary are unified: equal ones are equal values. */
export function isPackedKey(key: KeySpec, { type }: LogicalColumn): boolean {
    if (isTextKey(key)) return true;
    const { kind, width } = key;
    return width <= keyBytesMax && chunkWidth(type) === width && (kind !== "float" || width >= 4);
}

/** Bytes of all keys together; throws NotOnDevice where one of them cannot run out of core. */
export function checkedKeyBytes(node: GroupNode): number {
    for (const key of node.keys) {
        const { kind, column, width } = key;
        const input = inputOf(node, column);
        const { name, type, field } = input;
        if (isTextKey(key)) continue;
        const typed = `key \`${name}\` (${typeText(field.type as DataType)})`;
        if (kind === "dictionaryValue" || (kind === "dictionaryIndex" && chunkWidth(type) !== width)) {
            throw new NotOnDevice(`${typed} is a dictionary column whose values are compared`);
        }
        const valueBytes = type.layout === "fixed" ? type.byteWidth : chunkWidth(type);
        const isSame = valueBytes === width && width > 0;
        if (isSame && (node.child.kind === "input" || isPackedKey(key, input))) continue;
        throw new NotOnDevice(`${typed} has values that are not of 1, 2, 4 or 8 bytes`);
    }
    if (node.keys.length > numberedKeysMax) {
        throw new NotOnDevice(`there are ${node.keys.length} keys, ${numberedKeysMax} are the most`);
    }
    return sumOf(node.keys.map(keyWidth));
}

/**
 * Words that the key of a group-by takes, with a bit for each key that may be NULL if there are such (`nullable`); 1:
 * it is nothing for words.
 */
export function keyWordsOf(node: GroupNode, nullable: boolean): number {
    const { keys, child } = node;
    const isWord = (key: KeySpec): boolean =>
        isPackedKey(key, inputOf(node, key.column)) || (key.kind === "fixedBytes" && key.width > 0);
    // Rows of a stream come once, and keys that share a hash take a second plan.
    if (child.kind !== "input" || child.input.streamed || !keys.every(isWord)) return 1;
    const { words, end } = placesOf(keys.map(keyWidth));
    const needed = nullable ? Math.floor(end / keyBytesMax) + 1 : words;
    return needed > keyWordsMax || (nullable && keys.length > flaggedKeysMax) ? 1 : needed;
}

/** The same group-by with keys that are text in words of their own, where these hold most of the texts. */
export function withShortTexts(node: GroupNode): GroupNode {
    const isOnlyKey = node.keys.length === 1;
    const widthOf = (key: KeySpec): number => shortTextBytes([{ node: node.child, key }], isOnlyKey) || key.width;
    return { ...node, keys: node.keys.map((key) => ({ ...key, width: widthOf(key) })) };
}

/** Words of the key that rows have as columns. */
export function moreKeyWords({ side }: OutOfCoreGroupLayout): number {
    return side.columns.filter(({ column }) => column === keyWordColumn).length;
}
