// SPDX-License-Identifier: Apache-2.0
import { Field, Schema, type DataType } from "apache-arrow";

import type { FileEnds } from "../model/file-ends.js";
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
const batchBytes = 1024; // measured: objects of a batch of two columns

/** The first and last bytes of the files (64 KiB of each), and where the buffers of their batches lie. */
function entryBytes(opened: OpenedFiles, ends: ReadonlyMap<string, FileEnds>): number {
    let bytes = 0;
    for (const [path, { head, tail }] of ends) bytes += path.length + head.byteLength + tail.byteLength;
    const { batches, dictionaries } = opened.layout;
    const all = [...batches, ...dictionaries.flatMap((dictionary) => dictionary.batches)];
    for (const { nodes, buffers } of all) bytes += batchBytes + nodes.byteLength + buffers.byteLength;
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
    #bytes = 0;

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
            ranges: async (...wanted) => await this.reader.ranges(...wanted)
        };
        const opened = await openArrowFiles(paths, reader);
        await this.check(opened);
        // What nobody can tell to be unchanged next time is not worth its memory.
        const tells = [...ends.values()].every(({ identity }) => identity !== null);
        if (tells) this.#keep(key, { opened, ends, bytes: entryBytes(opened, ends) });
        return withOwnSchema(opened);
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
        if (entry.bytes > bytesMax) return;
        this.#entries.set(key, entry);
        this.#bytes += entry.bytes;
        for (const oldest of this.#entries.keys()) {
            if (this.#bytes <= bytesMax) return;
            this.#forget(oldest);
        }
    }

    #forget(key: string): void {
        this.#bytes -= this.#entries.get(key)?.bytes ?? 0;
        this.#entries.delete(key);
    }
}
