// SPDX-License-Identifier: Apache-2.0
import { isNested, type ColumnType, type KeySpec } from "../model/column-type.js";
import { formatBytes } from "../model/sizes.js";
import type { DeviceAggregate, DeviceKey } from "../plan/device-stages.js";
import type { LogicalAggregate, LogicalColumn } from "../plan/logical.js";

/** Why a query cannot run on the GPU. Thrown inside the planner only. */
export class NotOnDevice extends Error {
    /**
     * `leastBytes`: limit of GPU memory with which it could, where too little of it is the reason. `lacksHost`: too
     * little host memory is.
     */
    public constructor(
        public readonly reason: string,
        public readonly leastBytes?: number,
        public readonly lacksHost = false
    ) {
        super(reason);
    }

    /** No memory would lift it. */
    public get isFinal(): boolean {
        return this.leastBytes === undefined && !this.lacksHost;
    }

    /** Where a limit of GPU memory is too low. */
    public static below(leastBytes: number): NotOnDevice {
        return new NotOnDevice(`it takes ${formatBytes(leastBytes)} of GPU memory at least`, leastBytes);
    }

    /** Where host memory is too little. */
    public static lacksHost(reason: string): NotOnDevice {
        return new NotOnDevice(reason, undefined, true);
    }
}

/** What is made, or why it cannot run on the GPU. */
export function attempt<T>(make: () => T): T | NotOnDevice {
    try {
        return make();
    } catch (error) {
        if (error instanceof NotOnDevice) return error;
        throw error;
    }
}

/** What `attempt` has made; throws why there is nothing. */
export function settled<T>(made: T | NotOnDevice): T {
    if (made instanceof NotOnDevice) throw made;
    return made;
}

/**
 * What is told of reasons all of which stand in the way: one that no memory lifts, else the most GPU memory, as that is
 * a figure; the first one of several alike. undefined: there are none.
 */
export function firstToTell(reasons: readonly NotOnDevice[]): NotOnDevice | undefined {
    const weight = ({ isFinal, leastBytes }: NotOnDevice): number => (isFinal ? Infinity : (leastBytes ?? 0));
    return [...reasons].sort((a, b) => (weight(a) === weight(b) ? 0 : weight(b) - weight(a)))[0];
}

/**
 * What is told of ways none of which can be taken: why the one cannot that the least GPU memory opens, else one that
 * host memory does; the first one of several alike.
 */
export function nearest(first: NotOnDevice, ...others: readonly NotOnDevice[]): NotOnDevice {
    const distance = ({ isFinal, leastBytes }: NotOnDevice): number =>
        isFinal ? Infinity : (leastBytes ?? Number.MAX_VALUE);
    return others.reduce((best, other) => (distance(other) < distance(best) ? other : best), first);
}

/** A column of a device table: that of a node of the query, or the values of its dictionary. */
export interface Slot {
    readonly column: number;
    readonly decoded: boolean;
}

/** What a slot holds: dictionary indices count as themselves. */
export function slotType(column: LogicalColumn, decoded: boolean): ColumnType {
    return decoded ? (column.type.children[0] ?? column.type) : column.type;
}

/** A column without lists, structs and unions. */
export function isFlat({ type }: LogicalColumn): boolean {
    return !isNested(type) && !(type.layout === "dictionary" && type.children.some(isNested));
}

/** Throws NotOnDevice where the column is not flat, or where there is none. */
export function requireFlat(column: LogicalColumn | undefined): void {
    if (column === undefined) throw new NotOnDevice("a result without columns is nothing that a GPU could hold");
    if (!isFlat(column)) throw new NotOnDevice(`column \`${column.name}\` is nested`);
}

/** Where the slot is among others; -1: nowhere. */
export function slotIndex(slots: readonly Slot[], { column, decoded }: Slot): number {
    return slots.findIndex((slot) => slot.column === column && slot.decoded === decoded);
}

export function addSlot(slots: Slot[], slot: Slot): void {
    if (slotIndex(slots, slot) < 0) slots.push(slot);
}

export function isBytes(type: ColumnType): boolean {
    return type.layout === "binary" || type.layout === "view";
}

/** Bytes of a value of fixed width in GPU memory; 0 for strings. */
export function fixedBytes(type: ColumnType): number {
    if (isBytes(type)) return 0;
    if (type.layout === "bool" || type.layout === "null") return 1;
    return type.layout === "dictionary" ? 4 : type.byteWidth;
}

export function isDecoded(key: KeySpec): boolean {
    return key.kind === "dictionaryValue";
}

/** A key whose values are column `position` of a device table. */
export function deviceKey(column: LogicalColumn, key: KeySpec, position: number): DeviceKey {
    const type = slotType(column, isDecoded(key));
    const kind = key.kind === "dictionaryValue" ? key.kindOfValue : key.kind;
    switch (kind) {
        case "integer": {
            const unsigned = type.layout === "bool" || type.order === "unsigned";
            return { column: position, kind: unsigned ? "unsigned" : "signed", width: key.width };
        }
        case "dictionaryIndex":
            return { column: position, kind: "unsigned", width: 4 };
        case "float":
            if (type.byteWidth < 4) throw new NotOnDevice(`key \`${column.name}\` has floats of 16 bits`);
            return { column: position, kind: "float", width: key.width };
        case "fixedBytes":
            return { column: position, kind: "fixed", width: key.width };
        case "bytes":
        case "inlineBytes": // rows of the CPU engine alone have such keys
            return { column: position, kind: "bytes", width: 0 };
    }
}

const adds: ReadonlySet<string> = new Set(["sum", "mean"]);
const compares: ReadonlySet<string> = new Set(["min", "max"]);

/** Sums and means take the numbers behind dictionary indices. */
export function aggregateSlot(aggregate: LogicalAggregate, column: LogicalColumn): Slot {
    return { column: aggregate.column, decoded: column.type.layout === "dictionary" && adds.has(aggregate.kind) };
}

function valueKind(type: ColumnType): DeviceAggregate["valueKind"] {
    if (isBytes(type)) return "bytes";
    if (type.layout === "bool" || type.layout === "dictionary") return "unsigned";
    return type.order;
}

/** `column`: what is aggregated; `position`: of its slot. `ordered`: the rows are in the order of one input. */
export function deviceAggregate(
    aggregate: LogicalAggregate,
    column: LogicalColumn,
    result: LogicalColumn,
    position: number,
    ordered: boolean
): DeviceAggregate {
    const { kind, decimalScale } = aggregate;
    const type = slotType(column, aggregateSlot(aggregate, column).decoded);
    const values = valueKind(type);
    const cannot = (what: string): NotOnDevice =>
        new NotOnDevice(`\`${kind}\` of column \`${column.name}\` (${what}) has no implementation there`);
    if (type.layout === "null") throw cannot("NULLs only");
    const shortFloat = values === "float" && type.byteWidth < 4;
    if (kind === "countDistinct" && shortFloat) throw cannot("short floats");
    const number = values === "signed" || values === "unsigned" || (values === "float" && !shortFloat);
    const decimal = values === "decimal" && fixedBytes(type) === 16;
    if (adds.has(kind) && !number && !decimal) throw cannot("decimals of 256 bits or short floats");
    if (compares.has(kind) && (type.layout === "dictionary" || shortFloat))
        throw cannot("dictionaries or short floats");
    return {
        kind: kind === "first" && !ordered ? "any" : kind,
        column: position,
        valueKind: values,
        resultWidth: fixedBytes(result.type),
        decimalScale
    };
}
