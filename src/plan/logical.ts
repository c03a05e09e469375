// SPDX-License-Identifier: Apache-2.0
import type { Field, RecordBatch, Schema, Table } from "apache-arrow";

import { columnTypeOf } from "../arrow/column-type-of.js";
import { resultSchema } from "../arrow/result-type.js";
import type { DeviceGroupAlgorithm, NamedJoinAlgorithm } from "../model/algorithms.js";
import type { ColumnType, KeySpec, SourceLayout } from "../model/column-type.js";
import type { JoinType } from "../model/schema-types.js";

/** Where the rows of an input come from; opaque to the planner. */
export type InputSource =
    | { readonly kind: "layout"; readonly schema: Schema; readonly layout: SourceLayout }
    | { readonly kind: "stream"; readonly schema: Schema; readonly open: () => AsyncIterable<RecordBatch | Table> }
    /** Rows of an earlier stage, in host memory. */
    | { readonly kind: "held"; readonly schema: Schema };

/** What is known of an input without reading rows. */
export interface InputInfo {
    readonly name: string;
    readonly columns: readonly LogicalColumn[];
    /** Exact, or the best guess for a stream. */
    readonly rows: number;
    /** Bytes per column, all batches together. */
    readonly columnBytes: readonly number[];
    /** Bytes of the dictionaries of each column (0 for other columns). */
    readonly dictionaryBytes: readonly number[];
    /** Entries of those dictionaries. */
    readonly dictionaryRows: readonly number[];
    /** Largest record batch, in rows. */
    readonly largestBatchRows: number;
    readonly inMemory: boolean;
    readonly streamed: boolean;
    readonly source: InputSource;
}

/** The input column that a column's values (and dictionary) come from. */
export interface Origin {
    readonly input: InputInfo;
    readonly column: number;
}

export interface LogicalColumn {
    readonly name: string;
    /** Type as the user sees it at this point. */
    readonly field: Field;
    /** Type as the engine handles it at this point. */
    readonly type: ColumnType;
    /** Absent for computed columns. A key from both sides names the left one; their dictionaries are linked then. */
    readonly origin: Origin | null;
}

export interface InputNode {
    readonly kind: "input";
    readonly input: InputInfo;
    readonly columns: readonly LogicalColumn[];
}

/** A side of a join. */
export type Side = "left" | "right";

export function otherSide(side: Side): Side {
    return side === "left" ? "right" : "left";
}

export interface JoinKey {
    readonly left: KeySpec;
    readonly right: KeySpec;
}

/** A result column of a join. "either": the key of a full join, from whichever side has the row. */
export interface JoinColumn extends LogicalColumn {
    readonly side: "left" | "right" | "either";
    readonly left: number;
    readonly right: number;
}

export interface JoinNode {
    readonly kind: "join";
    readonly left: LogicalNode;
    readonly right: LogicalNode;
    readonly type: JoinType;
    readonly keys: readonly JoinKey[];
    readonly nullEquality: boolean;
    readonly columns: readonly JoinColumn[];
    readonly hints: { readonly resultRows?: number; readonly buildSide?: "left" | "right" };
    /** Most rows of its result, whichever; left out: all. */
    readonly limit?: number;
    /** Asked for by the user; left out: the planner chooses. */
    readonly algorithm?: NamedJoinAlgorithm;
}

export type AggregateKind = "countRows" | "count" | "sum" | "min" | "max" | "mean" | "first" | "any" | "countDistinct";

export interface LogicalAggregate {
    readonly kind: AggregateKind;
    /** Column of the input; -1 for countRows. */
    readonly column: number;
    /** Scale of a decimal column, else 0. */
    readonly decimalScale: number;
}

export interface GroupNode {
    readonly kind: "group";
    readonly child: LogicalNode;
    /** One per key column, in output order. */
    readonly keys: readonly KeySpec[];
    readonly aggregates: readonly LogicalAggregate[];
    /** Key columns, then aggregates. */
    readonly columns: readonly LogicalColumn[];
    readonly hints: { readonly groups?: number };
    /** Most rows of its result, whichever; left out: all. */
    readonly limit?: number;
    /** Asked for by the user; left out: the planner chooses. */
    readonly algorithm?: DeviceGroupAlgorithm;
}

export type LogicalNode = InputNode | JoinNode | GroupNode;

/** Most rows that the node gives to whoever reads it. */
export function limitOf(node: LogicalNode): number {
    return node.kind === "input" ? Infinity : (node.limit ?? Infinity);
}

/** Schema as the user sees it. A relation keeps the schema (and metadata) of its source. */
export function logicalSchema(node: LogicalNode): Schema {
    if (node.kind === "input") return node.input.source.schema;
    return resultSchema(node.columns.map((column) => column.field));
}

/**
 * Types of the rows that an operator gives, in which dictionaries have indices of 32 bits. It knows itself which
 * columns may be NULL, and no file is believed.
 */
export function resultTypes(node: LogicalNode): ColumnType[] {
    const nullable = (at: number): boolean => node.columns[at]?.type.nullable !== false;
    return logicalSchema(node).fields.map((field, at) => ({ ...columnTypeOf(field), nullable: nullable(at) }));
}

/** Every input of the tree once, in order of first appearance. */
export function inputsOf(node: LogicalNode, found: InputInfo[] = []): InputInfo[] {
    if (node.kind === "input") {
        if (!found.includes(node.input)) found.push(node.input);
    } else if (node.kind === "join") {
        inputsOf(node.left, found);
        inputsOf(node.right, found);
    } else {
        inputsOf(node.child, found);
    }
    return found;
}
