// SPDX-License-Identifier: Apache-2.0
import { DataType } from "apache-arrow";

import type { InputInfo, JoinNode, LogicalColumn } from "../../../plan/logical.js";
import { NotOnDevice } from "../../device-support.js";
import type { Estimator } from "../../estimates.js";
import { joinSides, joinSidesFrom, otherSide, type JoinSides } from "../../join-sides.js";
import type { Policy } from "../../policy.js";
import type { InputJoin } from "./facts.js";

/** Do build rows come out that have no key? They leave a join before it knows all of its build side. */
export function givesKeylessBuildRows(node: JoinNode, { build, keepUnmatchedBuild, anti, emit }: JoinSides): boolean {
    const keeps = emit === "buildOnce" ? anti : keepUnmatchedBuild;
    return keeps && node.keys.some((key) => node[build].columns[key[build].column]?.type.nullable === true);
}

function hasDictionary(type: DataType): boolean {
    if (DataType.isDictionary(type)) return true;
    return (type.children ?? []).some((field) => hasDictionary(field.type as DataType));
}

/** Is the result column one of a dictionary that is known only when all batches of this input have come? */
export function waitsForDictionary({ field, origin }: LogicalColumn, input: InputInfo | undefined): boolean {
    return origin !== null && origin.input === input && input.streamed && hasDictionary(field.type as DataType);
}

export function dictionaryComesLate({ name, origin }: LogicalColumn): NotOnDevice {
    return new NotOnDevice(
        `column \`${name}\` has a dictionary of the stream \`${origin?.input.name}\`, which is not known before its ` +
            "last batch has come, and rows of the result come earlier"
    );
}

/** The first result column whose rows would come before its dictionary is known. */
function lateColumn(node: InputJoin, sides: JoinSides, columns: readonly LogicalColumn[]): LogicalColumn | undefined {
    const build = node[sides.build].input;
    const probe = node[otherSide(sides.build)].input;
    const early = givesKeylessBuildRows(node, sides) ? [probe, build] : [probe];
    return columns.find((column) => early.some((input) => waitsForDictionary(column, input)));
}

/**
 * The sides of a join of two inputs. The smaller one is built, or the other one where a stream brings dictionaries of
 * the result: those of a build side are known before the first row of the result. `unread`: nobody wants rows, or
 * wants them before all are there. Throws NotOnDevice where rows would come before a dictionary is known either way.
 */
export function inputJoinSides(
    node: InputJoin,
    needed: readonly number[],
    { unread, estimator, policy }: { unread: boolean; estimator: Estimator; policy: Policy }
): JoinSides {
    const columns = unread ? [] : node.columns;
    const wanted = joinSides(node, needed, estimator, policy);
    const late = lateColumn(node, wanted, columns);
    if (late === undefined) return wanted;
    const others = joinSidesFrom(node, otherSide(wanted.build));
    if (lateColumn(node, others, columns) === undefined) return others;
    throw dictionaryComesLate(late);
}
