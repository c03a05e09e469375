// SPDX-License-Identifier: Apache-2.0

/**
 * Edit distance with swaps of neighbours counted once (optimal string alignment), because swapped letters are the
 * commonest typing mistake. Quadratic in the word length, which is an option name.
 */
export function editDistance(left: string, right: string): number {
    let beforePrevious: number[] = [];
    let previous = Array.from({ length: right.length + 1 }, (_, column) => column);
    for (let row = 1; row <= left.length; row++) {
        const current = [row];
        for (let column = 1; column <= right.length; column++) {
            const same = left[row - 1] === right[column - 1];
            const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
            current[column] = Math.min(
                previous[column]! + 1,
                current[column - 1]! + 1,
                previous[column - 1]! + (same ? 0 : 1),
                swapped ? beforePrevious[column - 2]! + 1 : Infinity
            );
        }
        [beforePrevious, previous] = [previous, current];
    }
    return previous[right.length]!;
}

// Shorter ones begin too many names to tell which was meant.
const beginningLettersMin = 3;

/** The shortest candidate that begins as `word` does, part by part: "dev-mem" is short for "device-memory". */
function longForm(word: string, candidates: Iterable<string>): string | null {
    if (word.length < beginningLettersMin) return null;
    const parts = word.split("-");
    const begins = (candidate: string): boolean => {
        const whole = candidate.split("-");
        return parts.length <= whole.length && parts.every((part, i) => whole[i]!.startsWith(part));
    };
    const found = [...candidates].filter(begins);
    return found.reduce<string | null>(
        (best, next) => (best === null || next.length < best.length ? next : best),
        null
    );
}

/** The candidate that a word most likely meant, misspelt or short, or null when none is worth naming. */
export function nearest(word: string, candidates: Iterable<string>): string | null {
    // A third of the letters may be wrong, in words of four letters or more at least two: "memroy" finds "memory", "x"
    // finds nothing, and "avg" is not "any".
    let best: string | null = null;
    let bestDistance = Math.max(word.length < 4 ? 1 : 2, Math.floor(word.length / 3)) + 1;
    for (const candidate of candidates) {
        const distance = editDistance(word, candidate);
        if (distance < bestDistance && distance < candidate.length) {
            best = candidate;
            bestDistance = distance;
        }
    }
    return best ?? longForm(word, candidates);
}

/** `, did you mean "memory"?` or nothing. */
export function didYouMean(word: string, candidates: Iterable<string>, prefix = ""): string {
    const candidate = nearest(word, candidates);
    return candidate == null ? "" : `; did you mean ${prefix}${candidate}?`;
}
