// SPDX-License-Identifier: Apache-2.0
// Flatbuffers of any content, also such that no writer makes: tables by the numbers of their fields.
import { Builder } from "flatbuffers";

export interface TableNode {
    readonly slots: Readonly<Record<number, Slot>>;
}

/** A table, a text, a vector of tables, or a vector of structs of zeros, given as the size of one and of all. */
export type Node =
    TableNode | string | readonly TableNode[] | { readonly elementBytes: number; readonly bytes: number };

/** What a field holds: a number, or something elsewhere; `farAway` is an offset of its own. */
export type Slot = Node | { readonly int8: number } | { readonly int16: number } | { readonly farAway: number };

/** An offset to far behind the end of the buffer. */
export const outside = { farAway: 2 ** 20 } as const;

export function tableOf(slots: Readonly<Record<number, Slot>>): TableNode {
    return { slots };
}

function putStructs(builder: Builder, elementBytes: number, bytes: number): number {
    builder.startVector(elementBytes, bytes / elementBytes, 8);
    for (let i = 0; i < bytes; i++) builder.writeInt8(0);
    return builder.endVector();
}

function putNode(builder: Builder, node: Node): number {
    if (typeof node === "string") return builder.createString(node);
    if ("slots" in node) return putTable(builder, node);
    if ("elementBytes" in node) return putStructs(builder, node.elementBytes, node.bytes);
    const tables = node.map((table) => putTable(builder, table));
    builder.startVector(4, tables.length, 4);
    for (const table of tables.reverse()) builder.addOffset(table);
    return builder.endVector();
}

/** Writes what the field refers to, if anything, and gives what writes the field itself. */
function prepare(builder: Builder, field: number, slot: Slot): () => void {
    if (typeof slot === "object") {
        if ("int8" in slot) return () => builder.addFieldInt8(field, slot.int8, 0);
        if ("int16" in slot) return () => builder.addFieldInt16(field, slot.int16, 0);
        if ("farAway" in slot) return () => builder.addFieldOffset(field, -slot.farAway, 0);
    }
    const offset = putNode(builder, slot);
    return () => builder.addFieldOffset(field, offset, 0);
}

function putTable(builder: Builder, { slots }: TableNode): number {
    // What a table refers to comes before the table itself.
    const fields = Object.entries(slots).map(([field, slot]) => prepare(builder, Number(field), slot));
    builder.startObject(8);
    for (const add of fields) add();
    return builder.endObject();
}

/** Fields are written also where they have their default. */
export function flatbufferOf(root: TableNode): Uint8Array {
    const builder = new Builder();
    builder.forceDefaults(true);
    builder.finish(putTable(builder, root));
    return builder.asUint8Array();
}
