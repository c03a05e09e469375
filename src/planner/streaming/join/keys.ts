// SPDX-License-Identifier: Apache-2.0
import { sumOf } from "../../../model/sizes.js";
import type { JoinNode } from "../../../plan/logical.js";
import type { OutOfCoreKeys } from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import { isTextKey, keyBytesMax, keyWidth } from "../chunk-rows.js";

/** What the GPU compares, and how many bytes of it. */
export interface KeyPlan {
    readonly mode: OutOfCoreKeys;
    readonly bytes: 4 | 8;
    readonly nullsEqual: boolean;
}

function equalsNull({ left, right, keys, nullEquality }: JoinNode): boolean {
    if (!nullEquality) return false;
    return keys.some(
        (key) => left.columns[key.left.column]?.type.nullable && right.columns[key.right.column]?.type.nullable
    );
}

/**
 * Keys of up to 8 bytes are compared on the GPU as they are, text by a number of 4 bytes. Of longer ones it compares a
 * hash, and whoever delivers the pairs drops those whose keys differ: rows that are to come out because they have no
 * partner, or once for having one, would be wrong already.
 */
export function keyPlan(node: JoinNode): KeyPlan {
    const { keys, type } = node;
    const nullsEqual = equalsNull(node);
    const text = keys.find(({ left, right }) => isTextKey(left) || isTextKey(right));
    const bytes = sumOf(keys.map(({ left }) => keyWidth(left)));
    const maskBytes = nullsEqual ? Math.ceil(keys.length / 8) : 0;
    // NULLs that equal each other are encoded by the CPU engine, which has no numbers for text.
    const numbered = text === undefined || !nullsEqual;
    if (numbered && bytes + maskBytes <= keyBytesMax) {
        if (nullsEqual) return { mode: "encoded", bytes: 8, nullsEqual };
        return { mode: "packed", bytes: bytes <= 4 ? 4 : 8, nullsEqual };
    }
    if (type === "inner") return { mode: "hashed", bytes: 8, nullsEqual };
    const name = text === undefined ? "" : node.left.columns[text.left.column]?.name;
    const what =
        text === undefined
            ? `the key has ${bytes + maskBytes} bytes, of which ${keyBytesMax} are compared`
            : `key \`${name}\` is text or bytes, of which a hash is compared beside other keys or NULLs that are equal`;
    throw new NotOnDevice(`${what} on the GPU: that gives candidates for an inner join and no more`);
}
