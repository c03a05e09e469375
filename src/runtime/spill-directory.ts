// SPDX-License-Identifier: Apache-2.0
import { closeSync, constants, mkdtempSync, openSync, rmdirSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { SpillwayError } from "../errors.js";

// Linux's magic numbers of file systems that are memory.
const memoryFileSystems: readonly number[] = [0x01021994, 0x858458f6]; // tmpfs, ramfs

// A file that never has a name (O_TMPFILE of Linux, open(2)), which Node has no constant for; the same number on x86,
// Arm and POWER.
const unnamedFile = 0o20000000 | constants.O_DIRECTORY;

/** A process that is killed meanwhile leaves nothing, where the file system has files without names. */
function tryFolder(folder: string): void {
    try {
        closeSync(openSync(folder, unnamedFile | constants.O_RDWR, 0o600));
    } catch {
        rmdirSync(mkdtempSync(join(folder, "spillway-probe-")));
    }
}

/** Spilling may begin hours into a query: whether the folder takes files is found out now. */
export function checkSpillDirectory(folder: string): void {
    try {
        tryFolder(folder);
    } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        throw new SpillwayError(
            "INVALID_ARGUMENT",
            `Expected an existing folder that can be written for \`memory.spillDirectory\` but '${folder}' is none ` +
                `(${code}); make it or name another one`,
            { option: "memory.spillDirectory", path: folder },
            error
        );
    }
}

async function isMemory(folder: string): Promise<boolean> {
    return await statfs(folder).then(
        ({ type }) => memoryFileSystems.includes(type),
        () => false
    );
}

/**
 * The folder for spill files where none was named: the first that takes files and is no memory, which spilling is to
 * save. Else the first that takes files. Empty when there is none, since most queries never spill; one that has to then
 * says which option to set.
 */
export async function defaultSpillDirectory(candidates = [tmpdir(), "/var/tmp"]): Promise<string> {
    let inMemory = "";
    for (const folder of candidates) {
        try {
            tryFolder(folder);
        } catch {
            continue;
        }
        if (!(await isMemory(folder))) return folder;
        inMemory ||= folder;
    }
    return inMemory;
}
