// SPDX-License-Identifier: Apache-2.0
import type { MachineProfile } from "../machine/profile.js";
import type { DeviceJoinAlgorithm } from "../model/algorithms.js";
import type { DeviceChoice } from "../plan/device-choice.js";
import type { DeviceAggregate, DeviceJoinColumn, DeviceJoinDescription, TableStage } from "../plan/device-stages.js";
import {
    limitOf,
    type GroupNode,
    type InputInfo,
    type InputNode,
    type JoinColumn,
    type JoinNode,
    type LogicalColumn,
    type LogicalNode
} from "../plan/logical.js";
import type { SinkKind } from "../plan/plan.js";
import {
    groupCandidates,
    joinCandidates,
    operationText,
    piecesAlgorithm,
    type JoinCandidates
} from "./device-candidates.js";
import {
    addSlot,
    aggregateSlot,
    deviceAggregate,
    deviceKey,
    fixedBytes,
    isBytes,
    isDecoded,
    isFlat,
    NotOnDevice,
    requireFlat,
    slotIndex,
    slotType,
    type Slot
} from "./device-support.js";
import { chooseDeviceGroupBy, chooseDeviceJoin, rankOf } from "./device-cost/choose-algorithm.js";
import { rowNumberBytes } from "./device-cost/memory-cost.js";
import { groupShape, joinShape } from "./device-shape.js";
import type { Estimator } from "./estimates.js";
import { joinSidesFrom, otherSide, type JoinSides, type Side } from "./join-sides.js";
import { sampledKeys } from "./perfect-keys.js";
import type { Policy } from "./policy.js";

/** A stage without what is known only when all stages are. */
export type DeviceStageDraft = {
    [K in TableStage["kind"]]: Omit<
        Extract<TableStage, { kind: K }>,
        "id" | "live" | "memory" | "predictedMs" | "predictedSpillBytes" | "frees"
    >;
}[TableStage["kind"]];

/** A table that a stage makes. */
export interface DeviceTableDraft {
    readonly slots: readonly Slot[];
    readonly rows: number;
    /** Mean bytes of a row, those of strings included. */
    readonly rowBytes: number;
    /** Those of the columns that joins move with their rows: all but strings, in whose place stands a row number. */
    readonly movedRowBytes: number;
    /** The rows are counted, not guessed. */
    readonly exact: boolean;
}

export interface DeviceCompileRequest {
    root: LogicalNode;
    sink: SinkKind;
    inputs: readonly InputInfo[];
    estimator: Estimator;
    policy: Policy;
    profile: MachineProfile;
    /** Nothing that the GPU may refuse. */
    plain: boolean;
    /** The rows of the join at the root leave the GPU in pieces. */
    inPieces: boolean;
}

const offsetBytes = 8;

type JoinChoice = DeviceChoice<DeviceJoinAlgorithm>;

/** Share of the smaller build side's time that the other one's may take at most to be built on. */
const otherSideRank = 0.9;

/** Stages and tables of one plan for the GPU. Every method throws NotOnDevice where there is no way. */
export class DeviceDraft {
    public readonly stages: DeviceStageDraft[] = [];
    public readonly tables: DeviceTableDraft[] = [];

    public constructor(public readonly request: DeviceCompileRequest) {}

    /** The table that holds the result; undefined where its rows are only counted. */
    public compile(): number | undefined {
        const { root, sink } = this.request;
        if (sink !== "count")
            return this.#node(
                root,
                root.columns.map((_, column) => ({ column, decoded: false }))
            );
        if (root.kind === "join") return void this.#join(root, [], true);
        this.#node(root, []);
        return undefined;
    }

    /** The stages that make a table with these columns of the node; returns its number. */
    #node(node: LogicalNode, needed: readonly Slot[]): number {
        for (const { column } of needed) requireFlat(node.columns[column]);
        if (node !== this.request.root && limitOf(node) < Infinity) throw new NotOnDevice(limitedInner);
        if (node.kind === "group") return this.#group(node, needed);
        // A table has columns: its number of rows alone is not carried along.
        const slots = needed.length > 0 ? needed : [{ column: this.#narrowest(node), decoded: false }];
        return node.kind === "input" ? this.#input(node, slots) : (this.#join(node, slots, false) as number);
    }

    #narrowest(node: LogicalNode): number {
        const widths = node.columns.map((column) =>
            isFlat(column) ? (isBytes(column.type) ? Number.MAX_VALUE : fixedBytes(column.type)) : Infinity
        );
        const best = widths.indexOf(Math.min(...widths));
        requireFlat(node.columns[best]);
        return best;
    }

    #slotBytes(node: LogicalNode, { column, decoded }: Slot): number {
        const type = slotType(node.columns[column] as LogicalColumn, decoded);
        const width = this.request.estimator.of(node).widths[column];
        const heap = (decoded ? width?.decodedHeap : width?.heap) ?? 0;
        return (isBytes(type) ? offsetBytes + heap : fixedBytes(type)) + (type.nullable || decoded ? 1 / 8 : 0);
    }

    #table(node: LogicalNode, slots: readonly Slot[]): number {
        const { rows, exact } = this.request.estimator.of(node);
        const rowBytes = slots.reduce((sum, slot) => sum + this.#slotBytes(node, slot), 0);
        const texts = slots.filter((slot) => this.#isText(node, slot));
        const movedRowBytes =
            texts.reduce((sum, slot) => sum - this.#slotBytes(node, slot), rowBytes) +
            (texts.length > 0 ? rowNumberBytes(rows) : 0);
        return this.tables.push({ slots, rows, rowBytes, movedRowBytes, exact: exact && node.kind === "input" }) - 1;
    }

    #isText(node: LogicalNode, { column, decoded }: Slot): boolean {
        return isBytes(slotType(node.columns[column] as LogicalColumn, decoded));
    }

    #position(table: number, slot: Slot): number {
        return slotIndex((this.tables[table] as DeviceTableDraft).slots, slot);
    }

    #input(node: InputNode, slots: readonly Slot[]): number {
        if (node.input.streamed) throw new NotOnDevice(`\`${node.input.name}\` is a stream of batches`);
        const table = this.#table(node, slots);
        const { rows, rowBytes } = this.tables[table] as DeviceTableDraft;
        this.stages.push({
            kind: "upload",
            name: "upload",
            algorithm: "copy to the GPU",
            rowsIn: rows,
            rowsOut: rows,
            input: this.request.inputs.indexOf(node.input),
            table,
            columns: slots.map(({ column, decoded }) => ({
                column,
                decode: decoded,
                packed: false
            })),
            bytes: Math.ceil(rows * rowBytes),
            sentBytes: Math.ceil(rows * rowBytes)
        });
        return table;
    }

    /** Slots that a join needs of one side: keys, and what its result takes from there. */
    #sideSlots(node: JoinNode, needed: readonly Slot[], side: Side): Slot[] {
        const slots: Slot[] = [];
        for (const key of node.keys) addSlot(slots, { column: key[side].column, decoded: isDecoded(key[side]) });
        for (const { column, decoded } of needed) {
            const from = node.columns[column] as JoinColumn;
            if (from.side === side || from.side === "either") addSlot(slots, { column: from[side], decoded });
        }
        return slots;
    }

    /** Widths of the columns beside keys that a join's result takes from a side: of byte strings, or of the others. */
    #payload(node: JoinNode, needed: readonly Slot[], side: Side, texts: boolean): number[] {
        return needed.flatMap(({ column, decoded }) => {
            const from = node.columns[column] as JoinColumn;
            const isKey = node.keys.some((key) => key[side].column === from[side]);
            const slot = { column: from[side], decoded };
            const isWanted = from.side === side && !isKey && this.#isText(node[side], slot) === texts;
            return isWanted ? [this.#slotBytes(node[side], slot)] : [];
        });
    }

    #joinColumn(node: JoinNode, slot: Slot, build: Side, tables: Record<Side, number>): DeviceJoinColumn {
        const from = node.columns[slot.column] as JoinColumn;
        const probe = otherSide(build);
        const side = from.side === "either" ? "either" : from.side === build ? "build" : "probe";
        const at = (of: Side): number => this.#position(tables[of], { column: from[of], decoded: slot.decoded });
        return {
            side,
            buildColumn: side === "probe" ? 0 : at(build),
            probeColumn: side === "build" ? 0 : at(probe)
        };
    }

    #isInPieces(node: JoinNode): boolean {
        return this.request.inPieces && node === this.request.root;
    }

    /**
     * Build side and algorithm of a join. The other side than the smaller one is built on where that is faster by a
     * tenth at least, as it is where that side's keys come once each and the smaller one's do not.
     */
    #joinChoice(node: JoinNode, needed: readonly Slot[], countOnly: boolean): JoinCandidates & { choice: JoinChoice } {
        const { estimator, policy, profile, plain } = this.request;
        const columns = needed.map(({ column }) => column);
        const candidates = joinCandidates(node, columns, estimator, policy, plain);
        const payloads = (texts: boolean): Record<Side, readonly number[]> => ({
            left: this.#payload(node, needed, "left", texts),
            right: this.#payload(node, needed, "right", texts)
        });
        const [payload, texts] = [payloads(false), payloads(true)];
        const algorithms = this.#isInPieces(node) ? [piecesAlgorithm] : candidates.algorithms;
        const of = { node, payload, texts, counted: countOnly, estimator, policy, algorithms };
        const choiceOf = (sides: JoinSides): JoinChoice => chooseDeviceJoin(joinShape({ ...of, sides }), profile);
        const choice = choiceOf(candidates.sides);
        if (algorithms.length === 1 || node.hints.buildSide !== undefined) return { ...candidates, choice };
        const others = joinSidesFrom(node, otherSide(candidates.sides.build));
        const other = choiceOf(others);
        if (rankOf(other) > rankOf(choice) * otherSideRank) return { ...candidates, choice };
        return { ...candidates, sides: others, choice: other };
    }

    #join(node: JoinNode, needed: readonly Slot[], countOnly: boolean): number | null {
        const { estimator } = this.request;
        const { sides, algorithms, chosenBy, firstKey, keyRange, choice } = this.#joinChoice(node, needed, countOnly);
        const { build, emit, anti, keepUnmatchedBuild, keepUnmatchedProbe } = sides;
        const probe = otherSide(build);
        const tables = { left: 0, right: 0 };
        for (const side of [build, probe]) tables[side] = this.#node(node[side], this.#sideSlots(node, needed, side));
        const keys = (side: Side) =>
            node.keys.map(({ [side]: key }) => {
                const slot = { column: key.column, decoded: isDecoded(key) };
                return deviceKey(
                    node[side].columns[key.column] as LogicalColumn,
                    key,
                    this.#position(tables[side], slot)
                );
            });
        const rows = estimator.of(node).rows;
        const inPieces = this.#isInPieces(node);
        const named = chosenBy === "user" ? algorithms[0] : undefined;
        const algorithm = named ?? choice.algorithm;
        const spec: DeviceJoinDescription = {
            ...{ algorithm, firstKey, keyRange, emit, anti, keepUnmatchedBuild, keepUnmatchedProbe },
            nullsEqual: node.nullEquality,
            expectedRows: Math.ceil(rows),
            buildKeys: keys(build),
            probeKeys: keys(probe),
            columns: needed.map((slot) => this.#joinColumn(node, slot, build, tables))
        };
        const table = countOnly ? null : this.#table(node, needed);
        const rowsOf = (side: Side): number => (this.tables[tables[side]] as DeviceTableDraft).rows;
        this.stages.push({
            kind: "deviceJoin",
            name: countOnly ? "count" : "join",
            algorithm: operationText(algorithm, chosenBy, node.type, inPieces),
            rowsIn: rowsOf("left") + rowsOf("right"),
            rowsOut: rows,
            build: tables[build],
            sampled: sampledKeys(node, build, this.request.inputs),
            probe: tables[probe],
            ...{ table, pieces: null, chosenBy, spec, choice }
        });
        return table;
    }

    #group(node: GroupNode, needed: readonly Slot[]): number {
        const { estimator } = this.request;
        const keyCount = node.keys.length;
        if (needed.some(({ decoded }) => decoded)) {
            throw new NotOnDevice("a dictionary column of a group-by's result would have to be decoded");
        }
        const wanted = node.aggregates
            .map((_, i) => i)
            .filter((i) => needed.some(({ column }) => column === keyCount + i));
        const slots: Slot[] = [];
        const input = (column: number): LogicalColumn => node.child.columns[column] as LogicalColumn;
        for (const key of node.keys) addSlot(slots, { column: key.column, decoded: false });
        for (const i of wanted) {
            const aggregate = node.aggregates[i] as GroupNode["aggregates"][number];
            if (aggregate.column >= 0) addSlot(slots, aggregateSlot(aggregate, input(aggregate.column)));
        }
        const from = this.#node(node.child, slots);
        const ordered = node.child.kind === "input";
        const aggregates = wanted.map((i): DeviceAggregate => {
            const aggregate = node.aggregates[i] as GroupNode["aggregates"][number];
            if (aggregate.column < 0) return countRows;
            const column = input(aggregate.column);
            const position = this.#position(from, aggregateSlot(aggregate, column));
            return deviceAggregate(aggregate, column, node.columns[keyCount + i] as LogicalColumn, position, ordered);
        });
        const keys = node.keys.map((key) =>
            deviceKey(input(key.column), key, this.#position(from, { column: key.column, decoded: false }))
        );
        const results = [...node.keys.map((_, i) => i), ...wanted.map((i) => keyCount + i)];
        const table = this.#table(
            node,
            results.map((column) => ({ column, decoded: false }))
        );
        const { rows } = estimator.of(node);
        // An operation that makes nothing but keys is asked for a count beside them.
        const asked = aggregates.length === 0 ? [countRows] : aggregates;
        const slotBytes = (position: number): number =>
            this.#slotBytes(node.child, (this.tables[from] as DeviceTableDraft).slots[position] as Slot);
        const widths = asked.map(({ kind, column }) => (kind === "countRows" ? 0 : slotBytes(column)));
        const { algorithms, chosenBy } = groupCandidates(node);
        const shape = groupShape(node, asked, widths, algorithms, estimator);
        const choice = chooseDeviceGroupBy(shape, this.request.profile);
        this.stages.push({
            kind: "deviceGroup",
            name: "group",
            algorithm: operationText(choice.algorithm, chosenBy),
            rowsIn: (this.tables[from] as DeviceTableDraft).rows,
            rowsOut: rows,
            from,
            table,
            chosenBy,
            spec: {
                algorithm: choice.algorithm,
                named: chosenBy === "user",
                expectedGroups: Math.ceil(rows),
                keys,
                aggregates: asked
            },
            choice
        });
        return table;
    }
}

const limitedInner = "rows of a query with a limit, which others read, are held in host memory";

const countRows: DeviceAggregate = {
    kind: "countRows",
    column: 0,
    valueKind: "signed",
    resultWidth: 8,
    decimalScale: 0
};
