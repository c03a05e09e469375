// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import { isVariable, rowNumberColumn, type ColumnType, type KeySpec, type NullKeys } from "../model/column-type.js";
import { largestRowBytes } from "../model/row-size.js";
import {
    inputsOf,
    limitOf,
    otherSide,
    type InputInfo,
    type JoinNode,
    type LogicalNode,
    type Side
} from "../plan/logical.js";
import { KeyCounts, type SourceKeys } from "./key-counts.js";
import type { Policy } from "./policy.js";
import {
    joinKeys,
    keyParts,
    repeatsTolerated,
    sharedRange,
    statisticsId,
    traceKeys,
    type KeyStatistics,
    type SampledPairs,
    type StatisticsById
} from "./statistics.js";

/** Mean bytes of one value: in the row, and in the heap behind the rows (above 0 for values of variable length). */
export interface ValueWidth {
    fixed: number;
    heap: number;
    /** Dictionaries: of the heap where a key stands for its value. */
    decodedHeap?: number;
}

export interface Estimate {
    rows: number;
    /** The rows are counted, not guessed. */
    exact: boolean;
    widths: ValueWidth[];
}

const reference = 8; // VarRef: distance and length

function fixedWidth(type: ColumnType): ValueWidth {
    switch (type.layout) {
        case "null":
            return { fixed: 0, heap: 0 };
        case "bool":
            return { fixed: 1, heap: 0 };
        case "dictionary":
            return { fixed: 4, heap: 0 };
        default:
            return { fixed: type.byteWidth, heap: 0 };
    }
}

/** Bytes per value in an input beside the value itself: offsets and views. */
function descriptorBytes(type: ColumnType): number {
    if (type.layout === "binary") return type.byteWidth;
    return type.layout === "view" ? 16 : 0;
}

function inputWidths(input: InputInfo, policy: Policy): ValueWidth[] {
    return input.columns.map(({ type }, i) => {
        if (type.layout === "dictionary") {
            // Entries may be used unequally often: a plan that relies on this must have a way out.
            const mean = (input.dictionaryBytes[i] ?? 0) / Math.max(1, input.dictionaryRows[i] ?? 0);
            return { ...fixedWidth(type), decodedHeap: input.streamed ? policy.unknownValueBytes : mean };
        }
        if (!isVariable(type)) return fixedWidth(type);
        if (input.streamed) return { fixed: reference, heap: policy.unknownValueBytes };
        const mean = (input.columnBytes[i] ?? 0) / Math.max(1, input.rows);
        return { fixed: reference, heap: Math.max(1, mean - descriptorBytes(type)) };
    });
}

/** Estimates of every node of one query, from headers, samples and hints. */
export class Estimator {
    readonly #known = new Map<LogicalNode, Estimate>();
    readonly #perMatch = new Map<JoinNode, number>();
    readonly #inputs: readonly InputInfo[];
    readonly #keys: KeyCounts;

    public constructor(
        root: LogicalNode,
        private readonly statistics: StatisticsById,
        private readonly policy: Policy,
        /** Number of groups was tried and found too small: every row may be a group. */
        private readonly manyGroups = false
    ) {
        this.#inputs = inputsOf(root);
        this.#keys = new KeyCounts(this.#inputs, statistics, {
            givenRows: (node) => this.givenRows(node),
            keptShare: (node, side) => this.#keptShare(node, side)
        });
    }

    public of(node: LogicalNode): Estimate {
        const known = this.#known.get(node);
        if (known !== undefined) return known;
        const estimate = this.#make(node);
        this.#known.set(node, estimate);
        return estimate;
    }

    /** Rows that readers of the node get: no more than its limit. */
    public givenRows(node: LogicalNode): number {
        return Math.min(this.of(node).rows, limitOf(node));
    }

    public statisticsOf(node: LogicalNode, keys: readonly KeySpec[]): KeyStatistics | undefined {
        const traced = traceKeys(node, keys);
        if (traced === undefined) return undefined;
        return this.statistics.get(statisticsId(this.#inputs, traced.input, traced.keys));
    }

    /** Distinct keys among the rows of a node; without a sample every row of an input is taken for a key of its own. */
    public distinct(node: LogicalNode, keys: readonly KeySpec[]): number {
        return this.#keys.distinct(node, keys);
    }

    /**
     * Share of a side's rows that have a partner: by sampled pairs, else the smaller one of what the ranges of both
     * sides' keys have in common and what their numbers of keys allow. Sparse keys say no more than that; a hint for
     * the result does.
     */
    public matchRatio(node: JoinNode, side: Side): number {
        const share = this.#matchShare(node, side);
        if (node.hints.resultRows !== undefined && node.type === "inner") return share;
        const statistics = this.statisticsOf(node[side], joinKeys(node, side));
        const others = this.statisticsOf(node[otherSide(side)], joinKeys(node, otherSide(side)));
        if (statistics === undefined || others === undefined || this.#sampledPairs(node) !== undefined) return share;
        return Math.min(share, sharedRange(statistics, others));
    }

    /**
     * What `matchRatio` may be at most for all that samples of both sides say.
     *
     * Samples of s of L rows and s of R show a share f = s^2 / (L R) of all pairs: m f A of them for a share m of the
     * rows and A pairs if all had a partner. Their number is Poisson distributed, so that two standard deviations are
     * 2 sqrt(m f A), one more pair for where none was seen; of 2^28 rows of which each has a partner 64 are seen, and
     * the ratio is 1 give or take 0.25. Rows of a frequent key say nothing, as that key is in the other sample or is
     * not: those whose key came again in the sample of this side may all have a partner.
     */
    public matchRatioMost(node: JoinNode, side: Side): number {
        const estimate = this.matchRatio(node, side);
        const sampled = node.left.kind === "input" && node.right.kind === "input" && this.#sampledPairs(node);
        if (!sampled || (node.hints.resultRows !== undefined && node.type === "inner")) return estimate;
        const { pairs, shown } = sampled;
        const keys = joinKeys(node, side);
        const perKey = this.givenRows(node[otherSide(side)]) / Math.max(1, this.#otherKeys(node, side));
        const allPairs = Math.max(1, this.givenRows(node[side]) * Math.max(1, perKey));
        const doubt = (2 * Math.sqrt(pairs * shown + 1)) / (allPairs * shown);
        const { sampledRows = 0, sampledDistinct = 0 } = this.statisticsOf(node[side], keys) ?? {};
        return Math.min(1, estimate + doubt + 1 - sampledDistinct / Math.max(1, sampledRows));
    }

    /**
     * Rows of a join's result for each row of one of its sides, whatever operators below have made of that side: what
     * a probe row becomes in a chain of joins whose keys all come from the probe input, in any order of them. For
     * semi and anti joins the side is the left one.
     */
    public rowsPerRow(node: JoinNode, side: Side): number {
        const matched = this.givenRows(node[otherSide(side)]) / this.#pairsPerMatch(node);
        switch (node.type) {
            case "semi":
                return this.#matchShare(node, side);
            case "anti":
                return 1 - this.#matchShare(node, side);
            case "inner":
                return matched;
            default: {
                const keepsAll = node.type === "full" || node.type === side;
                return keepsAll ? Math.max(1, matched + 1 - this.#matchShare(node, side)) : matched;
            }
        }
    }

    #otherKeys(node: JoinNode, side: Side): number {
        const other = otherSide(side);
        return Math.max(1, this.distinct(node[other], joinKeys(node, other)));
    }

    /** Share of a side's rows that have a partner among those that the other side's operators have left. */
    #matchShare(node: JoinNode, side: Side): number {
        return Math.min(1, this.#otherKeys(node, side) / this.#pairsPerMatch(node));
    }

    /** Share of a side's rows that a join leaves. */
    #keptShare(node: JoinNode, side: Side): number {
        if (node.type === "full" || node.type === side) return 1;
        const matched = this.#matchShare(node, side);
        return node.type === "anti" ? 1 - matched : matched;
    }

    /**
     * Of how many pairs of a left and a right row one has equal keys. It is that of the inputs that the keys come from,
     * as long as what operators below leave or repeat goes by other columns: the larger number of distinct keys (System
     * R), which takes it that the side of fewer keys has no others, or what samples of both sides showed. Keys of
     * several inputs are equal independently of each other.
     */
    #pairsPerMatch(node: JoinNode): number {
        const known = this.#perMatch.get(node);
        if (known !== undefined) return known;
        const found = this.#makePairsPerMatch(node);
        this.#perMatch.set(node, found);
        return found;
    }

    #makePairsPerMatch(node: JoinNode): number {
        if (node.hints.resultRows !== undefined && node.type === "inner") {
            const all = this.givenRows(node.left) * this.givenRows(node.right);
            return Math.max(1, all) / node.hints.resultRows;
        }
        const [first, ...others] = keyParts(node).map((keys) => {
            const of = (side: Side): SourceKeys =>
                this.#keys.ofSources(
                    node[side],
                    keys.map((key) => key[side])
                );
            const [left, right] = [of("left"), of("right")];
            return { keys: Math.max(1, distinctIn(left, right), distinctIn(right, left)), left, right };
        });
        if (first === undefined) return 1;
        const sampled = this.#sampledPairs(node);
        if (sampled !== undefined) {
            const { left, right, keys } = first;
            return Math.max(uniqueKeys(left), uniqueKeys(right), corrected(keys, sampled, left.rows * right.rows));
        }
        return others.reduce((product, { keys }) => product * keys, first.keys);
    }

    /** Pairs of rows of the inputs that both sides' keys come from, if they were sampled. */
    #sampledPairs({ left, right, keys }: JoinNode): SampledPairs | undefined {
        const own = this.statisticsOf(
            left,
            keys.map((key) => key.left)
        );
        const other = traceKeys(
            right,
            keys.map((key) => key.right)
        );
        return other && own?.pairs?.[statisticsId(this.#inputs, other.input, other.keys)];
    }

    #make(node: LogicalNode): Estimate {
        if (node.kind === "input") {
            return { rows: node.input.rows, exact: !node.input.streamed, widths: inputWidths(node.input, this.policy) };
        }
        if (node.kind === "join") {
            const left = this.of(node.left);
            const right = this.of(node.right);
            const widths = node.columns.map((column) => {
                const from = column.side === "right" ? right.widths[column.right] : left.widths[column.left];
                return from ?? fixedWidth(column.type);
            });
            return { rows: node.hints.resultRows ?? this.#joinRows(node), exact: false, widths };
        }
        const child = this.of(node.child);
        const widths = node.columns.map((column, i) => {
            const from = i < node.keys.length ? node.keys[i]?.column : node.aggregates[i - node.keys.length]?.column;
            return isVariable(column.type) || column.type.layout === "dictionary"
                ? (child.widths[from ?? -1] ?? fixedWidth(column.type))
                : fixedWidth(column.type);
        });
        const estimated = node.keys.length === 0 ? 1 : this.distinct(node.child, node.keys);
        const groups =
            this.manyGroups && node.keys.length > 0 ? this.givenRows(node.child) : (node.hints.groups ?? estimated);
        return { rows: groups, exact: node.keys.length === 0, widths };
    }

    /** Pairs of rows, then what the join type keeps or drops. */
    #joinRows(node: JoinNode): number {
        const left = this.givenRows(node.left);
        const right = this.givenRows(node.right);
        const pairs = Math.ceil((left * right) / this.#pairsPerMatch(node));
        // These go by numbers of keys, as the pairs do, because ranges say little of keys that are not spread evenly.
        const alone = {
            left: Math.ceil(left * (1 - this.#matchShare(node, "left"))),
            right: Math.ceil(right * (1 - this.#matchShare(node, "right")))
        };
        switch (node.type) {
            case "inner":
                return pairs;
            case "left":
                return Math.max(left, pairs + alone.left);
            case "right":
                return Math.max(right, pairs + alone.right);
            case "full":
                return Math.max(left, right, pairs + alone.left + alone.right);
            case "semi":
                return Math.ceil(left * this.#matchShare(node, "left"));
            case "anti":
                // The largest of these is taken, because a join whose result is larger than planned runs once more.
                return Math.max(
                    Math.ceil(left / 10),
                    left - pairs,
                    Math.ceil(left * (1 - this.matchRatio(node, "left")))
                );
        }
    }
}

/**
 * Keys of a side that were not sampled: of the larger one they refer to those of the other one if these are unique, as
 * rows of facts do to a dimension; else they are taken for unique themselves.
 */
function distinctIn(own: SourceKeys, other: SourceKeys): number {
    const isDimension = own.rows > other.rows && other.distinct >= other.rows * (1 - repeatsTolerated);
    return own.isKnown || !isDimension ? own.distinct : Math.min(own.distinct, other.distinct);
}

/** Keys of a side of which each comes once, so that no row of the other side has two partners; else 1. */
function uniqueKeys({ distinct, rows, isKnown }: SourceKeys): number {
    return isKnown && distinct >= rows * (1 - repeatsTolerated) ? distinct : 1;
}

/** What numbers of keys tell weighs as much as so many pairs that are drawn one by one. */
const priorPairs = 4;
/**
 * Where no pair was seen at all, this share of those that were expected counts: relations may be sorted alike, so that
 * pieces of 32 rows (native/executor/cpu/key_statistics.cpp) that have keys of each other share half of them.
 */
const unseenShare = 1 / 16;

/**
 * What numbers of keys tell of pairs, by what samples of both sides showed: the mean of a gamma distribution, the
 * conjugate prior of Poisson distributed numbers. Pairs of the same two pieces count as one, since keys that lie
 * together in both relations are seen together or not at all.
 */
function corrected(pairsPerMatch: number, { pairs, pieces, shown }: SampledPairs, allPairs: number): number {
    const drawn = pairs > 0 ? pieces / (pairs * shown) : unseenShare;
    const expected = (allPairs / pairsPerMatch) * shown * drawn;
    return Math.max(1, (pairsPerMatch * (priorPairs + expected)) / (priorPairs + pieces));
}

function isBytesKey(key: KeySpec): boolean {
    return key.kind === "bytes" || (key.kind === "dictionaryValue" && key.kindOfValue === "bytes");
}

function packedKeyBytes(keys: readonly KeySpec[]): number | undefined {
    return keys.some(isBytesKey) ? undefined : keys.reduce((sum, key) => sum + key.width, 0);
}

function keyIsInvertible(key: KeySpec): boolean {
    return ["integer", "fixedBytes", "inlineBytes", "dictionaryIndex"].includes(key.kind);
}

/**
 * Bytes of one row (multiple of 8) and of its heap, on average; follows RowLayout::make in native/model/row_layout.cpp
 * closely enough to plan with. The true width comes back with the sizes of the pass.
 */
export function rowWidth(
    columns: readonly ColumnType[],
    widths: readonly ValueWidth[],
    keys: readonly KeySpec[],
    carry: readonly number[],
    nullKeys: NullKeys,
    carryBytes: readonly number[] = []
): ValueWidth {
    const packed = packedKeyBytes(keys);
    // A bit for each key tells NULLs, which are equal, from zeros.
    const maskBytes = nullKeys === "equal" ? Math.ceil(keys.length / 8) : 0;
    const isWord = packed !== undefined && packed + maskBytes <= 8;
    let fixed = 8;
    let heap = 0;
    if (!isWord) {
        for (const key of keys) {
            const isBytes = isBytesKey(key);
            fixed += isBytes ? reference : key.width;
            const width = widths[key.column];
            if (isBytes) heap += (key.kind === "bytes" ? width?.heap : width?.decodedHeap) ?? 0;
        }
        fixed = Math.ceil((fixed + maskBytes) / 8) * 8;
    }
    let nullBits = 0;
    for (const [i, column] of carry.entries()) {
        if (column === rowNumberColumn) {
            fixed += 8;
            continue;
        }
        if (columns[column]?.nullable) nullBits++;
        const key = keys.find((candidate) => candidate.column === column);
        if (key !== undefined && keyIsInvertible(key)) continue;
        const inlineBytes = key === undefined ? (carryBytes[i] ?? 0) : 0;
        fixed += inlineBytes > 0 ? inlineBytes : (widths[column]?.fixed ?? 8);
        if (key === undefined && inlineBytes === 0) heap += widths[column]?.heap ?? 0;
    }
    const rowBytes = Math.ceil((fixed + Math.ceil(nullBits / 8)) / 8) * 8;
    if (rowBytes > largestRowBytes) throw rowTooWide(columns, keys, carry, rowBytes);
    return { fixed: rowBytes, heap };
}

/** The engine's own limit (RowLayout::make in native/model/row_layout.cpp), before memory is planned for such rows. */
function rowTooWide(
    columns: readonly ColumnType[],
    keys: readonly KeySpec[],
    carry: readonly number[],
    rowBytes: number
): SpillwayError {
    const used = [...new Set([...keys.map((key) => key.column), ...carry])].flatMap((column) => columns[column] ?? []);
    const widest = used
        .map((type) => ({ name: type.name, bytes: isVariable(type) ? reference : fixedWidth(type).fixed }))
        .sort((a, b) => b.bytes - a.bytes);
    const names = widest.slice(0, 3).map(({ name, bytes }) => `\`${name}\` (${bytes} bytes)`);
    return new SpillwayError(
        "UNSUPPORTED_TYPE",
        `A row of the ${used.length} columns that this query needs takes ${rowBytes} bytes beside its values of ` +
            `variable length, more than the ${largestRowBytes} that a row may take; the widest are ` +
            `${names.join(", ")}: name the columns that you need with \`select\``,
        { column: widest[0]?.name ?? "", rowBytes, largestRowBytes, columns: used.length }
    );
}

/** Mean bytes of an Arrow row of these columns. */
export function arrowRowBytes(widths: readonly ValueWidth[]): number {
    return widths.reduce((sum, width) => sum + width.fixed + width.heap, 0);
}
