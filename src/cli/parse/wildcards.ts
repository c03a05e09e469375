// SPDX-License-Identifier: Apache-2.0

/** Does a path segment have any of the characters that make it a pattern? */
export const wildcard = /[*?[]/;

type Takes = (character: string) => boolean;

/** A class as a shell has it: `[a-z_]`, or `[!a-z]` for all others. */
function classOf(text: string): Takes {
    const negated = /^\[[!^]/.test(text);
    const characters = [...text.slice(negated ? 2 : 1, -1)].map((character) => character.codePointAt(0)!);
    const ranges: [first: number, last: number][] = [];
    for (let index = 0; index < characters.length; index++) {
        const isRange = characters[index + 1] === "-".codePointAt(0) && index + 2 < characters.length;
        ranges.push([characters[index]!, characters[isRange ? index + 2 : index]!]);
        if (isRange) index += 2;
    }
    return (character) => {
        const code = character.codePointAt(0)!;
        return ranges.some(([first, last]) => code >= first && code <= last) !== negated;
    };
}

/** The parts of a segment: a star (null), or what one character must be. */
function partsOf(segment: string): (Takes | null)[] {
    const words = segment.match(/\[!?[^\]]+\]|./gsu) ?? [];
    return words.map((word): Takes | null => {
        if (word === "*") return null;
        if (word === "?") return () => true;
        return word.length > 2 && word.startsWith("[") ? classOf(word) : (character) => character === word;
    });
}

/**
 * `*`, `?`, `[a-z]` and `[!a-z]` inside one path segment. What a star took is changed for the last star alone, since an
 * earlier one that took less leaves every later part as good a chance: at most name times pattern steps, where a
 * regular expression would try every way to share the name out among the stars.
 */
export function segmentMatcher(segment: string): (name: string) => boolean {
    const parts = partsOf(segment);
    return (name) => {
        const characters = [...name];
        let part = 0;
        let star = -1; // the last star, and the first character that it has not taken
        let behind = 0;
        for (let at = 0; at < characters.length;) {
            const takes = parts[part];
            if (takes === null) {
                star = part++;
                behind = at;
            } else if (takes !== undefined && takes(characters[at]!)) {
                part++;
                at++;
            } else if (star >= 0) {
                part = star + 1;
                at = ++behind;
            } else {
                return false;
            }
        }
        return parts.slice(part).every((takes) => takes === null);
    };
}
