// SPDX-License-Identifier: Apache-2.0
import type { Command } from "./command.js";

/** A command line as yargs reads it without mistakes: the command first, and no word that it would take apart. */
export interface CommandWords {
    /** The commands that the words name, outermost first. */
    path: readonly Command[];
    /** Commands that may follow `path`. */
    siblings: readonly Command[];
    /** The word where one of `siblings` had to be, if there is another. */
    stray: string | null;
    /** The option whose value is missing because `--` follows it. */
    valueless: string | null;
    words: readonly string[];
    /** The words as they were given, in any value that was made of `words`. */
    restore: <T>(value: T) => T;
}

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

/** Name of a command: the first word of its usage. */
export function commandName(command: Command): string {
    return command.usage.split(" ")[0]!;
}

/** The options of all commands; one name means the same in each. */
export function allOptions(commands: readonly Command[]): Command["options"] {
    return Object.fromEntries(
        commands.flatMap(({ options, subcommands }) => Object.entries({ ...options, ...allOptions(subcommands) }))
    );
}

/** `--no-count` and `--count=x` are "count". */
export function optionName(word: string): string {
    return word.replace(/^--?(no-)?|=.*$/gs, "");
}

/** What the word before tells about the next one: is it a value, might it be one, or is it a word of its own? */
function takesNext(word: string, options: Command["options"]): "value" | "perhaps" | "nothing" {
    if (!/^-./.test(word) || word.includes("=") || word.startsWith("--no-")) return "nothing";
    const name = optionName(word);
    const known = Object.entries(options).find(([long, { alias }]) => [long, alias ?? []].flat().includes(name));
    if (known == null) return ["help", "h", "version", "v"].includes(name) ? "nothing" : "perhaps";
    return known[1].type === "boolean" ? "nothing" : "value";
}

/** Index of the word where a command is expected, or -1. */
function commandIndex(words: readonly string[], commands: readonly Command[], options: Command["options"]): number {
    for (let index = 0; index < words.length; index++) {
        const word = words[index]!;
        if (/^-./.test(word)) {
            const next = takesNext(word, options);
            const isCommand = commands.some((command) => commandName(command) === words[index + 1]);
            const isSwitch = next === "nothing" && ["true", "false"].includes(words[index + 1] ?? "");
            if (next === "value" || (next === "perhaps" && !isCommand) || isSwitch) index++;
        } else {
            return index;
        }
    }
    return -1;
}

// No word of a command line can have this character.
const mark = "\0";

/**
 * Finds the command and puts it first, since yargs takes a command behind `--quiet` for that option's value. A lone `-`
 * and what follows `--`, which yargs loses, become ordinary words until `restore`.
 */
export function commandWords(given: readonly string[], commands: readonly Command[]): CommandWords {
    const options = allOptions(commands);
    const end = given.indexOf("--");
    const hidden: string[] = [];
    const hide = (word: string): string => `${mark}${hidden.push(word) - 1}${mark}`;
    const before = splitShortOptions(end < 0 ? given : given.slice(0, end), options);
    const rest = before.map((word) => (word === "-" ? hide(word) : word));
    const path: Command[] = [];
    let siblings = commands;
    let stray: string | null = null;
    while (siblings.length > 0) {
        const index = commandIndex(rest, siblings, options);
        const command = siblings.find((candidate) => commandName(candidate) === rest[index]);
        if (command == null) {
            stray = rest[index] ?? null;
            break;
        }
        rest.splice(index, 1);
        path.push(command);
        siblings = command.subcommands;
    }
    const operands = end < 0 ? [] : given.slice(end + 1).map(hide);
    const last = before.at(-1) ?? "";
    const valueless = end >= 0 && takesNext(last, options) === "value";
    const restore = (value: unknown): unknown => {
        if (Array.isArray(value)) return value.map(restore);
        return typeof value === "string"
            ? value.replace(/\0(\d+)\0/g, (_, index: string) => hidden[Number(index)]!)
            : value;
    };
    return {
        path,
        siblings,
        stray: stray === null ? null : (restore(stray) as string),
        valueless: valueless ? optionName(last) : null,
        words: [...path.map(commandName), ...rest, ...operands],
        restore: <T>(value: T) => restore(value) as T
    };
}
