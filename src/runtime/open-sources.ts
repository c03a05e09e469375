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
 * Sources of relations in memory that have many record batches. They stay open for the queries that follow, as long as
 * the relation is there: they hold references to its memory, and none of their own but for lists of its buffers.
 */
export class OpenSources {
    readonly #known = new WeakMap<SourceLayout, Promise<SourceHandle>>();
    #open: WeakRef<SourceHandle>[] = [];

    /** Opens a source, which is closed at the end of the job unless it is a whole relation's and stays open. */
    public async open(job: Job, layout: SourceLayout, isWhole: boolean): Promise<SourceHandle> {
        const { binding, engine } = job;
        const { batches, dictionaries, files } = layout;
        if (!isWhole || files !== null || batches.length < batchesMin || dictionaries.length > 0) {
            const source = await binding.openSource(engine, layout);
            job.onEnd(() => binding.closeSource(source));
            return source;
        }
        const opening = this.#known.get(layout) ?? binding.openSource(engine, layout);
        this.#known.set(layout, opening);
        try {
            const source = await opening;
            this.#keep(source);
            return source;
        } catch (error) {
            this.#known.delete(layout);
            throw error;
        }
    }

    #keep(source: SourceHandle): void {
        this.#open = this.#open.filter((known) => known.deref() !== undefined && known.deref() !== source);
        this.#open.push(new WeakRef(source));
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
