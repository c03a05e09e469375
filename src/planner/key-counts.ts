// SPDX-License-Identifier: Apache-2.0
import type { KeySpec } from "../model/column-type.js";
import { otherSide, type InputInfo, type JoinNode, type LogicalNode, type Side } from "../plan/logical.js";
import {
    columnsOfId,
    distinctKeys,
    groupedKeys,
    joinKeys,
    keysBySide,
    looksUnique,
    type KeyStatistics,
    type StatisticsById
} from "./statistics.js";

/** What numbers of keys go by; numbers of rows go by numbers of keys in turn, always those of nodes further down. */
export interface RowCounts {
    /** Rows that readers of the node get. */
    givenRows(node: LogicalNode): number;
    /** Share of a side's rows that the result of a join has rows of. */
    keptShare(node: JoinNode, side: Side): number;
}

/** Keys as they are in the inputs, whatever joins leave of them. */
export interface SourceKeys {
    /** Distinct ones; where nothing is known, as many as there are rows. */
    readonly distinct: number;
    /** Rows of the inputs that have them. */
    readonly rows: number;
    /** By samples. */
    readonly isKnown: boolean;
}

/** Functional dependencies between relations are looked for among so many keys at most: each doubles the work. */
const dependenciesOfKeysMax = 8;

/** Expected values that are drawn where `draws` rows have one of `values` each, all equally likely. */
function drawnValues(values: number, draws: number): number {
    if (values <= 1) return Math.min(values, draws);
    return -values * Math.expm1(draws * Math.log1p(-1 / values));
}

function union(keys: readonly KeySpec[], others: readonly KeySpec[]): KeySpec[] {
    const own = new Set(keys.map(({ column }) => column));
    return [...keys, ...others.filter(({ column }) => !own.has(column))];
}

function includesAll(keys: readonly KeySpec[], wanted: readonly KeySpec[]): boolean {
    return wanted.every(({ column }) => keys.some((key) => key.column === column));
}

interface KnownColumns {
    readonly columns: ReadonlySet<number>;
    readonly statistics: KeyStatistics;
}

/** Distinct keys of every node of a query, carried from samples of its inputs through joins and group-bys. */
export class KeyCounts {
    readonly #counts = new Map<LogicalNode, Map<string, number>>();
    readonly #known = new Map<number, KnownColumns[]>();

    public constructor(
        private readonly inputs: readonly InputInfo[],
        statistics: StatisticsById,
        private readonly rows: RowCounts
    ) {
        for (const [id, sample] of statistics) {
            const { input, columns } = columnsOfId(id);
            const known = this.#known.get(input) ?? [];
            known.push({ columns: new Set(columns), statistics: sample });
            this.#known.set(input, known);
        }
    }

    /** Distinct keys among the rows of a node. */
    public distinct(node: LogicalNode, keys: readonly KeySpec[]): number {
        if (keys.length === 0) return Math.min(1, this.rows.givenRows(node));
        const perNode = this.#counts.get(node) ?? new Map<string, number>();
        this.#counts.set(node, perNode);
        const name = [...new Set(keys.map(({ column }) => column))].sort((a, b) => a - b).join();
        const known = perNode.get(name);
        if (known !== undefined) return known;
        const count = Math.min(this.rows.givenRows(node), this.#count(node, keys));
        perNode.set(name, count);
        return count;
    }

    /** The same of the inputs that they come from. Columns of several inputs may come in all combinations. */
    public ofSources(node: LogicalNode, keys: readonly KeySpec[]): SourceKeys {
        if (node.kind === "input") {
            const distinct = this.#ofInput(node.input, keys);
            return { distinct: distinct ?? node.input.rows, rows: node.input.rows, isKnown: distinct !== undefined };
        }
        if (node.kind === "group") {
            const grouped = groupedKeys(node, keys);
            if (grouped !== undefined) return this.ofSources(node.child, grouped);
            const rows = this.rows.givenRows(node);
            return { distinct: rows, rows, isKnown: false };
        }
        const { left, right } = keysBySide(node, keys);
        if (right.length === 0) return this.ofSources(node.left, left);
        if (left.length === 0) return this.ofSources(node.right, right);
        const [own, others] = [this.ofSources(node.left, left), this.ofSources(node.right, right)];
        return {
            distinct: own.distinct * others.distinct,
            rows: Math.max(own.rows, others.rows),
            isKnown: own.isKnown && others.isKnown
        };
    }

    /** Does no combination of these keys come twice, as far as samples tell? */
    public isUnique(node: LogicalNode, keys: readonly KeySpec[]): boolean {
        if (node.kind === "input") {
            return this.#within(node.input, keys).some(({ statistics }) => looksUnique(statistics));
        }
        if (node.kind === "group") return node.keys.every((_, i) => keys.some(({ column }) => column === i));
        const { left, right } = keysBySide(node, keys);
        if (node.type === "semi" || node.type === "anti") return this.isUnique(node.left, left);
        const follows = (side: Side, own: readonly KeySpec[]): boolean => {
            const other = otherSide(side);
            return this.isUnique(node[other], joinKeys(node, other)) && this.isUnique(node[side], own);
        };
        return follows("left", left) || follows("right", right);
    }

    #count(node: LogicalNode, keys: readonly KeySpec[]): number {
        if (node.kind === "input") return this.#ofInput(node.input, keys) ?? node.input.rows;
        if (node.kind === "join") return this.#ofJoin(node, keys);
        const grouped = groupedKeys(node, keys);
        return grouped === undefined ? this.rows.givenRows(node) : this.distinct(node.child, grouped);
    }

    /**
     * Keys of both sides come in all combinations, of which as many are there as rows can draw, unless the columns of
     * one side follow from those of the other: where its join key is unique, one row of it belongs to a join key.
     */
    #ofJoin(node: JoinNode, keys: readonly KeySpec[]): number {
        const { left, right } = keysBySide(node, keys);
        const either = keys.some(({ column }) => node.columns[column]?.side === "either");
        if (either) return this.#ofEither(node, keys);
        if (right.length === 0) return this.#kept(node, "left", left);
        if (left.length === 0) return this.#kept(node, "right", right);
        const combinations = this.#kept(node, "left", left) * this.#kept(node, "right", right);
        const drawn = drawnValues(combinations, this.rows.givenRows(node));
        if (keys.length > dependenciesOfKeysMax) return drawn;
        const following = (side: Side, own: readonly KeySpec[]): number => {
            const other = otherSide(side);
            if (!this.isUnique(node[other], joinKeys(node, other))) return Infinity;
            return this.#kept(node, side, union(own, joinKeys(node, side)));
        };
        return Math.min(drawn, following("left", left), following("right", right));
    }

    /** Key columns of a full join: the values of both sides, those of the right one as far as they have no partner. */
    #ofEither(node: JoinNode, keys: readonly KeySpec[]): number {
        const { left } = keysBySide(node, keys);
        const right = keys.flatMap((key) => {
            const from = node.columns[key.column];
            return from === undefined || from.side === "left" ? [] : [{ ...key, column: from.right }];
        });
        const keysOf = (side: Side): number => this.distinct(node[side], joinKeys(node, side));
        const matched = Math.min(1, keysOf("left") / Math.max(1, keysOf("right")));
        return this.distinct(node.left, left) + this.distinct(node.right, right) * (1 - matched);
    }

    /**
     * What a join leaves of a side's keys. Rows of a join key stay or go together, and so do the keys that contain it;
     * others are there as long as one of their rows is (Cardenas, CACM 1975).
     */
    #kept(node: JoinNode, side: Side, keys: readonly KeySpec[]): number {
        const child = node[side];
        const distinct = this.distinct(child, keys);
        const share = this.rows.keptShare(node, side);
        if (share >= 1 || distinct === 0) return distinct;
        if (includesAll(keys, joinKeys(node, side))) return distinct * share;
        const perKey = Math.max(1, this.rows.givenRows(child) / distinct);
        return distinct * (1 - (1 - share) ** perKey);
    }

    #within(input: InputInfo, keys: readonly KeySpec[]): KnownColumns[] {
        const columns = new Set(keys.map(({ column }) => column));
        const known = this.#known.get(this.inputs.indexOf(input)) ?? [];
        return known.filter((one) => [...one.columns].every((column) => columns.has(column)));
    }

    /**
     * Distinct keys of an input; undefined: not known. Columns that were not sampled together have at most as many
     * values as all combinations of those that were, and no more than more columns have.
     */
    #ofInput(input: InputInfo, keys: readonly KeySpec[]): number | undefined {
        const rows = Math.max(1, input.rows);
        const all = this.#known.get(this.inputs.indexOf(input)) ?? [];
        const missing = new Set(keys.map(({ column }) => column));
        const wanted = missing.size;
        const largest = (a: KnownColumns, b: KnownColumns): number => b.columns.size - a.columns.size;
        const within = this.#within(input, keys).sort(largest);
        if (within[0]?.columns.size === wanted) return distinctKeys(within[0].statistics);
        let combinations = 1;
        for (const { columns, statistics } of within) {
            if (![...columns].every((column) => missing.has(column))) continue;
            for (const column of columns) missing.delete(column);
            combinations *= Math.max(1, distinctKeys(statistics));
        }
        const more = all.filter(({ columns }) => keys.every(({ column }) => columns.has(column)));
        const most = Math.min(...more.map(({ statistics }) => distinctKeys(statistics)), rows);
        if (missing.size > 0) return more.length === 0 ? undefined : most;
        return Math.min(combinations, most);
    }
}
