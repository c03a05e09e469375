// SPDX-License-Identifier: Apache-2.0
// The command line of node-delivery.mjs: a part of what its configuration has.
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

const config = JSON.parse(
    readFileSync(new URL("../../configs/experiments/node-delivery.json", import.meta.url), "utf8")
);

export const help = `node test/bench/node-delivery.mjs [options]
  --bits 26,28          rows a side, as powers of two (default: ${config.axes.bits.join(",")})
  --columns 1,6         payload columns a side (default: ${config.axes.columns.join(",")})
  --from memory,files   where inputs are (default: both)
  --results a,b         ${config.axes.results.join(", ")} (default: all)
  --devices cpu,gpu     (default: both)
  --limits 64GiB,4GiB   of GPU memory (default: ${config.axes.limits.join(",")})
  --duckdb on|off       DuckDB beside it, with tables in its memory (default: on, where @duckdb/node-api is installed)
  --samples N           timed runs of each cell after the cold one (default: ${config.samples})
  --fresh               a process for each result also where inputs are made in its memory, so that every cold run is
                        the first of a process (files: always); else such processes take all results one by one
  --folder PATH         where inputs, results and spilled rows go (default: a folder under the system's temporary one)
  --keep-files          leaves inputs in the folder; those that are there are taken in any case
  --limit-s N           begins no more cells after so many seconds, and says which are left out
  --record FILE         puts records there as they come, beside those of cells that are not measured again
  --commit HASH         that they are of (with --record)
  --json                prints the records on stdout`;

/** What the command line asks for; throws where it cannot be meant. */
export function readOptions(args) {
    const text = { type: "string" };
    const flag = { type: "boolean", default: false };
    const axis = (name) => ({ ...text, default: config.axes[name].join(",") });
    const { values } = parseArgs({
        args,
        options: {
            ...Object.fromEntries(Object.keys(config.axes).map((name) => [name, axis(name)])),
            ...{ samples: { ...text, default: String(config.samples) }, "limit-s": text },
            folder: { ...text, default: join(tmpdir(), "spillway-node-delivery") },
            duckdb: { ...text, default: "on" },
            ...{ record: text, commit: text, json: flag, help: flag, fresh: flag, "keep-files": flag }
        }
    });
    return { ...values, axes: axesOf(values), ...numbersOf(values) };
}

function axesOf(values) {
    const axes = Object.fromEntries(Object.keys(config.axes).map((name) => [name, values[name].split(",")]));
    for (const name of ["from", "results", "devices"]) {
        const unknown = axes[name].find((value) => !config.axes[name].includes(value));
        if (unknown === undefined) continue;
        throw new Error(`Expected ${config.axes[name].join(", ")} for --${name} but received '${unknown}'.`);
    }
    // DuckDB's tables are made for up to so many (node-duckdb-tables.mjs).
    for (const [name, most] of Object.entries({ bits: 31, columns: 15 })) {
        axes[name] = axes[name].map((value) => wholeNumber(name, value, most));
    }
    return axes;
}

function wholeNumber(name, value, most = Number.MAX_SAFE_INTEGER) {
    const number = Number(value);
    if (Number.isSafeInteger(number) && number >= 1 && number <= most) return number;
    const range = most === Number.MAX_SAFE_INTEGER ? "from 1 on" : `from 1 to ${most}`;
    throw new Error(`Expected whole numbers ${range} for --${name} but received '${value}'.`);
}

function numbersOf(values) {
    const limit = values["limit-s"];
    if (limit !== undefined && !(Number(limit) > 0)) {
        throw new Error(`Expected a number of seconds for --limit-s but received '${limit}'.`);
    }
    if (!["on", "off"].includes(values.duckdb)) {
        throw new Error(`Expected 'on' or 'off' for --duckdb but received '${values.duckdb}'.`);
    }
    if (values.record !== undefined && values.commit === undefined) {
        throw new Error("Records name the commit that they are of: --record needs --commit.");
    }
    const deadline = limit === undefined ? undefined : Date.now() + Number(limit) * 1000;
    return { samples: wholeNumber("samples", values.samples), deadline };
}
