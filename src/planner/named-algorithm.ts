// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import {
    cpuJoinAlgorithm,
    isOutOfCoreJoin,
    type DeviceGroupAlgorithm,
    type NamedJoinAlgorithm,
    type OutOfCoreJoinAlgorithm
} from "../model/algorithms.js";
import type { Knobs } from "../model/debug-knobs.js";
import type { LogicalNode } from "../plan/logical.js";

type Name = NamedJoinAlgorithm | DeviceGroupAlgorithm;

/** The algorithms that the user has named in a query; none: all is left to the planner. */
export function namesOf(node: LogicalNode): Name[] {
    if (node.kind === "input") return [];
    const own: Name[] = node.algorithm === undefined ? [] : [node.algorithm];
    const children = node.kind === "group" ? [node.child] : [node.left, node.right];
    return [...own, ...children.flatMap(namesOf)];
}

function isOfCpu(name: Name): boolean {
    return name === cpuJoinAlgorithm;
}

/** Some name of an algorithm of the GPU in the query. */
export function deviceName(node: LogicalNode): Name | undefined {
    return namesOf(node).find((name) => !isOfCpu(name));
}

/** The name of a join out of core in the query: it runs so, or not at all. */
export function outOfCoreName(node: LogicalNode): OutOfCoreJoinAlgorithm | undefined {
    return namesOf(node).find((name): name is OutOfCoreJoinAlgorithm => isOutOfCoreJoin(name as NamedJoinAlgorithm));
}

/** Is a join named that the CPU engine alone has? */
export function namesCpu(node: LogicalNode): boolean {
    return namesOf(node).some(isOfCpu);
}

/** What may keep a query out of GPU memory, whatever its tables take. */
interface Forced {
    readonly root: LogicalNode;
    readonly debug: Knobs;
    readonly deviceFull?: boolean;
}

/** Out of core, also where the tables would fit GPU memory, or were expected to fit it. */
export function isForcedOutOfCore({ root, debug, deviceFull }: Forced): boolean {
    return debug.outOfCore === true || deviceFull === true || outOfCoreName(root) !== undefined;
}

/** Throws INVALID_ARGUMENT where a query names algorithms of both devices: a plan runs on one of them. */
export function checkOneDevice(node: LogicalNode): void {
    const onGpu = deviceName(node);
    if (onGpu === undefined || !namesCpu(node)) return;
    throw new SpillwayError(
        "INVALID_ARGUMENT",
        `\`algorithm\` "${cpuJoinAlgorithm}" runs on the CPU engine and "${onGpu}" on a GPU, but a query runs on one ` +
            'of them; use "auto" for one',
        { option: "algorithm", algorithm: cpuJoinAlgorithm }
    );
}

/** An algorithm that the user has named does not fit the query. */
export function refusedAlgorithm(algorithm: Name, reason: string): SpillwayError {
    const message = `\`algorithm\` "${algorithm}" cannot run this join: ${reason}; use "auto" or another algorithm`;
    return new SpillwayError("INVALID_ARGUMENT", message, { option: "algorithm", algorithm, reason });
}
