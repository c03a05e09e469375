// SPDX-License-Identifier: Apache-2.0
import type { InferredOptionTypes, Options, PositionalOptions } from "yargs";
import type { ErrorCode } from "../index.js";

/** What a command may touch of the world; tests give their own. */
export interface CommandContext {
    /**
     * Lines for people on stdout, shown as `printable` writes them: a line feed inside of one is escaped too. Resolves
     * when the reader can take more; rejects when the reader has gone or the run is to stop.
     */
    print(...lines: string[]): Promise<void>;
    /** JSON on stdout, whole lines of it or pieces of one; what a terminal would obey is escaped. */
    printJson(json: string | Uint8Array): Promise<void>;
    /** Lines for people on stderr, shown as `print` shows them. */
    say(...lines: string[]): void;
    /** For progress alone, which moves the cursor. */
    stderr: { readonly isTTY?: boolean; readonly columns?: number; write(text: string): unknown };
    /** Aborts on Ctrl-C, SIGTERM, SIGHUP and when nobody reads stdout any more. */
    signal: AbortSignal;
}

type OptionSet = Record<string, Options>;
type PositionalSet = Record<string, PositionalOptions>;
/** Arguments that yargs makes of these options and positionals. */
export type ArgumentsOf<P extends PositionalSet, O extends OptionSet> = InferredOptionTypes<P> & InferredOptionTypes<O>;

interface CommandText {
    /** Name and positionals as yargs reads them: `join [left] [right]`. */
    usage: string;
    /** The same as people read it in the help: `join LEFT RIGHT --on KEYS`. */
    synopsis: string;
    describe: string;
    examples: readonly (readonly [command: string, meaning: string])[];
    /** What to do about an error where the general advice names options that this command does not have. */
    remedies?: Remedies;
}

export type Remedies = Readonly<Partial<Record<ErrorCode, string>>>;

/** A command as plain data; `run-command-line.ts` gives it to yargs. */
export interface Command extends CommandText {
    positionals: PositionalSet;
    options: OptionSet;
    subcommands: readonly Command[];
    /** Absent for a command that is only a group of others. */
    run: ((args: Record<string, unknown>, context: CommandContext) => Promise<void>) | null;
}

/** A command whose `run` gets typed arguments. */
export function defineCommand<const P extends PositionalSet, const O extends OptionSet>(
    command: CommandText & {
        positionals: P;
        options: O;
        run: (args: ArgumentsOf<P, O>, context: CommandContext) => Promise<void>;
    }
): Command {
    // The cast is the one place where yargs' untyped result meets the types inferred from the same option objects.
    const run = command.run as unknown as NonNullable<Command["run"]>;
    return { ...command, subcommands: [], run };
}

export function defineCommandGroup(command: CommandText & { subcommands: readonly Command[] }): Command {
    return { ...command, positionals: {}, options: {}, run: null };
}
