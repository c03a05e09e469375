// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

/** Ends the build with a message for the user and no stack. */
export class BuildFailure extends Error {
    constructor(message, exitCode = 1) {
        super(message);
        this.exitCode = exitCode;
    }
}

export function note(line) {
    process.stderr.write(`${line}\n`);
}

/** How far the tool says it is: "[12/106]" of Ninja, "[ 11%]" of make. */
function progressOf(text) {
    const ninja = [...text.matchAll(/\[(\d+)\/(\d+)\]/g)].at(-1);
    if (ninja !== undefined) return `${Math.floor((100 * Number(ninja[1])) / Math.max(1, Number(ninja[2])))} %`;
    const make = [...text.matchAll(/\[\s*(\d+)%\]/g)].at(-1);
    return make === undefined ? null : `${make[1]} %`;
}

/** What a compiler said, without the list of files that went well. */
function withoutProgress(output) {
    const progress = /^(\[\d+\/\d+\]|\[\s*\d+%\]) (Building|Linking|Built|Re-checking)|^ERROR OMG/;
    return output
        .split("\n")
        .filter((line) => !progress.test(line))
        .join("\n")
        .trim();
}

/** Commands that run now, each the first of a process group. */
const running = new Set();

function stopRunning() {
    for (const { pid } of running) {
        try {
            process.kill(-pid, "SIGTERM");
        } catch {
            // It has just ended.
        }
    }
}

/** Compilers are not told when the process that waits for them is stopped: they would go on writing. */
const stopOnSignals = onceOnly(() => {
    const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };
    for (const [signal, code] of Object.entries(codes)) {
        process.once(signal, () => {
            stopRunning();
            process.exit(code);
        });
    }
});

function onceOnly(work) {
    let isDone = false;
    return () => {
        if (!isDone) work();
        isDone = true;
    };
}

/**
 * Runs a command and writes one line about it. Everything it prints is kept and shown when it fails.
 * Resolves with its output; throws BuildFailure, or with `optional` returns null, when it fails.
 */
export async function runStep(name, command, args, { optional = false, env = {} } = {}) {
    const start = Date.now();
    const live = process.stderr.isTTY === true;
    let output = "";
    stopOnSignals();
    const child = spawn(command, args, {
        cwd: root,
        stdio: ["ignore", "pipe", "pipe"],
        env: { ...process.env, ...env },
        detached: true
    });
    if (child.pid !== undefined) running.add(child);
    for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding("utf8").on("data", (text) => {
            output += text;
            const progress = live ? progressOf(text) : null;
            if (progress !== null) process.stderr.write(`\r  ... ${name}: ${progress}   `);
        });
    }
    const problem = await new Promise((resolve) => {
        child.on("error", (error) => resolve(error.message));
        child.on("close", (code, signal) => resolve(code === 0 ? null : (signal ?? `exit code ${code}`)));
    });
    running.delete(child);
    if (live) process.stderr.write("\r\x1b[K");
    const seconds = ((Date.now() - start) / 1000).toFixed(1);
    if (problem === null) {
        note(`  ok  ${name} (${seconds} s)`);
        return output;
    }
    if (optional) return null;
    note(withoutProgress(output));
    throw new BuildFailure(`Building failed at step '${name}' (${problem}); its output is above.`);
}
