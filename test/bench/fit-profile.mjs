// SPDX-License-Identifier: Apache-2.0
/**
 * node test/bench/fit-profile.mjs [options]: fits what a machine profile says of each algorithm (device_algorithms) to
 * the results of an experiment that ran all of them: a factor on the time that bytes and accesses take by the figures
 * of the GPU, and times that come on top: one of the phase, one of each column, pack or part, one of each value. Of
 * workloads that are drawn, those that models are judged by are left out. Exit code 2: there is nothing to fit to.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";

import { useOf } from "./gpu-drawn.mjs";
import { built, readCells, root, shapeOf } from "./model-shapes.mjs";

const help = `node test/bench/fit-profile.mjs [options]
  --results FILE   default: in-core-picks.json, in-core-wide.json, in-core-skew.json and in-core-group-by.json of
                   docs/results/h200, as far as they are there; may be said several times
  --profile FILE   default: configs/machines/h200.yaml
  --write          changes the profile; without it the fit is printed
Models are those of the built package: whoever changes them builds it first, and again when the profile is written.`;

const phaseKeys = { transform: "transformMs", match: "matchMs", materialize: "materializeMs" };
const phases = Object.keys(phaseKeys);

/** One turn of fitSums(), from the coefficients `found` on, which it changes; errors are divided by `unit`. */
function improve(found, rows, actual, unit) {
    const scaled = rows.map((row, i) => row.map((value) => value / unit[i]));
    const columns = found.length;
    const left = rows.map((row, i) => (actual[i] - sumWith(found, row)) / unit[i]);
    const squares = found.map((_, column) => scaled.reduce((sum, row) => sum + row[column] ** 2, 0));
    let moved = Infinity;
    for (let turn = 0; turn < 20_000 && moved > 1e-12; turn++) {
        moved = 0;
        for (let column = 0; column < columns; column++) {
            if (squares[column] === 0) continue;
            const slope = scaled.reduce((sum, row, i) => sum + row[column] * left[i], 0);
            const next = Math.max(0, found[column] + slope / squares[column]);
            const step = next - found[column];
            if (step === 0) continue;
            scaled.forEach((row, i) => (left[i] -= step * row[column]));
            found[column] = next;
            moved = Math.max(moved, step ** 2 * squares[column]);
        }
    }
}

const sumWith = (coefficients, row) => row.reduce((sum, value, column) => sum + coefficients[column] * value, 0);

/**
 * Coefficients that are not negative, of columns of `rows`, with the least sum of (p - a)^2 / (p a) of their sums p for
 * `actual` a, so that a half is as wrong as twice as much; by squares of relative errors alone, fits would be too low.
 * Coordinate descent, which needs no more than a few columns, over squares that are weighted anew in each turn.
 */
export function fitSums(rows, actual) {
    const found = new Array(rows[0]?.length ?? 0).fill(0);
    improve(found, rows, actual, actual);
    for (let turn = 0; turn < 20; turn++) {
        const unit = rows.map((row, i) => {
            const [a, p] = [actual[i], Math.max(sumWith(found, row), actual[i] / 100)];
            return p * Math.sqrt((2 * a) / (p + a)); // by which the squares have the slope of that sum
        });
        improve(found, rows, actual, unit);
    }
    return found;
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

/** Factor, time per step and time per million values of each of some phases, behind the fixed time of all of them. */
function fitTogether(names, points) {
    const row = ({ predicted }) => [
        1,
        ...names.flatMap((name) => {
            const { steps, values } = predicted.counts[name];
            return [predicted[phaseKeys[name]], steps, values / 1e6];
        })
    ];
    const [fixed, ...others] = fitSums(
        points.map(row),
        points.map(({ actual }) => actual)
    );
    // The fixed time is that of a phase that is always there.
    const carrier = names.includes("match") ? "match" : names[0];
    return names.map((name, i) => {
        const [factor, step, value] = others.slice(3 * i, 3 * i + 3);
        // A profile has no factor of 0, which would say that no bytes are too many.
        const fit = { factor: Math.max(1e-3, rounded(factor)), fixed_ms: name === carrier ? rounded(fixed) : 0 };
        if (step > 0) fit.step_ms = rounded(step);
        if (value > 0) fit.value_ns = rounded(value);
        return [name, fit];
    });
}

/** The time of a phase by its fit. */
function fittedMs(name, fit, predicted) {
    const { steps, values } = predicted.counts[name];
    const { factor, fixed_ms, step_ms = 0, value_ns = 0 } = fit;
    const ms = predicted[phaseKeys[name]];
    if (ms === 0 && steps === 0) return 0;
    return ms * factor + fixed_ms + steps * step_ms + (values * value_ns) / 1e6;
}

/** Fits the phases of one algorithm that are not `known` already. */
function fitAlgorithm(samples, known) {
    const points = new Map();
    const takes = (name) => samples.some((one) => one.predicted[phaseKeys[name]] > 0);
    for (const { record, predicted } of samples) {
        for (const [together, measured] of Object.entries(measuredTogether(record))) {
            const taken = together.split("+").filter(takes);
            const names = taken.filter((name) => known[name] === undefined);
            const others = taken.filter((name) => known[name] !== undefined);
            const actual = others.reduce((ms, name) => ms - fittedMs(name, known[name], predicted), measured);
            if (names.length === 0 || actual <= 0) continue;
            const key = names.join("+");
            points.set(key, [...(points.get(key) ?? []), { predicted, actual }]);
        }
    }
    const found = Object.fromEntries([...points].flatMap(([names, of]) => fitTogether(names.split("+"), of)));
    const fits = { ...known, ...found };
    return Object.fromEntries(phases.filter((phase) => fits[phase]).map((phase) => [phase, fits[phase]]));
}

/** Phases that run the same kernels as those of another algorithm, whose runs determine them better. */
const samePhases = { "npj-perfect": { algorithm: "npj", phases: ["materialize"] } };

function knownPhases(algorithm, fits) {
    const { algorithm: other, phases: same = [] } = samePhases[algorithm] ?? {};
    return Object.fromEntries(same.flatMap((name) => (fits[other]?.[name] ? [[name, fits[other][name]]] : [])));
}

/** Fits of all algorithms of a results file. `phasesOf(operator, algorithm, shape)`: predicted before any fit. */
export function fitAlgorithms(cells, phasesOf) {
    const samples = new Map();
    for (const [name, records] of cells) {
        if (useOf(name) === "judge") continue;
        for (const record of records) {
            const { operator, shape } = shapeOf(record);
            const predicted = phasesOf(operator, record.algorithm, shape);
            if (predicted === undefined) continue;
            samples.set(record.algorithm, [...(samples.get(record.algorithm) ?? []), { record, predicted }]);
        }
    }
    const fits = {};
    // Whoever shares phases with another algorithm waits for its fits.
    const inOrder = [...samples.keys()].sort((a, b) => Number(a in samePhases) - Number(b in samePhases));
    for (const algorithm of inOrder) {
        fits[algorithm] = fitAlgorithm(samples.get(algorithm), knownPhases(algorithm, fits));
    }
    return Object.fromEntries([...samples.keys()].map((algorithm) => [algorithm, fits[algorithm]]));
}

export function fitsText(fits, source) {
    const lines = [`# Fitted to ${source} by test/bench/fit-profile.mjs.`, "device_algorithms:"];
    for (const [algorithm, of] of Object.entries(fits)) {
        lines.push(`    ${algorithm}:`);
        for (const [phase, fit] of Object.entries(of)) {
            const times = Object.entries(fit).map(([name, value]) => `${name}: ${value}`);
            lines.push(`        ${phase}: { ${times.join(", ")} }`);
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
    const { groupPhases, hashSlices } = await built("planner/device-cost/group-cost.js");
    const { canGroup } = await built("planner/device-cost/choose-algorithm.js");
    const memory = new MemoryCost(speeds);
    return (operator, algorithm, shape) => {
        if (operator === "join") return joinPhases(algorithm, shape, memory);
        // Nor what no planner takes it for, as a first attempt is in vain there.
        if (algorithm === "sgb-ur" && !canGroup(algorithm, shape)) return undefined;
        // Groups that fit no block's shared memory are another algorithm's, by which hgb is not judged.
        if (algorithm === "hgb" && hashSlices(shape, memory) === undefined) return undefined;
        return groupPhases(algorithm, shape, memory);
    };
}

const usual = ["picks", "wide", "skew", "group-by"]
    .map((name) => join(root, `docs/results/h200/in-core-${name}.json`))
    .filter((file) => existsSync(file));

async function main() {
    const word = { type: "string" };
    const flag = { type: "boolean", default: false };
    const { values } = parseArgs({
        options: {
            results: { ...word, multiple: true, default: usual },
            profile: { ...word, default: join(root, "configs/machines/h200.yaml") },
            ...{ write: flag, help: flag }
        }
    });
    if (values.help) return void process.stdout.write(`${help}\n`);
    const { readProfile } = await built("machine/profile.js");
    const cells = new Map(values.results.flatMap((file) => [...readCells(file)]));
    const fits = fitAlgorithms(cells, await phasesBy(readProfile(values.profile)));
    const files = values.results.map((file) => (file.startsWith(root) ? basename(file, ".json") : "results"));
    if (Object.keys(fits).length === 0)
        throw new Error(`${files.join(", ")} has no record of an algorithm with a model.`);
    const text = fitsText(fits, files.join(", "));
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
