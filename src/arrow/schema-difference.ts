// SPDX-License-Identifier: Apache-2.0
import { DataType, type Field, type Schema } from "apache-arrow";

import { columnTypeOf } from "./column-type-of.js";
import { typeText } from "./type-text.js";
import { withNames } from "./with-names.js";

/** Same type in every respect but nullability, metadata and the ids of dictionaries? */
export function sameType(left: Field, right: Field): boolean {
    if (String(left.type) !== String(right.type)) return false;
    const [l, r] = [columnTypeOf(left), columnTypeOf(right)];
    return JSON.stringify({ ...l, name: "" }) === JSON.stringify({ ...r, name: "" });
}

/** What the text of a type does not show: names of list items and map entries, type ids of unions. */
function hiddenDifference(left: DataType, right: DataType): readonly [what: string, left: string, right: string] {
    if (DataType.isUnion(left) && DataType.isUnion(right)) {
        const ids = [left, right].map(({ typeIds }) => Array.from(typeIds).join(", ")) as [string, string];
        if (ids[0] !== ids[1]) return ["type ids", ...ids];
    }
    const ownChildren = (type: DataType): readonly Field[] => (type.children as readonly Field[] | null) ?? [];
    for (const [index, l] of ownChildren(left).entries()) {
        const r = ownChildren(right)[index] as Field;
        if (l.name !== r.name) return ["values called", `\`${l.name}\``, `\`${r.name}\``];
        if (!sameType(l, r)) return hiddenDifference(l.type as DataType, r.type as DataType);
    }
    return ["parts", "some", "others"];
}

/** "has type Int32 in the first and Int64 in the second" of two types that are not the same. */
export function typeDifference(left: Field, right: Field, [one, other]: readonly [string, string]): string {
    const [a, b] = [typeText(left.type as DataType), typeText(right.type as DataType)];
    if (a !== b) return `has type ${a} in ${one} and ${b} in ${other}`;
    const [what, l, r] = hiddenDifference(left.type as DataType, right.type as DataType);
    return `has type ${a} in both, but with ${what} ${l} in ${one} and ${r} in ${other}`;
}

/**
 * The first difference between two schemas in words, or undefined. Nullability and metadata may differ. `called`: what
 * the reader knows them by.
 */
export function schemaDifference(
    first: Schema,
    second: Schema,
    called: readonly [string, string] = ["the first", "the second"]
): string | undefined {
    const [one, other] = called;
    const [before, now] = [withNames(first).fields, withNames(second).fields];
    const count = Math.max(before.length, now.length);
    for (let i = 0; i < count; i++) {
        const l = before[i];
        const r = now[i];
        if (l === undefined) return `column ${i + 1} \`${r?.name}\` exists in ${other} only`;
        if (r === undefined) return `column ${i + 1} \`${l.name}\` exists in ${one} only`;
        if (l.name !== r.name) return `column ${i + 1} is called \`${l.name}\` in ${one} and \`${r.name}\` in ${other}`;
        if (!sameType(l, r)) return `column \`${l.name}\` ${typeDifference(l, r, called)}`;
    }
    return undefined;
}
