// SPDX-License-Identifier: Apache-2.0
import type { GenerateColumn } from "../../index.js";
import { UsageError } from "../usage-error.js";
import { firstRepeated } from "./lists.js";
import { didYouMean } from "./nearest.js";
import { parseCount } from "./numbers.js";

const columnTypes = ["int8", "int16", "int32", "int64", "float32", "float64", "utf8"] as const;

const textWidthMax = 16384;
// What Runtime.generate() takes.
const columnsMax = 4096;

function parseColumn(option: string, item: string): GenerateColumn {
    const match = /^([^:]+)(?::([a-z0-9]+)(?:\((\d+)\))?)?$/.exec(item.trim());
    if (match == null) {
        throw new UsageError(`--${option} needs NAME:TYPE columns such as price:float64,note:utf8(24), not "${item}".`);
    }
    const [, name, word = "int64", width] = match;
    const type = columnTypes.find((candidate) => candidate === word);
    if (type == null) {
        const hint = didYouMean(word, columnTypes) || `; known are ${columnTypes.join(", ")}.`;
        throw new UsageError(`--${option} does not know the type "${word}"${hint}`);
    }
    if (width != null && !(type === "utf8" && Number(width) >= 1 && Number(width) <= textWidthMax)) {
        throw new UsageError(`--${option} takes a width of 1 to ${textWidthMax}, for utf8 only, not "${item.trim()}".`);
    }
    return { name: name!, type, ...(width == null ? {} : { width: Number(width) }) };
}

// What a generated relation calls its key unless told otherwise.
const keyName = "key";

/** A number of int64 columns (`2` makes left0, left1) or columns by name: `price:float64,note:utf8(24)`. */
export function parsePayload(option: string, text: string, prefix: string): GenerateColumn[] {
    if (!/^\d+$/.test(text)) {
        const items = text.split(",");
        if (items.length > columnsMax) {
            throw new UsageError(`--${option} names ${items.length} columns, of at most ${columnsMax}.`);
        }
        const columns = items.map((item) => parseColumn(option, item));
        const names = [keyName, ...columns.map(({ name }) => name)];
        const twice = firstRepeated(names);
        if (twice == null) return columns;
        const other = twice === keyName ? "the name of the key column" : "the name of two columns";
        throw new UsageError(`--${option}: "${twice}" is ${other}; give each column a name of its own.`);
    }
    const columns = parseCount(option, text, 0, columnsMax);
    return Array.from({ length: columns }, (_, index) => ({ name: `${prefix}${index}` }));
}
