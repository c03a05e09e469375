// SPDX-License-Identifier: Apache-2.0
// What all crafted files have: an integer key `k` and a column `p` of the type under attack.
import { Int32, Schema } from "apache-arrow";
import { field } from "../layouts.mjs";
import { batchPart, fileOf, schemaPart } from "../parts.mjs";

export const none = new Uint8Array();

const columns = ["p", "q", "r"];

/** Columns `k`, `p`, `q`, `r`, `c3`, ... The empty map keeps Arrow JS from looking for dictionaries that disagree. */
export const keyedSchema = (...types) => {
    const fields = types.map((type, i) => field(columns[i] ?? `c${i}`, type));
    return new Schema([field("k", new Int32()), ...fields], new Map(), new Map());
};

/** The key's part of a batch. */
export const keyOf = (rows) => ({
    nodes: [[rows]],
    buffers: [none, Int32Array.from({ length: rows }, (_, row) => row % 7)]
});

/** A record batch of `rows` keys and whatever nodes and buffers the other columns are said to have. */
export function keyedBatch(rows, { nodes, buffers, variadic }) {
    const key = keyOf(rows);
    return batchPart({ rows, nodes: [...key.nodes, ...nodes], buffers: [...key.buffers, ...buffers], variadic });
}

/** A file of one schema and these parts. */
export function keyedFile(schema, parts, blocks) {
    return fileOf(schema, [schemaPart(schema), ...parts], blocks);
}

/** A file with a schema and no rows. */
export const schemaOnly = (...types) => keyedFile(keyedSchema(...types), []);

/** A file of one batch whose column `p` has these nodes and buffers. */
export const oneBatch = (type, rows, column) => keyedFile(keyedSchema(type), [keyedBatch(rows, column)]);
