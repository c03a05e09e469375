// SPDX-License-Identifier: Apache-2.0
import { lstatSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { folderError } from "./folders.js";

/** A new folder for files that are of no use after the command. */
export interface WorkFolder {
    readonly path: string;
    /** Removes it with all that is in it. */
    remove(): void;
}

/** Clock ticks since boot at which a process began, by which it is told from a later one with its number. */
function startOf(pid: number): string | null {
    try {
        // The command in field 2 may hold blanks and parentheses; the start is field 22.
        const text = readFileSync(`/proc/${pid}/stat`, "utf8");
        return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? null;
    } catch {
        return null;
    }
}

/** Processes of another namespace (a container) have numbers that mean nothing here. */
function pidNamespace(): string {
    try {
        return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
    } catch {
        return "0";
    }
}

/** Without /proc, or where the start is not known, nobody can tell. */
function hasEnded(pid: number, start: string): boolean {
    return start !== "0" && startOf(process.pid) !== null && startOf(pid) !== start;
}

function isOwnFolder(path: string): boolean {
    const found = lstatSync(path, { throwIfNoEntry: false });
    return found !== undefined && found.isDirectory() && found.uid === process.geteuid?.();
}

/** Removes those of processes that were killed before they could. In doubt, and where it fails, they stay. */
async function removeAbandoned(parent: string, prefix: string): Promise<void> {
    const pattern = /^(\d{1,10})-(\d+)-(\d+)-[^-]+$/;
    const names = await readdir(parent).catch(() => []);
    for (const name of names.filter((candidate) => candidate.startsWith(prefix))) {
        const [, pid, start, namespace] = pattern.exec(name.slice(prefix.length)) ?? [];
        if (namespace === undefined || namespace === "0" || namespace !== pidNamespace()) continue;
        const path = join(parent, name);
        if (!hasEnded(Number(pid), start!) || !isOwnFolder(path)) continue;
        await rm(path, { recursive: true, force: true }).catch(() => undefined);
    }
}

/**
 * Makes `spillway-<kind>-...` in `parent`. It goes with `remove`, or else when the process ends; what a killed process
 * has left there goes now. `purpose`: what the folder is for, in errors.
 */
export async function openWorkFolder(parent: string, kind: string, purpose: string): Promise<WorkFolder> {
    const prefix = `spillway-${kind}-`;
    await removeAbandoned(parent, prefix);
    const owner = `${process.pid}-${startOf(process.pid) ?? "0"}-${pidNamespace()}`;
    const path = await mkdtemp(join(parent, `${prefix}${owner}-`)).catch((error: unknown) => {
        throw folderError(parent, purpose, error);
    });
    const clean = (): void => rmSync(path, { recursive: true, force: true });
    process.once("exit", clean); // a second Ctrl-C ends the process without `finally`
    return {
        path,
        remove() {
            clean();
            process.off("exit", clean);
        }
    };
}
