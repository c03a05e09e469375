// SPDX-License-Identifier: Apache-2.0
import type { Job } from "../execute/job.js";
import type { SourceLayout } from "../model/column-type.js";
import type { Binding, SourceHandle } from "../native/binding.js";

/**
 * To open a source takes a few microseconds for each buffer of its record batches: 65,536 batches of four columns took
 * most of a second, and a sum of two of the columns 50 to 200 ms.
 */
const batchesMin = 256;

/**
 * A count of 1,000 x 1,000 rows takes 0.46 ms with both sources open and 0.55 otherwise. Of larger relations it would
 * not show, and their memory, when the caller drops it, would wait for one more collection of garbage: all of the
 * ArrayBuffers that they lie in.
 */
const smallBytesMax = 64 * 1024;

/** Is it worth keeping open, and does that keep no more than references? `small`: also for being small. */
function staysOpen({ batches, dictionaries, files }: SourceLayout, small: boolean): boolean {
    if (files !== null || dictionaries.length > 0) return false;
    if (batches.length >= batchesMin) return true;
    if (!small) return false;
    const kept = new Set<ArrayBufferLike>();
    for (const { memory } of batches) for (const view of memory) if (view !== null) kept.add(view.buffer);
    let bytes = 0;
    for (const buffer of kept) bytes += buffer.byteLength;
    return bytes <= smallBytesMax;
}

/**
 * Sources of relations in memory that are small or have many record batches. They stay open for the queries that
 * follow, as long as the relation is there: they hold references to its memory, and none of their own but for lists of
 * its buffers.
 */
export class OpenSources {
    readonly #known = new WeakMap<SourceLayout, Promise<SourceHandle>>();
    #open: WeakRef<SourceHandle>[] = [];
    /** So many are looked through for those that are gone. */
    #lookAt = 64;

    /**
     * Opens a source, which is closed at the end of the job unless it is a whole relation's and stays open. `small`:
     * one of few rows does; queries on a GPU leave memory with it, and would not be faster.
     */
    public async open(job: Job, layout: SourceLayout, isWhole: boolean, small = true): Promise<SourceHandle> {
        const { binding, engine } = job;
        if (!isWhole || !staysOpen(layout, small)) {
            const source = await binding.openSource(engine, layout);
            job.onEnd(() => binding.closeSource(source));
            return source;
        }
        let opening = this.#known.get(layout);
        if (opening === undefined) {
            opening = binding.openSource(engine, layout).then((source) => {
                this.#keep(source);
                return source;
            });
            this.#known.set(layout, opening);
        }
        try {
            return await opening;
        } catch (error) {
            this.#known.delete(layout);
            throw error;
        }
    }

    #keep(source: SourceHandle): void {
        this.#open.push(new WeakRef(source));
        if (this.#open.length < this.#lookAt) return;
        this.#open = this.#open.filter((known) => known.deref() !== undefined);
        this.#lookAt = Math.max(64, 2 * this.#open.length);
    }

    /** When the runtime closes. */
    public close(binding: Binding): void {
        for (const known of this.#open) {
            const source = known.deref();
            if (source !== undefined) binding.closeSource(source);
        }
        this.#open = [];
    }
}
