// SPDX-License-Identifier: Apache-2.0
// The command line inside the test's own process: as fast as a call, and its modules can be replaced.
import { Writable } from "node:stream";
import type { RecordBatch } from "apache-arrow";
import { batchAsJsonLines } from "../../../src/cli/render/rows.js";
import { runCommandLine } from "../../../src/cli/run-command-line.js";

export interface CommandResult {
    readonly code: number;
    readonly stdout: string;
    readonly stderr: string;
}

export interface CommandWorld {
    readonly signal?: AbortSignal;
    readonly stdout?: NodeJS.WritableStream;
    /** Called with every text for people. */
    readonly onStderr?: (text: string) => void;
}

export async function command(words: readonly string[], world: CommandWorld = {}): Promise<CommandResult> {
    let stdout = "";
    let stderr = "";
    const code = await runCommandLine(words, {
        stdout:
            world.stdout ??
            new Writable({
                write(chunk, _encoding, done) {
                    stdout += String(chunk);
                    done();
                }
            }),
        stderr: {
            write(text) {
                stderr += text;
                world.onStderr?.(text);
            }
        },
        signal: world.signal ?? new AbortController().signal
    });
    return { code, stdout, stderr };
}

/** All rows of a batch as --json prints them. */
export function jsonLines(batch: RecordBatch): string {
    let text = "";
    for (const block of batchAsJsonLines(batch)) text += block.toString();
    return text;
}
