// SPDX-License-Identifier: Apache-2.0
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

export const help = `npm run bench -- --suite [options]
  --folder PATH        TPC-H's eight tables as .arrow files (default: generated ones)
  --ssb-folder PATH    the Star Schema Benchmark's five (default: generated ones)
  --scale 1,10         scale of generated tables (default: 1)
  --text plain         plain, dictionary or both: how generated tables hold text of few values (default: plain)
  --only TEXT          queries whose name contains TEXT; several with --only A --only B
  --engines a,b        spillway, duckdb (default: both)
  --inputs a,b         where Spillway's relations lie: files, memory (default: both, each against the same DuckDB)
  --samples 5          timed runs of each query
  --warmup 3           runs of each before them that do not count
  --threads N          threads of both engines (default: all cores)
  --quick              scale 0.01, one sample and no run before it: whether results agree
  --budget-quarter     Spillway from files alone, without and with a budget of a quarter of the bytes that a query reads
  --work PATH          where generated tables and spilled rows go, and stay (default: under the temporary folder)
  --machine NAME       name of the folder under docs/results (default: from the CPU)
  --write              write the results of an incomplete run too
  --record FILE        where to write them, instead of docs/results and without a plot
  --missing            only queries that have no records of this commit there yet
  --limit-s N          begins no more queries after so many seconds
  --json               the records on stdout instead of tables

Results of a complete run are written to docs/results/<machine>/cpu-suite.json as they come, those of any other only
with --write or --record; records of queries that are not measured again stay.`;

const text = { type: "string" };
const flag = { type: "boolean", default: false };

function oneOf(name, value, allowed) {
    if (allowed.includes(value)) return value;
    throw new Error(`Expected ${allowed.join(" or ")} for --${name} but received '${value}'.`);
}

function positive(name, value) {
    const number = Number(value);
    if (number > 0 && Number.isFinite(number)) return number;
    throw new Error(`Expected a number above 0 for --${name} but received '${value}'.`);
}

function wholeNumber(name, value) {
    const number = Number(value);
    if (Number.isSafeInteger(number) && number >= 0) return number;
    throw new Error(`Expected a whole number for --${name} but received '${value}'.`);
}

/** What the command line asks for; throws where it cannot be meant. */
export function readOptions(args) {
    const { values } = parseArgs({
        args,
        options: {
            ...{ suite: flag, help: flag, quick: flag, "budget-quarter": flag, write: flag, json: flag, missing: flag },
            ...{ record: text, "limit-s": text },
            ...{ folder: text, "ssb-folder": text, machine: text, only: { ...text, multiple: true, default: [] } },
            ...{ scale: text, text: { ...text, default: "plain" }, engines: { ...text, default: "spillway,duckdb" } },
            ...{ inputs: { ...text, default: "files,memory" }, samples: text, warmup: text },
            ...{ threads: { ...text, default: String(availableParallelism()) } },
            work: { ...text, default: join(tmpdir(), "spillway-suite") }
        }
    });
    const { quick } = values;
    const scales = (values.scale ?? (quick ? "0.01" : "1")).split(",").map((scale) => positive("scale", scale));
    const texts = values.text.split(",").map((variant) => oneOf("text", variant, ["plain", "dictionary"]));
    const engines = values["budget-quarter"] ? ["spillway"] : values.engines.split(",");
    for (const engine of engines) oneOf("engines", engine, ["spillway", "duckdb"]);
    const inputs = values["budget-quarter"] ? ["files"] : values.inputs.split(",");
    for (const where of inputs) oneOf("inputs", where, ["files", "memory"]);
    const warmup = wholeNumber("warmup", values.warmup ?? (quick ? 0 : 3));
    const samples = Math.ceil(positive("samples", values.samples ?? (quick ? 1 : 5)));
    const threads = Math.ceil(positive("threads", values.threads));
    const isThorough = !quick && samples >= 5 && warmup >= 3;
    const whole = isThorough && values.only.length === 0 && engines.length === 2 && inputs.length === 2;
    const limit = values["limit-s"];
    return {
        ...values,
        ...(limit === undefined ? {} : { deadline: Date.now() + 1000 * positive("limit-s", limit) }),
        ...{ scales, texts, engines, inputs, samples, warmup, threads },
        ...{ write: values.write || whole || values.record !== undefined },
        ...{ ssbFolder: values["ssb-folder"], budgetQuarter: values["budget-quarter"] }
    };
}
