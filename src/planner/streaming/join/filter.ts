// SPDX-License-Identifier: Apache-2.0
import { clamp, formatMs, powerOfTwoAtLeast, powerOfTwoAtMost } from "../../../model/sizes.js";
import type { Knobs } from "../../../model/debug-knobs.js";
import { deviceConstants } from "../../../model/device-constants.js";
import type { OutOfCoreFilter, OutOfCorePrediction, OutOfCoreShape } from "../../../plan/out-of-core-stage.js";
import { attempt, NotOnDevice } from "../../device-support.js";
import { phasesMs } from "./predict.js";

const wordBytes = 8;
const wordBits = 64;
/** Bits that a key sets in its word. */
const keyBits = deviceConstants.filterBits;

/** 3 % of other keys pass. Twice and half as many words are looked at, too: 0.5 and 17 % pass those. */
const keysPerWord = 8;
const wordsRange = [2, deviceConstants.filterWordsMax] as const;
/** A filter takes no larger share of GPU memory: chunks and pages need the rest. */
const memoryShareMax = 1 / 4;

/**
 * What a plan has to gain, of its time or of its bytes on the link: the memory that a filter takes is certain, the
 * number of rows that it drops is an estimate.
 */
const gainMin = 0.02;

/** A filter to plan with. */
export interface FilterDraft {
    readonly words: number;
    /** Share of the probe rows that it drops. */
    readonly droppedShare: number;
}

export const noFilter: FilterDraft = { words: 0, droppedShare: 0 };

export interface FilterRequest {
    readonly shape: Pick<OutOfCoreShape, "emit" | "anti" | "keepUnmatchedProbe">;
    /** Different keys of the build side. */
    readonly buildKeys: number;
    /** Share of the probe rows that have a partner. */
    readonly matchRatio: number;
    /** The most that it may be, as estimates are of samples: a filter has to pay with it, too. */
    readonly matchRatioMost: number;
    readonly limitBytes: number;
    readonly debug: Pick<Knobs, "filter">;
}

/** What a plan comes to with a filter, or without. */
interface Outcome {
    readonly predicted: OutOfCorePrediction;
}

/** Rows that a filter would drop are in the result: those of the probe side that have no partner. */
function keepsLoneProbeRows({ emit, anti, keepUnmatchedProbe }: FilterRequest["shape"]): boolean {
    return keepUnmatchedProbe || (emit === "probeOnce" && anti);
}

/** Four bits are drawn from those of a word: [d] is the chance that d of them are different. */
function differentBits(): number[] {
    let chances = [1];
    for (let draw = 0; draw < keyBits; ++draw) {
        const next = Array<number>(draw + 2).fill(0);
        chances.forEach((chance, different) => {
            next[different] = (next[different] ?? 0) + (chance * different) / wordBits;
            next[different + 1] = (next[different + 1] ?? 0) + chance * (1 - different / wordBits);
        });
        chances = next;
    }
    return chances;
}

/**
 * Share of other keys that pass. A word has m keys, Poisson distributed with mean keys / words, which is 4 m draws of a
 * bit. That d bits of another key are all set is the sum over j of (-1)^j (d over j) times the chance that no draw hit
 * j of them, (1 - j / 64)^4m, whose mean over m is e^(mean ((1 - j / 64)^4 - 1)).
 */
export function falsePositiveShare(keys: number, words: number): number {
    const mean = keys / words;
    const missed = (bits: number): number => Math.exp(mean * ((1 - bits / wordBits) ** keyBits - 1));
    const allSet = (bits: number): number => {
        let [sum, choices] = [0, 1];
        for (let j = 0; j <= bits; ++j) {
            sum += (j % 2 === 0 ? 1 : -1) * choices * missed(j);
            choices = (choices * (bits - j)) / (j + 1);
        }
        return sum;
    };
    const share = differentBits().reduce((sum, chance, bits) => sum + chance * allSet(bits), 0);
    return clamp(share, 0, 1);
}

/** Share of the probe rows that a filter of so many words drops. */
function droppedShare(buildKeys: number, matchRatio: number, words: number): number {
    return (1 - matchRatio) * (1 - falsePositiveShare(buildKeys, words));
}

/** Words of a filter that is to have so many: no more than a limit of GPU memory affords. */
export function filterWords(wanted: number, limitBytes: number): number {
    const [least, most] = wordsRange;
    const affordable = clamp(powerOfTwoAtMost((limitBytes * memoryShareMax) / wordBytes), least, most);
    return clamp(wanted, least, affordable);
}

/** Filters that are worth a look, with what they would drop. */
function drafts({ buildKeys, matchRatio, limitBytes }: FilterRequest): FilterDraft[] {
    const usual = powerOfTwoAtLeast(Math.ceil(buildKeys / keysPerWord));
    const words = [2 * usual, usual, usual / 2].map((count) => filterWords(count, limitBytes));
    return [...new Set(words)].map((count) => ({
        words: count,
        droppedShare: droppedShare(buildKeys, matchRatio, count)
    }));
}

const msOf = ({ predicted }: Outcome): number => phasesMs(predicted);
const linkBytesOf = ({ predicted: { h2dBytes, d2hBytes } }: Outcome): number => h2dBytes + d2hBytes;

/**
 * Does a plan with a filter beat the one without?
 *
 * A share s of P probe rows of p packed bytes is spilled, which takes s P p bytes out and the same back. Of them
 * (1 - m) (1 - f) need not go, with m the share that has a partner and f that of false positives: that is
 * 2 (1 - m) (1 - f) s P p bytes less. A filter of w bytes takes the room of w bytes of build rows of b bytes: w / b of
 * the B build rows leave and come back, and s grows by w / (b B). At 8 keys to a word w is B bytes, and s grows by
 * 1 / b: by a sixteenth for rows of 16 bytes. With as many rows of as many bytes on both sides that adds up to
 * (1 + m) / b of what spilling all of one side takes, and a filter pays where (1 - m) (1 - f) s is more, about a tenth.
 * Both plans' predictions have all of it, with what else their time may depend on: they are compared rather than these
 * terms.
 *
 * Kernels are not in it. A build row costs an atomic operation and a probe row a read of 32 bytes somewhere in the
 * filter, about what its place in the index costs, while its 16 bytes take some 0.3 ns to arrive over PCIe 5.
 */
function beats(filtered: Outcome, plain: Outcome): boolean {
    const [ms, plainMs] = [msOf(filtered), msOf(plain)];
    if (ms < plainMs * (1 - gainMin)) return true;
    return ms <= plainMs && linkBytesOf(filtered) < linkBytesOf(plain) * (1 - gainMin);
}

function percent(share: number): string {
    const rounded = Math.round(100 * share);
    return share > 0 && rounded === 0 ? "less than 1 %" : `${rounded} %`;
}

/** Why there can be no filter, whatever it would drop; undefined: there can. */
function obstacle({ shape, debug }: FilterRequest): string | undefined {
    if (debug.filter === false) return "switched off";
    return keepsLoneProbeRows(shape) ? "probe rows without a partner are in the result" : undefined;
}

/** The best plan with a filter. */
function bestFiltered<T extends Outcome>(request: FilterRequest, planWith: (draft: FilterDraft) => T) {
    const plans = drafts(request).map((draft) => ({ draft, plan: attempt(() => planWith(draft)) }));
    const possible = plans.flatMap(({ draft, plan }) => (plan instanceof NotOnDevice ? [] : [{ draft, plan }]));
    if (possible.length === 0) return plans[0]?.plan as NotOnDevice;
    const isBetter = (a: Outcome, b: Outcome): boolean =>
        msOf(a) === msOf(b) ? linkBytesOf(a) < linkBytesOf(b) : msOf(a) < msOf(b);
    return possible.reduce((best, next) => (isBetter(next.plan, best.plan) ? next : best));
}

/**
 * A plan with or without a Bloom filter, whichever is faster, and why. `planWith` throws NotOnDevice where there is no
 * plan; so does this where there is neither.
 */
export function chooseFilter<T extends Outcome>(
    request: FilterRequest,
    planWith: (draft: FilterDraft) => T
): T & { readonly filter: OutOfCoreFilter } {
    const without = (plan: T, reason: string) => ({ ...plan, filter: { bytes: 0, droppedShare: 0, reason } });
    const impossible = obstacle(request);
    if (impossible !== undefined) return without(planWith(noFilter), impossible);
    const isForced = request.debug.filter === true;
    const plain = attempt(() => planWith(noFilter));
    const isSpilled = plain instanceof NotOnDevice || plain.predicted.spilledBytes > 0;
    if (!isSpilled && !isForced) return without(plain, "no rows are spilled");
    const best = bestFiltered(request, planWith);
    const { buildKeys, matchRatio, matchRatioMost } = request;
    const isUnsure = matchRatioMost - matchRatio >= 0.01;
    const partners =
        `about ${percent(matchRatio)} of the probe rows have a partner` +
        (isUnsure ? ` (${percent(matchRatioMost)} at most)` : "");
    if (best instanceof NotOnDevice) {
        if (plain instanceof NotOnDevice || isForced) throw best;
        return without(plain, best.reason);
    }
    const { draft, plan } = best;
    const withIt = (reason: string) => ({
        ...plan,
        filter: { bytes: draft.words * wordBytes, droppedShare: draft.droppedShare, reason }
    });
    if (isForced) return withIt(`asked for; ${partners}`);
    if (plain instanceof NotOnDevice) return withIt(`${partners}; without it ${plain.reason}`);
    const least = { ...draft, droppedShare: droppedShare(buildKeys, matchRatioMost, draft.words) };
    const sure = isUnsure ? attempt(() => planWith(least)) : plan;
    if (sure instanceof NotOnDevice) return without(plain, `${partners}; ${sure.reason}`);
    if (beats(sure, plain)) return withIt(`${partners}: ${formatMs(msOf(plan))} instead of ${formatMs(msOf(plain))}`);
    return without(plain, `${partners}, ${formatMs(msOf(sure))} with a filter and ${formatMs(msOf(plain))} without`);
}
