// SPDX-License-Identifier: Apache-2.0
import type { AlgorithmFits, DeviceSpeeds } from "../../machine/profile.js";
import {
    deviceGroupAlgorithms,
    deviceJoinAlgorithms,
    type DeviceGroupAlgorithm,
    type DeviceJoinAlgorithm
} from "../../model/algorithms.js";
import { formatBytes, formatMs } from "../../model/sizes.js";
import type { DeviceChoice, PhaseMs } from "../../plan/device-choice.js";
import { groupTree, joinTree, type TreeAnswer } from "./decision-tree.js";
import { groupPhases, hashSlices } from "./group-cost.js";
import { joinPhases } from "./join-cost.js";
import { MemoryCost, rowNumberBytes } from "./memory-cost.js";
import { phaseNames, phases, type PhaseName, type PhaseWork } from "./phase-work.js";
import type { DeviceGroupShape, DeviceJoinShape } from "./shapes.js";

/**
 * Rows of a key, of a mean one and of the most frequent one, up to which equal keys do not keep a search. H200, npj and
 * the best other algorithm, build keys that come twice: 51,805 x 304,098 rows 0.28 and 0.39 ms, 183,050 x 158,661
 * (semi) 0.25 and 0.26, 70,004 x 1.48 M (left) 0.39 and 0.56; four times, 179,524 x 370,728 0.38 and 0.41, 219,284 x
 * 222,090 (full) 0.81 and 0.69; 32 times, 398,631 x 122,025 (anti) 0.68 and 0.25. A key that is
 * seen to repeat is twice in a sample of 16,384 rows at least, which counts as 64 of half a million rows and leaves out
 * larger sides. A table with more than 4,096 rows of a key would be given up.
 */
const chainRowsMax = { mean: 4, most: 64 };

function hasShortChains({ buildRows, buildRowsPerKey, buildHeaviestShare }: DeviceJoinShape): boolean {
    if (buildRowsPerKey === null || buildRowsPerKey > chainRowsMax.mean) return false;
    return buildHeaviestShare * buildRows <= chainRowsMax.most;
}

/**
 * What the no-partitioning joins are not taken for: long chains of equal keys, and arrays that the GPU is
 * likely to refuse.
 * phj-gftr is taken by name alone: it was the fastest of none of 126 inner joins that were drawn at random, and of 4 of
 * 118 others, by 5 to 16 %, which its model does not tell.
 */
export function canJoin(name: DeviceJoinAlgorithm, shape: DeviceJoinShape): boolean {
    if (name === "phj-gftr") return false;
    if (name !== "npj" && name !== "npj-perfect") return true;
    if (!shape.uniqueBuildKeys) return name === "npj" && hasShortChains(shape);
    return name === "npj" || (shape.arrayKeys && shape.buildKeyRange !== null);
}

/**
 * What a prediction is compared with others by. The GPU refuses an array whose keys are not what their sample showed,
 * one in 55 of those that were drawn at random (repeatsSeenMin): then relations are copied again, which takes
 * some five times as long as to join them, and joined by another algorithm. 6 / 55 is what such a choice must gain.
 */
const refusalRisk: Readonly<Record<string, number>> = { "npj-perfect": 1.1 };
function candidateRank({ algorithm, predictedMs }: { algorithm: string; predictedMs: number }): number {
    return predictedMs * (refusalRisk[algorithm] ?? 1);
}

/** Rows of a mean group from which row numbers are sorted, so that tables have few groups. */
const sortedGroupRowsMin = 16;

/**
 * What orders its keys is wanted where groups have to be in order. Sorts of row numbers are not taken where groups have
 * few rows each: H200, 4 M rows of as many groups in 0.62 ms, where pgb-tr takes 0.34. hgb-global is taken by name
 * alone, as no profile has been fitted to runs of it.
 */
export function canGroup(name: DeviceGroupAlgorithm, { sorted, rows, groups }: DeviceGroupShape): boolean {
    if (name === "hgb-global") return false;
    if (sorted) return name.startsWith("sgb");
    return name !== "sgb-ur" || rows >= groups * sortedGroupRowsMin;
}

export function totalMs({ transformMs, matchMs, materializeMs }: PhaseMs): number {
    return transformMs + matchMs + materializeMs;
}

/**
 * Kernels that an algorithm starts in each phase, whatever the number of rows: what small relations take, until runs
 * have told better (a fit's fixed_ms). Clearing and filling a table, the look for the range of an array; histogram,
 * regions and passes of both sides; four passes or more of each sort.
 */
const launches: Readonly<Record<string, readonly number[]>> = {
    npj: [0, 4, 1],
    "npj-perfect": [0, 6, 1],
    "phj-tr": [8, 3, 1],
    "phj-ur": [8, 4, 2],
    "phj-shared": [10, 4, 2],
    "phj-gftr": [14, 4, 2],
    "smj-ur": [12, 4, 2],
    "smj-tr": [24, 4, 2],
    "smj-merge": [30, 4, 2],
    hgb: [0, 3, 2],
    "pgb-tr": [4, 3, 2],
    "pgb-ur": [4, 4, 2],
    "sgb-ur": [6, 4, 2],
    "sgb-tr": [12, 3, 2],
    "sgb-de-tr": [16, 3, 2],
    "hgb-global": [0, 7, 2]
};

/**
 * What joins take longer in queries than in the benchmark's loop, to whose runs they are fitted: more time passes
 * between their kernels. H200, 144 joins from Node that were drawn at random, of up to some million rows: by medians
 * npj and npj-perfect take up to 0.06 ms longer, smj-ur and smj-tr 0.07 to 0.1, phj-tr 0.12 to 0.15 and phj-ur 0.07 to
 * 0.18. By the times of these joins 119 picks are within 1.1 of the fastest algorithm and 7 beyond 1.3; without this
 * table it is 102 and 19.
 */
const queryGapsMs: Readonly<Record<string, number>> = {
    npj: 0.03,
    "npj-perfect": 0.01,
    "phj-tr": 0.13,
    "phj-ur": 0.15,
    "phj-shared": 0.15,
    "phj-gftr": 0.15,
    "smj-ur": 0.11,
    "smj-tr": 0.11,
    "smj-merge": 0.11
};

/** Where an algorithm runs: once in a query, or again and again in the benchmark. */
export type RunsIn = "query" | "loop";

/** Predicted phases as runs of the algorithm have corrected them. */
function fitted(algorithm: string, work: PhaseWork, speeds: DeviceSpeeds, runsIn: RunsIn): PhaseMs {
    const fits: AlgorithmFits = speeds.deviceAlgorithms;
    const of = (phase: PhaseName): number => {
        const ms = work[phaseNames[phase]];
        const { steps, values } = work.counts[phase];
        const fit = fits[algorithm]?.[phase];
        if (ms === 0 && steps === 0) return 0;
        if (fit === undefined) {
            const starts = launches[algorithm]?.[phases.indexOf(phase)] ?? 1;
            return ms + starts * speeds.deviceLaunchMs;
        }
        const { factor, fixed_ms, step_ms = 0, value_ns = 0 } = fit;
        return ms * factor + fixed_ms + steps * step_ms + (values * value_ns) / 1e6;
    };
    const isFitted = fits[algorithm]?.match !== undefined;
    const gapsMs = runsIn === "query" && isFitted ? (queryGapsMs[algorithm] ?? 0) : 0;
    return { transformMs: of("transform"), matchMs: of("match") + gapsMs, materializeMs: of("materialize") };
}

interface Candidate<Name> {
    readonly algorithm: Name;
    readonly phases: PhaseMs;
    readonly predictedMs: number;
}

function candidatesOf<Name extends string>(
    names: readonly Name[],
    allowed: readonly string[] | undefined,
    phasesOf: (name: Name) => PhaseMs
): Candidate<Name>[] {
    return names
        .filter((name) => allowed === undefined || allowed.includes(name))
        .map((algorithm) => {
            const phases = phasesOf(algorithm);
            return { algorithm, phases, predictedMs: totalMs(phases) };
        })
        .sort((a, b) => candidateRank(a) - candidateRank(b));
}

function reasonOf<Name extends string>(sorted: readonly Candidate<Name>[], tree: TreeAnswer<Name>): string {
    const [best, second] = sorted;
    const facts = tree.facts.join(", ");
    if (second === undefined || best === undefined) return `${facts}; nothing else can do it`;
    const refusable = second.predictedMs < best.predictedMs ? ", but may be refused" : "";
    const next = `${second.algorithm} would take ${formatMs(second.predictedMs)}${refusable}`;
    const rule = tree.algorithm === best.algorithm ? "" : `; by the rule of thumb ${tree.algorithm}`;
    return `${facts}; ${next}${rule}`;
}

function chosen<Name extends string>(sorted: readonly Candidate<Name>[], tree: TreeAnswer<Name>): DeviceChoice<Name> {
    const best = sorted[0];
    if (best === undefined) throw new RangeError("no algorithm can do this operation");
    return {
        algorithm: best.algorithm,
        predictedMs: best.phases,
        candidates: sorted.map(({ algorithm, predictedMs }) => ({ algorithm, predictedMs })),
        reason: reasonOf(sorted, tree)
    };
}

/** What a choice is compared with another one by: the less, the better. */
export function rankOf({ candidates: [first] }: DeviceChoice<string>): number {
    return first === undefined ? Infinity : candidateRank(first);
}

/** The join with the least predicted time among those that can run. */
export function chooseDeviceJoin(
    shape: DeviceJoinShape,
    speeds: DeviceSpeeds,
    runsIn: RunsIn = "query"
): DeviceChoice<DeviceJoinAlgorithm> {
    const memory = new MemoryCost(speeds);
    // Nobody asks whether an algorithm is wise that the user named.
    const named = shape.algorithms?.length === 1;
    const names = deviceJoinAlgorithms.filter((name) => named || canJoin(name, shape));
    const sorted = candidatesOf(names, shape.algorithms, (name) =>
        fitted(name, joinPhases(name, shape, memory), speeds, runsIn)
    );
    const tree = joinTree(shape, memory);
    if (sorted[0]?.algorithm !== "npj-perfect") return chosen(sorted, tree);
    const array = formatBytes((shape.buildKeyRange ?? 0) * rowNumberBytes(shape.buildRows));
    const fact = `build keys come once each, as far as is known, and an array over their range takes ${array}`;
    return chosen(sorted, { ...tree, facts: [fact, ...tree.facts] });
}

/** The same for a group-by. */
export function chooseDeviceGroupBy(shape: DeviceGroupShape, speeds: DeviceSpeeds): DeviceChoice<DeviceGroupAlgorithm> {
    const memory = new MemoryCost(speeds);
    const named = shape.algorithms?.length === 1;
    // One that gives way to another is no choice.
    const givesWay = hashSlices(shape, memory) === undefined;
    const names = deviceGroupAlgorithms.filter(
        (name) => named || (canGroup(name, shape) && !(name === "hgb" && givesWay))
    );
    const sorted = candidatesOf(names, shape.algorithms, (name) =>
        fitted(name, groupPhases(name, shape, memory), speeds, "query")
    );
    return chosen(sorted, groupTree(shape, memory));
}
