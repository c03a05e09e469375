// SPDX-License-Identifier: Apache-2.0
import type { Command } from "./command.js";
import { didYouMean } from "./parse/nearest.js";
import { UsageError } from "./usage-error.js";

export const noCommand = "Name a command.";
export const noSubcommand = "needs one of its commands.";

/** The command that the words name, as far as they are right, and the words that name it. */
export function namedCommand(
    words: readonly string[],
    commands: readonly Command[],
    path: readonly string[] = []
): { command: Command | null; path: readonly string[]; siblings: readonly Command[] } {
    const index = words.findIndex((word) => !word.startsWith("-"));
    const command = commands.find((candidate) => commandName(candidate) === words[index]);
    if (command == null) return { command: null, path, siblings: commands };
    const below = namedCommand(words.slice(index + 1), command.subcommands, [...path, commandName(command)]);
    return { ...below, command: below.command ?? command };
}

function commandName(command: Command): string {
    return command.usage.split(" ")[0]!;
}

function sentence(text: string): string {
    return /[.?!]$/.test(text) ? text : `${text}.`;
}

/** `--no-count` and `--count=x` are "count". */
function optionName(word: string): string {
    return word.replace(/^--?(no-)?|=.*$/gs, "");
}

/** Names and letters of the options of all commands. */
function allOptionNames(commands: readonly Command[]): string[] {
    const own = commands.flatMap(({ options }) =>
        Object.entries(options).flatMap(([name, { alias }]) => [name, ...[alias ?? []].flat()])
    );
    const below = commands.flatMap(({ subcommands }) => allOptionNames(subcommands));
    return [...new Set(["help", "h", "version", "v", ...own, ...below])];
}

/** Options that no command has, given without a command: more telling than that a command is missing. */
function explainNoCommand(message: string, words: readonly string[], commands: readonly Command[]): string {
    const known = allOptionNames(commands);
    const unknown = words.filter((word) => /^--?[a-z]/i.test(word) && !known.includes(optionName(word)));
    if (unknown.length === 0) return message;
    return unknown
        .map((word) =>
            sentence(`Unknown option ${word.replace(/=.*$/s, "")}${didYouMean(optionName(word), known, "--")}`)
        )
        .join("\n");
}

/** yargs lists unknown options and words alike; this tells them apart and adds the nearest known one. */
function explainUnknown(
    unknown: readonly string[],
    words: readonly string[],
    command: Command | null,
    siblings: readonly Command[]
): string {
    const given = words.filter((word) => word.startsWith("-")).map(optionName);
    const letters = words.filter((word) => /^-[a-z]/i.test(word)).join(""); // -qz: two options
    const options = unknown.filter(
        (word) => given.includes(word) || (word.length === 1 && word !== "-" && letters.includes(word))
    );
    if (options.length === 0 && siblings.length > 0) {
        const word = unknown[0]!; // what follows belongs to it
        return `Unknown command "${word}"${didYouMean(word, siblings.map(commandName))}`;
    }
    const known = [...Object.keys(command?.options ?? {}), "help", "version"];
    const lines = options.map((word) => {
        const dashes = word.length === 1 ? "-" : "--";
        return sentence(`Unknown option ${dashes}${word}${didYouMean(word, known, "--")}`);
    });
    const others = unknown.filter((word) => !options.includes(word)).map((word) => `Unexpected "${word}".`);
    return [...lines, ...others].join("\n");
}

function explainChoice(message: string): string {
    const match = /Argument: ([^,]+), Given: "([^"]*)", Choices: (.*)/.exec(message);
    if (match == null) return message;
    const choices = match[3]!.split(", ").map((choice) => choice.replace(/^"|"$/g, ""));
    const hint = didYouMean(match[2]!, choices) || `; known are ${choices.join(", ")}`;
    return `--${match[1]} cannot be "${match[2]}"${hint}`;
}

/** A usage error in this program's words: what is wrong, what was probably meant, where to look. */
export function explainUsage(message: string, words: readonly string[], commands: readonly Command[]): UsageError {
    const { command, path, siblings } = namedCommand(words, commands);
    const unknown = /^Unknown (?:arguments?|commands?): (.*)$/.exec(message)?.[1]?.split(", ");
    const missing = /^Not enough arguments following: (.*)$/.exec(message)?.[1];
    const required = /^Missing required arguments?: (.*)$/.exec(message)?.[1]?.split(", ");
    let text = message;
    if (unknown != null) text = explainUnknown(unknown, words, command, siblings);
    else if (missing != null) text = `${missing.length === 1 ? "-" : "--"}${missing} needs a value`;
    else if (required != null) text = `${required.map((name) => `--${name}`).join(" and ")} must be given`;
    else if (message === noCommand || message.endsWith(noSubcommand)) text = explainNoCommand(message, words, commands);
    else if (message.startsWith("Invalid values")) text = explainChoice(message);
    else if (message.startsWith("Not enough non-option")) text = `Usage: spillway ${command?.synopsis ?? "COMMAND"}`;
    return new UsageError(`${sentence(text)}\nSee "${["spillway", ...path, "--help"].join(" ")}".`);
}
