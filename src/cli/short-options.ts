// SPDX-License-Identifier: Apache-2.0
import type { Command } from "./command.js";

/** Letters of the options: true for those that take a value. */
function lettersOf(options: Command["options"]): Map<string, boolean> {
    return new Map(
        Object.values(options).flatMap(({ alias, type }) =>
            [alias ?? []]
                .flat()
                .filter((name) => name.length === 1)
                .map((letter): [string, boolean] => [letter, type !== "boolean"])
        )
    );
}

/** `-m64MiB` as `-m=64MiB`, `-qt2` as `-q -t=2`; any other word as it is. */
function splitWord(word: string, letters: ReadonlyMap<string, boolean>): string[] {
    const flags: string[] = [];
    for (let index = 1; index < word.length; index++) {
        const takesValue = letters.get(word[index]!);
        if (takesValue === undefined) return [word];
        const rest = word.slice(index + 1);
        if (takesValue)
            return [...flags, rest === "" ? `-${word[index]}` : `-${word[index]}=${rest.replace(/^=/, "")}`];
        flags.push(`-${word[index]}`);
    }
    return [word];
}

/** Values written next to their letter, which yargs takes for more letters unless they are whole numbers. */
export function splitShortOptions(words: readonly string[], options: Command["options"]): string[] {
    const letters = lettersOf(options);
    const end = words.indexOf("--");
    return words.flatMap((word, index) => {
        const isCluster = /^-[a-z]./i.test(word) && (end < 0 || index < end);
        return isCluster ? splitWord(word, letters) : [word];
    });
}
