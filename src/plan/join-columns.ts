// SPDX-License-Identifier: Apache-2.0
import type { DataType } from "apache-arrow";

import { resultColumnType } from "../arrow/column-type-of.js";
import { typeText } from "../arrow/type-text.js";
import { SpillwayError } from "../errors.js";
import { suggestion } from "../model/arguments.js";
import type { JoinType } from "../model/schema-types.js";
import type { JoinColumn, LogicalColumn } from "./logical.js";

export interface JoinColumnsRequest {
    type: JoinType;
    left: readonly LogicalColumn[];
    right: readonly LogicalColumn[];
    /** Pairs of column indices. */
    keys: readonly { left: number; right: number }[];
    suffix: string;
    select: readonly string[] | undefined;
}

/** Does the join fill this side with NULLs where it has no partner? */
function fillsNulls(type: JoinType, side: "left" | "right"): boolean {
    return type === "full" || type === (side === "left" ? "right" : "left");
}

function outputColumn(
    from: LogicalColumn,
    name: string,
    nullable: boolean,
    position: { side: JoinColumn["side"]; left: number; right: number }
): JoinColumn {
    const type = resultColumnType(from.type);
    return {
        name,
        field: from.field.clone({ name, nullable: from.field.nullable || from.type.nullable || nullable }),
        type: { ...type, name, nullable: type.nullable || nullable },
        origin: from.origin,
        ...position
    };
}

/** Can one column hold the keys of both sides? Bytes must mean the same; dictionaries must be there to be linked. */
function fitOneColumn(a: LogicalColumn, b: LogicalColumn): boolean {
    const l = resultColumnType(a.type);
    const r = resultColumnType(b.type);
    const linkable = (column: LogicalColumn): boolean => column.origin !== null && !column.origin.input.streamed;
    if (l.layout !== r.layout || l.byteWidth !== r.byteWidth || l.order !== r.order) return false;
    if (l.layout !== "dictionary") return true;
    const [lv, rv] = [l.children[0], r.children[0]];
    return linkable(a) && linkable(b) && lv?.layout === rv?.layout && lv?.byteWidth === rv?.byteWidth;
}

/** The one column of a key that both sides call by the same name. */
function sharedKey(request: JoinColumnsRequest, left: number, right: number): JoinColumn {
    const { type } = request;
    const l = request.left[left] as LogicalColumn;
    const r = request.right[right] as LogicalColumn;
    const nullable = l.field.nullable || l.type.nullable || r.field.nullable || r.type.nullable;
    if (type === "right") return outputColumn(r, l.name, false, { side: "right", left, right });
    if (type !== "full") return outputColumn(l, l.name, false, { side: "left", left, right });
    if (!fitOneColumn(l, r)) {
        const leftType = typeText(l.field.type as DataType);
        const rightType = typeText(r.field.type as DataType);
        throw new SpillwayError(
            "KEY_TYPE_MISMATCH",
            `A full join puts both keys \`${l.name}\` into one column, which cannot hold ${leftType} ` +
                `of the left and ${rightType} of the right; where the table, file or batches are made, give them ` +
                `one type, or one of them another name and join on: { ${l.name}: "<new name>" } to keep both`,
            { column: l.name, leftType, rightType }
        );
    }
    return outputColumn(l, l.name, nullable, { side: "either", left, right });
}

function rightName(name: string, taken: ReadonlySet<string>, suffix: string): string {
    return taken.has(name) ? name + suffix : name;
}

function requireUniqueNames(columns: readonly JoinColumn[], suffix: string): void {
    const seen = new Set<string>();
    for (const { name } of columns) {
        if (seen.has(name)) {
            throw new SpillwayError(
                "DUPLICATE_COLUMN",
                `The result would have two columns \`${name}\`; choose another \`suffix\` than ` +
                    `${JSON.stringify(suffix)}, or \`select\` only columns whose names occur once`,
                { column: name, option: "suffix" }
            );
        }
        seen.add(name);
    }
}

function allColumns(request: JoinColumnsRequest): JoinColumn[] {
    const { type, left, right, keys, suffix } = request;
    const sharedByLeft = new Map<number, number>();
    for (const key of keys) {
        if (left[key.left]?.name === right[key.right]?.name) sharedByLeft.set(key.left, key.right);
    }
    const oneSided = type === "semi" || type === "anti";
    const columns = left.map((column, index) => {
        const partner = sharedByLeft.get(index);
        if (partner !== undefined && !oneSided) return sharedKey(request, index, partner);
        const nullable = fillsNulls(type, "left");
        return outputColumn(column, column.name, nullable, { side: "left", left: index, right: -1 });
    });
    if (oneSided) return columns;
    const shared = new Set(sharedByLeft.values());
    const leftNames = new Set(left.map((column) => column.name));
    for (const [index, column] of right.entries()) {
        if (shared.has(index)) continue;
        const name = rightName(column.name, leftNames, suffix);
        columns.push(outputColumn(column, name, fillsNulls(type, "right"), { side: "right", left: -1, right: index }));
    }
    return columns;
}

/** Result columns of a join: names, order, nullability and where each comes from. */
export function joinColumns(request: JoinColumnsRequest): JoinColumn[] {
    const columns = allColumns(request);
    const { select } = request;
    if (select === undefined) {
        requireUniqueNames(columns, request.suffix);
        return columns;
    }
    const names = columns.map((column) => column.name);
    const chosen = select.map((name) => {
        const column = columns.find((candidate) => candidate.name === name);
        if (column !== undefined) return column;
        throw new SpillwayError(
            "UNKNOWN_COLUMN",
            `Column \`${name}\` named in \`select\` is not in the result of the join${suggestion(name, names)}`,
            { option: "select", column: name }
        );
    });
    const twice = select.find((name, index) => select.indexOf(name) !== index);
    if (twice !== undefined) {
        throw new SpillwayError("DUPLICATE_COLUMN", `\`select\` names column \`${twice}\` twice; name it once`, {
            option: "select",
            column: twice
        });
    }
    // A name that two columns have is ambiguous even when only one of them is wanted.
    requireUniqueNames(
        columns.filter((column) => select.includes(column.name)),
        request.suffix
    );
    return chosen;
}
