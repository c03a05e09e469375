// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { tableToIPC, type Table } from "apache-arrow";

const graceMilliseconds = 2000;

/** Resolves as soon as the condition holds; rejects when it does not within the time. */
export async function until(condition: () => boolean, milliseconds: number): Promise<void> {
    const end = performance.now() + milliseconds;
    while (!condition()) {
        if (performance.now() > end) throw new Error(`waited ${milliseconds} ms in vain for ${String(condition)}`);
        await setTimeout(10);
    }
}

/** A folder of one test: inputs, spill files, outputs. Disposing it checks that the engine left nothing behind. */
export class Sandbox implements Disposable {
    readonly folder = mkdtempSync(join(tmpdir(), "spillway-test-"));
    readonly spill = join(this.folder, "spill");
    readonly output = join(this.folder, "output");
    #files = 0;

    constructor() {
        mkdirSync(this.spill);
        mkdirSync(this.output);
    }

    path(name: string): string {
        return join(this.folder, name);
    }

    /** Writes an Arrow IPC file with Arrow JS. */
    write(table: Table, name = `input-${this.#files++}.arrow`): string {
        const path = this.path(name);
        writeFileSync(path, tableToIPC(table, "file"));
        return path;
    }

    /** Every file in the spill and output folders, hidden ones too. */
    leftovers(expected: readonly string[] = []): string[] {
        const names = [this.spill, this.output].flatMap((folder) =>
            readdirSync(folder).map((name) => join(folder, name))
        );
        return names.filter((name) => !expected.includes(name));
    }

    /** Files of this folder that a process holds open; an unlinked spill file shows here and nowhere else. */
    openFiles(process: number | "self" = "self"): string[] {
        return readdirSync(`/proc/${process}/fd`).flatMap((descriptor) => {
            try {
                const target = readlinkSync(`/proc/${process}/fd/${descriptor}`);
                return target.startsWith(this.folder) ? [target] : [];
            } catch {
                return []; // the descriptor that reads this list
            }
        });
    }

    /**
     * Throws unless the spill folder is empty, the output folder holds `expected` only and nothing is open. Native
     * threads let go of their files a moment after the promise of their job has settled, so it looks for a while.
     * `keptSpillFiles`: as many may be open, which an open runtime keeps for its next query.
     */
    async expectClean(expected: readonly string[] = [], keptSpillFiles = 0): Promise<void> {
        const spilled = (name: string) => name.startsWith(this.spill);
        const open = () => {
            const names = this.openFiles();
            return names.filter(spilled).length > keptSpillFiles ? names : names.filter((name) => !spilled(name));
        };
        const found = () => [
            ...this.leftovers(expected).map((name) => `left behind: ${name}`),
            ...open().map((name) => `still open: ${name}`)
        ];
        await until(() => found().length === 0, graceMilliseconds).catch(() => {
            throw new Error(found().join(", "));
        });
    }

    [Symbol.dispose](): void {
        rmSync(this.folder, { recursive: true, force: true });
    }
}
