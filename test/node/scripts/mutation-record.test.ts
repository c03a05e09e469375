// SPDX-License-Identifier: Apache-2.0
// What is kept of a mutation run: scores per file and folder, and the mutants that no test noticed.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface FileRecord {
    killed: number;
    score: number | null;
    survivors: string[];
    commit: string;
}
interface MutationRecord {
    folders: Record<string, Record<string, number | null>>;
    files: Record<string, FileRecord>;
}
interface RecordModule {
    fileRecords: (results: object[], stamp: object) => MutationRecord["files"];
    mergedRecord: (before: MutationRecord | null, results: object[], more: object) => MutationRecord;
    readRecord: (file?: string) => MutationRecord | null;
    writeRecord: (record: MutationRecord, file: string) => void;
    folderOf: (name: string, folders: string[]) => string | undefined;
}
const { fileRecords, folderOf, mergedRecord, readRecord, writeRecord } = (await import(
    join(repositoryRoot, "scripts/steps/mutation-record.mjs")
)) as RecordModule;

/** As Stryker's `MutantResult`. */
const mutant = (file: string, status: string, line = 1, more: object = {}) => ({
    ...{
        fileName: join(repositoryRoot, file),
        status,
        mutatorName: "BlockStatement",
        replacement: "{}",
        static: false
    },
    ...{ location: { start: { line, column: 5 }, end: { line, column: 9 } }, ...more }
});
const stamp = { date: "2026-11-24", commit: "abc1234" };
const folders = ["src/a", "src/b"];
const inFolder = (folder: string) => ["one.ts", "two.ts"].map((name) => `${folder}/${name}`);
const merge = (before: MutationRecord | null, results: object[], seconds = {}) =>
    mergedRecord(before, results, { folders, inFolder, stamp, seconds });

describe("a file", () => {
    test("has the share of its mutants that a test noticed, a hang being noticed; others are counted apart", () => {
        const statuses = ["Killed", "Killed", "Timeout", "Survived", "NoCoverage", "RuntimeError", "Ignored"];
        const results = statuses.map((status, i) =>
            mutant("src/a/one.ts", status, i + 1, { static: status === "Ignored" })
        );
        const { "src/a/one.ts": file, ...others } = fileRecords(results, stamp);
        expect(others).toEqual({});
        expect(file).toEqual({
            ...stamp,
            ...{ killed: 2, timeout: 1, survived: 1, uncovered: 1, static: 1, errors: 1, score: 60 },
            survivors: ["4:5 BlockStatement: {}", "5:5 BlockStatement (no test): {}"]
        });
    });

    test("has no score without mutants, and lists what is left by line, in one short line each", () => {
        expect(fileRecords([mutant("src/a/one.ts", "Ignored")], stamp)["src/a/one.ts"]!.score).toBeNull();
        const long = { replacement: `if (a)\n    ${"b".repeat(100)}` };
        const results = [mutant("src/a/one.ts", "Survived", 30, long), mutant("src/a/one.ts", "Survived", 4)];
        expect(fileRecords(results, stamp)["src/a/one.ts"]!.survivors).toEqual([
            "4:5 BlockStatement: {}",
            `30:5 BlockStatement: if (a) ${"b".repeat(53)}...`
        ]);
    });
});

describe("the record", () => {
    const first = merge(null, [mutant("src/a/one.ts", "Killed"), mutant("src/b/two.ts", "Survived")], { "src/a": 12 });

    test("sums up what was measured of each folder", () => {
        const sums = { timeout: 0, uncovered: 0, static: 0, errors: 0 };
        expect(first.folders).toEqual({
            "src/a": { files: 2, measured: 1, killed: 1, survived: 0, ...sums, score: 100, seconds: 12 },
            "src/b": { files: 2, measured: 1, killed: 0, survived: 1, ...sums, score: 0 }
        });
    });

    test("keeps other files, replaces those that were run again, and forgets those that are gone", () => {
        const again = merge(first, [mutant("src/b/two.ts", "Killed"), mutant("src/b/gone.ts", "Killed")]);
        expect(Object.keys(again.files)).toEqual(["src/a/one.ts", "src/b/two.ts"]);
        expect(again.files["src/b/two.ts"]).toMatchObject({ killed: 1, survivors: [] });
        expect(again.folders["src/a"]).toEqual(first.folders["src/a"]);
        expect(again.folders["src/b"]!["score"]).toBe(100);
    });

    test("is written and read again as it was", () => {
        using sandbox = new Sandbox();
        const file = sandbox.path("mutation.json");
        expect(readRecord(file)).toBeNull();
        const both = merge(first, [mutant("src/b/one.ts", "Survived"), mutant("src/b/one.ts", "NoCoverage", 3)]);
        writeRecord(both, file);
        expect(readRecord(file)).toEqual(both);
        writeRecord(merge(null, []), file);
        expect(readRecord(file)).toMatchObject({ files: {} });
    });
});

test("a path belongs to the folder that it is in, whatever else begins alike", () => {
    expect(folderOf("src/a", folders)).toBe("src/a");
    expect(folderOf("src/a/deep/file.ts", folders)).toBe("src/a");
    expect(folderOf("src/ab/file.ts", folders)).toBeUndefined();
});

test("the record of this tree is there, and of folders and files that are, too", () => {
    const record = readRecord()!;
    expect(Object.keys(record.folders)).toEqual(["src/planner", "src/arrow", "src/runtime", "src/execute"]);
    const sums = Object.values(record.folders).reduce((sum, { measured }) => sum + measured!, 0);
    expect(sums).toBe(Object.keys(record.files).length);
    expect(sums).toBeGreaterThan(0);
});
