// SPDX-License-Identifier: Apache-2.0
import type { KeySpec } from "../../../model/column-type.js";
import type { JoinNode } from "../../../plan/logical.js";
import type { OutOfCoreKeys } from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import { keyBytesMax } from "../chunk-rows.js";

/** What the GPU compares, and how many bytes of it. */
export interface KeyPlan {
    readonly mode: OutOfCoreKeys;
    readonly bytes: 4 | 8;
    readonly nullsEqual: boolean;
}

function isByteString({ kind, kindOfValue }: KeySpec): boolean {
    return kind === "bytes" || (kind === "dictionaryValue" && kindOfValue === "bytes");
}

function equalsNull({ left, right, keys, nullEquality }: JoinNode): boolean {
    if (!nullEquality) return false;
    return keys.some(
        (key) => left.columns[key.left.column]?.type.nullable && right.columns[key.right.column]?.type.nullable
    );
}

/**
 * Keys of up to 8 bytes are compared on the GPU as they are. Of longer ones it compares a hash, and whoever delivers
 * the pairs drops those whose keys differ: rows that are to come out because they have no partner, or once for having
 * one, would be wrong already.
 */
export function keyPlan(node: JoinNode): KeyPlan {
    const { keys, type } = node;
    const nullsEqual = equalsNull(node);
    const text = keys.find(({ left, right }) => isByteString(left) || isByteString(right));
    const bytes = keys.reduce((sum, { left }) => sum + left.width, 0);
    const maskBytes = nullsEqual ? Math.ceil(keys.length / 8) : 0;
    if (text === undefined && bytes + maskBytes <= keyBytesMax) {
        if (nullsEqual) return { mode: "encoded", bytes: 8, nullsEqual };
        return { mode: "packed", bytes: bytes <= 4 ? 4 : 8, nullsEqual };
    }
    if (type === "inner") return { mode: "hashed", bytes: 8, nullsEqual };
    const name = text === undefined ? "" : node.left.columns[text.left.column]?.name;
    const what =
        text === undefined
            ? `the key has ${bytes + maskBytes} bytes, of which ${keyBytesMax} are compared`
            : `key \`${name}\` is text or bytes, of which a hash is compared`;
    throw new NotOnDevice(`${what} on the GPU: that gives candidates for an inner join and no more`);
}
