// SPDX-License-Identifier: Apache-2.0
import { UsageError } from "../usage-error.js";

function splitItems(option: string, texts: readonly string[]): string[] {
    const items = texts.flatMap((text) => text.split(",")).map((item) => item.trim());
    if (items.some((item) => item === "")) {
        throw new UsageError(`--${option} has an empty item in "${texts.join(",")}".`);
    }
    return items;
}

/** The first item that was there before. */
export function firstRepeated(items: readonly string[]): string | undefined {
    const seen = new Set<string>();
    return items.find((item) => seen.size === seen.add(item).size);
}

/** `a,b` given once or several times; order kept, empty and repeated items refused. */
export function parseList(option: string, texts: readonly string[]): string[] {
    const items = splitItems(option, texts);
    const twice = firstRepeated(items);
    if (twice != null) throw new UsageError(`--${option} names "${twice}" twice; name it once.`);
    return items;
}

/** `left=right` or `both`, separated by commas: the key columns of a join. */
export function parseKeys(option: string, texts: readonly string[]): Record<string, string> {
    const keys = Object.create(null) as Record<string, string>; // `__proto__` is a name too
    for (const item of splitItems(option, texts)) {
        const [left, right, ...rest] = item.split("=").map((name) => name.trim());
        const other = right ?? left;
        if (!left || !other || rest.length > 0) {
            throw new UsageError(`--${option} needs LEFT_COLUMN=RIGHT_COLUMN (or one name for both), not "${item}".`);
        }
        if (left in keys) {
            throw new UsageError(`--${option} names the left column "${left}" twice.`);
        }
        keys[left] = other;
    }
    return keys;
}
