// SPDX-License-Identifier: Apache-2.0
/**
 * `npm run bench`: Spillway against DuckDB on the same machine, threads and inputs. See docs/benchmarks.md.
 * Inputs are Arrow files of Spillway's generator. DuckDB gets them loaded into its own tables before the clock starts;
 * Spillway opens and reads the files (from the page cache) inside the timed section.
 */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { joinCases } from "./cases.mjs";
import { generateInputs, inputPaths } from "./inputs.mjs";
import { deviceName, machineSlug } from "./machine-name.mjs";
import { plotRecords } from "./plot.mjs";
import { currentCommit, recordsPath, writePlot, writeRecords } from "./records.mjs";
import { judge, resultTable, targetTable, toRecord } from "./report.mjs";
import { runSuite } from "./suite/suite.mjs";

const here = dirname(fileURLToPath(import.meta.url));

const help = `npm run bench -- [options]
  --suite              queries over real data instead: \`npm run bench -- --suite --help\`
  --quick              1 M x 1 M rows only
  --rows 10e6,50e6     rows of each relation
  --only TEXT          cases whose name contains TEXT, such as "count" or "50M dense"
  --engines a,b        spillway, duckdb (default both)
  --samples 5          timed runs of each case, after one that is not timed
  --threads N          threads of both engines (default: all cores)
  --folder PATH        where inputs and spill files go (default: a folder under the system's temporary folder)
  --machine NAME       name of the folder under docs/results (default: from the CPU)
  --write              write the results of an incomplete run too

Results of a complete run are written to docs/results/<machine>; any other only with --write.`;

function readOptions() {
    const { values } = parseArgs({
        options: {
            help: { type: "boolean", default: false },
            quick: { type: "boolean", default: false },
            rows: { type: "string" },
            only: { type: "string", default: "" },
            engines: { type: "string", default: "spillway,duckdb" },
            samples: { type: "string", default: "5" },
            threads: { type: "string", default: String(availableParallelism()) },
            folder: { type: "string", default: tmpdir() },
            machine: { type: "string" },
            write: { type: "boolean", default: false }
        }
    });
    const rows = (values.rows ?? (values.quick ? "1e6" : "10e6,50e6")).split(",").map(Number);
    const engines = values.engines.split(",");
    const [samples, threads] = [Number(values.samples), Number(values.threads)];
    const wholeNumbers = [...rows, samples, threads].every((value) => Number.isSafeInteger(value) && value > 0);
    if (!wholeNumbers || !engines.every((engine) => ["spillway", "duckdb"].includes(engine))) {
        throw new Error("--rows, --samples and --threads take whole numbers, --engines takes spillway and duckdb.");
    }
    const changed = values.rows != null || values.quick || values.only !== "" || engines.length < 2 || samples < 5;
    return { ...values, rows, engines, samples, threads, write: values.write || !changed };
}

/** The cases of these sizes that --only names; none is a mistake, and no run without results. */
function chooseCases({ rows, only }) {
    const all = joinCases(rows);
    const chosen = all.filter(({ name }) => name.includes(only));
    if (chosen.length > 0) return chosen;
    const names = all.map(({ name }) => `"${name}"`).join(", ");
    throw new Error(`--only "${only}" names no case of this run, which has ${names}; name a part of one of these.`);
}

function runWorker(job) {
    return new Promise((resolve, reject) => {
        const child = spawn(process.execPath, [join(here, "worker.mjs"), JSON.stringify(job)], {
            stdio: ["ignore", "pipe", "inherit"]
        });
        let text = "";
        child.stdout.setEncoding("utf8").on("data", (part) => (text += part));
        child.on("error", reject);
        child.on("close", (code) => {
            if (code === 0) resolve(JSON.parse(text));
            else reject(new Error(`${job.engine}, ${job.name}: the process ended with code ${code}.`));
        });
    });
}

/** Every probe row has one partner, so the count is known; the checksums of two engines must agree. */
function verify(benchCase, outcomes) {
    const checksums = new Set([...outcomes.values()].map((outcome) => outcome.checksum));
    for (const outcome of outcomes.values()) {
        outcome.verified = outcome.rowsOut === benchCase.rows && checksums.size === 1;
    }
}

async function runCase(benchCase, options, workFolder) {
    const outcomes = new Map();
    for (const engine of options.engines) {
        process.stderr.write(`${benchCase.name}: ${engine} ... `);
        const job = { ...benchCase, ...inputPaths(workFolder), engine, workFolder };
        const outcome = await runWorker({ ...job, threads: options.threads, samples: options.samples }).catch(
            (error) => {
                process.stderr.write(`${error.message}\n`);
                return null;
            }
        );
        if (outcome == null) continue;
        outcomes.set(engine, outcome);
        process.stderr.write(`${outcome.samplesMs.map((sample) => sample.toFixed(0)).join(" ")} ms\n`);
    }
    verify(benchCase, outcomes);
    return outcomes;
}

async function runCases(cases, options, setting, workFolder) {
    const records = [];
    let inputs = null;
    for (const benchCase of cases) {
        const wanted = `${benchCase.rows} ${benchCase.keys}`;
        if (inputs !== wanted) await generateInputs(workFolder, benchCase);
        inputs = wanted;
        for (const [engine, outcome] of await runCase(benchCase, options, workFolder)) {
            records.push(toRecord(benchCase, engine, outcome, setting));
        }
    }
    return records;
}

async function main() {
    const options = readOptions();
    if (options.help) return void process.stdout.write(`${help}\n`);
    const cases = chooseCases(options);
    const workFolder = await mkdtemp(join(options.folder, "spillway-bench-"));
    const setting = {
        threads: options.threads,
        device: deviceName(),
        date: new Date().toISOString().slice(0, 10),
        commit: await currentCommit()
    };
    try {
        const records = await runCases(cases, options, setting, workFolder);
        const recordOf = (name, engine) =>
            records.find((record) => record.workload.name === name && record.engine === engine) ?? null;
        const verdicts = judge(cases, recordOf);
        process.stdout.write(`\n${resultTable(cases, recordOf)}\n\n${targetTable(verdicts)}\n`);
        if (options.write && records.length > 0) {
            const path = recordsPath(options.machine ?? machineSlug(), "cpu-join");
            await writeRecords(path, records);
            await writePlot(path, await plotRecords(records));
            process.stderr.write(`Written to ${dirname(path)}\n`);
        }
        if (records.some((record) => !record.verified)) process.exitCode = 1;
    } finally {
        await rm(workFolder, { recursive: true, force: true });
    }
}

try {
    if (process.argv.includes("--suite")) process.exitCode = await runSuite(process.argv.slice(2));
    else await main();
} catch (error) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
}
