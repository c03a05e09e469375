// SPDX-License-Identifier: Apache-2.0
import { constants } from "node:os";
import { SpillwayError, type ErrorCode } from "../../index.js";
import type { Remedies } from "../command.js";
import { UsageError } from "../usage-error.js";

/** What to do on the command line about each error; null where the message itself says it. */
const generalRemedies: Record<ErrorCode, string | null> = {
    INVALID_ARGUMENT: null,
    UNKNOWN_COLUMN: null,
    DUPLICATE_COLUMN: null, // a join's own advice: see remedyOf
    KEY_TYPE_MISMATCH: "Convert one side so that both keys have the same kind of type.",
    UNSUPPORTED_TYPE: "Write the file again with a supported type; docs/troubleshooting.md has the commands.",
    FILE_NOT_FOUND: null,
    FILE_UNREADABLE: null,
    FILE_CORRUPT: "Only uncompressed Arrow IPC files are read; docs/troubleshooting.md shows how to convert others.",
    FILE_TRUNCATED: null,
    FILE_CHANGED: "Run the command again, and write to no input file while it runs.",
    OUTPUT_EXISTS: "Give --overwrite to replace it, or another --output.",
    OUTPUT_FAILED: null,
    DISK_FULL: "Free space, or name another disk with --spill-directory or --output.",
    BUDGET_TOO_SMALL: "Give more with --memory.",
    OUT_OF_MEMORY: "The system has less memory than --memory allows: lower --memory or free some.",
    INTEGER_OVERFLOW: "The sum does not fit 64 bits: convert the column to decimal or float64 before summing.",
    ABORTED: null,
    CLOSED: null,
    NO_DEVICE: 'Give --device cpu, and no --algorithm that runs on a GPU; "spillway machine" says why no GPU is used.',
    NATIVE_MISSING: null, // its message has a list
    INTERNAL: "This is a defect of Spillway: please report it with the command and this message."
};

/** Options of the API that a message may name, as the command line calls them. */
const flags: Readonly<Record<string, string>> = {
    "memory.host": "--memory",
    "memory.device": "--device-memory",
    "memory.peer": "--peer-memory",
    "memory.spillDirectory": "--spill-directory",
    nullEquality: "--null-equality",
    aggregates: "--aggregate"
};

function remedyOf(error: SpillwayError, remedies: Remedies): string | null {
    const { details } = error;
    const onDevice = details["tier"] === "device";
    if (typeof details["smallest"] === "string") {
        return `Give ${onDevice ? "--device-memory" : "--memory"} ${details["smallest"]} or more.`;
    }
    if (onDevice && error.code === "BUDGET_TOO_SMALL") return "Give more with --device-memory, or --device cpu.";
    if (onDevice) return "The GPU has less memory than --device-memory allows: end its other users, or --device cpu.";
    if (error.code === "DUPLICATE_COLUMN" && details["option"] === "suffix") {
        return "Give another --suffix for the right side, or --select only columns whose names occur once.";
    }
    // The engine tells errors of the system by number.
    if (error.code === "DISK_FULL" && details["errno"] === String(constants.errno.EFBIG)) {
        return "Raise the limit with ulimit -f, or name another file system with --spill-directory.";
    }
    if (error.code === "UNSUPPORTED_TYPE" && details["format"] !== undefined) {
        return "docs/troubleshooting.md has more ways to convert files.";
    }
    // Only what is said of a file is about its format; a column that cannot be a key has its advice in the message.
    if (error.code === "UNSUPPORTED_TYPE" && details["path"] === undefined && details["aggregate"] === undefined) {
        return null;
    }
    if (error.code === "UNSUPPORTED_TYPE" && details["aggregate"] !== undefined) {
        return "Name another column in --aggregate, or another function: count, first and any take every type.";
    }
    // Without a GPU the name alone is in the way: "auto", the default, falls back to the CPU.
    if (error.code === "NO_DEVICE" && details["algorithm"] !== undefined) {
        return 'Leave --algorithm out, or run this where a GPU is; "spillway machine" says why no GPU is used.';
    }
    return remedies[error.code] ?? generalRemedies[error.code] ?? flagHint(error);
}

function flagHint(error: SpillwayError): string | null {
    const flag = flags[String(error.details["option"] ?? "").replace(/^(aggregates)\..*/, "$1")];
    return flag == null ? null : `On the command line this is ${flag}.`;
}

function sentence(text: string): string {
    return /[.?!]$/.test(text) ? text : `${text}.`;
}

/**
 * The error that ended the work. When closing the runtime fails too, `await using` throws a SuppressedError, whose own
 * message tells nothing.
 */
export function originalError(error: unknown): unknown {
    if (!(error instanceof Error) || error.name !== "SuppressedError" || !("suppressed" in error)) return error;
    return originalError(error.suppressed);
}

/** The message of a defect in one line, as it may hold anything, and the lines of its stack. */
function defectLines(error: unknown): string[] {
    const [message, stack] = [String(error), error instanceof Error ? (error.stack ?? "") : ""];
    const frames = stack.startsWith(message) ? stack.slice(message.length).split("\n").slice(1) : [];
    return [`INTERNAL: ${message}`, ...frames, generalRemedies.INTERNAL!];
}

/** Message, then what to do, for people, line by line. `remedies`: those of the command. */
export function errorLines(thrown: unknown, remedies: Remedies = {}): string[] {
    const error = originalError(thrown);
    if (error instanceof UsageError) return [...error.lines];
    if (!(error instanceof SpillwayError)) return defectLines(error);
    const advice = remedyOf(error, remedies);
    const text = `${error.code}: ${sentence(error.message)}`;
    // Its list of remedies has a line for each, and names no file of the user.
    const lines = error.code === "NATIVE_MISSING" ? text.split("\n") : [text];
    return advice == null ? lines : [...lines, advice];
}

/** `{"error":{code,message,details}}`; a wrong command line has the code USAGE. */
export function errorJson(thrown: unknown): string {
    const error = originalError(thrown);
    const { code, details } =
        error instanceof SpillwayError
            ? error
            : { code: error instanceof UsageError ? "USAGE" : "INTERNAL", details: {} };
    const message = error instanceof Error ? error.message : String(error);
    return JSON.stringify({ error: { code, message, details } });
}
