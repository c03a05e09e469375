// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { mkdir, rm, rmdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { SpillwayError } from "../../index.js";
import { folderError } from "../folders.js";

/** The folder that `generate` writes to, and what was there before. */
export interface GenerateTarget {
    /** Before the work: that the second file exists would show only after the first has been written. */
    refuseExisting(): void;
    /** Removes what this run has made: these finished files, and the folder. Returns what is to be said about it. */
    undo(finished: readonly string[]): Promise<string[]>;
}

/** Removes empty folders from `folder` up to `top`, which are those that this run has made. */
async function removeFolders(folder: string, top: string): Promise<void> {
    for (let path = resolve(folder); path.startsWith(resolve(top)); path = dirname(path)) {
        const removed = await rmdir(path).then(
            () => true,
            () => false // something else lies in it by now
        );
        if (!removed) return;
    }
}

/**
 * Makes the folder, with those above it, and returns the topmost that was missing. Node's own `recursive` never comes
 * back where the system lets nobody make a folder (/proc).
 */
async function makeFolders(folder: string): Promise<string | undefined> {
    try {
        await mkdir(folder);
        return folder;
    } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === "EEXIST" && (await stat(folder)).isDirectory()) return undefined;
        const parent = dirname(resolve(folder));
        if (code !== "ENOENT" || parent === resolve(folder)) throw error;
        const top = await makeFolders(parent);
        await mkdir(folder);
        return top ?? folder;
    }
}

/** Makes the folder if it is missing. */
export async function openTarget(folder: string, names: readonly string[]): Promise<GenerateTarget> {
    const made = await makeFolders(folder).catch((error: unknown) => {
        throw folderError(folder, "the generated files", error);
    });
    const existing = names.map((name) => join(folder, name)).filter((path) => existsSync(path));
    return {
        refuseExisting() {
            const [path] = existing;
            if (path === undefined) return;
            throw new SpillwayError("OUTPUT_EXISTS", `The output file "${path}" exists`, { path });
        },
        async undo(finished) {
            const lines: string[] = [];
            for (const path of finished) {
                if (existing.includes(path)) {
                    lines.push(`${path} is complete and has replaced an older file, so it stays.`);
                } else {
                    const outcome = await rm(path, { force: true }).then(
                        () => "is removed again.",
                        (error: Error) => `could not be removed: ${error.message}`
                    );
                    lines.push(`${path} was complete and ${outcome}`);
                }
            }
            if (made !== undefined) await removeFolders(folder, made);
            return lines;
        }
    };
}
