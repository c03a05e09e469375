// SPDX-License-Identifier: Apache-2.0
// Where result records go: docs/results/<machine>/<experiment>.json, with a plot beside it.
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** The commit that is measured; null where nothing tells it. */
export async function currentCommit() {
    try {
        const { stdout } = await promisify(execFile)("git", ["describe", "--always", "--dirty"], { cwd: root });
        return stdout.trim();
    } catch {
        return process.env.SPILLWAY_COMMIT ?? null; // not a checkout: a packed copy says where it came from
    }
}

/** Where the records of an experiment on a machine are. */
export const recordsPath = (machine, experiment) => join(root, "docs", "results", machine, `${experiment}.json`);

/** The records of a file; none where it is not there. */
export const readRecords = (path) => (existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : []);

export async function writeRecords(path, records) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, `${JSON.stringify(records, null, 4)}\n`);
}

/** Writes a plot, an SVG text, beside the records of a file. */
export const writePlot = async (path, plot) => await writeFile(path.replace(/\.json$/, ".svg"), plot);
