// SPDX-License-Identifier: Apache-2.0
import { toSpillwayError } from "../errors.js";
import type { KeySpec, SourceLayout } from "../model/column-type.js";
import type { SourceHandle } from "../native/binding.js";
import type { InputInfo, LogicalNode } from "../plan/logical.js";
import type { Policy } from "../planner/policy.js";
import { wantedStatistics, type KeyStatistics, type WantedStatistics } from "../planner/statistics.js";
import type { Job } from "../execute/job.js";
import { settleAll } from "./settle-all.js";

function keysText(keys: readonly KeySpec[]): string {
    return keys.map((key) => `${key.column}/${key.kind}/${key.width}`).join(",");
}

function keyOf(wanted: WantedStatistics): string {
    return `${wanted.sampleRows}${wanted.exactRange ? " exact" : ""}:${keysText(wanted.keys)}`;
}

/** Samples of key columns, taken once per relation; files that did not change are the same relation. */
export class StatisticsCache {
    readonly #known = new WeakMap<SourceLayout, Map<string, KeyStatistics>>();

    /** Statistics for a query, if none has to be sampled first. */
    public known(root: LogicalNode, policy: Policy): Map<string, KeyStatistics> | undefined {
        const statistics = new Map<string, KeyStatistics>();
        for (const wanted of wantedStatistics(root, policy)) {
            const sample = this.#find(wanted);
            if (sample === undefined) return undefined;
            statistics.set(wanted.id, sample);
        }
        return statistics;
    }

    /** A query found that the keys of an input are not as dense or unique as their sample: later plans know. */
    public disprove(input: InputInfo, keys: readonly KeySpec[]): void {
        const samples = input.source.kind === "layout" ? this.#known.get(input.source.layout) : undefined;
        for (const [key, sample] of samples ?? []) {
            if (key.endsWith(`:${keysText(keys)}`)) samples?.set(key, { ...sample, notDense: true });
        }
    }

    #find(wanted: WantedStatistics): KeyStatistics | undefined {
        const { source } = wanted.input;
        return source.kind === "layout" ? this.#known.get(source.layout)?.get(keyOf(wanted)) : undefined;
    }

    /** Statistics for a query, of all its relations side by side. `open`: sources that are open already. */
    public async collect(
        job: Job,
        root: LogicalNode,
        policy: Policy,
        workers: number,
        open: ReadonlyMap<InputInfo, SourceHandle> = new Map()
    ): Promise<Map<string, KeyStatistics>> {
        const wanted = wantedStatistics(root, policy);
        const found = await settleAll(wanted.map((one) => this.#one(job, one, workers, open.get(one.input))));
        const statistics = new Map<string, KeyStatistics>();
        wanted.forEach(({ id }, i) => {
            const sample = found[i];
            if (sample !== undefined) statistics.set(id, sample);
        });
        return statistics;
    }

    async #one(
        job: Job,
        wanted: WantedStatistics,
        workers: number,
        open: SourceHandle | undefined
    ): Promise<KeyStatistics | undefined> {
        const { source } = wanted.input;
        if (source.kind !== "layout") return undefined;
        const known = this.#find(wanted);
        if (known !== undefined) return known;
        const perLayout = this.#known.get(source.layout) ?? new Map<string, KeyStatistics>();
        this.#known.set(source.layout, perLayout);
        const handle = open ?? (await job.binding.openSource(job.engine, source.layout));
        try {
            const keys = wanted.keys.map((spec) => ({ ...spec }));
            const options = { sampleRows: wanted.sampleRows, exactRange: wanted.exactRange, workers };
            const found = await job.binding.keyStatistics(job.handle, handle, keys, options);
            perLayout.set(keyOf(wanted), found);
            return found;
        } catch (error) {
            // Without a sample the plan is made from row counts alone; only memory pressure is a reason for that.
            const { code } = toSpillwayError(error);
            if (code === "BUDGET_TOO_SMALL" || code === "OUT_OF_MEMORY") return undefined;
            throw error;
        } finally {
            if (open === undefined) job.binding.closeSource(handle);
        }
    }
}
