// SPDX-License-Identifier: Apache-2.0
import yargs, { type Argv, type CommandModule } from "yargs";
import type { Command, CommandContext, Remedies } from "./command.js";
import { commandWords, type CommandWords } from "./command-words.js";
import { explainUsage, missingValue, noCommand, noSubcommand, unknownCommand } from "./usage-message.js";
import { UsageError } from "./usage-error.js";

export type ParsedCommandLine =
    | { kind: "help"; text: string }
    | { kind: "run"; json: boolean; remedies: Remedies; run: (context: CommandContext) => Promise<void> };

// Every word is taken as it stands: no dots as paths, no camel-case twins, one value per occurrence of a list option
// (so that `--left a.arrow b.arrow` cannot swallow a positional), numbers parsed by us with our own messages.
const parserConfiguration = {
    "camel-case-expansion": false,
    "dot-notation": false,
    "greedy-arrays": false,
    "parse-numbers": false,
    "parse-positional-numbers": false
};

const columnsMax = 120;

/** Turns words into the command to run. Nothing is opened or run here; throws UsageError. */
export async function parseCommandLine(
    words: readonly string[],
    commands: readonly Command[],
    about: { version: string; epilogue: string }
): Promise<ParsedCommandLine> {
    let chosen: { command: Command; args: Record<string, unknown> } | null = null;
    const toModule = (command: Command): CommandModule => ({
        command: command.usage,
        describe: command.describe,
        builder: (parser) => build(parser, command, toModule),
        handler: (args) => {
            chosen = { command, args };
        }
    });
    const parser = commands
        .reduce((built, command) => built.command(toModule(command)), yargs().scriptName("spillway"))
        .locale("en") // messages are matched in usage-message.ts
        .usage("$0 COMMAND\n\nJoins and group-bys of Arrow files larger than memory, within a memory budget.")
        .parserConfiguration(parserConfiguration)
        .demandCommand(1, noCommand)
        .strict()
        .help("help", "Show this help")
        .version(about.version)
        .alias({ h: "help", v: "version" })
        .wrap(columnsMax)
        .epilogue(about.epilogue)
        .exitProcess(false)
        .fail((message, error) => {
            throw error ?? new UsageError(message);
        });
    const arranged = commandWords(words, commands);
    if (!asksForHelp(arranged.words)) {
        if (arranged.stray !== null) throw unknownCommand(arranged);
        if (arranged.path.length === 0) throw explainUsage(noCommand, arranged, commands);
        if (arranged.valueless !== null) throw missingValue(arranged.valueless, arranged);
    }
    const help = await parse(parser, arranged, commands);
    if (chosen == null) return { kind: "help", text: help };
    const { command, args: parsed } = chosen as { command: Command; args: Record<string, unknown> };
    const args = Object.fromEntries(Object.entries(parsed).map(([name, value]) => [name, arranged.restore(value)]));
    refuseRepeats(command, args);
    return {
        kind: "run",
        json: args["json"] === true,
        remedies: command.remedies ?? {},
        run: (context) => command.run!(args, context)
    };
}

function asksForHelp(words: readonly string[]): boolean {
    return words.some((word) => ["--help", "-h", "--version", "-v"].includes(word));
}

function build(parser: Argv, command: Command, toModule: (command: Command) => CommandModule): Argv {
    let built = parser.usage(`$0 ${command.synopsis}\n\n${command.describe}`);
    for (const [name, positional] of Object.entries(command.positionals)) built = built.positional(name, positional);
    built = built.options(withRequiredValues(command.options));
    for (const [line, meaning] of command.examples) built = built.example(line, meaning);
    for (const subcommand of command.subcommands) built = built.command(toModule(subcommand));
    return command.run == null ? built.demandCommand(1, `"${command.usage}" ${noSubcommand}`) : built;
}

/** `--memory` without a value is a mistake, not an empty text. */
function withRequiredValues(options: Command["options"]): Command["options"] {
    return Object.fromEntries(
        Object.entries(options).map(([name, option]) => [
            name,
            option.type === "boolean" ? option : { ...option, requiresArg: true }
        ])
    );
}

async function parse(parser: Argv, arranged: CommandWords, commands: readonly Command[]): Promise<string> {
    let text = "";
    try {
        await parser.parseAsync([...arranged.words], {}, (_error: unknown, _args: unknown, output: string) => {
            text = output;
        });
    } catch (error) {
        // yargs reports a missing value as an error of its own class, everything else through `fail`.
        const isUsage = error instanceof UsageError || (error as Error).name === "YError";
        throw isUsage ? explainUsage((error as Error).message, arranged, commands) : error;
    }
    return text;
}

function refuseRepeats(command: Command, args: Record<string, unknown>): void {
    for (const [name, option] of Object.entries(command.options)) {
        const value = args[name];
        if (option.array !== true && Array.isArray(value)) {
            throw new UsageError(`--${name} was given ${value.length} times; give it once.`);
        }
    }
}
