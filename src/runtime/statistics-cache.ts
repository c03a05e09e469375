// SPDX-License-Identifier: Apache-2.0
import { SpillwayError, toSpillwayError } from "../errors.js";
import type { KeySpec, SourceLayout } from "../model/column-type.js";
import type { SourceHandle } from "../native/binding.js";
import { inputsOf, type InputInfo, type LogicalNode } from "../plan/logical.js";
import type { SinkKind } from "../plan/plan.js";
import { wantedTexts, type TextLengths } from "../planner/inline-texts.js";
import type { Policy } from "../planner/policy.js";
import {
    sampledColumns,
    wantedPairs,
    wantedStatistics,
    type KeyStatistics,
    type SampledPairs,
    type ValueSample,
    type ValueSamples,
    type WantedPairs,
    type WantedStatistics
} from "../planner/statistics.js";
import type { Job } from "../execute/job.js";
import { settleAll } from "./settle-all.js";

function keysText(keys: readonly KeySpec[]): string {
    return keys.map((key) => `${key.column}/${key.kind}/${key.width}`).join(",");
}

function keyOf(wanted: WantedStatistics): string {
    return `${wanted.sampleRows}${wanted.exactRange ? " exact" : ""}:${keysText(wanted.keys)}`;
}

function pairsKey({ left, right, sampleRows }: WantedPairs): string {
    return `${sampleRows}:${keysText(left.keys)}:${keysText(right.keys)}`;
}

function addPairs(statistics: Map<string, KeyStatistics>, { left, right }: WantedPairs, pairs: SampledPairs): void {
    const sample = statistics.get(left.id);
    if (sample !== undefined) statistics.set(left.id, { ...sample, pairs: { ...sample.pairs, [right.id]: pairs } });
}

/** Without a sample the plan is made from row counts alone; only memory pressure is a reason for that. */
function isMemoryPressure(error: unknown): boolean {
    const { code } = toSpillwayError(error);
    return code === "BUDGET_TOO_SMALL" || code === "OUT_OF_MEMORY";
}

/** The planner wants no samples of streams, which can be read once. */
function sampledLayout({ source }: InputInfo): SourceLayout {
    if (source.kind === "layout") return source.layout;
    throw new SpillwayError("INTERNAL", "A stream cannot be sampled");
}

export interface CollectOptions {
    /** Sources that are open already. */
    readonly open?: ReadonlyMap<InputInfo, SourceHandle>;
    /** Where the rows of the result go. */
    readonly sink?: SinkKind;
}

/** Samples of key columns, taken once per relation; files that did not change are the same relation. */
export class StatisticsCache {
    readonly #known = new WeakMap<SourceLayout, Map<string, KeyStatistics>>();
    /** Keys, whatever sample of them was taken. */
    readonly #disproved = new WeakMap<SourceLayout, Set<string>>();
    readonly #values = new WeakMap<SourceLayout, readonly (ValueSample | undefined)[]>();
    readonly #longest = new WeakMap<SourceLayout, readonly (number | undefined)[]>();
    /** By the layouts of the left and of the right side, and by their keys. */
    readonly #pairs = new WeakMap<SourceLayout, WeakMap<SourceLayout, Map<string, SampledPairs>>>();

    readonly #versions = new WeakMap<SourceLayout, number>();

    /** Another number whenever what is known of a relation has changed. */
    public versionOf(layout: SourceLayout): number {
        return this.#versions.get(layout) ?? 0;
    }

    #changed(layout: SourceLayout): void {
        this.#versions.set(layout, this.versionOf(layout) + 1);
    }

    /** Statistics for a query, if none has to be sampled first. */
    public known(root: LogicalNode, policy: Policy, sink: SinkKind = "count"): Map<string, KeyStatistics> | undefined {
        if (this.#unknownTexts(root, policy, sink).size > 0) return undefined;
        const values = this.valueSamples(root);
        const lacksSample = (input: InputInfo): boolean =>
            sampledColumns(input, policy).length > 0 && !values.has(input);
        if (inputsOf(root).some(lacksSample)) return undefined;
        const { statistics, isAll } = this.#sampled(root, policy);
        return isAll ? statistics : undefined;
    }

    /** Those statistics for a query that are known, whether or not some are to be sampled first. */
    public sampled(root: LogicalNode, policy: Policy): Map<string, KeyStatistics> {
        return this.#sampled(root, policy).statistics;
    }

    #sampled(root: LogicalNode, policy: Policy): { statistics: Map<string, KeyStatistics>; isAll: boolean } {
        const statistics = new Map<string, KeyStatistics>();
        let isAll = true;
        for (const wanted of wantedStatistics(root, policy)) {
            const sample = this.#find(wanted);
            if (sample === undefined) isAll = false;
            else statistics.set(wanted.id, sample);
        }
        for (const wanted of wantedPairs(root, policy)) {
            const pairs = this.#pairsOf(wanted).get(pairsKey(wanted));
            if (pairs === undefined) isAll = false;
            else addPairs(statistics, wanted, pairs);
        }
        return { statistics, isAll };
    }

    /** What is known beside the statistics of keys. */
    public found(root: LogicalNode): { valueSamples: ValueSamples; textLengths: TextLengths } {
        return { valueSamples: this.valueSamples(root), textLengths: this.textLengths(root) };
    }

    /** What is known of values, as far as they have been sampled. */
    public valueSamples(root: LogicalNode): ValueSamples {
        const found = new Map<InputInfo, readonly (ValueSample | undefined)[]>();
        for (const input of inputsOf(root)) {
            const values = input.source.kind === "layout" ? this.#values.get(input.source.layout) : undefined;
            if (values !== undefined) found.set(input, values);
        }
        return found;
    }

    /** What is known of the longest texts of inputs. */
    public textLengths(root: LogicalNode): TextLengths {
        const found = new Map<InputInfo, readonly (number | undefined)[]>();
        for (const input of inputsOf(root)) {
            const longest = input.source.kind === "layout" ? this.#longest.get(input.source.layout) : undefined;
            if (longest !== undefined) found.set(input, longest);
        }
        return found;
    }

    /** A query found a longer text than is known: memory was written to, or a file. The next one looks again. */
    public forgetTexts(input: InputInfo): void {
        if (input.source.kind !== "layout") return;
        this.#longest.delete(input.source.layout);
        this.#changed(input.source.layout);
    }

    #unknownTexts(root: LogicalNode, policy: Policy, sink: SinkKind): Map<InputInfo, number[]> {
        const unknown = new Map<InputInfo, number[]>();
        for (const [input, columns] of wantedTexts(root, sink, policy)) {
            const longest = this.#longest.get(sampledLayout(input));
            const others = columns.filter((column) => longest?.[column] === undefined);
            if (others.length > 0) unknown.set(input, others);
        }
        return unknown;
    }

    async #findLongest(job: Job, input: InputInfo, columns: number[], workers: number, open?: SourceHandle) {
        const layout = sampledLayout(input);
        const handle = open ?? (await job.binding.openSource(job.engine, layout));
        try {
            const found = await job.binding.longestTexts(job.handle, handle, columns, workers);
            const before = this.#longest.get(layout);
            const both = input.columns.map((_, column) => found[columns.indexOf(column)] ?? before?.[column]);
            this.#longest.set(layout, both);
            this.#changed(layout);
        } catch (error) {
            if (!isMemoryPressure(error)) throw error;
        } finally {
            if (open === undefined) job.binding.closeSource(handle);
        }
    }

    async #sampleValues(job: Job, input: InputInfo, policy: Policy, open: SourceHandle | undefined): Promise<void> {
        const columns = sampledColumns(input, policy);
        if (columns.length === 0) return;
        const layout = sampledLayout(input);
        if (this.#values.has(layout)) return;
        const handle = open ?? (await job.binding.openSource(job.engine, layout));
        try {
            const sampled = await job.binding.sampleValues(job.handle, handle, columns);
            const values = input.columns.map((_, column) => sampled[columns.indexOf(column)]);
            this.#values.set(layout, values);
            this.#changed(layout);
        } catch (error) {
            // A later query may have the memory for it.
            if (!isMemoryPressure(error)) throw error;
        } finally {
            if (open === undefined) job.binding.closeSource(handle);
        }
    }

    /** Where the pairs of both relations are kept. */
    #pairsOf({ left, right }: WantedPairs): Map<string, SampledPairs> {
        const [own, other] = [sampledLayout(left.input), sampledLayout(right.input)];
        const perLeft = this.#pairs.get(own) ?? new WeakMap<SourceLayout, Map<string, SampledPairs>>();
        this.#pairs.set(own, perLeft);
        const perRight = perLeft.get(other) ?? new Map<string, SampledPairs>();
        perLeft.set(other, perRight);
        return perRight;
    }

    /** A query found that the keys of an input are not as dense or unique as their sample: later plans know. */
    public disprove(input: InputInfo, keys: readonly KeySpec[]): void {
        if (input.source.kind !== "layout") return;
        const { layout } = input.source;
        const disproved = this.#disproved.get(layout) ?? new Set();
        this.#disproved.set(layout, disproved.add(keysText(keys)));
        this.#changed(layout);
    }

    /** A query found sums that are larger than the sample of an input's values let expect: later plans know. */
    public outgrow(input: InputInfo): void {
        if (input.source.kind !== "layout") return;
        const { layout } = input.source;
        const values = this.#values.get(layout);
        if (values === undefined) return;
        this.#values.set(
            layout,
            values.map((sample) => (sample === undefined ? undefined : { ...sample, magnitude: Infinity }))
        );
        this.#changed(layout);
    }

    /** A sample, and what queries have found since. */
    #withFindings(layout: SourceLayout, { keys }: WantedStatistics, sample: KeyStatistics): KeyStatistics {
        return this.#disproved.get(layout)?.has(keysText(keys)) === true ? { ...sample, notDense: true } : sample;
    }

    #find(wanted: WantedStatistics): KeyStatistics | undefined {
        const layout = sampledLayout(wanted.input);
        const sample = this.#known.get(layout)?.get(keyOf(wanted));
        return sample && this.#withFindings(layout, wanted, sample);
    }

    /** Statistics for a query, of all its relations side by side. */
    public async collect(
        job: Job,
        root: LogicalNode,
        policy: Policy,
        workers: number,
        { open = new Map(), sink = "count" }: CollectOptions = {}
    ): Promise<Map<string, KeyStatistics>> {
        const wanted = wantedStatistics(root, policy);
        const texts = [...this.#unknownTexts(root, policy, sink)];
        await settleAll(
            texts.map(([input, columns]) => this.#findLongest(job, input, columns, workers, open.get(input)))
        );
        await settleAll(inputsOf(root).map((input) => this.#sampleValues(job, input, policy, open.get(input))));
        const pairs = wantedPairs(root, policy);
        const sampled = settleAll(wanted.map((one) => this.#one(job, one, workers, open.get(one.input))));
        const sampledPairs = settleAll(pairs.map((one) => this.#samplePairs(job, one, open)));
        await settleAll<unknown>([sampled, sampledPairs]);
        const [found, foundPairs] = [await sampled, await sampledPairs];
        const statistics = new Map<string, KeyStatistics>();
        wanted.forEach(({ id }, i) => {
            const sample = found[i];
            if (sample !== undefined) statistics.set(id, sample);
        });
        pairs.forEach((one, i) => {
            const sample = foundPairs[i];
            if (sample !== undefined) addPairs(statistics, one, sample);
        });
        return statistics;
    }

    async #samplePairs(
        job: Job,
        wanted: WantedPairs,
        open: ReadonlyMap<InputInfo, SourceHandle>
    ): Promise<SampledPairs | undefined> {
        const kept = this.#pairsOf(wanted);
        const known = kept.get(pairsKey(wanted));
        if (known !== undefined) return known;
        const opened: SourceHandle[] = [];
        const handleOf = async (input: InputInfo): Promise<SourceHandle> => {
            const already = open.get(input);
            if (already !== undefined) return already;
            const handle = await job.binding.openSource(job.engine, sampledLayout(input));
            opened.push(handle);
            return handle;
        };
        const { left, right, sampleRows } = wanted;
        try {
            const own = await handleOf(left.input);
            const other = await handleOf(right.input);
            const keys = (of: WantedStatistics): KeySpec[] => of.keys.map((spec) => ({ ...spec }));
            const found = await job.binding.keyPairs(job.handle, own, keys(left), other, keys(right), sampleRows);
            const shareOf = ({ input }: WantedStatistics): number => Math.min(1, sampleRows / Math.max(1, input.rows));
            const pairs = { ...found, shown: shareOf(left) * shareOf(right) };
            kept.set(pairsKey(wanted), pairs);
            this.#changed(sampledLayout(left.input));
            return pairs;
        } catch (error) {
            if (isMemoryPressure(error)) return undefined;
            throw error;
        } finally {
            for (const handle of opened) job.binding.closeSource(handle);
        }
    }

    async #one(
        job: Job,
        wanted: WantedStatistics,
        workers: number,
        open: SourceHandle | undefined
    ): Promise<KeyStatistics | undefined> {
        const known = this.#find(wanted);
        if (known !== undefined) return known;
        const layout = sampledLayout(wanted.input);
        const perLayout = this.#known.get(layout) ?? new Map<string, KeyStatistics>();
        this.#known.set(layout, perLayout);
        const handle = open ?? (await job.binding.openSource(job.engine, layout));
        try {
            const keys = wanted.keys.map((spec) => ({ ...spec }));
            const options = { sampleRows: wanted.sampleRows, exactRange: wanted.exactRange, workers };
            const found = await job.binding.keyStatistics(job.handle, handle, keys, options);
            perLayout.set(keyOf(wanted), found);
            this.#changed(layout);
            return this.#withFindings(layout, wanted, found);
        } catch (error) {
            if (isMemoryPressure(error)) return undefined;
            throw error;
        } finally {
            if (open === undefined) job.binding.closeSource(handle);
        }
    }
}
