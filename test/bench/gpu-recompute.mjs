// SPDX-License-Identifier: Apache-2.0
// What is computed of records, when they are made or later. Only built-in modules: a GPU machine may have no others.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { withGroupPrediction } from "./gpu-far-group-by.mjs";
import { withJoinPrediction } from "./gpu-link-plan.mjs";
import { withPartitionPrediction } from "./gpu-partition.mjs";
import { planRuns, runLabel } from "./gpu-report.mjs";

const finishers = {
    "out-of-core": withJoinPrediction,
    "out-of-core-group-by": withGroupPrediction,
    partition: withPartitionPrediction
};

/** finish(record, run) of an operator: the record with what is planned of it beside what was measured. */
export const finisherOf = (operator) => finishers[operator] ?? ((record) => record);

/** The same of records that are there; what is no longer planned has no target but those it was written with. */
export function recomputed(parts, records) {
    const runs = parts.flatMap((part) => planRuns(part).map((run) => ({ run, finish: finisherOf(part.operator) })));
    const finishAny = finisherOf(parts[0].operator);
    return records.map((record) => {
        const same = ({ run }) => run.workload.name === record.workload.name && runLabel(run) === runLabel(record);
        const { run, finish } = runs.find(same) ?? { run: { workload: {} }, finish: finishAny };
        return finish(record, run);
    });
}

/** The files of an experiment's records under a folder, of one machine or of all. */
export function recordFiles(folder, experiment, machine) {
    const machines = machine === undefined ? readdirSync(folder) : [machine];
    return machines.map((name) => join(folder, name, `${experiment}.json`)).filter((file) => existsSync(file));
}

export function recomputeFile(parts, file) {
    const records = recomputed(parts, JSON.parse(readFileSync(file, "utf8")));
    writeFileSync(file, `${JSON.stringify(records, null, 4)}\n`);
}
