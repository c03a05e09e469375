// SPDX-License-Identifier: Apache-2.0
import type { MachineProfile } from "../../../machine/profile.js";
import { isNested, type ColumnType } from "../../../model/column-type.js";
import { formatMs, nsPerMs, sumOf } from "../../../model/sizes.js";
import type { InputInfo } from "../../../plan/logical.js";
import { NotOnDevice } from "../../device-support.js";
import type { Side } from "../../join-sides.js";
import type { Policy } from "../../policy.js";
import { chunkWidth, dictionaryIndexBytes, rowBytesMax, rowColumnsMax, rowNumberBytes } from "../chunk-rows.js";

/** A row number of a packed row: as many bits as rows of a chunk have numbers, of 2^22 rows. */
const packedNumberBytes = 3;

/** What carrying a column and gathering it costs. */
export interface GatherCosts {
    readonly rows: Readonly<Record<Side, number>>;
    readonly resultRows: number;
    /** Share of the rows that leave GPU memory and come back. */
    readonly spilledShare: number;
    /** Whose rows come out in the order of their source, but for those that were spilled. */
    readonly probe: Side;
    readonly workers: number;
    readonly profile: MachineProfile;
    readonly policy: Policy;
}

/** A result column of one side that no key tells. */
export interface SideColumn {
    readonly column: number;
    readonly type: ColumnType;
}

/** Bytes of a value, and of whether there is one. */
export function carriedBytes({ type }: Pick<SideColumn, "type">): number {
    return chunkWidth(type) + (type.nullable ? 1 : 0);
}

/** Columns of a packed row that it takes. */
export function carriedColumns({ type }: Pick<SideColumn, "type">): number {
    return (chunkWidth(type) > 8 ? 2 : 1) + (type.nullable ? 1 : 0);
}

/** What a row has room for, and what its key, and what goes with that, takes of it. */
export interface RowRoom {
    readonly takenBytes: number;
    readonly takenColumns: number;
    readonly bytesMax?: number;
}

/** Why a column's values cannot go to the GPU; undefined: they can. */
export function whyGathered(type: ColumnType): string | undefined {
    if (chunkWidth(type) > 0) return undefined;
    if (type.layout === "binary" || type.layout === "view") return type.utf8 ? "text" : "bytes";
    if (isNested(type)) return "nested";
    return type.layout === "null" ? "NULLs only" : `values of ${type.byteWidth} bytes`;
}

/** What gathering a value of a side costs a worker. Those of the probe side come in order, but for spilled ones. */
export function gatherNs(
    type: ColumnType,
    side: Side,
    { probe, spilledShare, policy }: Pick<GatherCosts, "probe" | "spilledShare" | "policy">
): number {
    const { gatherNs, gatherOrderedNs } = policy;
    const ordered = side === probe ? 1 - spilledShare : 0;
    const kind = type.layout === "fixed" || chunkWidth(type) > 0 ? "value" : "text";
    return ordered * gatherOrderedNs[kind] + (1 - ordered) * gatherNs[kind];
}

/** Time on the link for bytes of each row of a side, of which `packed` are spilled with it. */
function linkNs(costs: GatherCosts, side: Side, bytes: number, packed: number): number {
    const { deviceCopyInBytesPerMs, deviceCopyOutBytesPerMs } = costs.profile;
    const [inNs, outNs] = [nsPerMs / deviceCopyInBytesPerMs, nsPerMs / deviceCopyOutBytesPerMs];
    const rows = costs.rows[side];
    const spilled = rows * costs.spilledShare * packed;
    return rows * bytes * inNs + spilled * (inNs + outNs) + costs.resultRows * bytes * outNs;
}

/** What gathering a column wins against carrying it; below 0: nothing. */
function savedNs(costs: GatherCosts, side: Side, column: SideColumn): number {
    const bytes = carriedBytes(column);
    const values = costs.resultRows * gatherNs(column.type, side, costs);
    return linkNs(costs, side, bytes, bytes) - values / costs.workers;
}

/**
 * Columns of a side that are gathered by row number from where they lie in host memory, and why: those that cannot go
 * to the GPU; of a row that is too wide, those that gain most (or lose least) until the rest fits; and those that
 * take the link longer than gathering them takes the workers. Columns of files would have to be held in host memory for
 * it: they are gathered only when they must be, the narrowest that will do. Throws NotOnDevice where what is taken of
 * the row is too much by itself.
 */
export function chooseGathered(
    side: Side,
    columns: readonly SideColumn[],
    { takenBytes, takenColumns, bytesMax = rowBytesMax }: RowRoom,
    { rows, inMemory }: InputInfo,
    costs: GatherCosts | undefined
): Map<number, string> {
    const gathered = new Map<number, string>();
    for (const { column, type } of columns) {
        const why = whyGathered(type);
        if (why !== undefined) gathered.set(column, why);
    }
    const left = columns.filter(({ column }) => !gathered.has(column));
    const saved = (column: SideColumn): number =>
        costs === undefined ? carriedBytes(column) : savedNs(costs, side, column);
    left.sort((a, b) => saved(b) - saved(a));
    const bytesOf = (): number => left.reduce((sum, column) => sum + carriedBytes(column), takenBytes);
    const wholeBytes = bytesOf();
    const numberBytes = rowNumberBytes(rows);
    const columnsOf = (): number => left.reduce((sum, column) => sum + carriedColumns(column), takenColumns);
    const fits = (): boolean => {
        const number = gathered.size > 0 ? 1 : 0;
        return bytesOf() + number * numberBytes <= bytesMax && columnsOf() + number <= rowColumnsMax;
    };
    while (!fits()) {
        const excess = bytesOf() + numberBytes - bytesMax;
        const least = inMemory ? -1 : left.findLastIndex((column) => carriedBytes(column) >= excess);
        const [leaves] = left.splice(Math.max(0, least), 1);
        if (leaves === undefined) {
            throw new NotOnDevice(
                `a key and columns of both sides take ${takenBytes} bytes and ${takenColumns} columns of a row, ` +
                    `${bytesMax} and ${rowColumnsMax} are the most`
            );
        }
        gathered.set(leaves.column, `row of ${wholeBytes} bytes`);
    }
    if (costs === undefined || !inMemory) return gathered;
    const cheaper = left.filter((column) => saved(column) > 0);
    const savedAll = sumOf(cheaper.map(saved));
    if (gathered.size === 0 && savedAll <= linkNs(costs, side, numberBytes, packedNumberBytes)) return gathered;
    for (const column of cheaper) gathered.set(column.column, `cheaper by ${formatMs(saved(column) / nsPerMs)}`);
    return gathered;
}

/**
 * Host memory for columns that are read by row number: copies of what lies in files, indices of dictionaries, in blocks
 * that are an eighth larger at most, which those of batches of 2^n rows are (native/memory/mapped_block.hpp).
 */
export function heldBytes(input: InputInfo, columns: readonly number[]): number {
    const bytes = columns.reduce((sum, column) => {
        const dictionary = input.columns[column]?.type.layout === "dictionary";
        const indices = dictionary ? input.rows * dictionaryIndexBytes : 0;
        return sum + indices + (input.inMemory ? 0 : (input.columnBytes[column] ?? 0));
    }, 0);
    return Math.ceil((bytes * 9) / 8);
}

/** Mean bytes of a row number in a packed row. */
export function packedRowNumberBytes(width: number): number {
    return Math.min(width, packedNumberBytes);
}
