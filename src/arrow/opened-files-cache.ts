// SPDX-License-Identifier: Apache-2.0
import { Field, Schema, type DataType } from "apache-arrow";

import type { FileEnds } from "../model/files.js";
import { readEnds, type FileReader } from "./ipc-messages.js";
import { checkPaths, openArrowFiles, type OpenedFiles } from "./open-files.js";

interface Entry {
    opened: OpenedFiles;
    /** By path. */
    ends: ReadonlyMap<string, FileEnds>;
    bytes: number;
}

/** What all relations that are kept may take together: those of about 200 small files. No budget counts it. */
const bytesMax = 16 * 1024 * 1024;
// Native objects of a file (its path, its dictionaries) and what the budget does not count of its batches.
const fileBytes = 8 * 1024;

/** The first and last bytes of the files (64 KiB of each). */
function entryBytes(ends: ReadonlyMap<string, FileEnds>): number {
    let bytes = 0;
    for (const [path, { head, tail }] of ends) bytes += fileBytes + path.length + head.byteLength + tail.byteLength;
    return bytes;
}

/** Users may write to the schema of a relation; that of the next one is still the file's. */
function withOwnSchema(opened: OpenedFiles): OpenedFiles {
    const { fields, metadata, dictionaries } = opened.schema;
    const own = fields.map(
        ({ name, type, nullable, metadata: of }) => new Field(name, type as DataType, nullable, new Map(of))
    );
    return { ...opened, schema: new Schema(own, new Map(metadata), dictionaries) };
}

/** `before`: of a file that is kept, so that it has an identity. */
function isUnchanged(before: FileEnds, now: FileEnds): boolean {
    if (before.identity !== now.identity) return false;
    return Buffer.compare(before.head, now.head) === 0 && Buffer.compare(before.tail, now.tail) === 0;
}

/**
 * Relations of files that were opened before. A script often opens the files of a relation again for each query: while
 * device, inode, size, times, first and last bytes of all files are the same, so are their message headers. Reading
 * and decoding those of two files of 150 batches took 2.5 ms of a join of 24 ms.
 */
export class OpenedFilesCache {
    readonly #entries = new Map<string, Entry>(); // the last used one is the last
    #bytes = 0;
    #heldBytes = 0;

    public constructor(
        private readonly reader: FileReader,
        /** What relations may hold of the budget only because they are kept here: no query has it. */
        private readonly heldBytesMax: number
    ) {}

    /** As {@link openArrowFiles}. */
    public async open(path: unknown): Promise<OpenedFiles> {
        const paths = checkPaths(path);
        const key = JSON.stringify(paths);
        const ends = new Map<string, FileEnds>();
        const known = this.#entries.get(key);
        if (known !== undefined && (await this.#areUnchanged(known, ends))) {
            this.#keep(key, known);
            return withOwnSchema(known.opened);
        }
        this.#forget(key);
        const reader: FileReader = {
            ends: async (name, ...bytes) => {
                const found = ends.get(name) ?? (await this.reader.ends(name, ...bytes));
                ends.set(name, found);
                return found;
            },
            ranges: async (...wanted) => await this.reader.ranges(...wanted),
            footer: async (name) => await this.reader.footer(name),
            batches: async (spec) => await this.reader.batches(spec)
        };
        const opened = await openArrowFiles(paths, reader);
        // What nobody can tell to be unchanged next time is not worth its memory.
        const tells = [...ends.values()].every(({ identity }) => identity !== null);
        if (tells) this.#keep(key, { opened, ends, bytes: entryBytes(ends) });
        return withOwnSchema(opened);
    }

    /** Relations that nobody uses any more can be collected then. */
    public forgetAll(): void {
        for (const key of [...this.#entries.keys()]) this.#forget(key);
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

    #keep(key: string, entry: Entry): void {
        this.#forget(key);
        if (entry.bytes > bytesMax || entry.opened.heldBytes > this.heldBytesMax) return;
        this.#entries.set(key, entry);
        this.#bytes += entry.bytes;
        this.#heldBytes += entry.opened.heldBytes;
        for (const oldest of this.#entries.keys()) {
            if (this.#bytes <= bytesMax && this.#heldBytes <= this.heldBytesMax) return;
            this.#forget(oldest);
        }
    }

    #forget(key: string): void {
        const entry = this.#entries.get(key);
        if (entry === undefined) return;
        this.#bytes -= entry.bytes;
        this.#heldBytes -= entry.opened.heldBytes;
        this.#entries.delete(key);
    }
}
