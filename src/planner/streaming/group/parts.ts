// SPDX-License-Identifier: Apache-2.0
import { deviceConstants } from "../../../model/device-constants.js";
import { sumOf } from "../../../model/sizes.js";
import { groupPart, operatorsOf, type GroupParts } from "../../../plan/group-parts.js";
import { logicalSchema, type GroupNode, type InputInfo, type LogicalNode } from "../../../plan/logical.js";
import { attempt, NotOnDevice } from "../../device-support.js";
import { addedNumbers, outOfCoreGroupLayout } from "./row-layout.js";

const { groupAggregatesMax } = deviceConstants;

/** The same group-by of a relation with these columns: what of rows that are held, which take no less of a row. */
function ofRelation(node: GroupNode): GroupNode {
    const { child } = node;
    if (child.kind === "input") return node;
    const { columns } = child;
    const none = columns.map(() => 0);
    const input: InputInfo = {
        ...{ name: "", columns, rows: 0, largestBatchRows: 0, inMemory: true, streamed: false },
        ...{ columnBytes: none, dictionaryBytes: none, dictionaryRows: none },
        source: { kind: "held", schema: logicalSchema(child) }
    };
    return { ...node, child: { kind: "input", input, columns } };
}

const isRefused = (node: GroupNode, counted: boolean): boolean =>
    attempt(() => outOfCoreGroupLayout(node, counted, { inWords: true })) instanceof NotOnDevice;

const numbersOf = (node: GroupNode, aggregates: readonly number[]): number => addedNumbers(groupPart(node, aggregates));

/** Aggregates of one column, which have counts and sums in common, stay together unless they are too many. */
function byColumn(node: GroupNode): number[][] {
    const found = new Map<number, number[]>();
    for (const [at, { column }] of node.aggregates.entries()) found.set(column, [...(found.get(column) ?? []), at]);
    const isWhole = (together: readonly number[]): boolean => numbersOf(node, together) <= groupAggregatesMax;
    return [...found.values()].flatMap((together) => (isWhole(together) ? [together] : together.map((at) => [at])));
}

/** A part adds up so many numbers at most; undefined: some aggregates have more, or cannot be made at all. */
function cut(node: GroupNode, numbersMax: number): number[][] | undefined {
    const fits = (aggregates: readonly number[]): boolean => numbersOf(node, aggregates) <= numbersMax;
    const parts: number[][] = [];
    for (const together of byColumn(node)) {
        const last = parts.at(-1);
        if (last !== undefined && fits([...last, ...together])) last.push(...together);
        else if (fits(together)) parts.push([...together]);
        else return undefined;
    }
    return parts;
}

/** As few parts as can be, about as wide as each other: the widest one says how much GPU memory the query takes. */
function evenParts(node: GroupNode): number[][] | undefined {
    const parts = cut(node, groupAggregatesMax);
    if (parts === undefined) return undefined;
    const all = sumOf(parts.map((part) => numbersOf(node, part)));
    for (let numbers = Math.ceil(all / parts.length); numbers < groupAggregatesMax; ++numbers) {
        const even = cut(node, numbers);
        if (even?.length === parts.length) return even;
    }
    return parts;
}

function requireManyReadings({ child }: GroupNode, parts: number): void {
    if (child.kind !== "input" || !child.input.streamed) return;
    throw new NotOnDevice(
        `more than ${groupAggregatesMax} numbers are added up for a key, which takes ${parts} ` +
            `group-bys, and the stream \`${child.input.name}\` comes once`
    );
}

/**
 * Group-bys that no operator can make, as they add up more numbers for a key than a partial row has, with the parts
 * that can. Throws NotOnDevice for one of a stream, whose rows come once.
 */
export function groupPartsOf(root: LogicalNode, counted: boolean): GroupParts[] {
    return operatorsOf(root).flatMap((node, operator) => {
        if (node.kind !== "group") return [];
        const isCounted = counted && node === root;
        const relation = ofRelation(node);
        if (!isRefused(node, isCounted) || !isRefused(relation, isCounted)) return [];
        const parts = evenParts(relation);
        if (parts === undefined || parts.length < 2) return [];
        requireManyReadings(node, parts.length);
        const nameOf = (at: number): string => node.columns[node.keys.length + at]?.name ?? "";
        return [{ operator, parts: parts.map((aggregates) => ({ aggregates, names: aggregates.map(nameOf) })) }];
    });
}
