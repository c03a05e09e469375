// SPDX-License-Identifier: Apache-2.0
import { DataType, Vector, type Schema } from "apache-arrow";

import { dictionaryData, type Dictionaries } from "../arrow/batch-from-native.js";
import { emptyVector } from "../arrow/stream-dictionaries.js";
import { SpillwayError } from "../errors.js";
import type { SinkHandle, SourceHandle } from "../native/binding.js";
import type { InputInfo, LogicalColumn } from "../plan/logical.js";
import type { Job } from "./job.js";

/** A dictionary field node of the result, and the source node whose unified dictionary its codes refer to. */
interface DictionaryNode {
    id: number;
    valueType: DataType;
    input: InputInfo;
    /** Column of the source, then child indices. */
    path: number[];
    /** Dictionaries inside the values of this one. */
    inner: DictionaryNode[];
}

function nodesOf(type: DataType, input: InputInfo, path: number[]): DictionaryNode[] {
    if (DataType.isDictionary(type)) {
        const valueType = type.dictionary as DataType;
        return [{ id: type.id, valueType, input, path, inner: nodesOf(valueType, input, [...path, 0]) }];
    }
    return (type.children ?? []).flatMap((child, i) => nodesOf(child.type as DataType, input, [...path, i]));
}

/** Dictionary nodes of the result columns in pre-order. */
export function dictionaryNodes(schema: Schema, columns: readonly LogicalColumn[]): DictionaryNode[] {
    return schema.fields.flatMap((field, i) => {
        const origin = columns[i]?.origin;
        const type = field.type as DataType;
        if (origin) return nodesOf(type, origin.input, [origin.column]);
        if (!DataType.isDictionary(type)) return [];
        throw new SpillwayError("INTERNAL", `Result column \`${field.name}\` has codes of no known dictionary`);
    });
}

/** Inputs that dictionaries of the result come from. */
export function inputsOfDictionaries(nodes: readonly DictionaryNode[]): Set<InputInfo> {
    return new Set(nodes.flatMap(({ input, inner }) => [input, ...inputsOfDictionaries(inner)]));
}

export type SourceOf = (input: InputInfo) => SourceHandle | undefined;

function sourceFor(node: DictionaryNode, sourceOf: SourceOf): SourceHandle | undefined {
    // A stream that delivered no batch has no source, and its columns no codes.
    return sourceOf(node.input);
}

async function loadOne(job: Job, node: DictionaryNode, sourceOf: SourceOf): Promise<Vector> {
    const inner = await loadDictionaries(job, node.inner, sourceOf);
    const source = sourceFor(node, sourceOf);
    if (source === undefined) return emptyVector(node.valueType);
    const values = await job.binding.sourceDictionary(job.handle, source, node.path);
    return new Vector([dictionaryData(node.valueType, values, inner)]);
}

/** Values of all dictionaries, for record batches that are handed to JavaScript. */
export async function loadDictionaries(
    job: Job,
    nodes: readonly DictionaryNode[],
    sourceOf: SourceOf
): Promise<Dictionaries> {
    const vectors: Vector[] = [];
    for (const node of nodes) vectors.push(await loadOne(job, node, sourceOf));
    return vectors;
}

/** Writes all dictionaries to a result file; one that is used inside another comes first. */
export async function writeDictionaries(
    job: Job,
    sink: SinkHandle,
    nodes: readonly DictionaryNode[],
    sourceOf: SourceOf
): Promise<void> {
    for (const node of nodes) {
        await writeDictionaries(job, sink, node.inner, sourceOf);
        const source = sourceFor(node, sourceOf);
        if (source !== undefined) {
            await job.binding.writeDictionary(job.handle, sink, source, node.path, node.id);
        }
    }
}
