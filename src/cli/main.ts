#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { exitCode, type ExitCode } from "./exit-code.js";
import { Interruption } from "./interruption.js";

const controller = new AbortController();

function stopOn(signal: NodeJS.Signals, code: ExitCode, what: string): void {
    process.on(signal, () => {
        // The second signal does not wait for clean-up; spill files that stay are removed by the next run.
        if (controller.signal.aborted) process.exit(code);
        controller.abort(new Interruption(`${what}: stopped, temporary and unfinished files removed.`, code));
    });
}

stopOn("SIGINT", exitCode.interrupted, "Interrupted");
stopOn("SIGTERM", exitCode.terminated, "Terminated");
stopOn("SIGHUP", exitCode.hungUp, "Hung up"); // the terminal was closed
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    const code = error.code === "EPIPE" ? exitCode.ok : exitCode.operatingError;
    controller.abort(new Interruption(`Cannot write to standard output: ${error.message}`, code));
});
process.stderr.on("error", () => {}); // nowhere left to report to

// Loaded only now: a signal during the half second that loading takes on a busy machine finds its handler.
const { runCommandLine } = await import("./run-command-line.js");

const code = await runCommandLine(process.argv.slice(2), {
    stdout: process.stdout,
    stderr: process.stderr,
    signal: controller.signal
});

// What was written to a reader that stands still would keep the process alive until that reader goes on.
if (controller.signal.aborted) process.exit(code);
// Set rather than exit: what was written to a pipe is still on its way. Nothing keeps the event loop alive by now.
process.exitCode = code;
