// SPDX-License-Identifier: Apache-2.0
import type { FileEnds } from "../model/file-ends.js";
import { readEnds, type FileReader } from "./ipc-messages.js";
import { checkPaths, openArrowFiles, type OpenedFiles } from "./open-files.js";

interface Entry {
    opened: OpenedFiles;
    /** By path. */
    ends: ReadonlyMap<string, FileEnds>;
}

// Relations that are kept, and batches of one that is: a batch of two columns takes about 1 KB.
const entriesMax = 32;
const batchesMax = 10_000;

function isUnchanged(before: FileEnds | undefined, now: FileEnds): boolean {
    if (before === undefined || now.identity === null || before.identity !== now.identity) return false;
    return Buffer.compare(before.head, now.head) === 0 && Buffer.compare(before.tail, now.tail) === 0;
}

/**
 * Relations of files that were opened before. A script often opens the files of a relation again for each query: while
 * device, inode, size, times, first and last bytes of all files are the same, so are their message headers. Reading
 * and decoding those of two files of 150 batches took 2.5 ms of a join of 24 ms.
 */
export class OpenedFilesCache {
    readonly #entries = new Map<string, Entry>(); // the last used one is the last

    public constructor(
        private readonly reader: FileReader,
        /** Rejects when a buffer does not lie inside its file; what it rejects is not kept. */
        private readonly check: (opened: OpenedFiles) => Promise<void>
    ) {}

    /** As {@link openArrowFiles}. */
    public async open(path: unknown): Promise<OpenedFiles> {
        const paths = checkPaths(path);
        const key = JSON.stringify(paths);
        const ends = new Map<string, FileEnds>();
        const known = this.#entries.get(key);
        if (known !== undefined && (await this.#areUnchanged(known, ends))) return this.#keep(key, known).opened;
        const reader: FileReader = {
            ends: async (name, ...bytes) => {
                const found = ends.get(name) ?? (await this.reader.ends(name, ...bytes));
                ends.set(name, found);
                return found;
            },
            ranges: async (...wanted) => await this.reader.ranges(...wanted)
        };
        const opened = await openArrowFiles(paths, reader);
        await this.check(opened);
        return this.#keep(key, { opened, ends }).opened;
    }

    /** Puts what it reads into `ends`. A file that cannot be read has changed: whoever opens it says what is wrong. */
    async #areUnchanged(known: Entry, ends: Map<string, FileEnds>): Promise<boolean> {
        for (const [path, before] of known.ends) {
            const now = await readEnds(this.reader, path).catch(() => undefined);
            if (now === undefined) return false;
            ends.set(path, now);
            if (!isUnchanged(before, now)) return false;
        }
        return true;
    }

    #keep(key: string, entry: Entry): Entry {
        this.#entries.delete(key);
        if (entry.opened.layout.batches.length > batchesMax) return entry;
        this.#entries.set(key, entry);
        const [oldest] = this.#entries.keys();
        if (this.#entries.size > entriesMax && oldest !== undefined) this.#entries.delete(oldest);
        return entry;
    }
}
