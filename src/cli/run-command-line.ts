// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import type { Command, CommandContext } from "./command.js";
import { demoCommand } from "./commands/demo.js";
import { explainCommand } from "./commands/explain.js";
import { generateCommand } from "./commands/generate.js";
import { groupByCommand } from "./commands/groupby.js";
import { joinCommand } from "./commands/join.js";
import { machineCommand } from "./commands/machine.js";
import { exitCode, type ExitCode } from "./exit-code.js";
import { parseCommandLine, type ParsedCommandLine } from "./parse-command-line.js";
import { errorJson, errorText } from "./render/errors.js";
import { UsageError } from "./usage-error.js";

/** Why a run was stopped from outside: the reason of the abort signal. */
export class Interruption extends Error {
    override readonly name = "Interruption";
    constructor(
        message: string,
        readonly exitCode: ExitCode
    ) {
        super(message);
    }
}

export interface CommandLineWorld {
    stdout: NodeJS.WritableStream;
    stderr: CommandContext["stderr"];
    signal: AbortSignal;
}

const commands: readonly Command[] = [
    joinCommand,
    groupByCommand,
    explainCommand,
    generateCommand,
    machineCommand,
    demoCommand
];

const epilogue = [
    "Text for people goes to stderr, data and --json to stdout.",
    "Exit codes: 0 done, 1 the work failed, 2 the command line is wrong, 130 Ctrl-C, 143 SIGTERM."
].join("\n");

function packageVersion(): string {
    const path = new URL("../../package.json", import.meta.url);
    return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

function writeAll(stream: NodeJS.WritableStream, text: string): Promise<void> {
    return new Promise((resolve, reject) => {
        stream.write(text, (error) => (error == null ? resolve() : reject(error)));
    });
}

/** Parses, runs and reports one command line; never throws and never exits. */
export async function runCommandLine(words: readonly string[], world: CommandLineWorld): Promise<ExitCode> {
    const context: CommandContext = {
        print: (text) => writeAll(world.stdout, text),
        say: (text) => void world.stderr.write(`${text}\n`),
        stderr: world.stderr,
        signal: world.signal
    };
    // Known before parsing, so that a wrong command line is reported as JSON too.
    let json = words.includes("--json");
    try {
        const parsed: ParsedCommandLine = await parseCommandLine(words, commands, {
            version: packageVersion(),
            epilogue
        });
        if (parsed.kind === "help") {
            await context.print(`${parsed.text}\n`);
            return exitCode.ok;
        }
        json = parsed.json;
        await parsed.run(context);
        return exitCode.ok;
    } catch (error) {
        return await report(error, json, context);
    }
}

async function report(error: unknown, json: boolean, context: CommandContext): Promise<ExitCode> {
    const reason: unknown = context.signal.reason;
    if (context.signal.aborted && reason instanceof Interruption) {
        // The reader of stdout has gone (`| head`): it has what it wanted, and nobody reads a message.
        if (reason.exitCode !== exitCode.ok) context.say(reason.message);
        return reason.exitCode;
    }
    if ((error as NodeJS.ErrnoException).code === "EPIPE") return exitCode.ok;
    if (json) await context.print(`${errorJson(error)}\n`);
    else context.say(errorText(error));
    return error instanceof UsageError ? exitCode.usageError : exitCode.operatingError;
}
