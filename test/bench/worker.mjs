// SPDX-License-Identifier: Apache-2.0
/**
 * One engine, one case, one process: peak RSS belongs to a process, and no engine inherits another's warm allocator.
 * Argument: the job as JSON. Answers with one line of JSON on stdout.
 */
import { measure } from "./measure.mjs";
import { peakResidentBytes, resetPeak } from "./resident-memory.mjs";

const openers = {
    spillway: async () => (await import("./engines/spillway.mjs")).openSpillway,
    duckdb: async () => (await import("./engines/duckdb.mjs")).openDuckdb
};

const job = JSON.parse(process.argv[2]);
const open = await openers[job.engine]();
const engine = await open(job);
resetPeak();
const samplesMs = await measure(job.name, job.samples, engine.run);
const peakBytes = peakResidentBytes();
const result = await engine.check();
await engine.close();
process.stdout.write(`${JSON.stringify({ algorithm: engine.algorithm, samplesMs, peakBytes, ...result })}\n`);
