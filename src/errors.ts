// SPDX-License-Identifier: Apache-2.0

/**
 * Every code a {@link SpillwayError} can carry. The list is closed and equals `error_code_name` in
 * native/base/error.cpp, in the same order: the addon's list is compared with this one when it is loaded.
 */
export const errorCodes = [
    "INVALID_ARGUMENT",
    "UNKNOWN_COLUMN",
    "DUPLICATE_COLUMN",
    "KEY_TYPE_MISMATCH",
    "UNSUPPORTED_TYPE",
    "FILE_NOT_FOUND",
    "FILE_UNREADABLE",
    "FILE_CORRUPT",
    "FILE_TRUNCATED",
    "FILE_CHANGED",
    "OUTPUT_EXISTS",
    "OUTPUT_FAILED",
    "DISK_FULL",
    "BUDGET_TOO_SMALL",
    "OUT_OF_MEMORY",
    "INTEGER_OVERFLOW",
    "ABORTED",
    "CLOSED",
    "NO_DEVICE",
    "NATIVE_MISSING",
    "INTERNAL"
] as const;

export type ErrorCode = (typeof errorCodes)[number];

/** Machine-readable facts of an error: `option`, `path`, `column`, `tier`, `wantedBytes`, `freeBytes` and the like. */
export type ErrorDetails = Readonly<Record<string, string | number>>;

/** The one error class of the package. `message` says what was wanted, what was there and what to change. */
export class SpillwayError extends Error {
    public override readonly name = "SpillwayError";
    public readonly code: ErrorCode;
    public readonly details: ErrorDetails;

    public constructor(code: ErrorCode, message: string, details: ErrorDetails = {}, cause?: unknown) {
        super(message, cause === undefined ? undefined : { cause });
        this.code = code;
        this.details = Object.freeze({ ...details });
    }

    public toJSON(): { name: string; code: ErrorCode; message: string; details: ErrorDetails } {
        return { name: this.name, code: this.code, message: this.message, details: this.details };
    }
}

const knownCodes: ReadonlySet<string> = new Set(errorCodes);

export function isErrorCode(value: unknown): value is ErrorCode {
    return typeof value === "string" && knownCodes.has(value);
}

// Byte counts cross the native boundary as decimal text; only these names are numbers for the caller.
const numericDetail = /(Bytes|Rows|Count|Index)$/;

function readDetails(value: unknown): ErrorDetails {
    const details: Record<string, string | number> = {};
    if (typeof value !== "object" || value === null) return details;
    for (const [name, detail] of Object.entries(value)) {
        if (typeof detail === "number") details[name] = detail;
        else if (typeof detail === "string") {
            details[name] = numericDetail.test(name) && /^-?\d+$/.test(detail) ? Number(detail) : detail;
        }
    }
    return details;
}

/** What was thrown, as a {@link SpillwayError}: native errors keep code and details, anything else is INTERNAL. */
export function toSpillwayError(error: unknown): SpillwayError {
    if (error instanceof SpillwayError) return error;
    if (typeof error === "object" && error !== null) {
        const { code, message, details } = error as { code?: unknown; message?: unknown; details?: unknown };
        const text = typeof message === "string" ? message : String(error);
        if (isErrorCode(code)) return new SpillwayError(code, text, readDetails(details), error);
        // Those of system calls; Node's own codes ("ERR_INVALID_ARG_TYPE") tell of a programming error.
        if (typeof code === "string" && /^E[A-Z0-9]+$/.test(code)) return systemError(code, text, error);
        return new SpillwayError("INTERNAL", text, {}, error);
    }
    return new SpillwayError("INTERNAL", String(error));
}

/** A failed system call of Node (`fs`), by its errno name. */
function systemError(errno: string, message: string, cause: object): SpillwayError {
    const path = (cause as { path?: unknown }).path;
    const details: ErrorDetails = typeof path === "string" ? { errno, path } : { errno };
    if (errno === "ENOENT") {
        return new SpillwayError("FILE_NOT_FOUND", `${message}; check the path`, details, cause);
    }
    if (errno === "ENOSPC" || errno === "EDQUOT") {
        return new SpillwayError("DISK_FULL", `${message}; free space there or name another folder`, details, cause);
    }
    if (errno === "EACCES" || errno === "EPERM") {
        return new SpillwayError("FILE_UNREADABLE", `${message}; check its permissions`, details, cause);
    }
    return new SpillwayError("FILE_UNREADABLE", message, details, cause);
}
