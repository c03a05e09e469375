// SPDX-License-Identifier: Apache-2.0
// The tables of the suite as Arrow files: given ones, or those that `spillway generate` writes, and beside them those
// that queries derive from them. What is there already is taken as it is.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { openRuntime } from "../../../dist/index.js";
import { derivedTables, writeDerived } from "./derived-tables.mjs";
import { smallQueries, smallRows, smallTpchQueries } from "./small-queries.mjs";
import { ssbQueries } from "./ssb-queries.mjs";
import { tpchQueries } from "./tpch-queries.mjs";

const program = fileURLToPath(new URL("../../../dist/cli/main.js", import.meta.url));

const baseTables = {
    tpch: ["customer", "orders", "lineitem", "part", "partsupp", "supplier", "nation", "region"],
    ssb: ["lineorder", "customer", "supplier", "part", "date"],
    small: []
};

const say = (text) => process.stderr.write(`${text}\n`);
const tablePath = (folder, name) => join(folder, `${name}.arrow`);
const missingIn = (folder, suite) => baseTables[suite].filter((name) => !existsSync(tablePath(folder, name)));

/** Writes the tables of a benchmark that are not there. */
function generate(suite, folder, { scale, text }) {
    if (missingIn(folder, suite).length === 0) return;
    say(`generating ${suite} at scale ${scale}, ${text} text, in ${folder}`);
    const args = ["generate", suite, folder, "--scale", String(scale), "--overwrite", "--quiet"];
    if (text === "dictionary") args.push("--dictionary");
    const { status } = spawnSync(process.execPath, [program, ...args], { stdio: ["ignore", "ignore", "inherit"] });
    const missing = missingIn(folder, suite);
    if (status === 0 && missing.length === 0) return;
    throw new Error(`spillway generate ${suite} left no ${missing.join(", ")} in ${folder}; give --folder instead.`);
}

/** A folder for what is derived from given files, which changes when they do. */
function derivedFolder(work, folder, suite) {
    const files = baseTables[suite].map((name) => {
        const { size, mtimeMs } = statSync(tablePath(folder, name));
        return `${name} ${size} ${mtimeMs}`;
    });
    const hash = createHash("sha256")
        .update([resolve(folder), ...files].join("\n"))
        .digest("hex")
        .slice(0, 12);
    return join(work, `from-${basename(resolve(folder))}-${hash}`);
}

async function open(runtime, paths, names) {
    const relations = {};
    for (const name of names) relations[name] = await runtime.fromArrowFile(paths[name]);
    return relations;
}

/** The scale of TPC-H or SSB tables by their rows. */
const rowsAtScaleOne = { tpch: ["orders", 1_500_000], ssb: ["lineorder", 6_000_000] };

function scaleOf({ suite, scale }, relations) {
    if (scale !== undefined || suite === "small") return scale;
    const [name, rows] = rowsAtScaleOne[suite];
    return Number((relations[name].rows / rows).toPrecision(2));
}

/** Adds the derived tables to those of a set, and makes those that are not there. */
async function complete(set, work) {
    const { suite, folder } = set;
    const derivedIn = set.given ? derivedFolder(work, folder, suite) : join(folder, "derived");
    mkdirSync(derivedIn, { recursive: true });
    const paths = Object.fromEntries(baseTables[suite].map((name) => [name, tablePath(folder, name)]));
    const runtime = await openRuntime({ device: "cpu" });
    try {
        const relations = await open(runtime, paths, baseTables[suite]);
        const whole = { ...set, paths, derivedIn, scale: scaleOf(set, relations) };
        for (const [name, make] of Object.entries(derivedTables[suite])) {
            paths[name] = tablePath(derivedIn, name);
            if (existsSync(paths[name])) continue;
            say(`making ${name} in ${derivedIn}`);
            await writeDerived(make, whole, paths[name], relations, runtime);
        }
        return whole;
    } finally {
        await runtime.close();
    }
}

const given = (suite, folder) => {
    const missing = missingIn(folder, suite);
    if (missing.length > 0) throw new Error(`${folder} has no ${missing.map((name) => `${name}.arrow`).join(", ")}.`);
    return { suite, folder, text: "as given", given: true };
};

/** What sets there are, before their files are. */
function plannedSets({ folder, ssbFolder, scales, texts, work }) {
    const sets = [];
    if (folder !== undefined) sets.push(given("tpch", folder));
    if (ssbFolder !== undefined) sets.push(given("ssb", ssbFolder));
    if (sets.length > 0) return sets;
    return texts.flatMap((text) =>
        scales.flatMap((scale) =>
            ["tpch", "ssb"].map((suite) => ({ suite, scale, text, folder: join(work, `${suite}-${scale}-${text}`) }))
        )
    );
}

function queriesOf({ suite, kind, rows }) {
    if (suite === "small") return smallQueries(rows);
    if (kind === "small") return smallTpchQueries;
    return suite === "ssb" ? ssbQueries : tpchQueries;
}

/** The queries of a set by their names. */
export const queryByName = (set, name) => queriesOf(set).find((query) => query.name === name);

const everyName = new Set(
    [...smallRows.flatMap(smallQueries), ...smallTpchQueries, ...tpchQueries, ...ssbQueries].map(({ name }) => name)
);

/** Whether the suite has a query of this name. */
export const hasQuery = (name) => everyName.has(name);

/** Tables of few rows, where a budget decides nothing. */
function smallSets({ work, texts: [text] }) {
    const tables = smallRows.map((rows) => ({
        suite: "small",
        rows,
        folder: join(work, `small-${rows}`),
        inMemory: true
    }));
    return [...tables, { suite: "tpch", kind: "small", scale: 0.01, text, folder: join(work, `tpch-0.01-${text}`) }];
}

/** Each suite's data, smallest first; each with the names of those of its queries that `isWanted`. */
export function dataSets(options, isWanted) {
    const all = [...(options.budgetQuarter ? [] : smallSets(options)), ...plannedSets(options)];
    return all
        .map((set) => ({
            ...set,
            names: queriesOf(set)
                .map(({ name }) => name)
                .filter(isWanted)
        }))
        .filter(({ names }) => names.length > 0);
}

/** A set whose files are all there, and whose paths are known. */
export async function prepare(set, { work }) {
    mkdirSync(set.folder, { recursive: true });
    if (!set.given && set.suite !== "small") generate(set.suite, set.folder, set);
    return await complete(set, work);
}
