// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { SpillwayError } from "../index.js";
import { printable, printableJson } from "../printable.js";
import type { Command, CommandContext, Remedies } from "./command.js";
import { buildCommand } from "./commands/build.js";
import { demoCommand } from "./commands/demo.js";
import { explainCommand } from "./commands/explain.js";
import { generateCommand } from "./commands/generate.js";
import { groupByCommand } from "./commands/groupby.js";
import { joinCommand } from "./commands/join.js";
import { machineCommand } from "./commands/machine.js";
import { exitCode, type ExitCode } from "./exit-code.js";
import { Interruption, Turns } from "./interruption.js";
import { parseCommandLine, type ParsedCommandLine } from "./parse-command-line.js";
import { errorJson, errorLines, originalError } from "./render/errors.js";
import { UsageError } from "./usage-error.js";

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
    buildCommand,
    demoCommand
];

const epilogue = [
    "Text for people goes to stderr, data and --json to stdout.",
    "Exit codes: 0 done, 1 the work failed, 2 the command line is wrong, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP."
].join("\n");

function packageVersion(): string {
    const path = new URL("../../package.json", import.meta.url);
    return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

/** Resolves when the text is on its way; an abort rejects at once, since a reader that stands still never takes it. */
function writeAll(stream: NodeJS.WritableStream, text: string | Uint8Array, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
        signal.throwIfAborted();
        const stop = (): void => reject(signal.reason as Error);
        signal.addEventListener("abort", stop, { once: true });
        stream.write(text, (error) => {
            signal.removeEventListener("abort", stop);
            if (error == null) resolve();
            else reject(error);
        });
    });
}

/** Parses, runs and reports one command line; never throws and never exits. */
export async function runCommandLine(words: readonly string[], world: CommandLineWorld): Promise<ExitCode> {
    const shown = (lines: readonly string[]): string => lines.map((line) => `${printable(line)}\n`).join("");
    const turns = new Turns();
    const write = async (text: string | Uint8Array): Promise<void> => {
        // A file, and a pipe with room, take every write at once, without the event loop in between.
        await turns.next(world.signal);
        await writeAll(world.stdout, text, world.signal);
    };
    // Nothing but these writes to the streams, so that no name or value of a file reaches a terminal as it is.
    const context: CommandContext = {
        print: (...lines) => write(shown(lines)),
        printJson: (json) => write(printableJson(json)),
        say: (...lines) => void world.stderr.write(shown(lines)),
        stderr: world.stderr,
        signal: world.signal
    };
    // Known before parsing, so that a wrong command line is reported as JSON too.
    const end = words.indexOf("--");
    let json = words.slice(0, end < 0 ? words.length : end).includes("--json");
    let remedies: Remedies = {};
    try {
        const parsed: ParsedCommandLine = await parseCommandLine(words, commands, {
            version: packageVersion(),
            epilogue
        });
        if (parsed.kind === "help") {
            await context.print(...parsed.text.split("\n"));
            return exitCode.ok;
        }
        ({ json, remedies } = parsed);
        context.signal.throwIfAborted();
        await parsed.run(context);
        return exitCode.ok;
    } catch (error) {
        return await report(originalError(error), json, remedies, context);
    }
}

/** The exit code of a run that was stopped from outside, with its message; null for any other. */
function interrupted(context: CommandContext): ExitCode | null {
    const reason: unknown = context.signal.reason;
    if (!context.signal.aborted || !(reason instanceof Interruption)) return null;
    // The reader of stdout has gone (`| head`): it has what it wanted, and nobody reads a message.
    if (reason.exitCode !== exitCode.ok) context.say(reason.message);
    return reason.exitCode;
}

async function report(error: unknown, json: boolean, remedies: Remedies, context: CommandContext): Promise<ExitCode> {
    const stopped = interrupted(context);
    if (stopped !== null) return stopped;
    if ((error as NodeJS.ErrnoException).code === "EPIPE") return exitCode.ok;
    // INVALID_ARGUMENT can only stem from a value on the command line, such as `--memory 12xB`.
    const isUsage =
        error instanceof UsageError || (error instanceof SpillwayError && error.code === "INVALID_ARGUMENT");
    const code = isUsage ? exitCode.usageError : exitCode.operatingError;
    if (!json) {
        context.say(...errorLines(error, remedies));
        return code;
    }
    try {
        await context.printJson(`${errorJson(error)}\n`);
        return code;
    } catch (failure) {
        const stoppedHere = interrupted(context);
        if (stoppedHere !== null) return stoppedHere;
        // A full disk under stdout must not hide what went wrong; a reader that has gone wants to hear nothing.
        if ((failure as NodeJS.ErrnoException).code === "EPIPE") return code;
        const reason = `Cannot write to standard output: ${(failure as Error).message}`;
        context.say(...errorLines(error, remedies), reason);
        return exitCode.operatingError;
    }
}
