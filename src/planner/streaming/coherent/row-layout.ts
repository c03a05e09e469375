// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreLayout } from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import type { JoinSides } from "../../join-sides.js";
import { chunkWidth, rowNumberBytes } from "../chunk-rows.js";
import { inputsOfSides, type InputJoin } from "../join/facts.js";
import { whyGathered, type SideColumn } from "../join/gather.js";
import { baselineLimits, outOfCoreLayout, type CarryRule, type RowLimits } from "../join/row-layout.js";

/** Throws NotOnDevice for streams, and for rows of other stages: memory for all rows is taken before they come. */
export function requireKnownRows({ left, right }: Pick<InputJoin, "left" | "right">): void {
    for (const { input } of [left, right]) {
        const what = input.streamed ? "a stream" : input.source.kind === "held" ? "which another stage gives" : "";
        if (what !== "") throw new NotOnDevice(`it needs to know how many rows \`${input.name}\` has, ${what}`);
    }
}

/** Why a column cannot travel beside a key, alone; undefined: it can. */
function whyNotAlone({ type }: SideColumn, keyBytes: number): string | undefined {
    const width = chunkWidth(type);
    if (width === 0) return whyGathered(type);
    if (width !== keyBytes) return `${width} bytes wide, and rows of ${keyBytes} and ${keyBytes} bytes are partitioned`;
    return type.nullable ? "may be NULL, and rows are partitioned without bits for that" : undefined;
}

/**
 * Columns of a side that stay in host memory, and why: kernels that partition far memory move a key and one value of
 * its width. That is the only column, if it is such a value, and else the number of the row by which all of them are
 * gathered. Either costs the same on the link.
 */
function gathered(columns: readonly SideColumn[], keyBytes: number): Map<number, string> {
    const [only] = columns;
    if (only === undefined) return new Map();
    if (columns.length > 1) {
        const reason = `one of ${columns.length} columns, and one value is partitioned with its key`;
        return new Map(columns.map(({ column, type }) => [column, whyGathered(type) ?? reason]));
    }
    const why = whyNotAlone(only, keyBytes);
    return new Map(why === undefined ? [] : [[only.column, why]]);
}

/** A row number beside a key has as many bytes as the key. */
function numberBytes(rows: number, keyBytes: number): number {
    if (rowNumberBytes(rows) <= keyBytes) return keyBytes;
    throw new NotOnDevice(`numbers of ${rows} rows do not fit the ${keyBytes} bytes beside a key`);
}

const rule: CarryRule = { gathered, rowNumberBytes: numberBytes };

/** Where nobody wants rows, the value beside a key is free for its second word. */
const countedLimits: RowLimits = { ...baselineLimits, keyWordsMax: 2 };

/** The layout of a join by kernels. Throws NotOnDevice with why there is none. */
export function coherentLayout(node: InputJoin, sides: JoinSides, counted: boolean): OutOfCoreLayout {
    requireKnownRows(node);
    const limits = counted ? countedLimits : baselineLimits;
    return outOfCoreLayout(node, sides, inputsOfSides(node), { counted, rule, limits });
}
