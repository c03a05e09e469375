// SPDX-License-Identifier: Apache-2.0
/**
 * node test/bench/fit-profile.mjs [options]: fits what a machine profile says of each algorithm (device_algorithms) to
 * the results of an experiment that ran all of them: a factor on the time that bytes and accesses take by the figures
 * of the GPU, and a time that comes on top however few rows there are. Exit code 2: there is nothing to fit to.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { built, readCells, root, shapeOf } from "./model-shapes.mjs";

const help = `node test/bench/fit-profile.mjs [options]
  --results FILE   default: docs/results/h200/in-core-grid.json
  --profile FILE   default: configs/machines/h200.yaml
  --write          changes the profile; without it the fit is printed`;

const phaseKeys = { transform: "transformMs", match: "matchMs", materialize: "materializeMs" };
const phases = Object.keys(phaseKeys);

/**
 * Factor f and fixed time c with the least sum of squared relative errors of f x + c for y; neither is negative, and
 * the factor is none that an outlier of one cell makes.
 */
export function fitLine(points) {
    let [xx, x, xy, one, y] = [0, 0, 0, 0, 0];
    for (const point of points) {
        const weight = 1 / point.actual ** 2;
        xx += weight * point.predicted ** 2;
        x += weight * point.predicted;
        xy += weight * point.predicted * point.actual;
        one += weight;
        y += weight * point.actual;
    }
    const determinant = xx * one - x * x;
    // Cells of one size say nothing of a fixed time.
    const line =
        determinant > 1e-9 * xx * one
            ? { factor: (xy * one - x * y) / determinant, fixed_ms: (xx * y - x * xy) / determinant }
            : { factor: xy / xx, fixed_ms: 0 };
    if (line.factor > 0 && line.fixed_ms >= 0) return line;
    return line.factor <= 0 ? { factor: 1e-3, fixed_ms: y / one } : { factor: xy / xx, fixed_ms: 0 };
}

/** Phases whose times were measured together, each with that time. */
function measuredTogether({ phases: measured = {}, median_ms }) {
    const { transform_ms, match_ms, materialize_ms, join_ms } = measured;
    if (transform_ms !== undefined && match_ms !== undefined && materialize_ms !== undefined) {
        return { transform: transform_ms, match: match_ms, materialize: materialize_ms };
    }
    if (transform_ms !== undefined && join_ms !== undefined) {
        return { transform: transform_ms, "match+materialize": join_ms };
    }
    return { "transform+match+materialize": median_ms };
}

const rounded = (value) => Number(value.toPrecision(4));

/** Fits of one algorithm. A fixed time of phases that were measured together is that of one that is always there. */
function fitAlgorithm(samples) {
    const points = new Map();
    for (const { record, predicted } of samples) {
        for (const [together, actual] of Object.entries(measuredTogether(record))) {
            const sum = together.split("+").reduce((ms, phase) => ms + predicted[phaseKeys[phase]], 0);
            if (sum > 0 && actual > 0) {
                points.set(together, [...(points.get(together) ?? []), { predicted: sum, actual }]);
            }
        }
    }
    const fits = {};
    for (const [together, of] of points) {
        const { factor, fixed_ms } = fitLine(of);
        const carrier = together.includes("match") ? "match" : together;
        for (const phase of together.split("+")) {
            fits[phase] ??= { factor: rounded(factor), fixed_ms: phase === carrier ? rounded(fixed_ms) : 0 };
        }
    }
    return Object.fromEntries(phases.filter((phase) => fits[phase]).map((phase) => [phase, fits[phase]]));
}

/** Fits of all algorithms of a results file. `phasesOf(operator, algorithm, shape)`: predicted before any fit. */
export function fitAlgorithms(cells, phasesOf) {
    const samples = new Map();
    for (const record of [...cells.values()].flat()) {
        const { operator, shape } = shapeOf(record);
        const predicted = phasesOf(operator, record.algorithm, shape);
        if (predicted === undefined) continue;
        samples.set(record.algorithm, [...(samples.get(record.algorithm) ?? []), { record, predicted }]);
    }
    return Object.fromEntries([...samples].map(([algorithm, of]) => [algorithm, fitAlgorithm(of)]));
}

export function fitsText(fits, source) {
    const lines = [`# Fitted to ${source} by test/bench/fit-profile.mjs.`, "device_algorithms:"];
    for (const [algorithm, of] of Object.entries(fits)) {
        lines.push(`    ${algorithm}:`);
        for (const [phase, { factor, fixed_ms }] of Object.entries(of)) {
            lines.push(`        ${phase}: { factor: ${factor}, fixed_ms: ${fixed_ms} }`);
        }
    }
    return `${lines.join("\n")}\n`;
}

/** The text of a profile with these fits in the place of those it has; they are its last part. */
export function withFits(profile, text) {
    const old = profile.search(/\n*(?:^# Fitted to .*\n)?^device_algorithms:/m);
    return `${(old < 0 ? profile : profile.slice(0, old)).trimEnd()}\n\n${text}`;
}

export async function phasesBy(speeds) {
    const { MemoryCost } = await built("planner/device-cost/memory-cost.js");
    const { joinPhases } = await built("planner/device-cost/join-cost.js");
    const { groupPhases } = await built("planner/device-cost/group-cost.js");
    const memory = new MemoryCost(speeds);
    return (operator, algorithm, shape) =>
        operator === "join" ? joinPhases(algorithm, shape, memory) : groupPhases(algorithm, shape, memory);
}

async function main() {
    const word = { type: "string" };
    const flag = { type: "boolean", default: false };
    const results = "docs/results/h200/in-core-grid.json";
    const { values } = parseArgs({
        options: {
            results: { ...word, default: join(root, results) },
            profile: { ...word, default: join(root, "configs/machines/h200.yaml") },
            ...{ write: flag, help: flag }
        }
    });
    if (values.help) return void process.stdout.write(`${help}\n`);
    const { readProfile } = await built("machine/profile.js");
    const fits = fitAlgorithms(readCells(values.results), await phasesBy(readProfile(values.profile)));
    if (Object.keys(fits).length === 0)
        throw new Error(`${values.results} has no record of an algorithm with a model.`);
    const text = fitsText(fits, values.results.startsWith(root) ? values.results.slice(root.length) : "results");
    if (!values.write) return void process.stdout.write(text);
    writeFileSync(values.profile, withFits(readFileSync(values.profile, "utf8"), text));
    process.stderr.write(`Written to ${values.profile}\n`);
}

if (process.argv[1] === import.meta.filename) {
    try {
        await main();
    } catch (error) {
        process.stderr.write(`${error.message}\n`);
        process.exitCode = 2;
    }
}
