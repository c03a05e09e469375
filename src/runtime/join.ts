// SPDX-License-Identifier: Apache-2.0
import type { QueryRunner } from "./query-runner.js";
import {
    checkBoolean,
    checkInteger,
    checkName,
    checkOneOf,
    checkOptions,
    checkWellFormed,
    invalidArgument,
    readArgument,
    unknownColumn
} from "../model/arguments.js";
import { joinAlgorithms } from "../model/algorithms.js";
import { checkKnobs, type Knobs } from "../model/debug-knobs.js";
import { checkExperimentOf } from "../model/experiment.js";
import type { JoinType } from "../model/schema-types.js";
import { SpillwayError } from "../errors.js";
import { joinColumns } from "../plan/join-columns.js";
import { matchKeys } from "../plan/key-match.js";
import type { JoinNode, LogicalColumn, LogicalNode } from "../plan/logical.js";

/** The parts of a Source that are needed here; query.ts passes its own test, which avoids an import cycle. */
interface SourceParts {
    readonly _runner: QueryRunner;
    readonly _node: LogicalNode;
    readonly _debug: Knobs;
}

const joinTypes: readonly JoinType[] = ["inner", "left", "right", "full", "semi", "anti"];
const optionNames = [
    ...["left", "right", "on", "type", "select", "suffix", "nullEquality", "algorithm", "hints", "experiment", "debug"]
];

interface NamePair {
    left: string;
    right: string;
}

const expectedOn = 'a column name, an array of column names, or { leftName: "rightName" }';

function keyNames(on: unknown): NamePair[] {
    let pairs: NamePair[];
    if (typeof on === "string") {
        const name = checkWellFormed(on, "on");
        pairs = [{ left: name, right: name }];
    } else if (Array.isArray(on)) {
        pairs = on.map((name: unknown, index) => {
            const checked = checkName(name, `on[${index}]`);
            return { left: checked, right: checked };
        });
    } else if (typeof on === "object" && on !== null) {
        pairs = Object.entries(on).map(([left, right]: [string, unknown]) => {
            const name = checkName(right, `on.${left}`, "a column name of the right");
            return { left: checkWellFormed(left, "on"), right: name };
        });
    } else throw invalidArgument("on", expectedOn, on);
    if (pairs.length === 0) throw invalidArgument("on", `${expectedOn} with at least one column`, on);
    // A right column may be the partner of several left ones; only an array can name a left column twice.
    const names = pairs.map((pair) => pair.left);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) {
        throw new SpillwayError("DUPLICATE_COLUMN", `\`on\` names column \`${twice}\` twice; name it once`, {
            option: "on",
            column: twice
        });
    }
    return pairs;
}

function columnIndex(columns: readonly LogicalColumn[], name: string, side: string): number {
    const index = columns.findIndex((column) => column.name === name);
    if (index >= 0) return index;
    const names = columns.map((column) => column.name);
    throw unknownColumn(name, "on", names, `the ${side} relation`);
}

function checkSelect(value: unknown): readonly string[] | undefined {
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) throw invalidArgument("select", "an array of column names", value);
    return value.map((name: unknown, index) => checkName(name, `select[${index}]`));
}

function checkHints(value: unknown): JoinNode["hints"] {
    const given = checkOptions(value, "hints", ["resultRows", "buildSide"]);
    const hints: { resultRows?: number; buildSide?: "left" | "right" } = {};
    if (given["resultRows"] !== undefined) hints.resultRows = checkInteger(given["resultRows"], "hints.resultRows", 0);
    if (given["buildSide"] !== undefined) {
        hints.buildSide = checkOneOf(given["buildSide"], "hints.buildSide", ["left", "right"]);
    }
    return hints;
}

export interface CheckedQuery<Node extends LogicalNode> {
    runner: QueryRunner;
    node: Node;
    debug: Knobs;
}

/** Checks the options of `join` and resolves names and types: everything that can be wrong is found here. */
export function joinNode(options: object, isSource: (value: unknown) => boolean): CheckedQuery<JoinNode> {
    const given = checkOptions(options, "", optionNames);
    for (const side of ["left", "right"]) {
        if (!isSource(given[side])) throw invalidArgument(side, "a relation or a query", given[side]);
    }
    const left = given["left"] as SourceParts;
    const right = given["right"] as SourceParts;
    if (left._runner !== right._runner) {
        throw new SpillwayError("INVALID_ARGUMENT", "Expected `left` and `right` of one runtime; open both with it", {
            option: "right"
        });
    }
    const type = given["type"] === undefined ? "inner" : checkOneOf(given["type"], "type", joinTypes);
    const suffix = checkName(given["suffix"] ?? "_right", "suffix", "a string");
    const nullEquality =
        given["nullEquality"] === undefined ? false : checkBoolean(given["nullEquality"], "nullEquality");
    const select = readArgument("select", () => checkSelect(given["select"]));
    const algorithm = checkOneOf(given["algorithm"] ?? "auto", "algorithm", joinAlgorithms);
    const debug = checkKnobs(given);
    checkExperimentOf(algorithm, debug);
    const leftColumns = left._node.columns;
    const rightColumns = right._node.columns;
    const pairs = readArgument("on", () => keyNames(given["on"])).map((names) => ({
        left: columnIndex(leftColumns, names.left, "left"),
        right: columnIndex(rightColumns, names.right, "right")
    }));
    const keys = pairs.map((pair) =>
        matchKeys(
            leftColumns[pair.left] as LogicalColumn,
            pair.left,
            rightColumns[pair.right] as LogicalColumn,
            pair.right
        )
    );
    const columns = joinColumns({ type, left: leftColumns, right: rightColumns, keys: pairs, suffix, select });
    return {
        runner: left._runner,
        debug: { ...left._debug, ...right._debug, ...debug },
        node: {
            kind: "join",
            left: left._node,
            right: right._node,
            type,
            keys,
            nullEquality,
            columns,
            hints: checkHints(given["hints"]),
            ...(algorithm === "auto" ? {} : { algorithm })
        }
    };
}
