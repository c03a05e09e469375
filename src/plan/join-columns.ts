// SPDX-License-Identifier: Apache-2.0
import { DataType, Decimal, Dictionary } from "apache-arrow";

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

/** Are codes of the column's dictionary known before its rows come, so that another column can be given the same? */
function hasKnownDictionary({ origin }: LogicalColumn): boolean {
    return origin !== null && !origin.input.streamed;
}

/** Do the keys of both sides lie in memory alike, so that one column can hold them? */
function layOutAlike(a: LogicalColumn, b: LogicalColumn): boolean {
    const l = resultColumnType(a.type);
    const r = resultColumnType(b.type);
    if (l.layout !== r.layout || l.byteWidth !== r.byteWidth || l.order !== r.order) return false;
    const [lv, rv] = [l.children[0], r.children[0]];
    return l.layout !== "dictionary" || (lv?.layout === rv?.layout && lv?.byteWidth === rv?.byteWidth);
}

/**
 * The type whose values are those of both types, which are keys that compare and lie in memory alike. Only decimals of
 * two precisions differ then in the values that they may have.
 */
function unitedType(left: DataType, right: DataType): DataType {
    if (DataType.isDecimal(left) && DataType.isDecimal(right)) {
        return new Decimal(left.scale, Math.max(left.precision, right.precision), left.bitWidth);
    }
    if (DataType.isDictionary(left) && DataType.isDictionary(right)) {
        const values = unitedType(left.dictionary as DataType, right.dictionary as DataType);
        return new Dictionary(values, left.indices, left.id, left.isOrdered);
    }
    return left;
}

/** Why a full join cannot put both keys into one column, and the way out. */
function cannotShare(l: LogicalColumn, r: LogicalColumn): SpillwayError | undefined {
    const leftType = typeText(l.field.type as DataType);
    const rightType = typeText(r.field.type as DataType);
    const error = (reason: string, wayOut: string): SpillwayError =>
        new SpillwayError(
            "KEY_TYPE_MISMATCH",
            `A full join puts both keys \`${l.name}\` into one column, which ${reason}; where the table, file or ` +
                `batches are made, ${wayOut}, or give one of them another name and join on: ` +
                `{ ${l.name}: "<new name>" } to keep both`,
            { column: l.name, leftType, rightType }
        );
    if (!layOutAlike(l, r)) {
        return error(`cannot hold ${leftType} of the left and ${rightType} of the right`, "give them one type");
    }
    const unknown = [!hasKnownDictionary(l) && "left", !hasKnownDictionary(r) && "right"].filter(Boolean);
    if (l.type.layout !== "dictionary" || unknown.length === 0) return undefined;
    const sides = unknown.length === 2 ? "both sides are streams" : `the ${unknown.join()} is a stream`;
    return error(
        `would have one dictionary for both, but ${sides} (\`fromBatches\`), whose dictionary is not known before ` +
            `its batches have come`,
        "make it plain values or collect the batches in a table or file"
    );
}

/** The one column of a key that both sides call by the same name. */
function sharedKey(request: JoinColumnsRequest, left: number, right: number): JoinColumn {
    const { type } = request;
    const l = request.left[left] as LogicalColumn;
    const r = request.right[right] as LogicalColumn;
    if (type === "right") return outputColumn(r, l.name, false, { side: "right", left, right });
    if (type !== "full") return outputColumn(l, l.name, false, { side: "left", left, right });
    const refusal = cannotShare(l, r);
    if (refusal !== undefined) throw refusal;
    const nullable = l.field.nullable || l.type.nullable || r.field.nullable || r.type.nullable;
    const field = l.field.clone({ type: unitedType(l.field.type as DataType, r.field.type as DataType) });
    return outputColumn({ ...l, field }, l.name, nullable, { side: "either", left, right });
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
