// SPDX-License-Identifier: Apache-2.0
import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { repositoryRoot } from "./source-tree.js";

export interface ChildResult {
    readonly code: number | null;
    readonly signal: NodeJS.Signals | null;
    readonly stdout: string;
    readonly stderr: string;
}

export interface Child {
    readonly process: ChildProcess;
    readonly result: Promise<ChildResult>;
    /** The first line of stdout that starts with this word, parsed as JSON behind it; rejects when there is none. */
    message<T>(word: string): Promise<T>;
}

export interface ChildOptions {
    /** Program and arguments that run node, such as a shell with limits; node's command line is appended. */
    readonly wrapper?: readonly string[];
    readonly nodeOptions?: readonly string[];
    readonly env?: Record<string, string>;
}

export function startProgram(command: string, args: readonly string[], options: ChildOptions = {}): Child {
    const [program = command, ...words] = [...(options.wrapper ?? []), command, ...args];
    const child = spawn(program, words, {
        cwd: repositoryRoot,
        stdio: ["ignore", "pipe", "pipe"],
        env: { ...process.env, ...options.env }
    });
    const lines: string[] = [];
    const waiting: { word: string; take: (line: string) => void; fail: (error: Error) => void }[] = [];
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    createInterface({ input: child.stdout }).on("line", (line) => {
        lines.push(line);
        for (const entry of waiting.filter(({ word }) => line.startsWith(word))) entry.take(line);
    });
    const result = new Promise<ChildResult>((resolve, reject) => {
        child.on("error", reject);
        child.on("close", (code, signal) => {
            const finished = { code, signal, stdout: lines.join("\n"), stderr };
            for (const { word, fail } of waiting)
                fail(new Error(`no "${word}" before the end: ${JSON.stringify(finished)}`));
            resolve(finished);
        });
    });
    const message = async <T>(word: string): Promise<T> => {
        const line = await new Promise<string>((take, fail) => {
            const known = lines.find((candidate) => candidate.startsWith(word));
            if (known !== undefined) take(known);
            else if (child.exitCode !== null || child.signalCode !== null) fail(new Error(`no "${word}": ${stderr}`));
            else waiting.push({ word, take, fail });
        });
        const text = line.slice(word.length).trim();
        return (text === "" ? null : JSON.parse(text)) as T;
    };
    return { process: child, result, message };
}

/** Runs test/support/children/<script>.mjs with one JSON argument. */
export function startChild(script: string, argument: unknown, options: ChildOptions = {}): Child {
    const path = join(repositoryRoot, "test/support/children", `${script}.mjs`);
    return startProgram(process.execPath, [...(options.nodeOptions ?? []), path, JSON.stringify(argument)], options);
}

export async function runChild(script: string, argument: unknown, options: ChildOptions = {}): Promise<ChildResult> {
    return startChild(script, argument, options).result;
}

/** The JSON of the line "result ..."; throws with everything the child said when it failed. */
export function resultOf<T>(child: ChildResult): T {
    const line = child.stdout.split("\n").find((candidate) => candidate.startsWith("result "));
    if (child.code !== 0 || line === undefined) throw new Error(`the child failed: ${JSON.stringify(child)}`);
    return JSON.parse(line.slice("result ".length)) as T;
}

/** The one error that a child told in a line "error ...". */
export function errorOf(child: ChildResult): Record<string, unknown> {
    const lines = child.stdout.split("\n").filter((line) => line.startsWith("error "));
    if (lines.length !== 1) throw new Error(`the child told ${lines.length} errors: ${JSON.stringify(child)}`);
    return JSON.parse(lines[0]!.slice("error ".length)) as Record<string, unknown>;
}
