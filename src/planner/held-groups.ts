// SPDX-License-Identifier: Apache-2.0
import { columnTypeOf } from "../arrow/column-type-of.js";
import { formatBytes, sumOf } from "../model/sizes.js";
import { innerGroups } from "../plan/inner-groups.js";
import { inputsOf, logicalSchema, type GroupNode, type InputInfo, type LogicalNode } from "../plan/logical.js";
import type { Plan } from "../plan/plan.js";
import { NotOnDevice } from "./device-support.js";
import { arrowRowBytes, Estimator } from "./estimates.js";
import type { PlanQuery } from "./plan-search.js";
import { defaultPolicy } from "./policy.js";
import type { StatisticsById } from "./statistics.js";
import { hostBytes } from "./streaming/host-memory.js";

/** A part of a query that is one stage beyond GPU memory. */
export interface QueryPart {
    /** Its root, with groups of other parts in place of group-bys; its statistics, by the numbers of its own inputs. */
    readonly query: PlanQuery;
    /** Numbers of its inputs among those of the whole query, behind which the groups of parts have theirs. */
    readonly inputs: readonly number[];
    /** Bytes of its groups, if later parts read them, as far as estimates go; those of streams say nothing. */
    readonly groupBytes: number | undefined;
}

/** Groups that are held in host memory may turn out to be so much more than was estimated. */
const heldFactor = 3;
const heldBytesMin = 2 ** 20;
/** No more of the host's memory is for them. */
const heldShareMax = 1 / 2;

/** Groups in host memory as a relation. */
function groupsInput(node: GroupNode, name: string, estimator: Estimator): InputInfo {
    const schema = logicalSchema(node);
    const { rows, widths } = estimator.of(node);
    const none = node.columns.map(() => 0);
    return {
        ...{ name, rows: Math.ceil(rows), dictionaryBytes: none, dictionaryRows: none },
        columns: schema.fields.map((field) => ({ name: field.name, field, type: columnTypeOf(field), origin: null })),
        columnBytes: widths.map(({ fixed, heap }) => Math.ceil(rows * (fixed + heap))),
        largestBatchRows: Math.ceil(rows),
        ...{ inMemory: true, streamed: false, source: { kind: "groups", schema } }
    };
}

/** The tree with these relations in place of group-bys. */
function withInputs(node: LogicalNode, groups: ReadonlyMap<LogicalNode, InputInfo>): LogicalNode {
    const input = groups.get(node);
    if (input !== undefined) return { kind: "input", input, columns: input.columns };
    if (node.kind === "input") return node;
    if (node.kind === "group") return { ...node, child: withInputs(node.child, groups) };
    return { ...node, left: withInputs(node.left, groups), right: withInputs(node.right, groups) };
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

/** The parts of a query in the order in which they run: one for each group-by below another operator, and the rest. */
export function partsOf(query: PlanQuery): QueryPart[] {
    const { root, statistics } = query;
    const inner = innerGroups(root);
    const all = inputsOf(root);
    if (inner.length === 0) return [{ query, inputs: all.map((_, at) => at), groupBytes: undefined }];
    const estimator = new Estimator(root, statistics, query.policy ?? defaultPolicy, query.tableFull);
    const groups = new Map<LogicalNode, InputInfo>();
    const relations = [...all];
    const part = (node: LogicalNode, groupBytes: number | undefined): QueryPart => {
        const own =
            node.kind === "group" ? { ...node, child: withInputs(node.child, groups) } : withInputs(node, groups);
        const inputs = inputsOf(own);
        const renamed = { root: own, statistics: renumbered(statistics, all, inputs) };
        const sink = groupBytes === undefined ? query.sink : "table";
        return {
            query: { ...query, ...renamed, sink },
            inputs: inputs.map((one) => relations.indexOf(one)),
            groupBytes
        };
    };
    const parts = inner.map((node, at) => {
        const { rows, widths } = estimator.of(node);
        const made = part(node, rows * arrowRowBytes(widths));
        const input = groupsInput(node, `groups ${at}`, estimator);
        groups.set(node, input);
        relations.push(input);
        return made;
    });
    return [...parts, part(root, undefined)];
}

/**
 * Host memory for the groups of each part that are held, of which no more than that may come. Throws NotOnDevice where
 * they are expected to be more.
 */
export function heldLimits(parts: readonly QueryPart[], host: Plan): (number | undefined)[] {
    const held = parts.filter(({ groupBytes }) => groupBytes !== undefined).length;
    const most = Math.max(0, (hostBytes(host) * heldShareMax) / Math.max(1, held));
    return parts.map(({ groupBytes, query }) => {
        if (groupBytes === undefined) return undefined;
        const isGuessed = inputsOf(query.root).some(({ streamed }) => streamed);
        if (groupBytes > most && !isGuessed) {
            throw new NotOnDevice(
                `groups that are joined or grouped again need about ${formatBytes(groupBytes)} of host memory, of ` +
                    `which ${formatBytes(most)} are for them`
            );
        }
        return Math.floor(Math.min(most, heldFactor * groupBytes + heldBytesMin));
    });
}

/** Host memory that the groups of all parts could use. */
export function mostHeldBytes(parts: readonly QueryPart[]): number {
    return sumOf(
        parts.map(({ groupBytes }) => (groupBytes === undefined ? 0 : heldFactor * groupBytes + heldBytesMin))
    );
}
