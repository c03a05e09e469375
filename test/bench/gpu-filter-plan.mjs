// SPDX-License-Identifier: Apache-2.0
// What a Bloom filter of the build side's keys keeps out of a join beyond GPU memory, as the planner computes it
// (src/planner/streaming/join/filter.ts, which a GPU machine without packages has not compiled). Only built-in modules.

export const filterWordBits = 64;
const keyBits = 4; // of a key in its word

/** Four bits are drawn from those of a word: [d] is the chance that d of them are different. */
function differentBits() {
    let chances = [1];
    for (let draw = 0; draw < keyBits; ++draw) {
        const next = Array(draw + 2).fill(0);
        chances.forEach((chance, different) => {
            next[different] += (chance * different) / filterWordBits;
            next[different + 1] += chance * (1 - different / filterWordBits);
        });
        chances = next;
    }
    return chances;
}

/** Share of other keys that pass: those whose bits are all set by keys, Poisson distributed over the words. */
export function falsePositiveShare(keys, words) {
    const missed = (bits) => Math.exp((keys / words) * ((1 - bits / filterWordBits) ** keyBits - 1));
    const allSet = (bits) => {
        let [sum, choices] = [0, 1];
        for (let j = 0; j <= bits; ++j) {
            sum += (j % 2 === 0 ? 1 : -1) * choices * missed(j);
            choices = (choices * (bits - j)) / (j + 1);
        }
        return sum;
    };
    const share = differentBits().reduce((sum, chance, bits) => sum + chance * allSet(bits), 0);
    return Math.min(1, Math.max(0, share));
}

/** Keys of the build side that a filter has. */
export const filterKeys = ({ build_rows, distinct_keys = Infinity }) => Math.min(build_rows, distinct_keys);

/** Bits for each of them of the filter that a record's join had; undefined: it had none. */
export function filterBits({ workload, sizes: { filter_words = 0 } = {} }) {
    return filter_words === 0 ? undefined : (filter_words * filterWordBits) / filterKeys(workload);
}

/** Share of the probe rows of a record that its filter drops: those without a partner, but for false positives. */
export function droppedShare({ workload, sizes: { filter_words = 0 } }) {
    if (filter_words === 0) return 0;
    return (1 - workload.match_ratio) * (1 - falsePositiveShare(filterKeys(workload), filter_words));
}
