// SPDX-License-Identifier: Apache-2.0
// Inputs, machine and speeds for tests of the planner: no engine, no files.
import type { DataType } from "apache-arrow";
import { Field, Schema } from "apache-arrow";
import { columnTypeOf } from "../../src/arrow/column-type-of.js";
import { machineInfo, type MachineInfo } from "../../src/machine/machine.js";
import { loadProfile } from "../../src/machine/profile.js";
import type { Knobs } from "../../src/model/debug-knobs.js";
import { QueryRunner } from "../../src/runtime/query-runner.js";
import { joinNode } from "../../src/runtime/join.js";
import { groupNode } from "../../src/runtime/group-by.js";
import type { InputInfo, JoinNode, GroupNode, LogicalColumn, LogicalNode } from "../../src/plan/logical.js";
import type { Plan } from "../../src/plan/plan.js";
import { NotOnDevice } from "../../src/planner/device-support.js";
import type { PlanQuery } from "../../src/planner/plan-query.js";
import type { ValueSample } from "../../src/planner/statistics.js";
import { deviceMemory } from "./device-memory.js";

export const machine: MachineInfo = machineInfo({
    cores: 4,
    physicalCores: 4,
    cpuModel: "test",
    architecture: "x64",
    simd: [],
    l1Bytes: 32 * 1024,
    l2Bytes: 1024 * 1024,
    l3Bytes: 16 * 1024 * 1024,
    cacheLineBytes: 64,
    memoryBytes: 2 ** 34,
    availableBytes: 2 ** 33,
    memoryLimitBytes: null,
    pageBytes: 4096,
    hugePageBytes: 2 ** 21,
    transparentHugePages: "madvise",
    numaNodes: []
});

export interface InputShape {
    rows?: number;
    name?: string;
    streamed?: boolean;
    inMemory?: boolean;
    nullable?: boolean;
    /** Mean bytes of text and bytes. */
    textBytes?: number;
}

const fixedBytes = (type: DataType): number => columnTypeOf(new Field("x", type)).byteWidth || 1;

/** A relation of these columns that exists only as its description. */
export function inputNode(types: Record<string, DataType>, shape: InputShape = {}): LogicalNode {
    const { rows = 1000, name = "t", streamed = false, inMemory = false, nullable = false, textBytes = 10 } = shape;
    const schema = new Schema(Object.entries(types).map(([column, type]) => new Field(column, type, nullable)));
    const columns: LogicalColumn[] = [];
    const isText = (type: DataType): boolean =>
        ["binary", "view", "list"].includes(columnTypeOf(new Field("x", type)).layout);
    const isDictionary = (type: DataType): boolean => columnTypeOf(new Field("x", type)).layout === "dictionary";
    const input: InputInfo = {
        name,
        columns,
        rows,
        columnBytes: schema.fields.map(({ type }) => rows * (isText(type) ? textBytes + 4 : fixedBytes(type))),
        dictionaryBytes: schema.fields.map(({ type }) => (isDictionary(type) ? 100 * textBytes : 0)),
        dictionaryRows: schema.fields.map(({ type }) => (isDictionary(type) ? 100 : 0)),
        largestBatchRows: rows,
        inMemory,
        streamed,
        source: {
            kind: "layout",
            schema,
            layout: { columns: [], batches: [], dictionaries: [], files: null, links: [] }
        }
    };
    schema.fields.forEach((field, column) => {
        const type = { ...columnTypeOf(field), nullable };
        columns.push({ name: field.name, field, type, origin: { input, column } });
    });
    return { kind: "input", input, columns };
}

const runner = Object.create(QueryRunner.prototype) as QueryRunner;
const sourceOf = (node: LogicalNode) => ({ _runner: runner, _node: node, _debug: {} });

export function join(left: LogicalNode, right: LogicalNode, options: object): JoinNode {
    return joinNode({ left: sourceOf(left), right: sourceOf(right), ...options }, () => true).node;
}

export function group(child: LogicalNode, options: object): GroupNode {
    return groupNode(sourceOf(child), options).node;
}

/** What a sample says of columns that take so many bits packed, and may have values of any size. */
export function samplesOf(bits: readonly (number | undefined)[]): (ValueSample | undefined)[] {
    return bits.map((of) => (of === undefined ? undefined : { bits: of, magnitude: Infinity }));
}

export function planQueryOf(root: LogicalNode, more: Partial<PlanQuery> & { debug?: Knobs } = {}): PlanQuery {
    return {
        root,
        sink: "batches",
        statistics: new Map(),
        machine,
        profile: loadProfile(),
        deviceMemory: deviceMemory(),
        budgetBytes: 2 ** 30,
        threads: 4,
        debug: {},
        ...more
    };
}

/**
 * The plan that `planned` makes of a limit of GPU memory; where that is too little, of the limit that the reason names,
 * which has to suffice.
 */
export function planWithNamedLimit(
    planned: (limitBytes: number) => Plan | NotOnDevice,
    limitBytes: number,
    what: string
): { plan: Plan; limitBytes: number } {
    const first = planned(limitBytes);
    if (!(first instanceof NotOnDevice)) return { plan: first, limitBytes };
    const named = first.leastBytes;
    if (named === undefined || named <= limitBytes) throw new Error(`${what}: ${first.reason}`);
    const plan = planned(named);
    if (plan instanceof NotOnDevice) throw new Error(`${what}, then in ${named}: ${plan.reason}`);
    return { plan, limitBytes: named };
}
