// SPDX-License-Identifier: Apache-2.0
import type { Command } from "./command.js";
import { allOptions, commandName, optionName, type CommandWords } from "./command-words.js";
import { didYouMean } from "./parse/nearest.js";
import { UsageError } from "./usage-error.js";

export const noCommand = "Name a command.";
export const noSubcommand = "needs one of its commands.";

function sentence(text: string): string {
    return /[.?!]$/.test(text) ? text : `${text}.`;
}

/** Names and letters of options, with those that every command has. */
function optionNames(options: Command["options"]): string[] {
    const own = Object.entries(options).flatMap(([name, { alias }]) => [name, ...[alias ?? []].flat()]);
    return ["help", "h", "version", "v", ...own];
}

/** Options that no command has, given without a command: more telling than that a command is missing. */
function explainNoCommand(message: string, words: readonly string[], commands: readonly Command[]): string[] {
    const known = optionNames(allOptions(commands));
    const unknown = words.filter((word) => /^--?[a-z]/i.test(word) && !known.includes(optionName(word)));
    if (unknown.length === 0) return [message];
    return unknown.map((word) => {
        const hint = didYouMean(optionName(word), known, "--");
        return sentence(`Unknown option ${word.replace(/=.*$/s, "")}${hint}`);
    });
}

/** Full names of the commands that have an option: "join", "generate tpch". */
function commandsWith(option: string, commands: readonly Command[]): string[] {
    return commands.flatMap((command) => [
        ...(optionNames(command.options).includes(option) ? [commandName(command)] : []),
        ...commandsWith(option, command.subcommands).map((name) => `${commandName(command)} ${name}`)
    ]);
}

/** An option that the command does not have: the nearest that it has, or the commands that have this one. */
function explainOption(word: string, path: readonly Command[], commands: readonly Command[]): string {
    const known = Object.keys(path.at(-1)?.options ?? {});
    const given = `${word.length === 1 ? "-" : "--"}${word}`;
    const others = commandsWith(word, commands).map((name) => `"${name}"`);
    if (others.length === 0) return sentence(`Unknown option ${given}${didYouMean(word, [...known, "help"], "--")}`);
    const command = path.map(commandName).join(" ");
    return `"${command}" has no option ${given}; ${others.join(", ")} ${others.length === 1 ? "has" : "have"} it.`;
}

/** yargs lists unknown options and words alike; this tells them apart. */
function explainUnknown(
    unknown: readonly string[],
    { words, path }: CommandWords,
    commands: readonly Command[]
): string[] {
    const given = words.filter((word) => word.startsWith("-")).map(optionName);
    const letters = words.filter((word) => /^-[a-z]/i.test(word)).join(""); // -qz: two options
    const options = unknown.filter(
        (word) => given.includes(word) || (word.length === 1 && word !== "-" && letters.includes(word))
    );
    const lines = options.map((word) => explainOption(word, path, commands));
    const others = unknown.filter((word) => !options.includes(word)).map((word) => `Unexpected "${word}".`);
    return [...lines, ...others];
}

function explainChoice(message: string): string {
    const match = /Argument: ([^,]+), Given: "([^"]*)", Choices: (.*)/.exec(message);
    if (match == null) return message;
    const choices = match[3]!.split(", ").map((choice) => choice.replace(/^"|"$/g, ""));
    const hint = didYouMean(match[2]!, choices) || `; known are ${choices.join(", ")}`;
    return `--${match[1]} cannot be "${match[2]}"${hint}`;
}

/** The lines, and where to look. */
function usageError(lines: readonly string[], path: readonly Command[]): UsageError {
    const help = ["spillway", ...path.map(commandName), "--help"].join(" ");
    return new UsageError(...lines.map(sentence), `See "${help}".`);
}

export function missingValue(option: string, { path }: CommandWords): UsageError {
    return usageError([`${option.length === 1 ? "-" : "--"}${option} needs a value`], path);
}

/** A word where a command had to be. */
export function unknownCommand({ stray, siblings, path }: CommandWords): UsageError {
    const hint = didYouMean(stray!, siblings.map(commandName));
    return usageError([`Unknown command "${stray}"${hint}`], path);
}

/** Options of the command line that the command does not have. */
function unknownOptions({ words, path, restore }: CommandWords): string[] {
    const known = optionNames(path.at(-1)?.options ?? {});
    const long = words.filter((word) => /^--[a-z]/i.test(word)).map(optionName);
    return long.filter((name) => !known.includes(name)).map(restore);
}

/** What `-on` and `--o` are where `--on` was meant: the option of that letter. */
function shortened(name: string, { words, path }: CommandWords): string {
    const letter = name.slice(0, 1);
    const found = Object.entries(path.at(-1)?.options ?? {}).find(([, { alias }]) => alias === letter);
    const isShort = words.some((word) => word === `-${letter}=${name.slice(1)}` || /^--.(=|$)/.test(word));
    const given = words.some((word) => optionName(word) === letter);
    return found !== undefined && isShort && given ? `; -${letter} is short for --${found[0]}` : "";
}

/** What is wrong, from the message of yargs. */
function explanationOf(message: string, arranged: CommandWords, commands: readonly Command[]): string[] {
    const { path, words, restore } = arranged;
    const unknown = /^Unknown (?:arguments?|commands?): (.*)$/s.exec(message)?.[1]?.split(", ");
    if (unknown != null) return explainUnknown(unknown.map(restore), arranged, commands);
    const required = /^Missing required arguments?: (.*)$/.exec(message)?.[1]?.split(", ");
    if (required != null) {
        // A misspelt option is not the one that must be given.
        const misspelt = unknownOptions(arranged);
        const lines = misspelt.length > 0 ? explainUnknown(misspelt, arranged, commands) : [];
        const missing = required.filter((name) => !lines.some((line) => line.endsWith(` --${name}?`)));
        return [...lines, ...missing.map((name) => `--${name} must be given${shortened(name, arranged)}`)];
    }
    if (message === noCommand || message.endsWith(noSubcommand)) return explainNoCommand(message, words, commands);
    // The values stand there as JSON.
    if (message.startsWith("Invalid values")) return [explainChoice(restore(message.replaceAll("\\u0000", "\0")))];
    if (message.startsWith("Not enough non-option")) {
        const misspelt = unknownOptions(arranged);
        const lines = misspelt.length > 0 ? explainUnknown(misspelt, arranged, commands) : [];
        return [...lines, `Usage: spillway ${path.at(-1)?.synopsis ?? "COMMAND"}`];
    }
    return [message];
}

/** A usage error in this program's words: what is wrong, what was probably meant, where to look. */
export function explainUsage(message: string, arranged: CommandWords, commands: readonly Command[]): UsageError {
    const missing = /^Not enough arguments following: (.*)$/s.exec(message)?.[1];
    if (missing != null) return missingValue(missing, arranged);
    return usageError(explanationOf(message, arranged, commands), arranged.path);
}
