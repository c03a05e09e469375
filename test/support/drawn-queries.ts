// SPDX-License-Identifier: Apache-2.0
// Queries drawn from a seed, as descriptions alone: relations, samples of their keys, machine, budget and options.
import * as arrow from "apache-arrow";
import type { DataType } from "apache-arrow";
import { machineInfo } from "../../src/machine/machine.js";
import { deviceGroupAlgorithms, deviceJoinAlgorithms } from "../../src/model/algorithms.js";
import { inputsOf, type InputInfo, type LogicalNode } from "../../src/plan/logical.js";
import type { PlanQuery } from "../../src/planner/plan-query.js";
import { defaultPolicy } from "../../src/planner/policy.js";
import {
    samplingPolicy,
    statisticsId,
    wantedPairs,
    wantedStatistics,
    type KeyStatistics,
    type WantedStatistics
} from "../../src/planner/statistics.js";
import { group, inputNode, join, machine, planQueryOf } from "./planning.js";
import type { Random } from "./random.js";
import { joinTypes } from "./reference.js";

const keyTypes: readonly DataType[] = [
    ...[new arrow.Int32(), new arrow.Int64(), new arrow.Int32(), new arrow.Int64()],
    ...[new arrow.Int16(), new arrow.Uint8(), new arrow.Uint64(), new arrow.Bool(), new arrow.Float64()],
    ...[new arrow.Float32(), new arrow.Utf8(), new arrow.FixedSizeBinary(12), new arrow.Decimal(2, 30, 128)],
    new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32()),
    new arrow.Dictionary(new arrow.Int64(), new arrow.Int16())
];

const numbers: readonly DataType[] = [
    ...[new arrow.Int32(), new arrow.Int64(), new arrow.Float64(), new arrow.Int16(), new arrow.Uint32()],
    ...[new arrow.Int8(), new arrow.Float32(), new arrow.Decimal(2, 30, 128), new arrow.Uint64()]
];

const others: readonly DataType[] = [
    ...[new arrow.Utf8(), new arrow.Binary(), new arrow.Bool(), new arrow.DateDay(), new arrow.FixedSizeBinary(20)],
    ...[new arrow.Float16(), new arrow.Decimal(2, 60, 256), new arrow.Null(), new arrow.TimestampMicrosecond()],
    new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32()),
    new arrow.Dictionary(new arrow.Float64(), new arrow.Int8())
];

const nested: readonly DataType[] = [
    new arrow.List(new arrow.Field("item", new arrow.Int32())),
    new arrow.Struct([new arrow.Field("x", new arrow.Int64()), new arrow.Field("y", new arrow.Utf8())]),
    new arrow.FixedSizeList(3, new arrow.Field("item", new arrow.Float32()))
];

/** What the queries of a theme are drawn from. */
export interface Theme {
    /** Shares of queries whose key is no integer of 32 or 64 bits, and of columns that are no numbers, or nested. */
    readonly strange: number;
    readonly nested: number;
    /** Powers of two between which the rows of a relation lie. */
    readonly rows: readonly [number, number];
    /** Joins and group-bys above each other at most, and the share of group-bys. */
    readonly depth: number;
    readonly groups: number;
    /** Share of operations that name their algorithm for the GPU, and give hints. */
    readonly named: number;
    readonly hinted: number;
    /** Share of relations of which a sample is known, and of keys that repeat. */
    readonly sampled: number;
    readonly repeats: number;
    readonly streamed: number;
    readonly columns: number;
}

export const plainTheme: Theme = {
    ...{ strange: 0.25, nested: 0, rows: [6, 27], depth: 1, groups: 0, named: 0, hinted: 0.15 },
    ...{ sampled: 0.6, repeats: 0.5, streamed: 0, columns: 4 }
};

/** One query and, in a line, what was drawn. */
export interface DrawnQuery {
    readonly query: PlanQuery;
    readonly says: string;
}

const typeName = (type: DataType): string => String(type).replace(/\s+/g, "");

/** Draws the tree of a query from a theme; `says` tells what came out. */
class Draw {
    readonly #said: string[] = [];
    #inputs = 0;

    public constructor(
        private readonly random: Random,
        private readonly theme: Theme,
        /** All relations have keys of these types, so that any two nodes can be joined. */
        private readonly key: readonly DataType[]
    ) {}

    public get says(): string {
        return this.#said.join(" ");
    }

    public input(): LogicalNode {
        const { random, theme, key } = this;
        const id = this.#inputs++;
        const types: Record<string, DataType> = Object.fromEntries(key.map((type, i) => [`k${i}`, type] as const));
        for (let i = random.below(theme.columns + 1); i > 0; --i) types[`c${id}_${i}`] = this.#column();
        // What every aggregate takes.
        types[`v${id}`] = random.pick(numbers.slice(0, 3));
        const rows = Math.floor(2 ** (theme.rows[0] + random.unit() * (theme.rows[1] - theme.rows[0])));
        const shape = {
            ...{ rows, name: `t${id}`, streamed: random.chance(theme.streamed), inMemory: random.chance(0.3) },
            ...{ nullable: random.chance(0.3), textBytes: random.pick([3, 12, 40, 300]) }
        };
        const flags = [shape.streamed && "streamed", shape.inMemory && "memory", shape.nullable && "nullable"];
        const texts = Object.entries(types).map(([name, type]) => `${name}:${typeName(type)}`);
        this.#said.push(`t${id}(${[rows, ...flags.filter(Boolean), shape.textBytes, ...texts].join(" ")})`);
        return inputNode(types, shape);
    }

    public tree(depth: number): LogicalNode {
        if (depth === 0) return this.input();
        return this.random.chance(this.theme.groups) ? this.#group(depth) : this.#join(depth);
    }

    #column(): DataType {
        const { random, theme } = this;
        if (random.chance(theme.nested)) return random.pick(nested);
        return random.pick(random.chance(theme.strange) ? others : numbers);
    }

    #join(depth: number): LogicalNode {
        const { random, theme } = this;
        const left = this.tree(random.chance(0.6) ? depth - 1 : 0);
        const right = this.tree(random.chance(0.3) ? depth - 1 : 0);
        const options = {
            type: random.chance(0.5) ? "inner" : random.pick(joinTypes),
            ...(random.chance(0.15) ? { nullEquality: true } : {}),
            ...(random.chance(theme.named) ? { algorithm: random.pick(deviceJoinAlgorithms) } : {}),
            ...(random.chance(theme.hinted) ? { hints: this.#joinHints() } : {})
        };
        this.#said.push(`join${JSON.stringify(options)}`);
        return join(left, right, { on: this.key.map((_, i) => `k${i}`), suffix: `_${this.#said.length}`, ...options });
    }

    #joinHints(): object {
        const { random } = this;
        const side = random.chance(0.6) ? { buildSide: random.pick(["left", "right"]) } : {};
        return random.chance(0.5) ? { ...side, resultRows: Math.floor(2 ** (30 * random.unit())) } : side;
    }

    #group(depth: number): LogicalNode {
        const { random, theme } = this;
        const child = this.tree(depth - 1);
        const values = child.columns.map(({ name }) => name).filter((name) => /^v\d/.test(name));
        const any = child.columns.map(({ name }) => name).filter((name) => /^[vc]\d/.test(name));
        const aggregates: Record<string, object> = {};
        for (let i = random.between(1, 4); i > 0; --i) {
            const kind = random.pick(["sum", "mean", "min", "max", "count", "count", "first", "countDistinct", "any"]);
            const free = kind === "count" || kind === "first" || kind === "any";
            const column = kind === "count" && random.chance(0.6) ? "*" : random.pick(free ? any : values);
            aggregates[`v${this.#said.length}_${i}`] = { [kind]: column };
        }
        // Without all of the keys it could not be joined to anything.
        const keys = depth === theme.depth && random.chance(0.2) ? [] : this.key.map((_, i) => `k${i}`);
        const options = {
            ...{ keys, aggregates },
            ...(random.chance(theme.named) ? { algorithm: random.pick(deviceGroupAlgorithms) } : {}),
            ...(random.chance(theme.hinted) ? { hints: { groups: Math.floor(2 ** (28 * random.unit())) } } : {})
        };
        this.#said.push(`group${JSON.stringify(options)}`);
        return group(child, options);
    }
}

/** A sample of so many rows as the planner asks for, of keys that all differ or of fewer values. */
function sampleOf(random: Random, theme: Theme, { input, keys, sampleRows }: WantedStatistics): KeyStatistics {
    const { rows } = input;
    const nulls = random.chance(0.3) ? Math.floor(rows * random.unit() * 0.5) : 0;
    const sampledRows = Math.min(sampleRows, rows - nulls);
    const repeats = random.chance(theme.repeats);
    const sampledDistinct = repeats ? Math.ceil(sampledRows * random.unit() ** 2) : sampledRows;
    const integers = keys.length === 1 && keys[0]!.kind === "integer" && random.chance(0.9);
    const range = rows * random.pick([1, 1, 1, 1.1, 3, 7, 20, 1000]);
    const min = BigInt(Math.floor(random.pick([0, 0, -range / 2, range / 3])));
    return {
        ...{ rows, nulls, sampledRows, sampledDistinct },
        min: integers ? min : null,
        max: integers ? min + BigInt(Math.max(0, Math.floor(range) - 1)) : null,
        heaviestShare: repeats && random.chance(0.4) ? random.unit() * 0.6 : 1 / Math.max(1, rows)
    };
}

/** Samples of the keys that the planner asks for, and of pairs of keys, each known or not. */
function samplesOf(random: Random, theme: Theme, root: LogicalNode): Map<string, KeyStatistics> {
    const policy = samplingPolicy(defaultPolicy, {}, random.chance(0.8));
    const found = new Map<string, KeyStatistics>();
    for (const wanted of wantedStatistics(root, policy)) {
        if (random.chance(theme.sampled)) found.set(wanted.id, sampleOf(random, theme, wanted));
    }
    const inputs = inputsOf(root);
    for (const { left, right, sampleRows } of wantedPairs(root, policy)) {
        const [of, other] = [left, right].map(({ input, keys }) => statisticsId(inputs, input, keys));
        const known = found.get(of!);
        if (known === undefined || !found.has(other!) || !random.chance(0.7)) continue;
        const pairs = Math.floor(Math.min(left.input.rows, right.input.rows) * random.unit() ** 2 * 4);
        const shareOf = ({ rows }: InputInfo): number => Math.min(1, sampleRows / Math.max(1, rows));
        const shown = shareOf(left.input) * shareOf(right.input);
        const pieces = Math.round(pairs * shown);
        found.set(of!, { ...known, pairs: { ...known.pairs, [other!]: { pairs, pieces, shown } } });
    }
    return found;
}

/** A machine of 1 to 64 cores. */
function machineOf(random: Random): Pick<PlanQuery, "machine" | "threads"> {
    const threads = random.pick([1, 2, 4, 4, 16, 64]);
    const l2Bytes = random.pick([2 ** 18, 2 ** 20, 2 ** 21]);
    const l3Bytes = random.pick([0, 2 ** 24, 2 ** 28]);
    return { machine: machineInfo({ ...machine, cores: threads, physicalCores: threads, l2Bytes, l3Bytes }), threads };
}

/** Flags that mean another try after an estimate was found wrong, and what the GPU is known for. */
function flagsOf(random: Random): Partial<PlanQuery> {
    const flags: Partial<PlanQuery> = {};
    if (random.chance(0.07)) flags.tableFull = true;
    if (random.chance(0.07)) flags.setFull = true;
    if (random.chance(0.07)) flags.notDense = true;
    if (random.chance(0.1)) flags.plainDevice = true;
    if (random.chance(0.3)) flags.measuredDevice = true;
    if (random.chance(0.3)) flags.multiprocessors = random.pick([16, 78, 132]);
    if (random.chance(0.1)) flags.batchRows = random.pick([1, 1000, 1_000_000]);
    return flags;
}

/** Draws a query. `more`: what is not to be drawn. */
export function drawQuery(random: Random, theme: Theme, more: Partial<PlanQuery> = {}): DrawnQuery {
    const strange = random.chance(theme.strange);
    const pick = (): DataType => random.pick(strange ? keyTypes : keyTypes.slice(0, 2));
    const draw = new Draw(random, theme, strange && random.chance(0.3) ? [pick(), pick()] : [pick()]);
    const root = draw.tree(theme.depth);
    const statistics = samplesOf(random, theme, root);
    const sink = random.pick(["batches", "count", "table", "file"] as const);
    const budgetBytes = Math.floor(2 ** random.between(24, 38));
    const rest = { sink, budgetBytes, ...machineOf(random), ...flagsOf(random), ...more };
    const { machine: has, profile: _, ...told } = rest;
    const samples = [...statistics].map(([id, { min, max, ...sample }]) => ({
        id,
        ...sample,
        range: `${min}..${max}`
    }));
    const facts = { ...told, l2: has.l2Bytes, l3: has.l3Bytes, samples };
    const plainNumbers = (_: string, value: unknown): unknown => (typeof value === "bigint" ? Number(value) : value);
    const says = `${draw.says} ${JSON.stringify(facts, plainNumbers)}`;
    return { query: planQueryOf(root, { ...rest, statistics }), says };
}
