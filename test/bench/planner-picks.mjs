// SPDX-License-Identifier: Apache-2.0
/**
 * node test/bench/planner-picks.mjs [options]: how often the planner takes the algorithm that is fastest, by the
 * results of an experiment that ran all of them. Exit code 1: too seldom; 2: there is nothing to compare.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { useOf } from "./gpu-drawn.mjs";
import { algorithmName, built, readCells, root, shapeOf, withSamples } from "./model-shapes.mjs";

const help = `node test/bench/planner-picks.mjs [options]
  --results FILE    default: docs/results/h200/in-core-picks.json
  --profile FILE    speeds to predict with (default: those that the package has for the GPU of the results)
  --within 0.1      a pick is good if it took at most this share longer than the fastest
  --least 0.9       share of cells whose pick has to be good
  --json            cells as JSON
  --write           puts what is predicted, which algorithm is picked and how many times the fastest one's time each
                    takes into the records of the results file
of cells that are drawn at random, those that no model is fitted to are told of apart`;

/** For each cell with two algorithms or more: the planner's pick and the fastest one, and how far they are apart. */
export function comparePicks(cells, choose, within) {
    return [...cells].flatMap(([name, records]) => {
        const { operator, shape } = shapeOf(records[0]);
        const measured = records.map(({ algorithm }) => algorithm);
        const choice = choose(operator, { ...shape, algorithms: measured });
        if (choice === undefined || choice.candidates.length < 2) return [];
        const able = records.filter(({ algorithm }) => choice.candidates.some((one) => one.algorithm === algorithm));
        const best = able.reduce((least, one) => (one.median_ms < least.median_ms ? one : least));
        const pick = able.find(({ algorithm }) => algorithm === choice.algorithm);
        const predicted = choice.candidates[0].predictedMs;
        return [
            {
                name,
                pick: pick.algorithm,
                pick_ms: pick.median_ms,
                predicted_ms: Number(predicted.toPrecision(5)),
                best: best.algorithm,
                best_ms: best.median_ms,
                good: pick.median_ms <= best.median_ms * (1 + within),
                candidates: Object.fromEntries(choice.candidates.map((one) => [one.algorithm, one.predictedMs]))
            }
        ];
    });
}

/** Chooses by the built package's cost models; undefined where it knows none of the algorithms. */
export async function chooserOf(speeds) {
    const { chooseDeviceGroupBy, chooseDeviceJoin } = await built("planner/device-cost/choose-algorithm.js");
    const sampled = await withSamples();
    return (operator, shape) => {
        try {
            if (operator === "group-by") return chooseDeviceGroupBy(shape, speeds);
            return chooseDeviceJoin(sampled(shape), speeds, "loop");
        } catch (error) {
            if (error instanceof RangeError) return undefined;
            throw error;
        }
    };
}

async function speedsFor(cells, profile) {
    const { loadProfile, readProfile, withDevice } = await built("machine/profile.js");
    if (profile !== undefined) return readProfile(profile);
    const [records] = cells.values();
    return withDevice(loadProfile(), records?.[0]?.device ?? "");
}

function line({ name, pick, pick_ms, predicted_ms, best, best_ms, good }) {
    const over = `${((pick_ms / best_ms - 1) * 100).toFixed(0)} % over`;
    const verdict = good ? (pick === best ? "" : `${over} ${best}`) : `WORSE: ${over} ${best}`;
    return `${name.padEnd(58)} ${pick.padEnd(11)} ${pick_ms.toFixed(3).padStart(9)} ms, predicted ${predicted_ms
        .toFixed(3)
        .padStart(9)}  ${verdict}`.trimEnd();
}

/** The records with the prediction of each, whether it is the pick, and its time by that of the fastest one. */
export function annotated(records, picks) {
    const byName = new Map(picks.map((pick) => [pick.name, pick]));
    return records.map((record) => {
        const found = byName.get(record.workload.name);
        const algorithm = algorithmName(record.algorithm);
        const predicted = found?.candidates[algorithm];
        if (predicted === undefined) return record;
        const told = {
            predicted_ms: Number(predicted.toPrecision(5)),
            picked: algorithm === found.pick,
            ratio: Number((record.median_ms / found.best_ms).toPrecision(4))
        };
        return { ...record, ...told };
    });
}

/** "131 of 140 picks ..., 5 beyond 30 %; 131 predictions within 0.67 and 1.5" */
function summary(picks, limit) {
    const count = (holds) => picks.filter(holds).length;
    const near = count(({ predicted_ms, pick_ms }) => predicted_ms / pick_ms >= 0.67 && predicted_ms / pick_ms <= 1.5);
    const far = count(({ pick_ms, best_ms }) => pick_ms > 1.3 * best_ms);
    const good = `${count((one) => one.good)} of ${picks.length} picks are within ${limit} of the fastest algorithm`;
    return `${good}, ${far} beyond 30 %; ${near} predictions within 0.67 and 1.5`;
}

async function main() {
    const word = { type: "string" };
    const { values } = parseArgs({
        options: {
            results: { ...word, default: join(root, "docs/results/h200/in-core-picks.json") },
            profile: word,
            within: { ...word, default: "0.1" },
            least: { ...word, default: "0.9" },
            ...{ json: { type: "boolean", default: false }, help: { type: "boolean", default: false } },
            write: { type: "boolean", default: false }
        }
    });
    if (values.help) return void process.stdout.write(`${help}\n`);
    const cells = readCells(values.results);
    const picks = comparePicks(cells, await chooserOf(await speedsFor(cells, values.profile)), Number(values.within));
    if (picks.length === 0) throw new Error(`${values.results} has no cell that two algorithms ran.`);
    const good = picks.filter((one) => one.good).length;
    const share = good / picks.length;
    process.stdout.write(values.json ? `${JSON.stringify(picks)}\n` : `${picks.map(line).join("\n")}\n`);
    const limit = `${(Number(values.within) * 100).toFixed(0)} %`;
    process.stderr.write(`${summary(picks, limit)}\n`);
    const judged = picks.filter(({ name }) => useOf(name) === "judge");
    if (judged.length > 0) process.stderr.write(`of cells that no model is fitted to, ${summary(judged, limit)}\n`);
    if (values.write) {
        const records = annotated(JSON.parse(readFileSync(values.results, "utf8")), picks);
        writeFileSync(values.results, `${JSON.stringify(records, null, 4)}\n`);
    }
    if (share < Number(values.least)) process.exitCode = 1;
}

if (process.argv[1] === import.meta.filename) {
    try {
        await main();
    } catch (error) {
        process.stderr.write(`${error.message}\n`);
        process.exitCode = 2;
    }
}
