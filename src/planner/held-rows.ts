// SPDX-License-Identifier: Apache-2.0
import type { ColumnType } from "../model/column-type.js";
import { formatBytes, sumOf } from "../model/sizes.js";
import { innerOperators, prunedTree, type OperatorNode } from "../plan/inner-operators.js";
import { inputsOf, limitOf, logicalSchema, resultTypes, type InputInfo, type LogicalNode } from "../plan/logical.js";
import type { Plan } from "../plan/plan.js";
import type { HeldRows } from "../plan/stage.js";
import { attempt, nearest, NotOnDevice, settled } from "./device-support.js";
import { arrowRowBytes, Estimator } from "./estimates.js";
import type { PlanQuery } from "./plan-search.js";
import { defaultPolicy } from "./policy.js";
import type { StatisticsById } from "./statistics.js";
import { hostBytes } from "./streaming/host-memory.js";

/** A part of a query that is one stage beyond GPU memory. */
export interface QueryPart {
    /** Its root, with rows of other parts in place of operators; its statistics, by the numbers of its own inputs. */
    readonly query: PlanQuery;
    /** Numbers of its inputs among those of the whole query, behind which the rows of parts have theirs. */
    readonly inputs: readonly number[];
    /** What later parts read of it; left out: it gives the result. */
    readonly held?: HeldPart;
}

interface HeldPart {
    /** Number of its root among the inner operators of the query. */
    readonly operator: number;
    /** Bytes of its rows, as far as estimates go. */
    readonly bytes: number;
    /** They are made of streams, of which estimates say nothing. */
    readonly guessed: boolean;
    /** They go to disk where host memory has no room for them. */
    readonly onDisk: boolean;
}

/** Groups in host memory may turn out to be so much more than was estimated, rows of a join any number. */
const heldFactor = 3;
const heldBytesMin = { group: 2 ** 20, join: 2 ** 26 };
/** No more of the host's memory is for them. */
const heldShareMax = 1 / 2;
/** What they have where stages lack memory for all else; most of them is on disk then. */
export const heldShareLeast = 1 / 16;

/**
 * Held rows as a relation: as many as are expected, of which no more can come than `bytesMax` hold. `inMemory`: all of
 * them stay there.
 */
function heldInput(
    node: OperatorNode,
    name: string,
    estimator: Estimator,
    { bytesMax, inMemory }: { bytesMax: number; inMemory: boolean }
): InputInfo {
    const schema = logicalSchema(node);
    const { widths } = estimator.of(node);
    const rows = Math.min(estimator.givenRows(node), Math.ceil(bytesMax / Math.max(1, arrowRowBytes(widths))));
    const none = node.columns.map(() => 0);
    const types = resultTypes(node);
    return {
        ...{ name, rows: Math.ceil(rows), dictionaryBytes: none, dictionaryRows: none },
        columns: schema.fields.map((field, at) => {
            return { name: field.name, field, type: types[at] as ColumnType, origin: null };
        }),
        columnBytes: widths.map(({ fixed, heap }) => Math.ceil(rows * (fixed + heap))),
        largestBatchRows: Math.ceil(rows),
        ...{ inMemory, streamed: false, source: { kind: "held", schema } }
    };
}

/**
 * The tree with these relations in place of operators. What is known of the keys of rows that a join gave is lost by
 * that: the operators above are told what was estimated with it.
 */
function withInputs(node: LogicalNode, held: ReadonlyMap<LogicalNode, InputInfo>, estimator: Estimator): LogicalNode {
    const input = held.get(node);
    if (input !== undefined) return { kind: "input", input, columns: input.columns };
    if (node.kind === "input") return node;
    const own = withInputsBelow(node, held, estimator);
    if (!innerOperators(node).some((below) => below.kind === "join" && held.has(below))) return own;
    const rows = Math.ceil(estimator.of(node).rows);
    return own.kind === "group"
        ? { ...own, hints: { groups: rows, ...own.hints } }
        : { ...own, hints: { resultRows: rows, ...own.hints } };
}

function withInputsBelow(
    node: OperatorNode,
    held: ReadonlyMap<LogicalNode, InputInfo>,
    estimator: Estimator
): OperatorNode {
    if (node.kind === "group") return { ...node, child: withInputs(node.child, held, estimator) };
    const left = withInputs(node.left, held, estimator);
    return { ...node, left, right: withInputs(node.right, held, estimator) };
}

/** Statistics by the numbers that inputs have in a part of the query. */
function renumbered(statistics: StatisticsById, from: readonly InputInfo[], to: readonly InputInfo[]): StatisticsById {
    const idOf = (id: string): string | undefined => {
        const [number = "", ...keys] = id.split(":");
        const at = to.indexOf(from[Number(number)] as InputInfo);
        return at < 0 ? undefined : [at, ...keys].join(":");
    };
    const made = new Map<string, typeof statistics extends ReadonlyMap<string, infer T> ? T : never>();
    for (const [id, { pairs, ...known }] of statistics) {
        const own = idOf(id);
        if (own === undefined) continue;
        const others = Object.entries(pairs ?? {}).flatMap(([other, count]) => {
            const its = idOf(other);
            return its === undefined ? [] : [[its, count] as const];
        });
        made.set(own, others.length === 0 ? known : { ...known, pairs: Object.fromEntries(others) });
    }
    return made;
}

/**
 * The parts of a query in the order in which they run: one for each group-by below another operator, one for each of
 * the joins with these numbers, and the rest.
 */
export function partsOf(query: PlanQuery, heldJoins: ReadonlySet<number> = new Set()): QueryPart[] {
    const { statistics } = query;
    const isPruned = heldJoins.size > 0 || innerOperators(query.root).some(({ kind }) => kind === "group");
    const root = isPruned ? prunedTree(query.root, query.sink === "count") : query.root;
    const all = inputsOf(root);
    const estimator = new Estimator(root, statistics, query.policy ?? defaultPolicy, query.tableFull);
    const held = new Map<LogicalNode, InputInfo>();
    const relations = [...all];
    const part = (node: LogicalNode, more: { held?: HeldPart } = {}): QueryPart => {
        const below = new Map([...held].filter(([one]) => one !== node));
        const own = withInputs(node, below, estimator);
        const inputs = inputsOf(own);
        const renamed = { root: own, statistics: renumbered(statistics, all, inputs) };
        const isHeld = more.held !== undefined;
        const sink = isHeld ? "table" : query.sink;
        const numbers = inputs.map((one) => relations.indexOf(one));
        return { query: { ...query, ...renamed, sink, isHeld }, inputs: numbers, ...more };
    };
    const parts = innerOperators(root).flatMap((node, operator) => {
        if (node.kind === "join" && !heldJoins.has(operator)) return [];
        const { widths } = estimator.of(node);
        const rows = estimator.givenRows(node);
        const guessed = inputsOf(node).some(({ streamed }) => streamed);
        const onDisk = query.heldOnDisk === "all" || (query.heldOnDisk === "streams" && guessed);
        const made = part(node, { held: { operator, bytes: rows * arrowRowBytes(widths), guessed, onDisk } });
        const name = `${node.kind === "group" ? "groups" : "rows"} ${held.size}`;
        // Estimates of streams say nothing: theirs are no more than memory may have.
        const bytesMax = onDisk && !guessed ? Infinity : query.budgetBytes * heldShareMax;
        const input = heldInput(node, name, estimator, { bytesMax, inMemory: !onDisk });
        held.set(node, input);
        relations.push(input);
        return [made];
    });
    if (parts.length === 0) return [{ query, inputs: all.map((_, at) => at) }];
    return [...parts, part(root)];
}

type HeldLimit = Pick<HeldRows, "limitBytes" | "diskBytes">;

/**
 * Host memory for the rows of each part that are held: no more than that may come, but for what goes to disk. Throws
 * NotOnDevice where they are expected to be more, and do not.
 */
export function heldLimits(parts: readonly QueryPart[], host: Plan): (HeldLimit | undefined)[] {
    const count = parts.filter(({ held }) => held !== undefined).length;
    const share = parts[0]?.query.heldShare ?? heldShareMax;
    const most = Math.max(0, (hostBytes(host) * share) / Math.max(1, count));
    return parts.map(({ held, query }) => {
        if (held === undefined) return undefined;
        const isGroup = query.root.kind === "group";
        const wished = isGroup ? heldFactor * held.bytes + heldBytesMin.group : Infinity;
        const limitBytes = Math.floor(Math.min(most, wished));
        if (held.onDisk) {
            // What is expected of a stream stays in memory: see its input.
            const diskBytes = held.guessed ? 0 : Math.ceil(Math.max(0, held.bytes - limitBytes));
            return { limitBytes, diskBytes };
        }
        if (held.bytes > most && !held.guessed) {
            const what = isGroup ? "groups" : "rows of a join";
            throw NotOnDevice.lacksHost(
                `${what} that are joined or grouped again need about ${formatBytes(held.bytes)} of host memory, of ` +
                    `which ${formatBytes(most)} are for them`
            );
        }
        return { limitBytes };
    });
}

/** Host memory that the held rows of all parts could use. */
export function mostHeldBytes(parts: readonly QueryPart[]): number {
    const mostOf = ({ query, held }: QueryPart): number =>
        held === undefined ? 0 : heldFactor * held.bytes + heldBytesMin[query.root.kind === "group" ? "group" : "join"];
    return sumOf(parts.map(mostOf));
}

/** Joins below other operators, by their numbers among all operators that are. */
interface InnerJoins {
    readonly all: readonly number[];
    /** Several operators read their rows, or one does twice. */
    readonly shared: readonly number[];
    /**
     * Those of them whose rows are made of streams, which come once, and those of which only some rows are read: it is
     * their way into host memory that ends there.
     */
    readonly once: ReadonlySet<number>;
}

function innerJoinsOf({ root }: PlanQuery): InnerJoins {
    const inner = innerOperators(root);
    const readers = [...inner, root].flatMap((node) =>
        node.kind === "join" ? [node.left, node.right] : node.kind === "group" ? [node.child] : []
    );
    const all = inner.flatMap((node, at) => (node.kind === "join" ? [at] : []));
    const shared = all.filter((at) => readers.filter((read) => read === inner[at]).length > 1);
    const held = all.filter((at) => {
        const node = inner[at] as OperatorNode;
        return limitOf(node) < Infinity || (shared.includes(at) && isOfStreams(node));
    });
    return { all, shared, once: new Set(held) };
}

/** Do rows of streams get there, other than by way of groups? */
function isOfStreams(node: LogicalNode): boolean {
    if (node.kind === "input") return node.input.streamed;
    return node.kind === "join" && (isOfStreams(node.left) || isOfStreams(node.right));
}

/** What was made of the parts of a query with the rows of these joins held. */
interface Made<T> {
    readonly made: T;
    readonly held: ReadonlySet<number>;
}

/**
 * What `make` makes of the parts of a query. Rows of joins go to the operator above in GPU memory wherever it can take
 * them: none of them is held if that works, else as few as do, the largest ones last. Those that several operators
 * read are made once, and held, where that `isBetter`, or where they are of streams. Where holding all of them takes
 * too much memory, one may do. Throws NotOnDevice where none of it helps.
 */
export function chooseHeld<T>(
    query: PlanQuery,
    make: (parts: readonly QueryPart[]) => T,
    isBetter: (one: T, other: T) => boolean
): T {
    const { all, shared, once } = innerJoinsOf(query);
    const whole = attempt(() => make(partsOf(query, once)));
    if (whole instanceof NotOnDevice && all.length > once.size) return asFewHeld(query, make, isBetter, whole);
    let best: Made<T> = { made: settled(whole), held: once };
    for (const join of shared.filter((at) => !once.has(at))) {
        const held = new Set([...best.held, join]);
        const made = attempt(() => make(partsOf(query, held)));
        if (!(made instanceof NotOnDevice) && isBetter(made, best.made)) best = { made, held };
    }
    return best.made;
}

/** `whole`: why it does not work with no more of them than those of streams. */
function asFewHeld<T>(
    query: PlanQuery,
    make: (parts: readonly QueryPart[]) => T,
    isBetter: (one: T, other: T) => boolean,
    whole: NotOnDevice
): T {
    const { all, shared, once } = innerJoinsOf(query);
    const apart = partsOf(query, new Set(all));
    const bytesOf = new Map(apart.flatMap(({ held }) => (held === undefined ? [] : [[held.operator, held.bytes]])));
    const others = all.filter((at) => !once.has(at)).sort((a, b) => (bytesOf.get(b) ?? 0) - (bytesOf.get(a) ?? 0));
    const made = attempt(() => make(apart));
    if (made instanceof NotOnDevice) {
        const alone = others.length === 1 ? [] : [...others].reverse();
        for (const join of alone) {
            const one = attempt(() => make(partsOf(query, new Set([...once, join]))));
            if (!(one instanceof NotOnDevice)) return one;
        }
        throw nearest(made, whole);
    }
    let best: Made<T> = { made, held: new Set(all) };
    for (const join of others) {
        const held = new Set([...best.held].filter((other) => other !== join));
        const without = attempt(() => make(partsOf(query, held)));
        if (without instanceof NotOnDevice) continue;
        if (!shared.includes(join) || !isBetter(best.made, without)) best = { made: without, held };
    }
    return best.made;
}
