// SPDX-License-Identifier: Apache-2.0
// docs/results/mutation.json: for each file of src/ that was mutated the date, the commit, how many mutants were killed
// and which were not; for each folder their sums.
import { readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { root } from "./step.mjs";

export const recordName = "docs/results/mutation.json";
const recordFile = join(root, recordName);
const replacementLength = 60;

/** Stryker's word for each, and that of the record. What is left out is no mutant of the score. */
const counted = { Killed: "killed", Timeout: "timeout", Survived: "survived", NoCoverage: "uncovered" };

const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

/** Per cent of the mutants that some test noticed, one digit; null without any. */
export function scoreOf({ killed, timeout, survived, uncovered }) {
    const all = killed + timeout + survived + uncovered;
    return all === 0 ? null : Math.round(((killed + timeout) / all) * 1000) / 10;
}

function survivorText({ location, mutatorName, replacement = "", status }) {
    const { line, column } = location.start;
    const text = replacement.replaceAll(/\s+/g, " ").trim();
    const short = text.length > replacementLength ? `${text.slice(0, replacementLength)}...` : text;
    return `${line}:${column} ${mutatorName}${status === "NoCoverage" ? " (no test)" : ""}: ${short}`;
}

const byPlace = (a, b) =>
    a.location.start.line - b.location.start.line || a.location.start.column - b.location.start.column;

/** The record of each file of Stryker's results. `stamp`: date and commit. */
export function fileRecords(results, stamp) {
    const files = {};
    const names = [...new Set(results.map(({ fileName }) => fileName))].sort();
    for (const name of names) {
        const own = results.filter(({ fileName }) => fileName === name).sort(byPlace);
        const count = (status) => own.filter((each) => each.status === status).length;
        const counts = Object.fromEntries(Object.entries(counted).map(([status, word]) => [word, count(status)]));
        files[relative(root, name)] = {
            ...stamp,
            ...counts,
            // Mutants of module level are left out: no test of one mutant at a time sees them.
            static: own.filter(({ status, static: isStatic }) => status === "Ignored" && isStatic).length,
            // They do not load, or end the process of the tests.
            errors: count("RuntimeError") + count("CompileError"),
            score: scoreOf(counts),
            survivors: own.filter(({ status }) => status === "Survived" || status === "NoCoverage").map(survivorText)
        };
    }
    return files;
}

/** The sums of the files of each folder. `inFolder`: files that it has now; seconds of whole runs of it are kept. */
function folderRecords(files, folders, inFolder, seconds) {
    const entries = folders.map((folder) => {
        const names = inFolder(folder);
        const measured = names.filter((name) => Object.hasOwn(files, name)).map((name) => files[name]);
        const sums = {};
        for (const word of [...Object.values(counted), "static", "errors"]) {
            sums[word] = sumOf(measured.map((file) => file[word]));
        }
        const took = seconds[folder] === undefined ? {} : { seconds: seconds[folder] };
        return [folder, { files: names.length, measured: measured.length, ...sums, score: scoreOf(sums), ...took }];
    });
    return Object.fromEntries(entries);
}

/**
 * The record with these new results of files: others keep theirs, files that are gone leave it. `seconds`: of the
 * folders that were run whole.
 */
export function mergedRecord(before, results, { folders, inFolder, stamp, seconds }) {
    const merged = { ...before?.files, ...fileRecords(results, stamp) };
    const there = new Set(folders.flatMap(inFolder));
    const names = Object.keys(merged).filter((name) => there.has(name));
    const files = Object.fromEntries(names.sort().map((name) => [name, merged[name]]));
    const known = Object.entries(before?.folders ?? {}).filter(([, { seconds: took }]) => took !== undefined);
    const took = { ...Object.fromEntries(known.map(([folder, record]) => [folder, record.seconds])), ...seconds };
    return { folders: folderRecords(files, folders, inFolder, took), files };
}

export function readRecord(file = recordFile) {
    try {
        return JSON.parse(readFileSync(file, "utf8"));
    } catch (error) {
        if (error.code === "ENOENT") return null;
        throw error;
    }
}

/** A line for the counts of each folder and file, and one for each survivor. */
export function recordText({ folders, files }) {
    const object = (entries) => `{\n${entries.join(",\n")}\n  }`;
    const ofFolders = Object.entries(folders).map(
        ([name, sums]) => `    ${JSON.stringify(name)}: ${JSON.stringify(sums)}`
    );
    const ofFiles = Object.entries(files).map(([name, { survivors, ...counts }]) => {
        const lines = survivors.map((text) => `\n      ${JSON.stringify(text)}`).join(",");
        const list = survivors.length === 0 ? "[]" : `[${lines}\n    ]`;
        return `    ${JSON.stringify(name)}: ${JSON.stringify(counts).slice(0, -1)},"survivors":${list}}`;
    });
    return `{\n  "folders": ${object(ofFolders)},\n  "files": ${object(ofFiles)}\n}\n`;
}

export function writeRecord(record, file = recordFile) {
    writeFileSync(file, recordText(record));
}

/** "src/planner" of "src/planner/streaming/join/sizes.ts"; undefined outside of them. */
export function folderOf(name, folders) {
    return folders.find((folder) => `${name}/`.startsWith(`${folder}/`));
}
