// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tableToIPC, type Table } from "apache-arrow";

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

    /** Files of this folder that the process holds open; an unlinked spill file shows here and nowhere else. */
    openFiles(): string[] {
        return readdirSync("/proc/self/fd").flatMap((descriptor) => {
            try {
                const target = readlinkSync(`/proc/self/fd/${descriptor}`);
                return target.startsWith(this.folder) ? [target] : [];
            } catch {
                return []; // the descriptor that reads this list
            }
        });
    }

    /** Throws unless the spill folder is empty, the output folder holds `expected` only and nothing is open. */
    expectClean(expected: readonly string[] = []): void {
        const left = this.leftovers(expected);
        if (left.length > 0) throw new Error(`left behind: ${left.join(", ")}`);
        const open = this.openFiles();
        if (open.length > 0) throw new Error(`still open: ${open.join(", ")}`);
    }

    [Symbol.dispose](): void {
        rmSync(this.folder, { recursive: true, force: true });
    }
}
