// SPDX-License-Identifier: Apache-2.0
import type { Field } from "apache-arrow";

import { columnTypeOf, resultColumnType } from "../arrow/column-type-of.js";
import { SpillwayError } from "../errors.js";
import { groupByAlgorithms } from "../model/algorithms.js";
import {
    checkInteger,
    checkName,
    checkOneOf,
    checkOptions,
    checkWellFormed,
    invalidArgument,
    readArgument,
    suggestion,
    unknownColumn
} from "../model/arguments.js";
import { checkKnobs, type Knobs } from "../model/debug-knobs.js";
import type { AggregateName } from "../model/schema-types.js";
import { aggregateField, decimalScale } from "../plan/aggregate-type.js";
import { groupKey } from "../plan/key-match.js";
import type { AggregateKind, GroupNode, LogicalAggregate, LogicalColumn, LogicalNode } from "../plan/logical.js";

const aggregateNames: readonly AggregateName[] = [
    "sum",
    "min",
    "max",
    "mean",
    "first",
    "any",
    "count",
    "countDistinct"
];

function indexOf(columns: readonly LogicalColumn[], name: string, option: string): number {
    const index = columns.findIndex((column) => column.name === name);
    if (index >= 0) return index;
    throw unknownColumn(
        name,
        option,
        columns.map((column) => column.name),
        "the rows to group"
    );
}

function checkKeys(value: unknown, columns: readonly LogicalColumn[]): number[] {
    if (value === undefined) return [];
    if (!Array.isArray(value)) throw invalidArgument("keys", "an array of column names", value);
    const indices = value.map((name: unknown, position) => {
        return indexOf(columns, checkName(name, `keys[${position}]`), "keys");
    });
    const names = indices.map((index) => (columns[index] as LogicalColumn).name);
    const column = names.find((name, position) => names.indexOf(name) !== position);
    if (column !== undefined) {
        throw new SpillwayError("DUPLICATE_COLUMN", `\`keys\` names column \`${column}\` twice; name it once`, {
            option: "keys",
            column
        });
    }
    return indices;
}

interface NamedAggregate {
    alias: string;
    aggregate: LogicalAggregate;
    column: LogicalColumn | undefined;
}

function checkAggregate(alias: string, value: unknown, columns: readonly LogicalColumn[]): NamedAggregate {
    const option = `aggregates.${alias}`;
    const entries = typeof value === "object" && value !== null ? Object.entries(value) : [];
    const [entry] = entries;
    if (entry === undefined || entries.length !== 1) {
        throw invalidArgument(option, 'one aggregate such as { sum: "column" } or { count: "*" }', value);
    }
    checkWellFormed(alias, "aggregates");
    const [name, column] = entry as [string, unknown];
    if (!(aggregateNames as readonly string[]).includes(name)) {
        throw new SpillwayError(
            "INVALID_ARGUMENT",
            `There is no aggregate \`${name}\` (option \`${option}\`)${suggestion(name, aggregateNames)}`,
            { option }
        );
    }
    checkName(column, `${option}.${name}`);
    if (name === "count" && column === "*") {
        return { alias, aggregate: { kind: "countRows", column: -1, decimalScale: 0 }, column: undefined };
    }
    const index = indexOf(columns, column as string, `${option}.${name}`);
    const kind = name as AggregateKind;
    const aggregate = { kind, column: index, decimalScale: decimalScale(kind, columns[index]) };
    return { alias, aggregate, column: columns[index] };
}

function checkAggregates(value: unknown, columns: readonly LogicalColumn[]): NamedAggregate[] {
    if (value === undefined) return [];
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
        throw invalidArgument("aggregates", 'an object such as { total: { sum: "column" } }', value);
    }
    return Object.entries(value).map(([alias, aggregate]) => checkAggregate(alias, aggregate, columns));
}

/** `from`: the column of the input whose values it has, if they are not computed. */
function resultColumn(field: Field, from: LogicalColumn | undefined): LogicalColumn {
    const type = from === undefined ? columnTypeOf(field) : resultColumnType(from.type);
    return {
        name: field.name,
        field,
        type: { ...type, name: field.name, nullable: field.nullable },
        origin: from?.origin ?? null
    };
}

function requireUniqueNames(columns: readonly LogicalColumn[]): void {
    const names = columns.map((column) => column.name);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice === undefined) return;
    throw new SpillwayError(
        "DUPLICATE_COLUMN",
        `The result would have two columns \`${twice}\`: a key and an aggregate; choose another name for the aggregate`,
        { column: twice, option: `aggregates.${twice}` }
    );
}

/** Checks the options of `groupBy` and resolves names and types. */
export function groupNode(
    child: { readonly _node: LogicalNode; readonly _debug: Knobs },
    options: unknown
): { node: GroupNode; debug: Knobs } {
    const given = checkOptions(options, "", ["keys", "aggregates", "algorithm", "hints", "experiment", "debug"]);
    const columns = child._node.columns;
    const keys = readArgument("keys", () => checkKeys(given["keys"], columns));
    const aggregates = readArgument("aggregates", () => checkAggregates(given["aggregates"], columns));
    if (keys.length === 0 && aggregates.length === 0) {
        throw new SpillwayError("INVALID_ARGUMENT", "Expected `keys` or `aggregates` with at least one entry", {
            option: "keys"
        });
    }
    const algorithm = checkOneOf(given["algorithm"] ?? "auto", "algorithm", groupByAlgorithms);
    const hintsGiven = checkOptions(given["hints"], "hints", ["groups"]);
    const hints =
        hintsGiven["groups"] === undefined ? {} : { groups: checkInteger(hintsGiven["groups"], "hints.groups", 0) };
    const debug = checkKnobs(given);
    const keyColumns = keys.map((index) => columns[index] as LogicalColumn);
    const specs = keyColumns.map((column, position) => groupKey(column, keys[position] as number));
    const result = [
        ...keyColumns.map((column) => {
            const nullable = column.field.nullable || column.type.nullable;
            return resultColumn(column.field.clone({ nullable }), column);
        }),
        ...aggregates.map(({ alias, aggregate, column }) => {
            const field = aggregateField(aggregate.kind, column, alias);
            const keepsValues = ["min", "max", "first", "any"].includes(aggregate.kind);
            return resultColumn(field, keepsValues ? column : undefined);
        })
    ];
    requireUniqueNames(result);
    return {
        debug: { ...child._debug, ...debug },
        node: {
            kind: "group",
            child: child._node,
            keys: specs,
            aggregates: aggregates.map(({ aggregate }) => aggregate),
            columns: result,
            hints,
            ...(algorithm === "auto" ? {} : { algorithm })
        }
    };
}
