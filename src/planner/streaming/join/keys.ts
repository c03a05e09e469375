// SPDX-License-Identifier: Apache-2.0
import { sumOf } from "../../../model/sizes.js";
import type { JoinNode } from "../../../plan/logical.js";
import type { OutOfCoreKeys } from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import {
    flaggedKeysMax,
    isTextKey,
    keyBytesMax,
    keyWidth,
    numberedKeysMax,
    placesOf,
    type KeyPlace
} from "../chunk-rows.js";
import { isShortText, shortTextBytes } from "../short-texts.js";

/** What the GPU compares, and how many bytes of it. */
export interface KeyPlan {
    readonly mode: OutOfCoreKeys;
    /** The first word has so many. */
    readonly bytes: 4 | 8;
    /** Words behind the first one, which are columns of either side. */
    readonly columns: number;
    readonly nullsEqual: boolean;
    /** Byte of all words with a bit for each key that is NULL, so that every row has a key; -1: there is none. */
    readonly nullByte: number;
    /** Packed keys by their numbers in the node, and where each of these is. */
    readonly order: readonly number[];
    readonly places: readonly KeyPlace[];
    /** The keys of the node, with text in words of its own where it is compared so. */
    readonly keys: JoinNode["keys"];
}

/** May NULLs of both sides meet, and are equal? */
export function equalsNull({ left, right, keys, nullEquality }: JoinNode): boolean {
    if (!nullEquality) return false;
    return keys.some(
        (key) => left.columns[key.left.column]?.type.nullable && right.columns[key.right.column]?.type.nullable
    );
}

/**
 * The first word is mixed with the others, so that values are read from those alone: keys that the result has not come
 * first, unless that takes a word more. Wide ones come before narrow ones, which then leave no gaps.
 */
function orderOf({ keys, columns }: JoinNode, widths: readonly number[]): number[] {
    const inResult = keys.map(({ left, right }) =>
        columns.some(
            (column) =>
                (column.side !== "right" && column.left === left.column) ||
                (column.side !== "left" && column.right === right.column)
        )
    );
    const all = keys.map((_, at) => at);
    const wordsOf = (order: readonly number[]): number => placesOf(order.map((at) => widths[at] ?? 0)).words;
    const byWidth = [...all].sort((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0));
    const readable = [...byWidth].sort((a, b) => Number(inResult[a]) - Number(inResult[b]));
    return wordsOf(readable) <= wordsOf(byWidth) ? readable : byWidth;
}

/** Keys with a byte behind them that says which are NULL: rows are partners where these bits are equal, too. */
function flaggedPlan(node: JoinNode, wordsMax: number): KeyPlan {
    const widths = node.keys.map(({ left }) => keyWidth(left));
    const order = orderOf(node, widths);
    const { places, end } = placesOf(order.map((at) => widths[at] ?? 0));
    const words = Math.floor(end / keyBytesMax) + 1;
    if (words > wordsMax || order.length > flaggedKeysMax) {
        throw new NotOnDevice(
            `the key has ${sumOf(widths)} bytes and a byte that says what is NULL, in ${words} words of ` +
                `${keyBytesMax} bytes; ${wordsMax} are compared on the GPU, of ${flaggedKeysMax} keys`
        );
    }
    const bytes = end < 4 ? 4 : 8;
    return {
        mode: "packed",
        bytes,
        columns: words - 1,
        nullsEqual: equalsNull(node),
        nullByte: end,
        order,
        places,
        keys: node.keys
    };
}

/**
 * Keys with text in words of its own, where there is such and all keys are packed then; else undefined. Rows of a join
 * keep their keys, and cross the link again where they are spilled: a word more would take as long as a number does.
 */
function shortTextPlan(node: JoinNode, wordsMax: number): KeyPlan | undefined {
    const isOnlyKey = node.keys.length === 1;
    const keys = node.keys.map(({ left, right }) => {
        const columns = [
            { node: node.left, key: left },
            { node: node.right, key: right }
        ];
        const width = shortTextBytes(columns, isOnlyKey, keyBytesMax);
        return width === 0 ? { left, right } : { left: { ...left, width }, right: { ...right, width } };
    });
    if (!keys.some(({ left }) => isShortText(left))) return undefined;
    const [plan, plain] = [keyPlan({ ...node, keys }, { wordsMax }), keyPlan(node, { wordsMax })];
    return plan.mode === "packed" && plan.columns <= plain.columns ? plan : undefined;
}

/** How keys are to be compared. */
export interface KeyRequest {
    /** So many words of 8 bytes at most. */
    readonly wordsMax: number;
    /** A byte of the key says what is NULL. */
    readonly flagged?: boolean;
    /** Rows of a side come once, so that their keys cannot be looked at again. */
    readonly streamed?: boolean;
    /** Text may be in words of its own. */
    readonly shortTexts?: boolean;
}

/**
 * Keys are compared on the GPU as they are, text by a number of 4 bytes. Of longer ones inner joins compare a hash, and
 * whoever delivers the pairs drops those whose keys differ. Rows that come out because they have no partner, or once
 * for having one, would be wrong by then: other joins compare a number of the whole key, which workers give.
 */
export function keyPlan(node: JoinNode, request: KeyRequest): KeyPlan {
    const { wordsMax, flagged = false, streamed = false } = request;
    if (flagged) return flaggedPlan(node, wordsMax);
    const short = request.shortTexts === true ? shortTextPlan(node, wordsMax) : undefined;
    if (short !== undefined) return short;
    const { keys, type } = node;
    const nullByte = -1;
    const nullsEqual = equalsNull(node);
    const hasText = keys.some(({ left, right }) => isTextKey(left) || isTextKey(right));
    const widths = keys.map(({ left }) => keyWidth(left));
    const bytes = sumOf(widths);
    const maskBytes = nullsEqual ? Math.ceil(keys.length / 8) : 0;
    const inOrder = keys.map((_, at) => at);
    // NULLs that equal each other are encoded by the CPU engine, which has no numbers for text.
    if ((!hasText || !nullsEqual) && bytes + maskBytes <= keyBytesMax) {
        const plan = { columns: 0, nullsEqual, nullByte, order: inOrder, places: placesOf(widths).places, keys };
        if (nullsEqual) return { mode: "encoded", bytes: 8, ...plan };
        return { mode: "packed", bytes: bytes <= 4 ? 4 : 8, ...plan };
    }
    const order = orderOf(node, widths);
    const { places, words } = placesOf(order.map((at) => widths[at] ?? 0));
    if (!nullsEqual && words <= wordsMax) {
        return { mode: "packed", bytes: 8, columns: words - 1, nullsEqual, nullByte, order, places, keys };
    }
    const whole = { columns: 0, nullsEqual, nullByte, order: inOrder, places: [], keys };
    if (type === "inner" && !streamed) return { mode: "hashed", bytes: 8, ...whole };
    if (keys.length > numberedKeysMax) {
        throw new NotOnDevice(`there are ${keys.length} keys, of which ${numberedKeysMax} are numbered together`);
    }
    return { mode: "numbered", bytes: 4, ...whole };
}
